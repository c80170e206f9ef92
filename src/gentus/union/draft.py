"""From alignments to a plan without types: which column of a table goes into which column of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gentus.union.plan import OutputColumn, Placement, UnionPlan
from gentus.union.shapes import filled_columns
from gentus.union.sources import SourceTable, as_table_error

if TYPE_CHECKING:
    import duckdb


class AlignedTable(NamedTuple):
    """What a plan takes from the alignment of a table: little, as it is sent to another process."""

    pairs: Sequence[tuple[str, str, float, str]]  # column of the query, of the table, score, reason
    score: float | None
    fit: str | None


def draft_plan(
    query: SourceTable,
    tables: Sequence[tuple[SourceTable, AlignedTable]],
    duck: duckdb.DuckDBPyConnection,
    keep_extra: bool = False,
) -> UnionPlan:
    """The plan that alignments make: the query's columns, then extra ones if they are kept; no types yet."""
    names = _filled_columns(query, duck)
    result = _ResultColumns(names)
    into = {name: result.add(name) for name in names}
    planned = []
    for source, alignment in tables:
        placed = [
            Placement(theirs, into[ours], None, round(score, 4), reason)
            for ours, theirs, score, reason in alignment.pairs
            if ours in into and theirs in source.full.positions
        ]
        used = {placement.source for placement in placed}
        left_out = [name for name in _filled_columns(source, duck) if name not in used]
        if keep_extra:
            placed += result.place_extra(left_out)
            left_out = []
        planned.append(
            replace(
                source.planned,
                columns=tuple(placed),
                score=alignment.score,
                fit=alignment.fit,
                left_out=tuple(left_out),
            )
        )
    own = tuple(Placement(name, into[name]) for name in names)
    return UnionPlan(replace(query.planned, columns=own), tuple(planned), tuple(result.columns))


def _filled_columns(source: SourceTable, duck: duckdb.DuckDBPyConnection) -> list[str]:
    """The columns that have a name or any value; a trailing delimiter makes one that has neither."""
    full, shapes = source.full, source.shapes
    unnamed = [position for position, named in enumerate(full.named) if not named]
    with as_table_error(source.planned):
        filled = filled_columns(duck, full, unnamed, shapes)
    return [
        name
        for position, (name, named) in enumerate(zip(full.names, full.named, strict=True))
        if named or position in filled
    ]


class _ResultColumns:
    """The columns of the result; their names differ in more than case, as DuckDB wants it."""

    def __init__(self, reserved: Sequence[str]) -> None:
        self.columns: list[OutputColumn] = []
        self._reserved = {name.casefold() for name in reserved}
        self._taken: set[str] = set()
        self._extra: dict[str, str] = {}  # the column of the result for extra columns of a name

    def add(self, name: str) -> str:
        """Add a column under this name, numbered if it is taken; a number never makes a reserved name."""
        unique, number = name, 1
        while unique.casefold() in self._taken or (number > 1 and unique.casefold() in self._reserved):
            number += 1
            unique = f"{name}_{number}"
        self._taken.add(unique.casefold())
        self.columns.append(OutputColumn(unique))
        return unique

    def place_extra(self, names: Sequence[str]) -> list[Placement]:
        """Columns of one table that the query lacks; those of several tables share one by their name."""
        for name in names:
            if name.casefold() not in self._extra:
                self._extra[name.casefold()] = self.add(name)
        placed: dict[str, Placement] = {}
        for name in names:
            into = self._extra[name.casefold()]
            if into in placed:  # two of one table that differ only in case
                into = self.add(name)
            placed[into] = Placement(name, into, reason="not in the query")
        return list(placed.values())
