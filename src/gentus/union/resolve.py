"""Resolving a plan: the types and readings that it leaves out are found from all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gentus.align.notation import VALUES, Found, What, by_column, by_default, by_file, by_others
from gentus.union.column_shapes import ColumnShapes
from gentus.union.decision import Decision
from gentus.union.plan import OutputColumn, Placement, PlannedTable, UnionPlan
from gentus.union.sampled import as_sampled
from gentus.union.shapes import count_shapes, sample_shapes
from gentus.union.sources import SourceTable, as_table_error
from gentus.union.sql_types import is_date, is_number
from gentus.union.strict import check_columns, check_encodings, check_readings
from gentus.union.type_inference import (
    DecidedColumn,
    InferredType,
    booleans_by_tables,
    common_type,
    infer_reading,
    infer_type,
    widen_type,
    zone_notes,
)

if TYPE_CHECKING:
    import duckdb


def resolve_plan(
    plan: UnionPlan,
    sources: Sequence[SourceTable],
    duck: duckdb.DuckDBPyConnection,
    step: Callable[[], None] = lambda: None,
) -> UnionPlan:
    """Find every type and reading that the plan leaves out; rows are read only as far as that needs.

    Raises `PlanError` for a strict plan of which only a default decides something.
    """
    check_encodings(plan, sources)
    targets = {column.name: column for column in plan.columns}
    for source in sources:
        source.shapes.null_values = plan.null_values(source.planned)
    query, *tables = sources
    _count_query(query, targets, duck)
    first = _columns_alone(plan, query, duck)
    inferred = {name: column.inferred for name, column in first.items() if targets[name].type is None}
    step()
    columns = [first]
    for table in tables:
        _count_table(table, targets, inferred, duck)
        columns.append(_columns_alone(plan, table, duck))
        step()
    _decide_by_others(columns)
    outputs = {
        name: _typed(target, first.get(name), [one[name] for one in columns[1:] if name in one])
        for name, target in targets.items()
    }
    own, *others = (
        _with_readings(source, known, first, outputs) for source, known in zip(sources, columns, strict=True)
    )
    resolved = replace(plan, query=own, tables=tuple(others), columns=tuple(outputs.values()))
    check_readings(resolved)
    check_columns(resolved, sources)
    complete = all(source.shapes.rows is not None for source in sources)
    return resolved if complete else as_sampled(resolved, plan)


@dataclass(slots=True)
class _Column:
    """A column of a table whose shapes were counted, and what is decided of its notations so far."""

    shapes: ColumnShapes
    decisions: dict[What, Found | None] = field(default_factory=dict)  # None: still open
    _decided: DecidedColumn | None = None

    def decide(self, what: What, found: Found | None) -> None:
        """Take a decision."""
        self.decisions[what], self._decided = found, None

    @property
    def decided(self) -> DecidedColumn:
        """With the default for what is still open."""
        if self._decided is None:
            found = {
                what: self._decision(what, one or by_default(what, self.shapes.evidence))
                for what, one in self.decisions.items()
            }
            self._decided = DecidedColumn(self.shapes, found)
        return self._decided

    def _decision(self, what: What, found: Found) -> Decision:
        certain = found.source in ("column", "majority")
        examples = () if certain else tuple(filter(None, self.shapes.open_cells(what)))
        return Decision(what, *found, examples)

    @property
    def inferred(self) -> InferredType:
        """The type of all of its cells."""
        return infer_type(self.shapes, self.decided.decided)


# --- counting ------------------------------------------------------------------------------------------


def _count_query(
    query: SourceTable, targets: Mapping[str, OutputColumn], duck: duckdb.DuckDBPyConnection
) -> None:
    """Count shapes of the query's columns whose type or reading is not given."""
    by_name = query.full.positions
    positions = [
        by_name[column.source]
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
    by_name = table.full.positions
    for column in table.planned.columns:
        position = by_name[column.source]
        given, of_query = targets[column.into].type, inferred.get(column.into)
        if given is None and of_query is None:  # the query has no such column: its type is inferred here
            strict.add(position)
        if given is None:
            matters = of_query is None or of_query.booleans or of_query.type != "VARCHAR"
        else:
            matters = column.read is None and given != "VARCHAR"
        if matters:
            positions.append(position)
    with as_table_error(table.planned):
        count_shapes(duck, table.full, positions, table.shapes, strict)


def count_columns(source: SourceTable, null_values: Sequence[str], duck: duckdb.DuckDBPyConnection) -> None:
    """Count shapes of all columns of a table, before it is known which of them matter."""
    source.shapes.null_values = tuple(dict.fromkeys(null_values))
    with as_table_error(source.planned):
        count_shapes(duck, source.full, range(len(source.full.names)), source.shapes)


# --- deciding notations --------------------------------------------------------------------------------


def _columns_alone(
    plan: UnionPlan, source: SourceTable, duck: duckdb.DuckDBPyConnection
) -> dict[str, _Column]:
    """The counted columns of a table by the column of the result, decided as far as the table decides.

    In this order: by a person who names the column, by its cells, by a person who names the table, by the
    other columns of the table, by its delimiter.
    """
    by_name, known = source.full.positions, source.shapes.columns
    of_file: dict[What, Found | None] = {}
    columns: dict[str, _Column] = {}
    for placed in source.planned.columns:
        shapes = known.get(by_name[placed.source])
        if shapes is None:
            continue
        column = columns[placed.into] = _Column(shapes)
        if shapes.type != "VARCHAR":
            continue
        evidence = shapes.evidence
        for what in VALUES:
            found = _by_person(placed, what) or by_column(what, evidence)
            if found is None and (chosen := plan.choice(source.planned, what)):
                found = Found(chosen, "person")
            if found is None:
                of_file = of_file or _by_file(source, duck)
                found = of_file[what]
            column.decide(what, found)
    return columns


def _by_person(column: Placement, what: What) -> Found | None:
    found = column.decision(what)
    given = found is not None and (found.source == "person" or column.read is not None)
    return Found(found.value, found.source) if found is not None and given else None


def _by_file(source: SourceTable, duck: duckdb.DuckDBPyConnection) -> dict[What, Found | None]:
    with as_table_error(source.planned):
        shown = [shapes.evidence for shapes in sample_shapes(duck, source.full, source.shapes)]
    return {what: by_file(what, shown, source.full.delimiter) for what in VALUES}


def _decide_by_others(columns: Sequence[Mapping[str, _Column]]) -> None:
    """Decide what is still open by the columns of the query and of the other tables."""
    for into in dict.fromkeys(name for some in columns for name in some):
        together = {number: some[into] for number, some in enumerate(columns) if into in some}
        for what in VALUES:
            open_ones = {n: one for n, one in together.items() if what in one.decisions}
            if any(one.decisions[what] is None for one in open_ones.values()):
                known = {n: (one.shapes.evidence, one.decisions[what]) for n, one in open_ones.items()}
                for number, found in by_others(what, known).items():
                    open_ones[number].decide(what, found)


# --- types and readings --------------------------------------------------------------------------------


def _typed(target: OutputColumn, own: _Column | None, tables: Sequence[_Column]) -> OutputColumn:
    """A column of the result with its type."""
    if target.type is not None:
        return target
    if own is None:  # the query has no such column
        return replace(target, type=common_type((column.inferred.type, column.shapes) for column in tables))
    inferred = booleans_by_tables(own.inferred, own.shapes, [column.shapes for column in tables])
    kind, why = widen_type(inferred.type, own.shapes, [column.decided for column in tables])
    return replace(target, type=kind, note=why or inferred.note)


def _with_readings(
    source: SourceTable,
    columns: Mapping[str, _Column],
    of_query: Mapping[str, _Column],
    outputs: Mapping[str, OutputColumn],
) -> PlannedTable:
    """A table of the plan with all readings, and the number of its rows if all were read."""
    by_name = source.full.positions
    placed = []
    for column in source.planned.columns:
        known, query = columns.get(column.into), of_query.get(column.into)
        target = outputs[column.into].type or "VARCHAR"
        text = source.full.types[by_name[column.source]] == "VARCHAR"
        if not text or not (is_number(target) or is_date(target)):
            notes = zone_notes(target, known.shapes) if known else []
            placed.append(replace(column, decided=(), note="; ".join(notes)))  # nothing of it is parsed
        elif column.read is not None:
            found = column.decision("decimal" if is_number(target) else "dates")
            placed.append(replace(column, decided=(found,) if found else ()))
        elif known is not None:
            placed.append(_with_reading(column, known, None if known is query else query, target))
        else:
            placed.append(column)
    rows = source.planned.rows if source.shapes.rows is None else source.shapes.rows
    return replace(source.planned, columns=tuple(placed), rows=rows)


def _with_reading(column: Placement, known: _Column, query: _Column | None, target: str) -> Placement:
    read, notes = infer_reading(target, known.decided, None if query is None else query.shapes)
    decided = known.decided.decided["decimal" if is_number(target) else "dates"]
    notes = [note for note in (decided.words(), *notes) if note]
    return replace(column, read=read, decided=(decided,), note="; ".join(notes))
