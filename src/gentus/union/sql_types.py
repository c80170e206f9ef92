"""The SQL types that a column of a union can have."""

from __future__ import annotations

import re

INTEGERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
)
FLOATS = ("FLOAT", "DOUBLE")
EXACT = 2**53  # whole numbers up to this are exact as DOUBLE
ZONED, ZONED_NS = "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"
_OTHERS = (
    *("BOOLEAN", "DATE", "TIME", "TIME_NS", "TIMESTAMP", "TIMESTAMP_NS", ZONED, ZONED_NS),
    *("VARCHAR", "BLOB", "UUID"),
)
_ALIASES = {
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), "DECIMAL(38,0)"),  # which Parquet lacks: it would have a DOUBLE
    "BOOL": "BOOLEAN",
    "INT": "INTEGER",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "NUMBER": "DOUBLE",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMPTZ": ZONED,
}
_DECIMAL = re.compile(r"DECIMAL\((\d{1,2}),(\d{1,2})\)")


def known_type(name: str) -> str | None:
    """DuckDB's name of a type, None if a union cannot have it. Only such names get into SQL."""
    kind = " ".join(name.upper().replace(", ", ",").split())
    kind = _ALIASES.get(kind, kind)
    if kind in INTEGERS + FLOATS + _OTHERS:
        return kind
    found = _DECIMAL.fullmatch(kind)
    return kind if found and 0 < int(found[1]) <= 38 and int(found[2]) <= int(found[1]) else None


def union_type(native: str) -> str:
    """The type of a typed column in a union: its own; lists, structs and the like become text."""
    return known_type(native) or "VARCHAR"


def is_decimal(kind: str) -> bool:
    """Whether it is a number with a fixed number of decimal places."""
    return kind.startswith("DECIMAL")


def is_number(kind: str) -> bool:
    """Whether it is a type of numbers."""
    return kind in INTEGERS or kind in FLOATS or is_decimal(kind)


def is_date(kind: str) -> bool:
    """Whether it is a type of dates, with a time of day or without."""
    return kind == "DATE" or kind.startswith("TIMESTAMP")


def is_zoned(kind: str) -> bool:
    """Whether it is a type of times that have a zone."""
    return kind in (ZONED, ZONED_NS)


def is_clock(kind: str) -> bool:
    """Whether it is a type of times of day."""
    return kind in ("TIME", "TIME_NS")
