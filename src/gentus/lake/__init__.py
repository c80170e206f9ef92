"""A folder, bucket or database in; its tables out: found, named, and read as bounded samples or row by row.

- `location`, `base`: paths and URLs, sources, refusals
- `remote`: objects at URLs as files
- `files`, `formats`: bytes and text of a file; which format it has, and a reader for each
- `reader`, `frames`: any source, or a data frame, to a sampled `Table`
- `sandbox`: the same in watched processes
- `exclude`: what of a lake is left out
- `folder`, `remote_folder`, `tables`, `listing_tasks`: listing the tables of a lake
- `rules`: how its files are read
- `full`: all rows of a table

Each may import those before it, and the modules of `gentus` itself; nothing else of the package.
"""

from gentus.lake.base import (
    Excluded,
    LakeNotFoundError,
    OtherKinds,
    SeveralTables,
    Skipped,
    Source,
    TableNotFoundError,
    Unlisted,
    Unreadable,
    name_in_errors,
)
from gentus.lake.formats.detect import fingerprint
from gentus.lake.frames import Frame, arrow_of, from_frame
from gentus.lake.location import Location, Remote, as_location
from gentus.lake.reader import file_at, only_table, read, read_path
from gentus.lake.sandbox.named import only_named, read_named
from gentus.lake.sandbox.pool import each
from gentus.lake.tables import exists, is_outside_lake, locate, scan, table_name
from gentus.table import Limits

__all__ = [
    "Excluded",
    "Frame",
    "LakeNotFoundError",
    "Limits",
    "Location",
    "OtherKinds",
    "Remote",
    "SeveralTables",
    "Skipped",
    "Source",
    "TableNotFoundError",
    "Unlisted",
    "Unreadable",
    "arrow_of",
    "as_location",
    "each",
    "exists",
    "file_at",
    "fingerprint",
    "from_frame",
    "is_outside_lake",
    "locate",
    "name_in_errors",
    "only_named",
    "only_table",
    "read",
    "read_named",
    "read_path",
    "scan",
    "table_name",
]
