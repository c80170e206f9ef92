"""The result of column alignment: column pairs with scores and reasons, and unmatched columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of a table: its position from the left, from 0, and its name."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the query and the column of the table that matches it."""

    query: ColumnRef
    table: ColumnRef
    score: float  # 0 to 1; pairs below the threshold are not in an alignment
    reason: str  # in words, such as "both ISO dates, 2001-2023"


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs in the order of the query's columns, every column in at most one, and the unmatched columns."""

    query: str  # name of the query
    table: str  # name of the table
    score: float  # 0 to 1: mean score over the query's columns, 0 for unmatched ones
    pairs: list[ColumnPair]
    query_only: list[ColumnRef]
    table_only: list[ColumnRef]
    missing: str | None = None  # why there is none, such as a file that has vanished

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        document = asdict(self)
        if self.missing is None:
            del document["missing"]
        return document
