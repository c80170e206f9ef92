"""What Delta and Iceberg tables share: sampling them, and opening the files that their logs name.

A log may come from others, so the files that it names are only opened inside of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gentus.lake.base import Unreadable
from gentus.lake.formats.arrow import arrow_table
from gentus.lake.location import Location, Remote, is_url
from gentus.table import Limits, Table, evenly_spaced

if TYPE_CHECKING:
    import pyarrow as pa

_FILES = 8  # data files that rows of a sample are taken from


@dataclass(frozen=True, slots=True)
class LakehouseTable:
    """A Delta or Iceberg table: its schema and its data files."""

    schema: pa.Schema
    files: int
    first: Callable[[int, int], pa.Table] = field(repr=False)  # first(file, rows)
    all_rows: Callable[[Sequence[str]], Iterator[pa.RecordBatch]] = field(repr=False)  # all_rows(columns)


def read_lakehouse(table: LakehouseTable, name: str, limits: Limits) -> Table:
    """Read the first rows of files spread over a table."""
    import pyarrow as pa

    chosen = evenly_spaced(table.files, _FILES)
    wanted = -(-limits.rows // max(1, len(chosen)))
    pieces = [table.first(number, wanted) for number in chosen]
    data = pa.concat_tables(pieces, promote_options="permissive") if pieces else table.schema.empty_table()
    complete = table.files <= 1 and data.num_rows < limits.rows
    return arrow_table(data, name, limits, complete=complete)


def inside(folder: Location, named: str, location: str | None = None) -> Location:
    """The file of a table that its log names; refused if it is outside of the folder.

    A table may have been copied: files below the `location` in its metadata are looked for below the folder.
    """
    relative = _below(named, location) or _below(named, str(folder))
    if relative is None and not is_url(named) and not named.startswith("/"):
        relative = named
    parts = [] if relative is None else relative.split("/")
    if not parts or {"", ".", ".."} & set(parts):
        raise Unreadable(f"its log names a file outside of its folder, which is not opened: {named[:200]}")
    assert relative is not None
    if isinstance(folder, Remote):
        return folder / relative
    path = (folder / relative).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Unreadable(f"its log leads out of its folder by a link: {named[:200]}")
    return path


def _below(named: str, folder: str | None) -> str | None:
    if folder is None:
        return None
    full, top = _plain(named), _plain(folder).rstrip("/") + "/"
    return full[len(top) :] if full.startswith(top) else None


def _plain(location: str) -> str:
    """A location in one of the spellings that logs use; file URLs become paths."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return unquote(parts.path) if "%" in parts.path else parts.path
    return re.sub(r"^s3[an]://", "s3://", location)


def open_inside(file: Location, full: bool) -> Any:
    """Open a file of a table; the caller closes it."""
    if isinstance(file, Remote):
        from gentus.lake.remote.file import RemoteFile, ranges_of

        return RemoteFile(ranges_of(file, full))
    return file.open("rb")
