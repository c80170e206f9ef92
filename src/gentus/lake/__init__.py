"""A data lake as a stream of bounded tables, whatever the files are and however large they are."""

from gentus.lake.base import Limits, Skipped, Source, Unreadable, naming
from gentus.lake.folder import fingerprint, is_elsewhere, locate, scan, table_name
from gentus.lake.parallel import each
from gentus.lake.place import Place, Remote, as_place
from gentus.lake.reader import from_frame, only_table, read, read_path

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
