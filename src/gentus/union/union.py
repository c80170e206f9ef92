"""A union that can be run, in a process of its own: a file that crashes its parser costs itself."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.arrow_export import ArrowExport
from gentus.lake import Limits
from gentus.progress import Progress
from gentus.union.errors import OutputError
from gentus.union.local import LocalUnion
from gentus.union.output import TABLE, Output
from gentus.union.plan import UnionPlan
from gentus.union.report import UnionReport
from gentus.union.session import MEMORY
from gentus.union.sql_export import UnionSQL
from gentus.union.worker import UnionJob, run_union, stream_union

if TYPE_CHECKING:
    import pyarrow as pa


class Union(ArrowExport):
    """The rows of all tables of a plan. Nothing is read before something is written or shown.

    Example:
        >>> union = gentus.Union(index.union_plan("orders.csv", "orders-2024-01.csv"))
        >>> union
        <Union: orders.csv and 1 table, 4 columns>
        >>> union.preview(rows=4).num_rows
        4
        >>> union.write_csv("all.csv").rows
        24
    """

    def __init__(
        self, plan: UnionPlan, frame: Any = None, limits: Limits | None = None, memory: str = MEMORY
    ) -> None:
        self.plan, self._frame, self._limits, self.memory = plan, frame, limits or Limits(), memory
        self.report: UnionReport | None = None  # of the last run ...
        self.ran: UnionPlan | None = None  # ... and its plan, with all types and readings

    def __repr__(self) -> str:
        """The query, and how many tables and columns."""
        return repr(self.plan).replace("UnionPlan", "Union", 1)

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()

    def write(self, output: Output, progress: Progress | None = None) -> UnionReport:
        """Write the output, complete or not at all."""
        report: UnionReport = self._run(LocalUnion.write, output, progress=progress, output=output)
        return report

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
        import pyarrow as pa

        stream = self._batches()
        return pa.RecordBatchReader.from_batches(next(stream), stream)

    def to_sql(self, progress: Progress | None = None) -> UnionSQL:
        """The union as SQL that DuckDB runs without gentus; all rows are read to verify it."""
        found: UnionSQL = self._run(LocalUnion.to_sql, progress=progress)
        return found

    def preview(self, rows: int = 20, progress: Progress | None = None) -> pa.Table:
        """So many rows in all, the first ones of every table."""
        return self._run(LocalUnion.preview, rows, progress=progress)

    def resolved_plan(self, progress: Progress | None = None) -> UnionPlan:
        """The plan with all types and readings; those that it leaves out are inferred from the first rows."""
        plan: UnionPlan = self._run(LocalUnion.resolved_plan, progress=progress)
        return plan

    @property
    def _job(self) -> UnionJob:
        return UnionJob(self.plan, self._frame, self._limits, self.memory)

    def _run(
        self, method: Any, *given: object, progress: Progress | None = None, output: Output | None = None
    ) -> Any:
        result, self.report, self.ran = run_union(self._job, method, given, progress or Progress(), output)
        return result

    def _batches(self) -> Generator[Any, None, None]:
        """The schema, and then all batches."""
        self.report, self.ran = yield from stream_union(self._job)
