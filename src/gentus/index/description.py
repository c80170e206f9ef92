"""One table described: where it is, its shape and identifier, and what its columns contain."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gentus.align.table_profile import profile_table
from gentus.table import Header, Table

ColumnType = Literal["number", "date", "text", "empty"]
_TYPES: tuple[ColumnType, ...] = ("number", "date", "text")  # as in the profile of a table
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """What a column contains, in a sample of rows."""

    name: str
    type: ColumnType
    filled: float  # the share of rows with a value
    distinct: int  # different values
    examples: list[str]  # the most frequent values


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table of an index. What needs the file of the table is from a sample of its rows."""

    name: str
    path: str
    part: str | None  # the table or sheet inside the file
    size: int | None  # bytes of the file when it was indexed
    sid: str | None  # its identifier
    rows: int  # as sampled
    more_rows: bool  # the sample was full, so there may be more
    column_count: int
    columns: list[ColumnDescription]  # none if the file cannot be read
    missing: str | None = None  # why the file cannot be read
    header: Header = "auto"  # of delimited text: how it was read
    doubt: str = ""  # why its first row looks like data; empty: it does not
    reading: str = ""  # what is not usual in how it is read; empty: nothing

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def describe_columns(table: Table) -> list[ColumnDescription]:
    """Type, fill rate, distinct values and examples of every column of a sample."""
    described = []
    for column, shares in zip(table.columns, profile_table(table).type_shares, strict=True):
        common = Counter(column.cells)
        described.append(
            ColumnDescription(
                column.name,
                _TYPES[int(shares.argmax())] if column.cells and shares.any() else "empty",
                round(len(column.cells) / max(table.rows, 1), 4),
                len(common),
                [cell for cell, _ in common.most_common(_EXAMPLES)],
            )
        )
    return described
