"""What the pipeline knows of a table: a bounded sample of its cells, as text, column by column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """Sampled cells of one column, and its name."""

    name: str
    cells: list[str]  # the non-empty cells of the sampled rows, in row order, trimmed and clipped


@dataclass(frozen=True, slots=True)
class Table:
    """A sampled table. `name` is its path relative to the lake, with `/` on every system."""

    name: str
    columns: list[Column]
    rows: int  # how many rows were sampled, empty ones included
