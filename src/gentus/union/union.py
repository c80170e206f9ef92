"""A union that can be written: a plan, and what it needs to be run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gentus.lake import Limits
from gentus.progress import Progress
from gentus.union.errors import OutputError
from gentus.union.opening import Opened, open_plan
from gentus.union.outputs import TABLE, Output, columns_of, put_in_place, scratch_folder, write
from gentus.union.plan import UnionPlan
from gentus.union.planning import settle
from gentus.union.report import Report
from gentus.union.running import Flow, finished, pour, result_sql
from gentus.union.session import MEMORY, Desk

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Ready: TypeAlias = "tuple[UnionPlan, list[Opened], duckdb.DuckDBPyConnection]"


class Union:
    """Rows of a query and of tables under it. Nothing is read before something is written or looked at."""

    def __init__(
        self, plan: UnionPlan, frame: Any = None, limits: Limits | None = None, memory: str = MEMORY
    ) -> None:
        self.plan, self._frame, self._limits, self.memory = plan, frame, limits or Limits(), memory
        self.report: Report | None = None  # of the last run ...
        self.ran: UnionPlan | None = None  # ... and its plan, all types and readings found

    def __repr__(self) -> str:
        """What this is, at a glance."""
        tables = len(self.plan.tables)
        return f"<Union of {self.plan.query.name} and {tables} tables, {len(self.plan.columns)} columns>"

    def write(self, output: Output, progress: Progress | None = None) -> Report:
        """Write it whole or not at all."""
        started = time.perf_counter()
        output.check(self.plan)
        with _plainly(output.path), scratch_folder(output.path) as scratch:
            desk = Desk(scratch, self.memory)
            with self._flow(desk, progress) as flow, self._writer(desk) as duck:
                rows = pour(flow, duck, desk, write(output, flow.plan, duck, scratch))
            report = finished(flow, str(output.path), rows, len(columns_of(flow.plan)))
            put_in_place(output, scratch)
        report.seconds = time.perf_counter() - started
        report.bytes = output.path.stat().st_size
        self.report = report
        return report

    def write_csv(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        guard_formulas: bool = False,
        delimiter: str = ",",
    ) -> Report:
        """Write a CSV file, or with a tab as delimiter a TSV file."""
        kind = {",": "csv", "\t": "tsv"}.get(delimiter)
        if kind is None:
            raise OutputError(f"the delimiter is a comma or a tab, not {delimiter!r}")
        return self.write(Output(Path(path), kind, guard_formulas=guard_formulas, force=force))

    def write_parquet(self, path: str | os.PathLike[str], *, force: bool = False) -> Report:
        """Write a Parquet file."""
        return self.write(Output(Path(path), "parquet", force=force))

    def write_duckdb(
        self, path: str | os.PathLike[str], table: str = TABLE, *, force: bool = False
    ) -> Report:
        """Write a table of a DuckDB file; the others in it stay."""
        return self.write(Output(Path(path), "duckdb", table, force=force))

    def to_arrow(self) -> pa.Table:
        """Take all rows into memory."""
        return self._taken(None)

    def to_polars(self) -> Any:
        """Take all rows into memory, for polars."""
        import polars

        return polars.from_arrow(self._taken(None))

    def preview(self, rows: int = 20, progress: Progress | None = None) -> pa.Table:
        """Some of the first rows of every table, as many as asked for in all."""
        return self._taken(max(1, rows // len(self.plan.sources)), progress).slice(0, rows)

    def settled(self, progress: Progress | None = None) -> UnionPlan:
        """The plan with all types and readings, those found that it leaves open."""
        with scratch_folder(None) as scratch:
            desk = Desk(scratch, self.memory)
            with self._ready(desk, progress or Progress()) as (plan, _, _):
                return plan

    def _taken(self, first: int | None, progress: Progress | None = None) -> pa.Table:
        with scratch_folder(None) as scratch:
            desk = Desk(scratch, self.memory)
            with self._flow(desk, progress, first) as flow, self._writer(desk) as duck:
                sql = result_sql(flow.plan, "flow")
                table = pour(flow, duck, desk, lambda *_: duck.sql(sql).to_arrow_table())
        self.report = finished(flow, None, table.num_rows, table.num_columns)
        return table

    def _writer(self, desk: Desk) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """What writes has the memory that is left."""
        return desk.workshop("writing", share=1 if self.plan.distinct else 2)

    @contextmanager
    def _flow(self, desk: Desk, progress: Progress | None, first: int | None = None) -> Iterator[Flow]:
        """Everything opened and ready to flow."""
        progress = progress or Progress()
        with self._ready(desk, progress) as (plan, opened, duck):
            counts = [table.rows for table in plan.sources]
            total = None if None in counts else sum(count or 0 for count in counts)
            with progress.stage("writing", total, "rows") as tick:
                yield Flow(plan, opened, duck, tick, first)

    @contextmanager
    def _ready(self, desk: Desk, progress: Progress) -> Iterator[Ready]:
        """All tables opened, all types and readings found."""
        with desk.workshop("reading", reads=True) as duck:
            opened = open_plan(self.plan, duck, self._frame, self._limits)
            with progress.stage("looking at columns", len(opened)) as tick:
                plan = settle(self.plan, opened, duck, lambda: tick(1))
            for one, table in zip(opened, plan.sources, strict=True):
                one.table = table
            self.ran = plan
            yield plan, opened, duck


@contextmanager
def _plainly(path: Path) -> Iterator[None]:
    """Put into plain words what DuckDB says of disks and memory."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise OutputError(f"{path} was not written: {_first_line(error)}; give it more memory") from error
    except duckdb.Error as error:
        said = str(error)
        if "No space left" in said or "File too large" in said or "not enough space" in said:
            raise OutputError(f"{path} was not written: there is no room on the disk") from error
        raise OutputError(f"{path} was not written: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no further detail"])[0]
