"""The rows of a union: one relation over all tables, read, converted and written by one DuckDB query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from gentus.lake.full.rows import Tally, first_rows
from gentus.union.distinct import FINGERPRINT, distinct_rows, fingerprint_sql
from gentus.union.plan import UnionPlan
from gentus.union.session import DuckDBSession
from gentus.union.sources import SourceTable, as_table_error

if TYPE_CHECKING:
    import duckdb

_BATCH = 2048  # rows that go from one DuckDB to another in one piece; cells may be long
_LOOK = 0.2  # seconds between two looks at the progress of a query
T = TypeVar("T")


@contextmanager
def all_rows(
    plan: UnionPlan,
    sources: Sequence[SourceTable],
    duck: duckdb.DuckDBPyConnection,
    tallies: Sequence[Tally],
    limit: int | None = None,
) -> Iterator[str]:
    """A relation of all rows in order: d0, d1, .. are data, s and r the numbers of table and row."""
    values = [f"d{at}" for at in range(len(plan.columns))]
    branches = []
    with ExitStack() as stack:
        for number, (source, tally) in enumerate(zip(sources, tallies, strict=True)):
            relation = stack.enter_context(_scanned(source, duck, tally))
            found = source.conversion(plan.columns, first_rows(relation, limit))
            branches.append(f"SELECT {', '.join(values)}, {number}::INTEGER AS s, r FROM ({found.sql})")
        yield f"({' UNION ALL '.join(branches)})"


@contextmanager
def _scanned(source: SourceTable, duck: duckdb.DuckDBPyConnection, tally: Tally) -> Iterator[str]:
    """The relation of a table; an error of its reader names the table, other errors stay as they are."""
    scan = source.full.scan(duck, source.shapes.placed, tally)
    with as_table_error(source.planned):
        relation = scan.__enter__()
    try:
        yield relation
    except BaseException as error:
        try:
            scan.__exit__(type(error), error, error.__traceback__)
        except Exception as own:
            if own is error:
                raise
            with as_table_error(source.planned):
                raise own
        raise
    else:
        scan.__exit__(None, None, None)


@contextmanager
def distinct_relation(
    plan: UnionPlan, rows: str, duck: duckdb.DuckDBPyConnection, session: DuckDBSession
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """The first of equal rows, as a relation of another connection: they wait in the scratch folder."""
    types = [column.type or "VARCHAR" for column in plan.columns]
    batches = batches_of(duck, f"SELECT *, {fingerprint_sql(types)} FROM {rows}")
    schema = pa.schema([field for field in batches.schema if field.name not in FINGERPRINT])
    failures: list[BaseException] = []

    def caught(second: duckdb.DuckDBPyConnection) -> Generator[pa.RecordBatch, None, None]:
        try:
            yield from distinct_rows(iter(batches), schema, second, session.scratch)
        except BaseException as error:
            failures.append(error)
            raise

    with (
        session.connect("distinct") as second,
        session.connect("writing") as third,
        closing(caught(second)) as stream,
    ):
        third.register("distinct_rows", pa.RecordBatchReader.from_batches(schema, stream))
        try:
            yield third, "distinct_rows"
        except Exception as error:
            if failures:
                raise failures[0] from error
            raise


def batches_of(duck: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The result of a query as a reader of Arrow batches."""
    duck.execute("SET threads = 1")  # results that stream from several threads have no order
    relation = duck.sql(sql)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # until DuckDB 1.4
    return reader(_BATCH)


def watched(
    session: DuckDBSession,
    duck: duckdb.DuckDBPyConnection,
    work: Callable[[], T],
    look: Callable[[float], None] = lambda part: None,
) -> T:
    """Run DuckDB's work in a thread, so that Ctrl-C is handled at once; `look` is told the part that is done.

    What `look` raises ends the work.
    """
    failures: list[BaseException] = []
    results: list[T] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="gentus union")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK)
            if thread.is_alive():
                look(max(0.0, duck.query_progress()) / 100)
    except BaseException:
        while thread.is_alive():
            session.interrupt()
            thread.join(_LOOK)
        raise
    if failures:
        raise failures[0]
    return results[0]
