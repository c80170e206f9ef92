"""Which column of one table is which column of another, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of a table: its place from the left, from 0, and the name people know it by."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A column of the query and the column of the table that belongs under it."""

    query: ColumnRef
    table: ColumnRef
    score: float  # 0 to 1; pairs below the threshold are not in an alignment
    reason: str  # in words, such as "both ISO dates, 2001-2023"


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs in the order of the query's columns, every column in at most one, and what is left over."""

    query: str  # name of the query
    table: str  # name of the table
    score: float  # 0 to 1: how much of the query's columns the table can fill
    pairs: list[Pair]
    query_only: list[ColumnRef]
    table_only: list[ColumnRef]
    missing: str | None = None  # why there is none, such as a file that has vanished

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        told = asdict(self)
        if self.missing is None:
            del told["missing"]
        return told
