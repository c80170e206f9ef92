"""A union run in this process: plan, count, then one query that reads, converts and writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gentus.lake import Limits, as_location
from gentus.progress import Progress, Tick
from gentus.union.counting import count_table
from gentus.union.errors import as_output_error
from gentus.union.output import STDOUT, Output, put_in_place, result_columns, result_sql, write_rows
from gentus.union.plan import UnionPlan
from gentus.union.report import TableReport, UnionReport
from gentus.union.resolve import resolve_plan
from gentus.union.sampled import without_samples
from gentus.union.session import DuckDBSession, make_room, open_session
from gentus.union.sources import SourceTable, TableError, header_doubts, open_sources, reading_notes
from gentus.union.sql_export import UnionSQL, export_sql
from gentus.union.stream import all_rows, batches_of, distinct_relation, watched
from gentus.union.strict import check_values

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows of a union, converted: a relation of a connection; and what was counted of them."""

    plan: UnionPlan
    reports: list[TableReport]
    duck: duckdb.DuckDBPyConnection
    relation: str
    row_bytes: float  # of a row, in the mean


class LocalUnion:
    """The rows of all tables of a plan, read in this process: a file that crashes its parser ends it."""

    def __init__(self, plan: UnionPlan, frame: Any, limits: Limits, memory: str) -> None:
        self.plan, self._frame, self._limits, self.memory = plan, frame, limits, memory
        self.report: UnionReport | None = None  # of the last run ...
        self.ran: UnionPlan | None = None  # ... and its plan, with all types and readings

    def write(self, output: Output, progress: Progress | None = None) -> UnionReport:
        """Write the output, complete or not at all."""
        started = time.perf_counter()
        output.check(self.plan)
        folder = None if output.path == STDOUT else output.path
        progress = progress or Progress()
        with as_output_error(output.path), open_session(self.memory, folder) as session:
            with self._rows(session, progress) as (rows, look), _bytes_beside(progress, output, session):
                write = partial(write_rows, output, rows.plan, rows.duck, session.scratch)
                check_values(rows.plan, _report(rows, str(output.path), 0))
                written = watched(session, rows.duck, lambda: write(rows.relation, rows.row_bytes), look)
                look(1.0)
            put_in_place(output, session.scratch)
        self.report = _report(rows, str(output.path), written.rows)
        self.report.notes += written.notes
        self.report.seconds = time.perf_counter() - started
        self.report.bytes = None if output.path == STDOUT else output.path.stat().st_size
        return self.report

    def to_sql(self, progress: Progress | None = None) -> UnionSQL:
        """The union as SQL that DuckDB runs without gentus; all rows are read to verify it."""
        with (
            open_session(self.memory) as session,
            self._resolved(session, progress or Progress(), sampled=False) as (plan, sources, duck),
        ):
            return export_sql(plan, sources, duck, self._limits)

    def preview(self, rows: int = 20, progress: Progress | None = None) -> pa.Table:
        """So many rows in all, the first ones of every table."""
        limit = max(1, rows // len(self.plan.sources))
        stream = self.batches(limit, progress or Progress())
        return pa.RecordBatchReader.from_batches(next(stream), stream).read_all().slice(0, rows)

    def resolved_plan(self, progress: Progress | None = None) -> UnionPlan:
        """The plan with all types and readings; those that it leaves out are inferred from the first rows."""
        with (
            open_session(self.memory) as session,
            self._resolved(session, progress or Progress(), sampled=True) as (plan, *_),
        ):
            return plan

    def batches(self, limit: int | None, progress: Progress) -> Generator[Any, None, None]:
        """The schema, and then all batches; tables and connections are open until it ends or is dropped."""
        count = 0
        with (
            open_session(self.memory) as session,
            self._rows(session, progress, limit) as (rows, _),
        ):
            check_values(rows.plan, _report(rows, None, 0))
            reader = batches_of(rows.duck, result_sql(rows.plan, rows.relation))
            yield reader.schema
            for batch in reader:
                count += batch.num_rows
                yield batch
        self.report = _report(rows, None, count)

    @contextmanager
    def _rows(
        self, session: DuckDBSession, progress: Progress, limit: int | None = None
    ) -> Iterator[tuple[_Rows, Callable[[float], None]]]:
        """The converted rows, counted and ready to be written, and the progress to tell."""
        with self._resolved(session, progress, sampled=limit is not None) as (plan, sources, duck):
            if limit is not None:
                for source in sources:
                    source.hold_first_rows(limit)
            reports = [_counted(session, source, plan, duck, limit) for source in sources]
            total = sum(report.rows for report in reports)
            tallies = [report.tally for report in reports]
            with ExitStack() as stack:
                relation = stack.enter_context(all_rows(plan, sources, duck, tallies, limit))
                writer = duck
                if plan.distinct:
                    writer, relation = stack.enter_context(distinct_relation(plan, relation, duck, session))
                tick = stack.enter_context(progress.stage("writing", total, "rows"))
                row_bytes = max(source.shapes.row_bytes for source in sources)
                yield _Rows(plan, reports, writer, relation, row_bytes), _ticking(tick, total)

    @contextmanager
    def _resolved(
        self, session: DuckDBSession, progress: Progress, sampled: bool
    ) -> Iterator[tuple[UnionPlan, list[SourceTable], duckdb.DuckDBPyConnection]]:
        """The plan with all types and readings, its tables, opened, and the connection that reads them."""
        thirds = 1 if self.plan.distinct else 3
        with session.connect("reading", thirds, macros=True) as duck:
            given = without_samples(self.plan)
            while True:
                try:
                    sources = open_sources(given, duck, self._frame, self._limits)
                    for source in sources:
                        source.shapes.sampled = sampled
                    width = max(len(source.full.names) for source in sources)
                    given = replace(given, notes=(*given.notes, *make_room(duck, width, self.memory)))
                    plan = self._read(session, progress, given, (sources, duck))
                    break
                except TableError as error:
                    if not error.table.found:
                        raise
                    given = given.without(error.table, error.reason)
            told = [*header_doubts(sources), *reading_notes(sources)]
            plan = replace(plan, notes=tuple(dict.fromkeys([*plan.notes, *told])))
            for source, table in zip(sources, plan.sources, strict=True):
                source.planned = table
            self.ran = plan
            yield plan, sources, duck

    def _read(
        self,
        session: DuckDBSession,
        progress: Progress,
        given: UnionPlan,
        reading: tuple[list[SourceTable], duckdb.DuckDBPyConnection],
    ) -> UnionPlan:
        """Resolve the plan; progress is told in megabytes of the files."""
        sources, duck = reading
        ends = list(accumulate(_megabytes(source) for source in sources))
        steps = iter(zip([0, *ends], ends, strict=False))
        begin, end = next(steps)

        def step() -> None:
            nonlocal begin, end
            begin, end = next(steps, (ends[-1], ends[-1]))

        with progress.stage("reading", ends[-1], "MB") as tick:
            look = _ticking(tick, ends[-1])
            resolve = partial(resolve_plan, given, sources, duck, step)
            plan = watched(
                session, duck, resolve, lambda part: look((begin + part * (end - begin)) / ends[-1])
            )
            look(1.0)
        return plan


@contextmanager
def _bytes_beside(progress: Progress, output: Output, session: DuckDBSession) -> Iterator[None]:
    """Show how many bytes are written, beside the rows."""

    def written() -> str:
        # DuckDB may write under a name that begins in another way.
        files = [output.path] if output.adds_to_file else session.scratch.glob(f"*new.{output.format}")
        with suppress(OSError):
            return f"{sum(file.stat().st_size for file in files) / 1e6:,.1f} MB"
        return ""

    progress.beside = None if output.path == STDOUT else written
    try:
        yield
    finally:
        progress.beside = None


def _megabytes(source: SourceTable) -> int:
    """The size of a table's file, at least 1; 1 for what is not on this machine."""
    path = None if source.planned.path is None else as_location(source.planned.path)
    with suppress(OSError):
        return max(1, path.stat().st_size >> 20) if isinstance(path, Path) else 1
    return 1


def _counted(
    session: DuckDBSession,
    source: SourceTable,
    plan: UnionPlan,
    duck: duckdb.DuckDBPyConnection,
    limit: int | None,
) -> TableReport:
    return watched(session, duck, lambda: count_table(source, plan, duck, limit))


def _ticking(tick: Tick, total: int) -> Callable[[float], None]:
    """Turn the part that is done into rows."""
    done = 0

    def look(part: float) -> None:
        nonlocal done
        now = max(done, int(part * total))
        tick(now - done)
        done = now

    return look


def _report(rows: _Rows, output: str | None, count: int) -> UnionReport:
    """The report of rows that were written."""
    plan = rows.plan
    removed = sum(table.rows for table in rows.reports) - count if plan.distinct else 0
    columns = len(result_columns(plan))
    report = UnionReport(output, count, columns, rows.reports, plan.distinct, removed, notes=list(plan.notes))
    report.left_out, report.result = list(plan.left_out), list(plan.columns)
    return report
