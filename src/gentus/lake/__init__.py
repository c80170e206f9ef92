"""A data lake as a stream of bounded tables, whatever the files are and however large they are."""

from gentus.lake.base import Skipped, Source, Unreadable, naming
from gentus.lake.folder import fingerprint, is_elsewhere, locate, scan, table_name
from gentus.lake.location import Place, Remote, as_place
from gentus.lake.reader import from_frame, only_table, read, read_path
from gentus.lake.sandbox.pool import each
from gentus.settings import Limits

__all__ = [
    "Limits",
    "Place",
    "Remote",
    "Skipped",
    "Source",
    "Unreadable",
    "as_place",
    "each",
    "fingerprint",
    "from_frame",
    "is_elsewhere",
    "locate",
    "naming",
    "only_table",
    "read",
    "read_path",
    "scan",
    "table_name",
]
