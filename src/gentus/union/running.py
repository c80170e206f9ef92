"""Running a plan: rows flow from the tables to the result.

One DuckDB brings them to their types, a counter looks at what comes out, another DuckDB writes it. Neither
takes more than its memory limit, and Python holds a few thousand rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gentus.lake.formats.typed import quoted
from gentus.progress import Tick
from gentus.union.convert import bare, direct, last, middle, trimmed, unless_empty
from gentus.union.distinct import FINGERPRINT, fingerprint_sql, first_of_equal
from gentus.union.macros import literal
from gentus.union.opening import Opened, told_of
from gentus.union.plan import Reading, UnionPlan
from gentus.union.profile import kind_of
from gentus.union.report import Report, TableReport, Unconverted
from gentus.union.session import Desk
from gentus.union.types import FLOATS, is_number

if TYPE_CHECKING:
    import duckdb

_BATCH = 2048  # rows that go from one DuckDB to the other in one piece; cells may be long
_PROVENANCE = ["_source_table", "_source_row"]


class Flow:
    """All rows of a union, in Arrow batches: d0, d1, .. are data, s and r the numbers of table and row."""

    def __init__(
        self,
        plan: UnionPlan,
        opened: Sequence[Opened],
        duck: duckdb.DuckDBPyConnection,
        tick: Tick = lambda rows: None,
        first: int | None = None,
    ) -> None:
        self.plan, self.opened, self.duck, self.tick, self.first = plan, opened, duck, tick, first
        self.types = [column.type or "VARCHAR" for column in plan.columns]
        self.reports = [TableReport(one.table.name) for one in opened]
        self.stop = threading.Event()
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS d{at}" for at, kind in enumerate(self.types))
        empty = stream_of(duck, f"SELECT {nothing}, 0::INTEGER AS s, 0::BIGINT AS r LIMIT 0")
        self.schema = empty.schema
        self.prints = f", {fingerprint_sql(self.types)}" if plan.distinct else ""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every row, in the order of the tables and of their rows."""
        self.duck.execute("SET threads = 1")  # a result that streams from several has no order
        for number, (one, report) in enumerate(zip(self.opened, self.reports, strict=True)):
            places = [one.whole.places[column.source] for column in one.table.columns]
            with told_of(one.table), one.whole.scan(self.duck, places, report.tally) as relation:
                some = relation if self.first is None else f"(SELECT * FROM {relation} LIMIT {self.first})"
                sql, failed = self._select(one, number, some)
                report.unconverted = list(failed.values())
                for batch in stream_of(self.duck, sql):
                    if self.stop.is_set():
                        raise KeyboardInterrupt
                    for name, failure in failed.items():
                        failure.add(batch.column(name))
                    report.rows += batch.num_rows
                    self.tick(batch.num_rows)
                    yield batch.select([*self.schema.names, *(FINGERPRINT if self.plan.distinct else ())])

    def _select(self, one: Opened, number: int, relation: str) -> tuple[str, dict[str, Unconverted]]:
        """SQL that takes a table's columns to those of the result, and names of columns with what failed."""
        placed = {column.into: column for column in one.table.columns}
        steps: list[list[str]] = [[] for _ in range(5)]  # cell, text, bare text, digits or moment, value
        failed: dict[str, Unconverted] = {}
        for at, (column, kind) in enumerate(zip(self.plan.columns, self.types, strict=True)):
            placement = placed.get(column.name)
            if placement is None:
                steps[4].append(f"CAST(NULL AS {kind}) AS d{at}")
                continue
            place = one.whole.places[placement.source]
            own, native = kind_of(one.whole, place), one.whole.types[place]
            cell, read = f"t{at}", placement.read or Reading()
            value = direct(cell, own, kind)
            if value is None:
                steps[0].append(f"{trimmed(f'c{place}', native)} AS {cell}")
                steps[1].append(f"{unless_empty(cell)} AS {cell}")
                if kind != "VARCHAR":
                    steps[2].append(f"{bare(cell) if is_number(kind) else 'NULL'} AS b{at}")
                    steps[3].append(f"{middle(cell, f'b{at}', kind, read)} AS m{at}")
                value = last(cell, f"m{at}", kind)
            else:
                typed = f"c{place}" if native == own else f"CAST(c{place} AS {own})"
                steps[0].append(f"{_unless_nan(typed) if own in FLOATS else typed} AS {cell}")
            steps[4].append(f"{value} AS d{at}")
            if value != cell:
                failed[f"f{at}"] = Unconverted(placement.source, column.name, kind)
        cells, texts, bares, middles, values = (", ".join(step) for step in steps)
        sql = f"SELECT {cells}{', ' if cells else ''}row AS r FROM {relation}"
        sql = f"SELECT * REPLACE ({texts}) FROM ({sql})" if texts else sql
        sql = f"SELECT *, {bares} FROM ({sql})" if bares else sql
        sql = f"SELECT *, {middles} FROM ({sql})" if middles else sql
        sql = f"SELECT *, {values} FROM ({sql})"
        kept = [f"d{at}" for at in range(len(self.types))]
        ats = [name[1:] for name in failed]
        lost = [f"CASE WHEN d{at} IS NULL THEN CAST(t{at} AS VARCHAR) END AS f{at}" for at in ats]
        all_of_it = ", ".join([*kept, *lost, f"{number}::INTEGER AS s", "r"])
        return f"SELECT {all_of_it}{self.prints} FROM ({sql})", failed


