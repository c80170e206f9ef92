"""What the pipeline knows of a table: a bounded sample of its cells, as text, column by column."""

from __future__ import annotations

from collections.abc import Sequence
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


def evenly_spaced(total: int, wanted: int) -> Sequence[int]:
    """Return at most `wanted` of the indices below `total`, evenly spread; the same ones every time."""
    if total <= wanted:
        return range(total)
    return [i * total // wanted for i in range(wanted)]
