"""Any source, file or data frame to a `Table`: the one place where every failure becomes `Unreadable`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gentus.lake.base import Source, Unreadable, failure_reason
from gentus.lake.files import ZSTD, look_up, magic
from gentus.lake.formats.lakehouse import folder_format, may_be_folder
from gentus.lake.kinds import Format, detect_format, format_of
from gentus.lake.location import POSTGRES, Location, Remote, as_location
from gentus.table import Limits, Table, evenly_spaced

_PLAIN = (Format.TEXT, Format.PROSE, Format.JSON)


def read(source: Source, limits: Limits | None = None) -> Table:
    """Read a bounded sample of a table; raises `Unreadable` and nothing else."""
    return _read(source.location, source.part, source.name, limits or Limits())


def read_path(path: str | os.PathLike[str] | Remote, limits: Limits | None = None) -> Table:
    """Read a file that a person names; of a database or workbook, its only table."""
    limits = limits or Limits()
    return read(only_table(path, limits), limits)


def only_table(path: str | os.PathLike[str] | Remote, limits: Limits | None = None) -> Source:
    """Find the one table in a file that a person names."""
    path = as_location(path)
    try:
        if not isinstance(path, Remote) and not path.exists():
            raise Unreadable(f"there is no file {path}")
        kind = format_at(path)
        path, state = look_up(path)
        parts = parts_of(path, kind, limits or Limits())
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error
    if len(parts) > 1:
        listed = ", ".join(str(part) for part in parts[:10])
        raise Unreadable(f"it holds {len(parts)} tables ({listed}); save the one you mean as its own file")
    if not parts:
        raise Unreadable("there are no tables in it")
    return Source(path.name, path, parts[0], state.size, state.mtime_ns, state.version)


def from_frame(obj: Any, name: str, limits: Limits | None = None) -> Table:
    """Take rows of a polars, pandas or pyarrow table, or of anything that speaks the Arrow protocols."""
    limits = limits or Limits()
    try:
        return _from_frame(obj, name, limits)
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error


def parts_of(path: Location, kind: Format, limits: Limits) -> list[str] | list[None]:
    """List the tables inside a file; `[None]` for a file that is one table."""
    if kind is Format.DATABASE:
        from gentus.lake.formats.database import tables_of

        return tables_of(path, limits)
    if kind is Format.EXCEL:
        from gentus.lake.formats.excel import sheets_of

        return sheets_of(path)
    return [None]


def format_at(path: Location) -> Format:
    """Tell what lies at a place."""
    if isinstance(path, Remote) and path.scheme in POSTGRES:
        return Format.POSTGRES
    if may_be_folder(path):
        kind = folder_format(path)
        if kind is None:
            raise Unreadable("it is a folder, and neither a Delta nor an Iceberg table")
        return kind
    return detect_format(path, magic(path))


def is_plain(source: Source) -> bool:
    """Whether Python alone reads it: no native parser, which a damaged file might bring down or hold."""
    if isinstance(source.path, Remote):
        return source.path.scheme == "memory" or format_of(source.path.name) in _PLAIN  # or: only we have it
    return source.part is None and is_plain_file(source.path)


def is_plain_file(path: Path) -> bool:
    """The same of a file on this machine that is one table."""
    try:
        start = magic(path)
        return detect_format(path, start) in _PLAIN and not start.startswith(ZSTD)
    except (OSError, Unreadable):
        return True  # and refused as soon as it is read


def _read(path: Location, part: str | None, name: str, limits: Limits) -> Table:
    # The readers run three parsers over files from anywhere: what they raise is not to be foreseen, and one
    # bad file must never stop a scan of thousands.
    try:
        kind = format_at(path)
        match kind, part:
            case (Format.DELTA | Format.ICEBERG, _):
                from gentus.lake.formats.lakehouse import read_folder

                return read_folder(path, kind, name, limits)
            case (Format.POSTGRES, _):
                from gentus.lake.formats.postgres import read_postgres

                return read_postgres(Remote(str(path)), name, limits)
            case (Format.DATABASE, str()):
                from gentus.lake.formats.database import read_database

                return read_database(path, part, name, limits)
            case (Format.EXCEL, str()):
                from gentus.lake.formats.excel import read_sheet

                return read_sheet(path, part, name, limits)
            case (Format.DATABASE | Format.EXCEL, None):
                raise Unreadable("it holds several tables, and none was named")
            case (Format.PARQUET, _):
                from gentus.lake.formats.typed import read_parquet

                return read_parquet(path, name, limits)
            case (Format.ARROW, _):
                from gentus.lake.formats.arrow import read_arrow

                return read_arrow(path, name, limits)
            case (Format.JSON, _):
                from gentus.lake.formats.json_text import read_json

                return read_json(path, name, limits)
        from gentus.lake.formats.text import read_delimited

        return read_delimited(path, name, limits, prose=kind is Format.PROSE)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error


def _from_frame(obj: Any, name: str, limits: Limits) -> Table:
    import pyarrow as pa

    from gentus.lake.formats.arrow import arrow_table, from_batches

    if isinstance(obj, pa.Table):
        return arrow_table(obj, name, limits)
    if hasattr(obj, "iloc"):  # pandas: convert only the rows we take
        some = obj.iloc[list(evenly_spaced(len(obj), limits.rows)), : limits.columns]
        some.columns = [str(column) for column in some.columns]
        try:
            data = pa.Table.from_pandas(some, preserve_index=False)
        except (pa.ArrowException, ValueError, TypeError):  # columns of mixed types
            data = pa.table({f"{i}": [str(v) for v in some.iloc[:, i]] for i in range(some.shape[1])})
            data = data.rename_columns(list(some.columns))
        return arrow_table(data, name, limits)
    if hasattr(obj, "__arrow_c_stream__"):
        if hasattr(obj, "__len__") and hasattr(obj, "__getitem__") and len(obj) > limits.rows:
            obj = obj[list(evenly_spaced(len(obj), limits.rows))]  # polars
        return from_batches(pa.RecordBatchReader.from_stream(obj), name, limits)
    if hasattr(obj, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return arrow_table(from_dataframe(obj), name, limits)
    raise Unreadable(f"a {type(obj).__name__} is no table; give a polars, pandas or pyarrow one")
