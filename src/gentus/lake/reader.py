"""Any source, file or data frame to a sampled `Table`: the reader of each format, and one kind of error."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.lake.base import SeveralTables, Source, Unreadable, failure_reason
from gentus.lake.formats.detect import Format, format_at, look_up
from gentus.lake.location import Location, Remote, as_location
from gentus.table import Limits, Table, evenly_spaced

if TYPE_CHECKING:
    import pyarrow as pa

    from gentus.lake.formats.lakehouse import LakehouseTable

NO_TABLE_NAMED = "it holds several tables, and none was named"


def read(source: Source, limits: Limits | None = None) -> Table:
    """Read a bounded sample of a table; raises `Unreadable` and nothing else."""
    return _read(source, limits or Limits())


def read_path(path: str | os.PathLike[str] | Remote, limits: Limits | None = None) -> Table:
    """Read a file that a person names; of a database or workbook, its only table."""
    limits = limits or Limits()
    return read(only_table(path, limits), limits)


def only_table(path: str | os.PathLike[str] | Remote, limits: Limits | None = None) -> Source:
    """Find the one table in a file that a person names, or the one named behind it: `book.xlsx/sheet`."""
    path, part = as_location(path), None
    try:
        if not isinstance(path, Remote):
            found = file_at(path)
            if found is None:
                raise Unreadable(f"there is no file {path}")
            path, part = found
        known = format_at(path)
        path, state = look_up(path)
        parts = parts_of(path, known, limits or Limits())
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error
    listed = ", ".join(str(one) for one in parts[:10]) + (", .." if len(parts) > 10 else "")
    if part is not None and part not in parts:
        holds = f"it holds {listed}" if parts and parts[0] else "it is one table"
        raise Unreadable(f"there is no table {part} in {path}; {holds}")
    if part is None and len(parts) > 1:
        hint = f"name one of them behind its path: {shlex.quote(f'{path}/{parts[0]}')}"
        raise SeveralTables(f"it holds {len(parts)} tables ({listed})", hint)
    if not parts:
        raise Unreadable("there are no tables in it")
    name = path.name if part is None else f"{path.name}/{part}"
    return Source(name, path, part or parts[0], state.size, state.mtime_ns, state.version)


def file_at(path: Path) -> tuple[Path, str | None] | None:
    """What lies at a path, or the file that it leads into and the table in there; None: nothing."""
    if path.exists():
        return path, None
    inside = next((folder for folder in path.parents if folder.is_file()), None)
    return None if inside is None else (inside, path.relative_to(inside).as_posix())


def from_frame(obj: Any, name: str, limits: Limits | None = None) -> Table:
    """Sample a polars, pandas or pyarrow table, or any object with an Arrow protocol."""
    limits = limits or Limits()
    try:
        return _from_frame(obj, name, limits)
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error


def parts_of(path: Location, known: Format, limits: Limits) -> list[str] | list[None]:
    """List the tables inside a file; `[None]` for a file that is one table."""
    if known is Format.DATABASE:
        from gentus.lake.formats.database import tables_of

        return tables_of(path, limits)
    if known is Format.EXCEL:
        from gentus.lake.formats.excel import sheets_of

        return sheets_of(path)
    return [None]


def open_lakehouse(folder: Location, known: Format, limits: Limits) -> LakehouseTable:
    """Open a table that is a folder."""
    if known is Format.DELTA:
        from gentus.lake.formats.delta import open_delta

        return open_delta(folder, limits)
    from gentus.lake.formats.iceberg import open_iceberg

    return open_iceberg(folder)


def _read(source: Source, limits: Limits) -> Table:
    path, part, name = source.path, source.part, source.name
    # Parsers may raise anything on files from anywhere, and one bad file must never stop a scan of thousands.
    try:
        known = format_at(path)
        match known, part:
            case (Format.DELTA | Format.ICEBERG, _):
                from gentus.lake.formats.lakehouse import read_lakehouse

                return read_lakehouse(open_lakehouse(path, known, limits), name, limits)
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
                raise Unreadable(NO_TABLE_NAMED)
            case (Format.PARQUET, _):
                from gentus.lake.formats.parquet import read_parquet

                return read_parquet(path, name, limits)
            case (Format.ARROW, _):
                from gentus.lake.formats.arrow import read_arrow

                return read_arrow(path, name, limits)
            case (Format.JSON, _):
                from gentus.lake.formats.json_text import read_json

                return read_json(path, name, limits)
        from gentus.lake.formats.text import read_delimited

        return read_delimited(source, limits, prose=known is Format.PROSE)
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
        data = _from_pandas(obj.iloc[list(evenly_spaced(len(obj), limits.rows)), : limits.columns])
        if len(obj) <= limits.rows:
            return arrow_table(data, name, limits)
        top = _from_pandas(obj.iloc[: limits.head, : limits.columns])
        return arrow_table(data, name, limits, top, len(obj) <= limits.head)
    if hasattr(obj, "__arrow_c_stream__"):
        if hasattr(obj, "__len__") and hasattr(obj, "__getitem__") and len(obj) > limits.rows:
            few = obj[list(evenly_spaced(len(obj), limits.rows))]  # polars
            top = pa.RecordBatchReader.from_stream(obj[: limits.head]).read_all()
            data = pa.RecordBatchReader.from_stream(few).read_all()
            return arrow_table(data, name, limits, top, len(obj) <= limits.head)
        return from_batches(pa.RecordBatchReader.from_stream(obj), name, limits)
    if hasattr(obj, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return arrow_table(from_dataframe(obj), name, limits)
    raise Unreadable(f"a {type(obj).__name__} is no table; give a polars, pandas or pyarrow one")


def _from_pandas(some: Any) -> pa.Table:
    import pyarrow as pa

    some = some.set_axis([str(column) for column in some.columns], axis=1)
    try:
        return pa.Table.from_pandas(some, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError):  # columns of mixed types
        data = pa.table({f"{i}": [str(v) for v in some.iloc[:, i]] for i in range(some.shape[1])})
        return data.rename_columns(list(some.columns))
