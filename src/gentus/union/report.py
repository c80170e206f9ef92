"""The report of a union: rows per table, and the values that could not be kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from gentus.lake.full.rows import Tally

EXAMPLES = 3
_REMARKS = {  # counts of a read, in words
    "beyond": "cells beyond the last column, or under keys that no sampled record has, were left out",
    "rejected": "records could not be read and were left out",
    "stray_quotes": "rows begin a quote that never ends; it was read as an ordinary character",
    "undecoded": "bytes are not valid in the file's encoding",
    "binary": "cells are not text and became null",
}


@dataclass(slots=True)
class Unconverted:
    """Values of a column that are not of the type of the column they go into."""

    source: str
    into: str
    type: str
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, values: Any) -> None:
        """Count those in an Arrow array, which has nulls where a value was converted."""
        some = len(values) - values.null_count
        if not some:
            return
        self.count += some
        if len(self.examples) < EXAMPLES:
            for value in values.drop_null().slice(0, 100).to_pylist():
                if len(self.examples) < EXAMPLES and value[:80] not in self.examples:
                    self.examples.append(value[:80])


@dataclass(slots=True)
class TableReport:
    """What was read from a table."""

    table: str
    rows: int = 0
    unconverted: list[Unconverted] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: getattr(self.tally, name) for name in _REMARKS if getattr(self.tally, name)}
        failed = [
            {
                "from": one.source,
                "into": one.into,
                "type": one.type,
                "count": one.count,
                "examples": one.examples,
            }
            for one in self.unconverted
            if one.count
        ]
        return {"table": self.table, "rows": self.rows, "unconverted": failed, **counts}

    def remarks(self) -> Iterator[str]:
        """In words, for people."""
        for one in self.unconverted:
            if one.count:
                examples = ", ".join(map(repr, one.examples))
                more = ", .." if one.count > len(one.examples) else ""
                some = (
                    f"{one.count:,} values of {one.source!r} are"
                    if one.count > 1
                    else f"1 value of {one.source!r} is"
                )
                yield f"{some} not {one.type} and became null: {examples}{more}"
        for name, words in _REMARKS.items():
            if count := getattr(self.tally, name):
                yield f"{count:,} {words}"


@dataclass(slots=True)
class UnionReport:
    """Rows, columns and losses of a union that was written or taken into memory."""

    output: str | None
    rows: int = 0
    columns: int = 0
    tables: list[TableReport] = field(default_factory=list)
    distinct: bool = False
    duplicates_removed: int = 0
    seconds: float = 0.0
    bytes: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def unconverted(self) -> int:
        """How many values became null because they are not of their column's type."""
        return sum(one.count for table in self.tables for one in table.unconverted)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        shallow = {name: value for name, value in asdict(self).items() if name != "tables"}
        return {
            **shallow,
            "seconds": round(self.seconds, 3),
            "unconverted": self.unconverted,
            "tables": [table.to_dict() for table in self.tables],
        }
