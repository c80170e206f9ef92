"""The result of column alignment: column pairs with scores and reasons, and unmatched columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gentus.align.matched_columns import MatchedColumns
from gentus.align.verdict import Fit


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
    pairs: list[ColumnPair]
    query_only: list[ColumnRef]
    table_only: list[ColumnRef]
    score: float | None = None  # that of a search: the probability that a person would append the table
    fit: Fit | None = None
    columns: MatchedColumns | None = None
    missing: str | None = None  # why there is none, such as a file that has vanished

    def to_dict(self) -> dict[str, Any]:
        """As JSON; names of columns are in `pairs` and `query_only` already."""
        document = {name: value for name, value in asdict(self).items() if value is not None}
        if self.columns is not None:
            document["columns"] = self.columns.counts()
        return document
