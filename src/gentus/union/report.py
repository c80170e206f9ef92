"""The report of a union: rows per table, what is null and why, and the values that could not be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from gentus.display import counted, dim, html_block, html_lines, html_table, pill
from gentus.lake.full.rows import Tally
from gentus.union.decision import Decision
from gentus.union.plan import LeftOut, OutputColumn, Placement, PlannedTable, UnionPlan

EXAMPLES = 3
_REMARKS = {  # counts of a read, in words
    "beyond": "cells beyond the last column, or under keys that no sampled record has, were left out",
    "rejected": "records could not be read and were left out",
    "comments": "lines are comments and were left out",
    "stray_quotes": "rows begin a quote that never ends; it was read as an ordinary character",
    "blanks": "rows have blanks before a quote; blanks that their cells begin with were left out",
    "undecoded": "bytes are not valid in the file's encoding",
    "binary": "cells are not text and became null",
}


@dataclass(slots=True)
class ColumnReport:
    """What became of the cells that a table has for a column of the result."""

    source: str | None  # the column of the table; None: it has none, and all of its rows are null
    into: str
    type: str
    note: str = ""  # how its cells are read, if there is something to say
    decided: tuple[Decision, ...] = ()  # the same, with what decided it
    null_values: frozenset[str] = frozenset()  # what a person takes as null
    nulls: int = 0  # in the result
    taken_as_null: Counter[str] = field(default_factory=Counter)  # words such as N/A
    kept_as_text: Counter[str] = field(default_factory=Counter)  # the same words, in a column of text
    unconverted: int = 0  # values that are not of the type, and became null
    examples: list[str] = field(default_factory=list)  # of these

    @classmethod
    def of(
        cls, output: OutputColumn, placed: Placement | None, null_values: Iterable[str] = ()
    ) -> ColumnReport:
        """A report without counts."""
        kind = output.type or "VARCHAR"
        if placed is None:
            return cls(None, output.name, kind)
        open_ones = tuple(one for one in placed.decided if one.source != "column")
        return cls(placed.source, output.name, kind, placed.note, open_ones, frozenset(null_values))

    @property
    def empty(self) -> int:
        """How many cells had no value; all, if the table has no such column."""
        return self.nulls - self.unconverted - self.taken_as_null.total()

    def add_words(self, words: Mapping[str, int]) -> None:
        """Count words that may stand for a missing value."""
        for word, count in words.items():
            is_null = self.type != "VARCHAR" or word in self.null_values
            (self.taken_as_null if is_null else self.kept_as_text)[word] += count

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without what there is nothing of."""
        facts = {
            "empty": self.empty,
            "taken_as_null": dict(self.taken_as_null.most_common()),
            "kept_as_text": dict(self.kept_as_text.most_common()),
            "unconverted": self.unconverted,
            "examples": self.examples,
            "decided": [one.to_dict() for one in self.decided],
            "note": self.note,
        }
        return {
            **{"from": self.source, "into": self.into, "type": self.type, "nulls": self.nulls},
            **{name: fact for name, fact in facts.items() if fact},
        }

    def loss(self) -> str:
        """What did not convert, in words."""
        noun, are = ("value", "is") if self.unconverted == 1 else ("values", "are")
        some = f"{self.unconverted:,} {noun} of {self.source!r} {are}"
        more = ", .." if self.unconverted > len(self.examples) else ""
        return f"{some} not {self.type} and became null: {', '.join(map(repr, self.examples))}{more}"

    def remarks(self) -> Iterator[str]:
        """In words, for people, without empty cells."""
        if self.unconverted:
            yield self.loss()
        if self.note:
            yield f"{self.source!r}: {self.note}"
        for words, became in ((self.taken_as_null, "taken as null"), (self.kept_as_text, "kept as text")):
            if words:
                some = ", ".join(f"{count:,} {word!r}" for word, count in words.most_common(EXAMPLES))
                yield f"{self.source!r}: {some}{', ..' if len(words) > EXAMPLES else ''} {became}"


