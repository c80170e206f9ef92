"""What a file is, by its name and its first bytes."""

from __future__ import annotations

from enum import Enum

from gentus.lake.base import Unreadable
from gentus.lake.location import Location


class Format(Enum):
    """The kinds of files that hold tables."""

    TEXT = "delimited text"
    PROSE = "text that may be delimited"  # .txt and .dat hold tables or anything else
    JSON = "JSON"
    PARQUET = "Parquet"
    ARROW = "Arrow"
    EXCEL = "Excel"
    DATABASE = "a database"
    DELTA = "a Delta table"  # these two are folders
    ICEBERG = "an Iceberg table"
    POSTGRES = "a table of a Postgres server"


_BY_SUFFIX = {
    **dict.fromkeys(("csv", "tsv", "tab", "psv"), Format.TEXT),
    **dict.fromkeys(("txt", "dat"), Format.PROSE),
    **dict.fromkeys(("json", "jsonl", "ndjson"), Format.JSON),
    **dict.fromkeys(("parquet", "pq", "parq"), Format.PARQUET),
    **dict.fromkeys(("arrow", "feather", "ipc"), Format.ARROW),
    **dict.fromkeys(("xlsx", "xlsm"), Format.EXCEL),
    **dict.fromkeys(("db", "duckdb", "ddb", "sqlite", "sqlite3", "db3"), Format.DATABASE),
}
_COMPRESSED = ("gz", "gzip", "zst", "zstd")
_PACKABLE = (Format.TEXT, Format.PROSE, Format.JSON)
SQLITE = b"SQLite format 3\0"
_DUCKDB = b"DUCK"  # at byte 8; its version number follows


def format_of(name: str) -> Format | None:
    """Tell from a file name what it holds; None for what is no table."""
    pieces = name.lower().split(".")
    suffix = pieces.pop()
    if suffix in _COMPRESSED and len(pieces) > 1:
        inner = _BY_SUFFIX.get(pieces[-1])
        return inner if inner in _PACKABLE else None
    return _BY_SUFFIX.get(suffix) if pieces else None


def is_database(start: bytes) -> bool:
    """Tell from the first 16 bytes whether a file is an SQLite or a DuckDB database."""
    return start == SQLITE or (start[8:12] == _DUCKDB and start[14:16] == b"\0\0")


def detect_format(path: Location, start: bytes) -> Format:
    """Tell what a file holds; its first bytes are believed before its name is."""
    if not start:
        raise Unreadable("it is empty")
    kind = format_of(path.name)
    if start.startswith(b"PAR1") and (kind is Format.PARQUET or min(start[4:], default=0) < 9):
        return Format.PARQUET  # and not a text whose first column has that name
    if start.startswith(b"ARROW1\0"):
        return Format.ARROW
    if is_database(start):
        return Format.DATABASE
    if kind is Format.EXCEL and not start.startswith(b"PK"):
        raise Unreadable("it is named like an Excel workbook and is none; open it and save it as .xlsx")
    if kind is Format.DATABASE:
        raise Unreadable("it is named like a database and is neither a DuckDB nor an SQLite file")
    if kind is Format.PARQUET:
        raise Unreadable("it is named like a Parquet file and does not begin like one; write it again")
    if kind is None:
        raise Unreadable("its name does not end like one of a table (.csv, .parquet, .json, .xlsx, .db, ...)")
    return kind
