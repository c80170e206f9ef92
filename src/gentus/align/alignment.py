"""The result of column alignment: column pairs with scores and reasons, and unmatched columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gentus.align.matched_columns import MatchedColumns
from gentus.align.verdict import Fit
from gentus.display import html_block, html_lines, html_table, text_table


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


@dataclass(frozen=True, slots=True, repr=False)
class Alignment:
    """Which columns of a query and a table belong together; each of them to at most one.

    Pairs are in the order of the query's columns.

    Example:
        >>> found = index.align("orders.csv", "orders-2024-03.csv")
        >>> found
        orders.csv and orders-2024-03.csv: partial, 3 of 4 columns
        query  table  score  reason
        order  id     0...
        day    date   0...
        city   town   0...
        only in the query: amount
        only in the table: clerk
    """

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

    @property
    def _title(self) -> str:
        fit = f": {self.fit}, {self.columns} columns" if self.fit and self.columns else ""
        return f"{self.query} and {self.table}{fit}"

    def _rows(self) -> list[tuple[str, str, float, str]]:
        return [(pair.query.name, pair.table.name, pair.score, pair.reason) for pair in self.pairs]

    def _remarks(self) -> Iterator[str]:
        if self.missing:
            yield self.missing
        for side, columns in (("query", self.query_only), ("table", self.table_only)):
            if columns:
                yield f"only in the {side}: {', '.join(column.name for column in columns)}"

    def __repr__(self) -> str:
        """The pairs as a small table, and the columns without one."""
        table = [text_table(("query", "table", "score", "reason"), self._rows())] if self.pairs else []
        return "\n".join([self._title, *table, *self._remarks()])

    def _repr_html_(self) -> str:
        table = html_table((self.query, self.table, "score", "why"), self._rows()) if self.pairs else ""
        return html_block(self._title, table, html_lines(self._remarks()))