def _unless_nan(value: str) -> str:
    return f"CASE WHEN NOT isnan({value}) THEN {value} END"


def stream_of(duck: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The result of a query, batch by batch as it comes."""
    relation = duck.sql(sql)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # until DuckDB 1.4
    return reader(_BATCH)


def result_sql(
    plan: UnionPlan, rows: str, text: Callable[[str], str] = str, name: Callable[[str], str] = str
) -> str:
    """The query for the result over a relation of all rows; cells that are text and names may be altered."""
    columns = []
    for at, column in enumerate(plan.columns):
        kind = column.type or "VARCHAR"
        value = f"CAST(d{at} AS {kind})"
        columns.append(f"{text(value) if kind == 'VARCHAR' else value} AS {quoted(name(column.name))}")
    if plan.provenance:
        names = " ".join(f"WHEN {at} THEN {literal(one.name)}" for at, one in enumerate(plan.sources))
        origin, number = provenance_names(plan)
        columns.append(f"{text(f'CASE s {names} END')} AS {quoted(origin)}")
        columns.append(f"r AS {quoted(number)}")
    return f"SELECT {', '.join(columns)} FROM {rows}"


def provenance_names(plan: UnionPlan) -> tuple[str, ...]:
    """What the columns that say where a row is from are called; a union of unions has others already."""
    taken = {column.name.casefold() for column in plan.columns}
    number, names = 1, tuple(_PROVENANCE)
    while any(name in taken for name in names):
        number += 1
        names = tuple(f"{name}_{number}" for name in _PROVENANCE)
    return names


def pour(flow: Flow, duck: duckdb.DuckDBPyConnection, desk: Desk, work: Callable[[str, float], Any]) -> Any:
    """Let some work of another DuckDB read the flow. What goes wrong in it is raised as it was.

    It is told what to select from, and how many bytes a row takes. It runs in a thread, so that Ctrl-C is
    heard at once.
    """
    failures: list[BaseException] = []
    results: list[Any] = []

    def batches() -> Generator[pa.RecordBatch, None, None]:
        try:
            if flow.plan.distinct:
                with desk.workshop("distinct") as third:
                    yield from first_of_equal(flow.batches(), flow.schema, third, desk.scratch)
            else:
                yield from flow.batches()
        except BaseException as error:
            failures.append(error)
            raise

    def run() -> None:
        try:
            first = [batch for batch in (next(flowing, None),) if batch is not None and batch.num_rows]
            duck.register("flow", pa.RecordBatchReader.from_batches(flow.schema, chain(first, flowing)))
            results.append(work("flow", sum(batch.nbytes / batch.num_rows for batch in first)))
        except BaseException as error:
            failures.append(error)

    flowing = batches()
    thread = threading.Thread(target=run, name="gentus union")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
    except BaseException:
        flow.stop.set()  # ends it with the next batch; where none is to come, DuckDB has to be told
        thread.join(2)
        duck.interrupt()
        thread.join()
        raise
    finally:
        _close(flowing)
    if failures:
        raise failures[0]
    return results[0]


def _close(flowing: Generator[Any, None, None]) -> None:
    """Let go of what is being read; after an interruption a thread of DuckDB may still be at it."""
    while True:
        try:
            flowing.close()
            return
        except ValueError:
            time.sleep(0.01)


def finished(flow: Flow, output: str | None, rows: int, columns: int) -> Report:
    """The report of a flow that has come to its end."""
    read = sum(report.rows for report in flow.reports)
    return Report(
        output,
        rows,
        columns,
        flow.reports,
        flow.plan.distinct,
        read - rows if flow.plan.distinct else 0,
        notes=list(flow.plan.notes),
    )
