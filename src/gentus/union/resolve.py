"""Resolving a plan: the types and readings that it leaves out are found from all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gentus.union.plan import OutputColumn, Placement, PlannedTable, Reading, UnionPlan
from gentus.union.shapes import ColumnShapes, count_shapes
from gentus.union.sources import SourceTable, as_table_error
from gentus.union.type_inference import (
    InferredType,
    common_type,
    decide_by_tables,
    infer_reading,
    infer_type,
    widen_type,
)

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The types of the result's columns, by name, and what they follow from."""

    columns: Mapping[str, OutputColumn]
    inferred: Mapping[str, InferredType]  # from the query, where the plan gives no type
    of_query: Mapping[str, ColumnShapes]


def resolve_plan(
    plan: UnionPlan,
    sources: Sequence[SourceTable],
    duck: duckdb.DuckDBPyConnection,
    step: Callable[[], None] = lambda: None,
) -> UnionPlan:
    """Find every type and reading that the plan leaves out; rows are read only as far as that needs."""
    query, *tables = sources
    targets = {column.name: column for column in plan.columns}
    _count_query(query, targets, duck)
    step()
    of_query = {column.into: shapes for column, shapes in _counted(query)}
    inferred = {name: infer_type(shapes) for name, shapes in of_query.items() if targets[name].type is None}
    for table in tables:
        _count_table(table, targets, inferred, duck)
        step()
    of_tables: dict[str, list[ColumnShapes]] = {name: [] for name in targets}
    for table in tables:
        for column, shapes in _counted(table):
            of_tables[column.into].append(shapes)
    for name, found in inferred.items():
        inferred[name] = decide_by_tables(found, of_query[name], of_tables[name])
    columns = {
        name: _typed(target, inferred.get(name), of_query.get(name), of_tables[name])
        for name, target in targets.items()
    }
    resolved = _Resolved(columns, inferred, of_query)
    first, *others = (_with_readings(source, resolved, source is query) for source in sources)
    return replace(plan, query=first, tables=tuple(others), columns=tuple(columns.values()))


def _counted(source: SourceTable) -> list[tuple[Placement, ColumnShapes]]:
    """The columns of a table whose shapes are known."""
    known = source.shapes.columns
    placed = ((column, source.full.positions[column.source]) for column in source.planned.columns)
    return [(column, known[position]) for column, position in placed if position in known]


def _count_query(
    query: SourceTable, targets: Mapping[str, OutputColumn], duck: duckdb.DuckDBPyConnection
) -> None:
    """Count shapes of the query's columns whose type or reading is not given."""
    positions = [
        query.full.positions[column.source]
        for column in query.planned.columns
        if (given := targets[column.into].type) is None or (column.read is None and given != "VARCHAR")
    ]
    with as_table_error(query.planned):
        count_shapes(duck, query.full, positions, query.shapes, strict=positions)


def _count_table(
    table: SourceTable,
    targets: Mapping[str, OutputColumn],
    inferred: Mapping[str, InferredType],
    duck: duckdb.DuckDBPyConnection,
) -> None:
    """Count shapes of those columns of a table that can change a type, a reading or a note."""
    positions, strict = [], set()
    for column in table.planned.columns:
        position = table.full.positions[column.source]
        given, of_query = targets[column.into].type, inferred.get(column.into)
        if given is None and of_query is None:  # the query has no such column: its type is inferred here
            strict.add(position)
        if given is None:
            matters = of_query is None or of_query.undecided or of_query.type != "VARCHAR"
        else:
            matters = column.read is None and given != "VARCHAR"
        if matters:
            positions.append(position)
    with as_table_error(table.planned):
        count_shapes(duck, table.full, positions, table.shapes, strict)


def _typed(
    column: OutputColumn,
    inferred: InferredType | None,
    of_query: ColumnShapes | None,
    of_tables: Sequence[ColumnShapes],
) -> OutputColumn:
    """A column of the result with its type."""
    if column.type is not None:
        return column
    if inferred is None:  # the query has no such column
        return replace(column, type=common_type(infer_type(shapes).type for shapes in of_tables))
    kind, why = widen_type(inferred.type, of_query, of_tables)
    return replace(column, type=kind, note=why or inferred.note)


def _with_readings(source: SourceTable, resolved: _Resolved, is_query: bool) -> PlannedTable:
    """A table of the plan with all readings, and the number of its rows if all were read."""
    shapes, positions = source.shapes, source.full.positions
    columns = tuple(
        _with_reading(column, shapes.columns.get(positions[column.source]), resolved, is_query)
        for column in source.planned.columns
    )
    rows = source.planned.rows if shapes.rows is None else shapes.rows
    return replace(source.planned, columns=columns, rows=rows)


def _with_reading(
    column: Placement, shapes: ColumnShapes | None, resolved: _Resolved, is_query: bool
) -> Placement:
    target = resolved.columns[column.into].type
    if column.read is not None or shapes is None or target in (None, "VARCHAR"):
        return column  # text is not parsed
    inferred = resolved.inferred.get(column.into)
    if is_query and inferred is not None:
        return replace(column, read=inferred.read)
    of_query = None if is_query else resolved.of_query.get(column.into)
    read, note = infer_reading(target, shapes, of_query, inferred.read if inferred else Reading())
    return replace(column, read=read, note=note)