@dataclass(slots=True)
class TableReport:
    """What was read from a table."""

    table: str
    rows: int = 0
    columns: list[ColumnReport] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    score: float | None = None
    fit: str | None = None
    matched: tuple[int, int] | None = None  # columns of the query that it has a column for, and all of them

    @classmethod
    def of(cls, plan: UnionPlan, table: PlannedTable) -> TableReport:
        """A report of a table of a plan, without counts."""
        matched = None if table is plan.query else plan.matched(table)
        return cls(table.name, score=table.score, fit=table.fit, matched=matched)

    @property
    def unconverted(self) -> int:
        """How many values became null because they are not of their column's type."""
        return sum(column.unconverted for column in self.columns)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: of the columns those that have nulls, or of which there is something to say."""
        counts = {name: getattr(self.tally, name) for name in _REMARKS if getattr(self.tally, name)}
        told = [one for one in self.columns if one.nulls or one.kept_as_text or one.note]
        verdict = {"score": self.score, "fit": self.fit, "matched": self.matched and list(self.matched)}
        return {
            **{"table": self.table, "rows": self.rows},
            **{name: value for name, value in verdict.items() if value is not None},
            "columns": [column.to_dict() for column in told],
            **counts,
        }

    def remarks(self, complete: bool = True) -> Iterator[str]:
        """In words, for people. Of a table that was not read to its end, nulls are not counted."""
        for column in self.columns:
            yield from column.remarks()
        if complete:
            yield from self._nulls()
        for name, words in _REMARKS.items():
            if count := getattr(self.tally, name):
                yield f"{count:,} {words}"

    def _nulls(self) -> Iterator[str]:
        missing = [column.into for column in self.columns if column.source is None]
        if missing and self.rows:
            yield f"no column for {_named(missing)}: null in all {self.rows:,} rows"
        empty = {one.into: one.empty for one in self.columns if one.source is not None and one.empty}
        if empty:
            some = [f"{count:,} in {name!r}" for name, count in Counter(empty).most_common(EXAMPLES)]
            more = f" and others in {len(empty) - EXAMPLES:,} columns" if len(empty) > EXAMPLES else ""
            yield f"empty cells: {', '.join(some)}{more}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - EXAMPLES:,} more" if len(names) > EXAMPLES else ""
    return f"{', '.join(map(repr, names[:EXAMPLES]))}{more}"


@dataclass(slots=True, repr=False)
class UnionReport:
    """Rows, columns and losses of a union that was written or taken into memory.

    Example:
        >>> report = index.union("orders.csv", "orders-2024-03.csv").write_csv("all.csv")
        >>> report
        <UnionReport: 24 rows and 6 columns from 2 tables, all.csv>
        >>> report.tables[1].columns[3].nulls  # it has no column for the amount
        12
    """

    output: str | None
    rows: int = 0
    columns: int = 0
    tables: list[TableReport] = field(default_factory=list)
    distinct: bool = False
    duplicates_removed: int = 0
    seconds: float = 0.0
    bytes: int | None = None
    notes: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    result: list[OutputColumn] = field(default_factory=list)  # the columns, with their types and why

    @property
    def unconverted(self) -> int:
        """How many values became null because they are not of their column's type."""
        return sum(table.unconverted for table in self.tables)

    def __repr__(self) -> str:
        """Rows, columns, tables, and the file."""
        rows, columns = counted(self.rows, "row"), counted(self.columns, "column")
        where = f", {self.output}" if self.output else ""
        return f"<UnionReport: {rows} and {columns} from {counted(len(self.tables), 'table')}{where}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                one.table,
                pill(one.fit) if one.matched is not None else dim("query"),
                "" if one.matched is None else "{} of {}".format(*one.matched),
                one.rows,
                html_lines(one.remarks(), most=6),
            )
            for one in self.tables
        ]
        table = html_table(("table", "fit", "columns", "rows", "remarks"), rows)
        others = [*self.notes, *(f"left out: {one.table} ({one.why})" for one in self.left_out)]
        return html_block(repr(self)[1:-1], table, html_lines(others))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        deep = ("tables", "result")
        shallow = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in deep}
        return {
            **shallow,
            "seconds": round(self.seconds, 3),
            "unconverted": self.unconverted,
            "left_out": list(map(asdict, self.left_out)),
            "result": [column.to_dict() for column in self.result],
            "tables": [table.to_dict() for table in self.tables],
        }
