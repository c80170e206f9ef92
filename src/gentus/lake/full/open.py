"""Opening any source so that all of its rows can be read: the full reader of each format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gentus.lake.base import Source, Unreadable, failure_reason
from gentus.lake.formats.detect import Format, format_at
from gentus.lake.full.rows import FullTable
from gentus.lake.location import Remote
from gentus.lake.reader import NO_TABLE_NAMED
from gentus.table import Limits

if TYPE_CHECKING:
    import duckdb


def open_full(source: Source, duck: duckdb.DuckDBPyConnection, limits: Limits | None = None) -> FullTable:
    """Sample a table so that all of it can be read; raises `Unreadable` and nothing else."""
    limits = limits or Limits()
    try:
        return _open(source, duck, limits)
    except Unreadable:
        raise
    except Exception as error:  # parsers may raise anything
        raise Unreadable(failure_reason(error)) from error


def _open(source: Source, duck: duckdb.DuckDBPyConnection, limits: Limits) -> FullTable:
    from gentus.lake.full import typed

    path, part = source.path, source.part
    known = format_at(path, part)
    match known, part:
        case (Format.JSON_FOLDER, _):
            from gentus.lake.full.json_text import full_records

            return full_records(source.file, limits)
        case (Format.DELTA | Format.ICEBERG, _):
            return typed.full_lakehouse(path, known, duck, limits)
        case (Format.POSTGRES, _):
            return typed.full_postgres(Remote(str(path)), limits)
        case (Format.DATABASE, str()):
            return typed.full_database(path, part, duck, limits)
        case (Format.EXCEL, str()):
            return typed.full_sheet(path, part, limits)
        case (Format.ZIP, str()):
            from gentus.lake.formats.archive import member_source

            return _open(member_source(source, part, limits), duck, limits)
        case (Format.DATABASE | Format.EXCEL | Format.ZIP, None):
            raise Unreadable(NO_TABLE_NAMED)
        case (Format.PARQUET, _):
            return typed.full_parquet(path, duck, limits)
        case (Format.ARROW, _):
            return typed.full_arrow(path, duck, limits)
        case (Format.JSON, _):
            from gentus.lake.full.json_text import full_json

            return full_json(path, limits)
    from gentus.lake.full.text import full_text

    return full_text(source, limits, known is Format.PROSE)
