"""The rows of a union as a stream: read and converted by one DuckDB, counted, written by another.

Neither takes more than its memory limit, and Python holds a few thousand rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from gentus.progress import Tick
from gentus.union.convert import conversion_sql
from gentus.union.distinct import FINGERPRINT, distinct_rows, fingerprint_sql
from gentus.union.plan import UnionPlan
from gentus.union.report import TableReport
from gentus.union.session import DuckDBSession
from gentus.union.sources import SourceTable, as_table_error

if TYPE_CHECKING:
    import duckdb

RELATION = "union_rows"  # what the writer selects from
_BATCH = 2048  # rows that go from one DuckDB to the other in one piece; cells may be long
T = TypeVar("T")


class RowStream:
    """All rows of a union, in Arrow batches: d0, d1, .. are data, s and r the numbers of table and row."""

    def __init__(
        self,
        plan: UnionPlan,
        sources: Sequence[SourceTable],
        duck: duckdb.DuckDBPyConnection,
        tick: Tick = lambda rows: None,
        limit: int | None = None,
    ) -> None:
        self.plan, self.sources, self.duck, self.tick, self.limit = plan, sources, duck, tick, limit
        self.reports = [TableReport.of(plan, source.planned) for source in sources]
        self.stop = threading.Event()
        types = [column.type or "VARCHAR" for column in plan.columns]
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS d{at}" for at, kind in enumerate(types))
        self.schema = _batches_of(duck, f"SELECT {nulls}, 0::INTEGER AS s, 0::BIGINT AS r LIMIT 0").schema
        self.fingerprints = f", {fingerprint_sql(types)}" if plan.distinct else ""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every row, in the order of the tables and of their rows."""
        self.duck.execute("SET threads = 1")  # results that stream from several threads have no order
        names = [*self.schema.names, *(FINGERPRINT if self.plan.distinct else ())]
        for number, (source, report) in enumerate(zip(self.sources, self.reports, strict=True)):
            table, full = source.planned, source.full
            positions = [full.positions[column.source] for column in table.columns]
            with as_table_error(table), full.scan(self.duck, positions, report.tally) as relation:
                rows = relation if self.limit is None else f"(SELECT * FROM {relation} LIMIT {self.limit})"
                sql, report.columns = conversion_sql(
                    table, full, self.plan.columns, rows, self.plan.null_values(table)
                )
                sql = f"SELECT *, {number}::INTEGER AS s{self.fingerprints} FROM ({sql})"
                for batch in _batches_of(self.duck, sql):
                    if self.stop.is_set():
                        raise KeyboardInterrupt
                    by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
                    for at, column in enumerate(report.columns):
                        column.add(*(by_name.get(f"{part}{at}") for part in "dwf"))
                    report.rows += batch.num_rows
                    self.tick(batch.num_rows)
                    yield batch.select(names)


def _batches_of(duck: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The result of a query as a reader of Arrow batches."""
    relation = duck.sql(sql)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # until DuckDB 1.4
    return reader(_BATCH)


def _all_rows(
    rows: RowStream, session: DuckDBSession, failures: list[BaseException]
) -> Generator[pa.RecordBatch, None, None]:
    """All rows, or all distinct ones; what goes wrong is kept, because DuckDB changes it."""
    try:
        if rows.plan.distinct:
            with session.connect("distinct") as third:
                yield from distinct_rows(rows.batches(), rows.schema, third, session.scratch)
        else:
            yield from rows.batches()
    except GeneratorExit:
        raise
    except BaseException as error:
        failures.append(error)
        raise


def batches_of(
    duck: duckdb.DuckDBPyConnection, rows: RowStream, session: DuckDBSession, sql: str
) -> Generator[Any, None, None]:
    """The schema and then the batches of a query over the stream, in this thread."""
    failures: list[BaseException] = []
    with closing(_all_rows(rows, session, failures)) as stream:
        duck.execute("SET threads = 1")  # results that stream from several threads have no order
        duck.register(RELATION, pa.RecordBatchReader.from_batches(rows.schema, stream))
        try:
            reader = _batches_of(duck, sql)
            yield reader.schema
            yield from reader
        except Exception as error:
            if failures:
                raise failures[0] from error
            raise


def stream_into(
    duck: duckdb.DuckDBPyConnection, rows: RowStream, session: DuckDBSession, write: Callable[[str, float], T]
) -> T:
    """Let another DuckDB read the stream; what goes wrong in the stream is raised as it was.

    `write` gets the relation to select from and the bytes per row. It runs in a thread, so that Ctrl-C is
    handled at once.
    """
    failures: list[BaseException] = []
    results: list[T] = []

    def run() -> None:
        try:
            first = [batch for batch in (next(stream, None),) if batch is not None and batch.num_rows]
            duck.register(RELATION, pa.RecordBatchReader.from_batches(rows.schema, chain(first, stream)))
            results.append(write(RELATION, sum(batch.nbytes / batch.num_rows for batch in first)))
        except BaseException as error:
            failures.append(error)

    stream = _all_rows(rows, session, failures)
    thread = threading.Thread(target=run, name="gentus union")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
    except BaseException:
        rows.stop.set()  # ends it with the next batch; if none comes, DuckDB has to be interrupted
        thread.join(2)
        duck.interrupt()
        thread.join()
        raise
    finally:
        _close(stream)
    if failures:
        raise failures[0]
    return results[0]


def _close(stream: Generator[Any, None, None]) -> None:
    """Close the files that are read; after an interruption a thread of DuckDB may still use them."""
    while True:
        try:
            stream.close()
            return
        except ValueError:
            time.sleep(0.01)
