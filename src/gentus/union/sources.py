"""The tables of a plan, opened: they exist and have the columns that the plan names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gentus.lake import Limits, Source, Unreadable, as_location
from gentus.lake.base import failure_reason
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import FullTable
from gentus.table import doubt_note
from gentus.union.convert import Conversion, conversion_sql
from gentus.union.errors import PlanError, did_you_mean, memory_reason
from gentus.union.plan import OutputColumn, PlannedTable, UnionPlan
from gentus.union.shapes import TableShapes

if TYPE_CHECKING:
    import duckdb


@dataclass(slots=True)
class SourceTable:
    """A table of a plan, opened."""

    planned: PlannedTable
    full: FullTable
    shapes: TableShapes = field(default_factory=TableShapes)

    @classmethod
    def of(cls, planned: PlannedTable, full: FullTable) -> SourceTable:
        """Read by DuckDB itself as long as it can."""
        ways = [way for way in (full.strict, full) if way is not None]

        def scan(*given: Any) -> AbstractContextManager[str]:
            return ways[0].scan(*given)

        def fall_back() -> bool:
            return len(ways) > 1 and bool(ways.pop(0))

        shapes = TableShapes(fall_back=fall_back, is_plain=lambda: ways[0].is_plain())
        return cls(planned, replace(full, scan=scan), shapes)

    def place(self, planned: PlannedTable) -> None:
        """Take the columns that the plan names."""
        positions = self.full.positions
        self.planned = planned
        self.shapes.placed = [positions[column.source] for column in planned.columns]

    def conversion(self, columns: Sequence[OutputColumn], relation: str) -> Conversion:
        """How a relation of its rows becomes columns of the result."""
        known = self.shapes
        return conversion_sql(self.planned, self.full, columns, relation, known.plain, known.null_values)


def header_doubts(sources: Iterable[SourceTable]) -> list[str]:
    """Which tables have a header that looks like data, and why."""
    return [doubt_note(source.planned.name, source.full.doubt) for source in sources if source.full.doubt]


class TableError(PlanError):
    """A table of a plan that cannot be read."""

    def __init__(self, table: PlannedTable, reason: str) -> None:
        super().__init__(f"{table.name}: {reason}")
        self.table, self.reason = table, reason


@contextmanager
def as_table_error(table: PlannedTable) -> Iterator[None]:
    """Turn every error into one that names the table."""
    try:
        yield
    except PlanError:
        raise
    except Exception as error:  # parsers raise anything
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from error
        raise TableError(table, memory_reason(error) or failure_reason(error)) from error


def open_table(
    table: PlannedTable, duck: duckdb.DuckDBPyConnection, frame: Any, limits: Limits
) -> SourceTable:
    """Open a table of a plan; raises `Unreadable`. A table without a path is the data frame."""
    if table.path is None:
        from gentus.lake.full.typed import full_frame

        if frame is None:
            raise Unreadable(
                "its plan was made for a data frame or for stdin; run it from Python with the frame, "
                "or name a file: gentus union INDEX QUERY --plan PLAN -o OUT"
            )
        return SourceTable.of(table, full_frame(frame, duck, limits))
    source = Source(table.name, as_location(table.path), table.part, 0, 0, header=table.header)
    return SourceTable.of(table, open_full(source, duck, limits))


def open_sources(
    plan: UnionPlan, duck: duckdb.DuckDBPyConnection, frame: Any, limits: Limits
) -> list[SourceTable]:
    """Open all tables of a plan and check that they have the columns that it names."""
    sources = []
    for table in plan.sources:
        with as_table_error(table):
            source = open_table(table, duck, frame, limits)
        known = source.full.positions
        for column in table.columns:
            if column.source not in known:
                near = did_you_mean(column.source, source.full.names)
                raise PlanError(f"{table.name} has no column {column.source!r}{near}")
        source.place(table)
        sources.append(source)
    return sources
