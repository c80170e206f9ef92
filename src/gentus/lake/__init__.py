"""A data lake as a stream of bounded tables, whatever the files are and however large they are."""

from gentus.lake.base import Limits, Skipped, Source, Unreadable, naming
from gentus.lake.folder import fingerprint, locate, scan, table_name
from gentus.lake.parallel import each
from gentus.lake.reader import from_frame, only_table, read, read_path

__all__ = [
    "Limits",
    "Skipped",
    "Source",
    "Unreadable",
    "each",
    "fingerprint",
    "from_frame",
    "locate",
    "naming",
    "only_table",
    "read",
    "read_path",
    "scan",
    "table_name",
]
