"""A union that can be run: plan, convert, stream, write."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gentus.arrow_export import ArrowExport
from gentus.lake import Limits
from gentus.progress import Progress
from gentus.union.errors import OutputError, as_output_error
from gentus.union.output import STDOUT, TABLE, Output, put_in_place, result_columns, result_sql, write_rows
from gentus.union.plan import UnionPlan
from gentus.union.report import UnionReport
from gentus.union.resolve import resolve_plan
from gentus.union.session import MEMORY, DuckDBSession, open_session
from gentus.union.sources import SourceTable, header_doubts, open_sources
from gentus.union.sql_export import UnionSQL, export_sql
from gentus.union.stream import RELATION, RowStream, batches_of, stream_into
from gentus.union.strict import check_values

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A plan with all types and readings, its tables, and the connection that reads them."""

    plan: UnionPlan
    sources: list[SourceTable]
    duck: duckdb.DuckDBPyConnection


class Union(ArrowExport):
    """The rows of all tables of a plan. Nothing is read before something is written or shown."""

    def __init__(
        self, plan: UnionPlan, frame: Any = None, limits: Limits | None = None, memory: str = MEMORY
    ) -> None:
        self.plan, self._frame, self._limits, self.memory = plan, frame, limits or Limits(), memory
        self.report: UnionReport | None = None  # of the last run ...
        self.ran: UnionPlan | None = None  # ... and its plan, with all types and readings

    def __repr__(self) -> str:
        """The query, and how many tables and columns."""
        tables = len(self.plan.tables)
        return f"<Union of {self.plan.query.name} and {tables} tables, {len(self.plan.columns)} columns>"

    def write(self, output: Output, progress: Progress | None = None) -> UnionReport:
        """Write the output, complete or not at all."""
        started = time.perf_counter()
        output.check(self.plan)
        folder = None if output.path == STDOUT else output.path
        with as_output_error(output.path), open_session(self.memory, folder) as session:
            with self._rows(session, progress) as rows, self._writer(session) as duck:
                write = partial(write_rows, output, rows.plan, duck, session.scratch)
                written = stream_into(duck, rows, session, write)
            self.report = _report(rows, str(output.path), written.rows, len(result_columns(rows.plan)))
            self.report.notes += written.notes
            check_values(rows.plan, self.report)
            put_in_place(output, session.scratch)
        self.report.seconds = time.perf_counter() - started
        self.report.bytes = None if output.path == STDOUT else output.path.stat().st_size
        return self.report

    def write_csv(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        guard_formulas: bool = False,
        delimiter: str = ",",
    ) -> UnionReport:
        """Write a CSV file, or with a tab as delimiter a TSV file."""
        format = {",": "csv", "\t": "tsv"}.get(delimiter)
        if format is None:
            raise OutputError(f"the delimiter is a comma or a tab, not {delimiter!r}")
        return self.write(Output(Path(path), format, guard_formulas=guard_formulas, force=force))

    def write_parquet(self, path: str | os.PathLike[str], *, force: bool = False) -> UnionReport:
        """Write a Parquet file."""
        return self.write(Output(Path(path), "parquet", force=force))

    def write_duckdb(
        self, path: str | os.PathLike[str], table: str = TABLE, *, force: bool = False
    ) -> UnionReport:
        """Write a table of a DuckDB file; the others in it stay."""
        return self.write(Output(Path(path), "duckdb", table, force=force))

    def write_sqlite(
        self, path: str | os.PathLike[str], table: str = TABLE, *, force: bool = False
    ) -> UnionReport:
        """Write a table of an SQLite file; the others in it stay."""
        return self.write(Output(Path(path), "sqlite", table, force=force))

    def write_excel(
        self, path: str | os.PathLike[str], sheet: str = TABLE, *, force: bool = False
    ) -> UnionReport:
        """Write an Excel workbook of one sheet."""
        return self.write(Output(Path(path), "xlsx", sheet, force=force))

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows as a stream, in bounded memory. There is a report when it has ended."""
        return self._reader(None)

    def to_sql(self, progress: Progress | None = None) -> UnionSQL:
        """The union as SQL that DuckDB runs without gentus; all rows are read to verify it."""
        with (
            open_session(self.memory) as session,
            self._resolved(session, progress or Progress()) as resolved,
        ):
            return export_sql(resolved.plan, resolved.sources, resolved.duck, self._limits)

    def preview(self, rows: int = 20, progress: Progress | None = None) -> pa.Table:
        """So many rows in all, the first ones of every table."""
        return self._reader(max(1, rows // len(self.plan.sources)), progress).read_all().slice(0, rows)

    def resolved_plan(self, progress: Progress | None = None) -> UnionPlan:
        """The plan with all types and readings; those that it leaves out are inferred."""
        with (
            open_session(self.memory) as session,
            self._resolved(session, progress or Progress()) as resolved,
        ):
            return resolved.plan

    def _reader(self, limit: int | None, progress: Progress | None = None) -> pa.RecordBatchReader:
        """The first rows of every table, or all of them."""
        stream = self._batches(limit, progress)
        return pa.RecordBatchReader.from_batches(next(stream), stream)

    def _batches(self, limit: int | None, progress: Progress | None) -> Generator[Any, None, None]:
        """The schema, and then all batches; tables and connections are open until it ends or is dropped."""
        with (
            open_session(self.memory) as session,
            self._rows(session, progress, limit) as rows,
            self._writer(session) as duck,
        ):
            count, columns = 0, len(result_columns(rows.plan))
            for one in batches_of(duck, rows, session, result_sql(rows.plan, RELATION)):
                count += one.num_rows if isinstance(one, pa.RecordBatch) else 0
                yield one
        self.report = _report(rows, None, count, columns)
        check_values(rows.plan, self.report)

    def _writer(self, session: DuckDBSession) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """The connection that writes: it has the memory that is left by reading and `distinct`."""
        return session.connect("writing", thirds=1 if self.plan.distinct else 2)

    @contextmanager
    def _rows(
        self, session: DuckDBSession, progress: Progress | None, limit: int | None = None
    ) -> Iterator[RowStream]:
        """The converted rows, ready to be streamed."""
        progress = progress or Progress()
        with self._resolved(session, progress) as resolved:
            counts = [table.rows for table in resolved.plan.sources]
            total = None if None in counts else sum(count or 0 for count in counts)
            with progress.stage("writing", total, "rows") as tick:
                yield RowStream(resolved.plan, resolved.sources, resolved.duck, tick, limit)

    @contextmanager
    def _resolved(self, session: DuckDBSession, progress: Progress) -> Iterator[_Resolved]:
        """All tables opened, all types and readings found."""
        with session.connect("reading", macros=True) as duck:
            sources = open_sources(self.plan, duck, self._frame, self._limits)
            with progress.stage("inferring types", len(sources)) as tick:
                plan = resolve_plan(self.plan, sources, duck, lambda: tick(1))
            plan = replace(plan, notes=tuple(dict.fromkeys([*plan.notes, *header_doubts(sources)])))
            for source, table in zip(sources, plan.sources, strict=True):
                source.planned = table
            self.ran = plan
            yield _Resolved(plan, sources, duck)


def _report(rows: RowStream, output: str | None, count: int, columns: int) -> UnionReport:
    """The report of a stream that was read to its end."""
    distinct, notes = rows.plan.distinct, list(rows.plan.notes)
    removed = sum(table.rows for table in rows.reports) - count if distinct else 0
    report = UnionReport(output, count, columns, rows.reports, distinct, removed, notes=notes)
    report.left_out, report.result = list(rows.plan.left_out), list(rows.plan.columns)
    return report
