"""The tables of a plan, opened: they exist and have the columns that the plan names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gentus.lake import Limits, Source, Unreadable, as_location
from gentus.lake.base import failure_reason
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import FullTable, Tally, first_rows
from gentus.table import doubt_note, text_choices
from gentus.union.convert import Conversion, KnownCells, conversion_sql
from gentus.union.errors import PlanError, did_you_mean, memory_reason
from gentus.union.plan import OutputColumn, PlannedTable, UnionPlan
from gentus.union.shapes import TableShapes

if TYPE_CHECKING:
    import duckdb


_WIDE = 256  # columns of a table ...
_HELD_BYTES = 64 << 20  # ... that is held in memory if its file is not larger
_NUMBERS = count()
NOW_READING: list[Callable[[str], None]] = []  # are told the name of a table before it is read


def tell_reading(name: str) -> None:
    """Say which table is read now: if its parser crashes, that is all that is known."""
    for told in NOW_READING:
        told(name)


@dataclass(slots=True)
class SourceTable:
    """A table of a plan, opened."""

    planned: PlannedTable
    full: FullTable
    shapes: TableShapes = field(default_factory=TableShapes)
    converted: dict[int, pa.Array] = field(default_factory=dict)  # values by position, of a table in memory

    @classmethod
    def of(cls, planned: PlannedTable, full: FullTable) -> SourceTable:
        """Read by DuckDB itself as long as it can."""
        ways = [way for way in (full.strict, full) if way is not None]
        converted: dict[int, pa.Array] = {}
        held = full.written and full.strict is not None and len(full.names) > _WIDE and _is_small(planned)
        cells = _HeldCells(full.strict, converted) if full.strict is not None and held else None
        if cells is not None:
            ways[0] = replace(ways[0], scan=lambda *given: cells.scan(shapes.sampled, *given))

        @contextmanager
        def scan(duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally) -> Iterator[str]:
            with ways[0].scan(duck, positions, tally) as relation:
                yield relation
            shapes.binary = max(shapes.binary, tally.binary)

        def fall_back() -> bool:
            shapes.held = False
            return len(ways) > 1 and bool(ways.pop(0))

        def in_memory(duck: duckdb.DuckDBPyConnection) -> pa.Table | None:
            return None if cells is None or shapes.sampled or not shapes.held else cells.table(duck)

        shapes = TableShapes(held=held, fall_back=fall_back, is_plain=lambda: ways[0].is_plain())
        return cls(planned, replace(full, scan=scan, held=in_memory), shapes, converted)

    def place(self, planned: PlannedTable) -> None:
        """Take the columns that the plan names."""
        positions = self.full.positions
        self.planned = planned
        self.shapes.placed = [positions[column.source] for column in planned.columns]

    def hold_first_rows(self, limit: int) -> None:
        """Take the first rows of a wide table for all of it, in memory."""
        if not self.full.written or len(self.full.names) <= _WIDE:
            return
        cells = _HeldCells(self.full, self.converted, limit)
        self.full = replace(self.full, scan=partial(cells.scan, False), held=cells.table)
        self.shapes.held = True

    def conversion(self, columns: Sequence[OutputColumn], relation: str) -> Conversion:
        """How a relation of its rows becomes columns of the result."""
        known = self.shapes
        cells = KnownCells(known.plain, known.null_values, self.converted)
        return conversion_sql(self.planned, self.full, columns, relation, cells)


def _is_small(table: PlannedTable) -> bool:
    """Whether a file on this machine can be held in memory."""
    path = None if table.path is None else as_location(table.path)
    return isinstance(path, Path) and path.is_file() and path.stat().st_size <= _HELD_BYTES


class _HeldCells:
    """The cells of a wide file, which is read once and kept, and the values of its converted columns.

    Its columns are looked at some at a time, and DuckDB would read all of them each time. First rows are read
    as they are.
    """

    def __init__(self, full: FullTable, converted: Mapping[int, pa.Array], limit: int | None = None) -> None:
        self.full, self.converted, self.limit = full, converted, limit
        self.tally = Tally()
        self._table: pa.Table | None = None

    def table(self, duck: duckdb.DuckDBPyConnection) -> pa.Table:
        """All cells: c0, c1, .. and `row`."""
        if self._table is None:
            with self.full.scan(duck, range(len(self.full.names)), self.tally) as relation:
                rows = first_rows(relation, self.limit)
                self._table = duck.sql(f"SELECT * FROM {rows}").to_arrow_table()
        return self._table

    @contextmanager
    def scan(
        self, sampled: bool, duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally
    ) -> Iterator[str]:
        """A relation of some columns; v0, v1, .. are those that are converted."""
        if sampled:
            with self.full.scan(duck, positions, tally) as relation:
                yield relation
            return
        table, name = self.table(duck), f"held_{next(_NUMBERS)}"
        tally.add(self.tally)
        columns = {
            **{f"c{at}": table[f"c{at}"] for at in positions if at not in self.converted},
            **{f"v{at}": self.converted[at] for at in positions if at in self.converted},
        }
        duck.register(name, pa.table({**columns, "row": table["row"]}))
        try:
            yield name
        finally:
            with suppress(Exception):  # a connection that has failed, or was stopped, may refuse
                duck.unregister(name)


def header_doubts(sources: Iterable[SourceTable]) -> list[str]:
    """Which tables have a header that looks like data, and why."""
    return [doubt_note(source.planned.name, source.full.doubt) for source in sources if source.full.doubt]


def reading_notes(sources: Iterable[SourceTable]) -> list[str]:
    """Which tables are not read in the usual way: lines left out, headers joined, encodings guessed."""
    return [f"{one.planned.name}: {one.full.reading}" for one in sources if one.full.reading]


class TableError(PlanError):
    """A table of a plan that cannot be read."""

    def __init__(self, table: PlannedTable, reason: str) -> None:
        super().__init__(f"{table.name}: {reason}")
        self.table, self.reason = table, reason


@contextmanager
def as_table_error(table: PlannedTable) -> Iterator[None]:
    """Turn every error into one that names the table."""
    tell_reading(table.name)
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
    text = text_choices({"header": table.header, "encoding": table.encoding})
    source = Source(table.name, as_location(table.path), table.part, 0, 0, **text)
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
