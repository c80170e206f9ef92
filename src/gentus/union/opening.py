"""The tables of a plan, opened: whether they are there, and have the columns that it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gentus.lake import Limits, Source, Unreadable, as_location
from gentus.lake.base import failure_reason
from gentus.lake.full.rows import FullTable, open_full
from gentus.union.errors import PlanError, did_you_mean
from gentus.union.plan import PlannedTable, UnionPlan
from gentus.union.profile import Profile

if TYPE_CHECKING:
    import duckdb


@dataclass(slots=True)
class Opened:
    """A table of a plan, opened."""

    table: PlannedTable
    whole: FullTable
    profile: Profile


class TableError(PlanError):
    """A table of a plan that cannot be read."""

    def __init__(self, table: PlannedTable, reason: str) -> None:
        super().__init__(f"{table.name}: {reason}")
        self.table, self.reason = table, reason


@contextmanager
def told_of(table: PlannedTable) -> Iterator[None]:
    """Say of which table it is that something went wrong."""
    try:
        yield
    except PlanError:
        raise
    except Exception as error:  # as for all readers: what parsers raise is not to be foreseen
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from error
        raise TableError(table, failure_reason(error)) from error


def open_table(table: PlannedTable, duck: duckdb.DuckDBPyConnection, frame: Any, limits: Limits) -> Opened:
    """Open a table of a plan; raises `Unreadable`."""
    if table.path is None:
        from gentus.lake.full.typed import full_frame

        if frame is None:
            raise Unreadable("its plan was made for a data frame; run it from Python, with the frame")
        return Opened(table, full_frame(frame, duck, limits), Profile())
    source = Source(table.name, as_location(table.path), table.part, 0, 0)
    return Opened(table, open_full(source, duck, limits), Profile())


def open_plan(plan: UnionPlan, duck: duckdb.DuckDBPyConnection, frame: Any, limits: Limits) -> list[Opened]:
    """Open all tables of a plan, and see that they have the columns that it speaks of."""
    opened = []
    for table in plan.sources:
        with told_of(table):
            one = open_table(table, duck, frame, limits)
        for column in table.columns:
            if column.source not in one.whole.places:
                near = did_you_mean(column.source, one.whole.names)
                raise PlanError(f"{table.name} has no column {column.source!r}{near}")
        opened.append(one)
    return opened
