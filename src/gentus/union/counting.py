"""Counting, before anything is written: rows, nulls and their reasons, and cells that do not convert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gentus.lake.full.rows import Tally, first_rows
from gentus.union.convert import Conversion
from gentus.union.plan import OutputColumn, UnionPlan
from gentus.union.report import EXAMPLES, ColumnReport, TableReport
from gentus.union.sources import SourceTable, as_table_error

if TYPE_CHECKING:
    import duckdb

_TOGETHER = 32  # columns that are counted in one query: each takes a megabyte in every thread
_LONGEST = 80  # characters of an example


def count_table(
    source: SourceTable, plan: UnionPlan, duck: duckdb.DuckDBPyConnection, limit: int | None = None
) -> TableReport:
    """What becomes of the cells of a table, or of its first rows.

    The shapes of its columns tell it, but for columns of which cells may fail: these are converted.
    """
    known, positions = source.shapes, source.full.positions
    columns, placed = plan.columns, {column.into: column for column in source.planned.columns}
    report = TableReport.of(plan, source.planned)
    report.rows = known.rows or 0
    report.columns = [ColumnReport.of(one, placed.get(one.name), known.null_values) for one in columns]
    found = source.conversion(columns, "")
    uncertain = {*found.failing, *found.words}
    open_ones = []
    for at, column in enumerate(report.columns):
        shapes = None if column.source is None else known.columns.get(positions[column.source])
        if column.source is None:
            column.nulls = report.rows
        elif limit is None and at not in uncertain and shapes is not None and shapes.filled is not None:
            column.nulls = report.rows - shapes.filled
            column.add_words(shapes.null_words)
        else:
            open_ones.append(at)
    with as_table_error(source.planned):
        for begin in range(0, len(open_ones), _TOGETHER):
            _count(source, report, open_ones[begin : begin + _TOGETHER], columns, (duck, limit))
    if limit is not None and not open_ones:
        report.rows = min(report.rows, limit)
    return report


def _count(
    source: SourceTable,
    report: TableReport,
    some: Sequence[int],
    columns: Sequence[OutputColumn],
    reading: tuple[duckdb.DuckDBPyConnection, int | None],
) -> None:
    """Convert some columns and count what comes of it."""
    duck, limit = reading
    names = {columns[at].name for at in some}
    chosen = [column for column in source.planned.columns if column.into in names]
    positions = [source.full.positions[column.source] for column in chosen]
    with source.full.scan(duck, positions, Tally()) as relation:
        found = source.conversion([columns[at] for at in some], first_rows(relation, limit))
        counts = [one for number in range(len(some)) for one in _counts(number, found)]
        ((total, *values),) = duck.execute(
            f"SELECT {', '.join(['count(*)', *counts])} FROM ({found.sql})"
        ).fetchall()
    report.rows = total
    for number, at in enumerate(some):
        _fill(report.columns[at], total, values[4 * number : 4 * number + 4])


def _counts(number: int, found: Conversion) -> tuple[str, str, str, str]:
    words = f"histogram(w{number})" if number in found.words else "NULL"
    if number not in found.failing:
        return f"count(d{number})", words, "0", "NULL"
    examples = f"arg_min(left(f{number}, {_LONGEST}), CASE WHEN f{number} IS NOT NULL THEN r END, 100)"
    return f"count(d{number})", words, f"count(f{number})", examples


def _fill(column: ColumnReport, rows: int, counted: Sequence[Any]) -> None:
    filled, words, unconverted, examples = counted
    column.nulls = rows - filled
    column.add_words(words or {})
    column.unconverted = unconverted
    column.examples = list(dict.fromkeys(examples or ()))[:EXAMPLES]
