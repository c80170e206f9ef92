"""Any source or file to a sampled `Table`: the reader of each format, and one kind of error."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.lake.base import SeveralTables, Source, TableNotFoundError, Unreadable, failure_reason
from gentus.lake.formats.detect import JSON_FILES, Format, format_at, look_up
from gentus.lake.formats.json_folder import is_record_folder
from gentus.lake.location import Location, Remote, as_location
from gentus.table import Limits, Table

if TYPE_CHECKING:
    from gentus.lake.formats.lakehouse import LakehouseTable

NO_TABLE_NAMED = "it holds several tables, and none was named"


def read(source: Source, limits: Limits | None = None) -> Table:
    """Read a bounded sample of a table; raises `Unreadable` and nothing else."""
    return _read(source, limits or Limits())


def read_path(path: str | os.PathLike[str] | Remote, limits: Limits | None = None) -> Table:
    """Read a file that a person names; of a database or workbook, its only table."""
    limits = limits or Limits()
    return read(only_table(path, limits), limits)


def parts_of(path: Location, known: Format, limits: Limits) -> list[str] | list[None]:
    """List the tables inside a file; `[None]` for a file that is one table."""
    if known is Format.DATABASE:
        from gentus.lake.formats.database import tables_of

        return tables_of(path, limits)
    if known is Format.EXCEL:
        from gentus.lake.formats.excel import sheets_of

        return sheets_of(path, limits)
    if known is Format.ZIP:
        from gentus.lake.formats.archive import members_of

        return members_of(path, limits).tables
    return [JSON_FILES] if known is Format.JSON_FOLDER else [None]


def only_table(
    path: str | os.PathLike[str] | Remote,
    limits: Limits | None = None,
    parts_of: Callable[[Location, Format, Limits], list[str] | list[None]] = parts_of,
) -> Source:
    """Find the one table in a file that a person names, or the one named behind it: `book.xlsx/sheet`."""
    path, part = as_location(path), None
    try:
        if not isinstance(path, Remote):
            found = file_at(path)
            if found is None:
                raise TableNotFoundError(f"there is no file {path}", str(path))
            path, part = found
            if part is None and path.is_dir() and is_record_folder(path):
                part = JSON_FILES
        known = format_at(path, part)
        path, state = look_up(path, part)
        parts = parts_of(path, known, limits or Limits())
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error
    listed = ", ".join(str(one) for one in parts[:10]) + (", .." if len(parts) > 10 else "")
    if part is not None and part not in parts:
        holds = f"it holds {listed}" if parts and parts[0] else "it is one table"
        raise TableNotFoundError(f"there is no table {part} in {path}; {holds}", f"{path}/{part}")
    if part is None and len(parts) > 1:
        hint = f"name one of them behind its path: {shlex.quote(f'{path}/{parts[0]}')}"
        raise SeveralTables(f"it holds {len(parts)} tables ({listed})", hint)
    if not parts:
        raise Unreadable("there are no tables in it")
    name = path.name if part is None else f"{path.name}/{part}"
    return Source(name, path, part or parts[0], state.size, state.mtime_ns, state.version)


def file_at(path: Path) -> tuple[Path, str | None] | None:
    """What lies at a path, or the file or folder that it leads into and the table in there; None: nothing."""
    if path.exists():
        return path, None
    if path.name == JSON_FILES and path.parent.is_dir():
        return path.parent, JSON_FILES
    inside = next((folder for folder in path.parents if folder.is_file()), None)
    return None if inside is None else (inside, path.relative_to(inside).as_posix())


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
        known = format_at(path, part)
        match known, part:
            case (Format.JSON_FOLDER, _):
                from gentus.lake.formats.json_folder import read_records

                return read_records(source.file, name, limits)
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
            case (Format.ZIP, str()):
                from gentus.lake.formats.archive import member_source

                return _read(member_source(source, part, limits), limits)
            case (Format.DATABASE | Format.EXCEL | Format.ZIP, None):
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
