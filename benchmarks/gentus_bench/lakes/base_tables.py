"""Tables read in full, row by row, to cut them into others.

A search sees a sample of a table without its empty cells, in which rows are lost; here all rows are read, by
the same rules of what a file is and how text is cut into cells.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

from gentus.lake.base import Source, Unreadable, failure_reason
from gentus.lake.formats.json_text import cell_text
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally
from gentus.table import EMPTY


@dataclass(frozen=True, slots=True)
class BaseTable:
    """A table by columns: every one as long as there are rows, empty cells as empty text."""

    name: str
    header: list[str]
    columns: list[list[str]]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.columns[0]) if self.columns else 0


def read_whole(source: Source, most_rows: int) -> BaseTable:
    """Read the first rows of a table, columns without any value left out; raises `Unreadable` only."""
    try:
        duck = _connection()
        full = open_full(source, duck)
        positions = range(len(full.names))
        with full.scan(duck, positions, Tally()) as relation:
            chosen = ", ".join(f"c{at}" for at in positions)
            rows = duck.execute(f"SELECT {chosen} FROM {relation} LIMIT {most_rows}").fetchall()
        return _table(source.name, full.names, rows)
    except Unreadable:
        raise
    except Exception as error:  # as for all readers: what parsers raise is not to be foreseen
        raise Unreadable(failure_reason(error)) from error


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One for all tables: connecting takes longer than reading most of them."""
    return duckdb.connect(":memory:", config={"threads": 1})


def _table(name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> BaseTable:
    columns = [[_cell(row[at]) for row in rows] for at in range(len(header))]
    kept = [at for at, column in enumerate(columns) if any(column)]
    return BaseTable(name, [header[at] for at in kept], [columns[at] for at in kept])


def _cell(value: Any) -> str:
    text = _value(value)
    cell = "" if text is None else " ".join(text.split())  # a cell of several lines is no use in a slice
    return "" if cell.lower() in EMPTY else cell


def _value(value: Any) -> str | None:
    match value:
        case bytes():
            return None
        case datetime.datetime():
            return value.isoformat(" ").removesuffix(" 00:00:00")
        case None | str() | bool() | int() | float() | list() | dict():
            return cell_text(value)
    return str(value)
