"""A data lake as a stream of bounded tables, whatever the files are and however large they are."""

from gentus.lake.base import Skipped, Source, Unreadable, name_in_errors
from gentus.lake.folder import fingerprint, is_outside_lake, locate, scan, table_name
from gentus.lake.location import Location, Remote, as_location
from gentus.lake.reader import from_frame, only_table, read, read_path
from gentus.lake.sandbox.pool import each
from gentus.table import Limits

__all__ = [
    "Limits",
    "Location",
    "Remote",
    "Skipped",
    "Source",
    "Unreadable",
    "as_location",
    "each",
    "fingerprint",
    "from_frame",
    "is_outside_lake",
    "locate",
    "name_in_errors",
    "only_table",
    "read",
    "read_path",
    "scan",
    "table_name",
]
