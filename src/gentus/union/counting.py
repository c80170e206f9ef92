"""Counting, before anything is written: rows, nulls and their reasons, and cells that do not convert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gentus.lake.full.rows import Tally, first_rows
from gentus.union.convert import Conversion
from gentus.union.plan import OutputColumn, UnionPlan
from gentus.union.report import EXAMPLES, ColumnReport, TableReport
from gentus.union.sources import SourceTable, as_table_error
from gentus.union.stacked import stacked_cells

if TYPE_CHECKING:
    import duckdb

_TOGETHER = 32  # columns that are counted in one query: each takes a megabyte in every thread
_VALUES = "gentus_values"
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
        if known.held:
            for some in _converted_alike(source, columns, open_ones):
                _convert_stacked(source, report, some, columns, duck)
                open_ones = [at for at in open_ones if at not in some]
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


def _converted_alike(
    source: SourceTable, columns: Sequence[OutputColumn], some: Sequence[int]
) -> Iterator[list[int]]:
    """Many of some columns that are converted in the same way, in the order of the table."""
    placed = {column.into: column for column in source.planned.columns}
    times = Counter(column.source for column in source.planned.columns)
    alike: dict[Any, list[int]] = {}
    plain = source.shapes.plain
    for at in sorted(some, key=lambda at: source.full.positions[placed[columns[at].name].source]):
        one = placed[columns[at].name]
        position = source.full.positions[one.source]
        if source.full.types[position] == "VARCHAR" and times[one.source] == 1:
            key = columns[at].type, one.read, plain.get(position)
            alike.setdefault(key, []).append(at)
    return (found for found in alike.values() if len(found) > _TOGETHER)


def _convert_stacked(
    source: SourceTable,
    report: TableReport,
    some: Sequence[int],
    columns: Sequence[OutputColumn],
    duck: duckdb.DuckDBPyConnection,
) -> None:
    """Convert columns of a table in memory as one, count what comes of it, and keep the values."""
    placed = {column.into: source.full.positions[column.source] for column in source.planned.columns}
    positions = [placed[columns[at].name] for at in some]
    with stacked_cells(duck, source.full, positions, None) as (rows, relation):
        cells = f"SELECT t AS c{positions[0]}, (position::BIGINT << 32) + row AS row FROM {relation}"
        found = source.conversion([columns[some[0]]], f"({cells})")
        values = duck.sql(f"SELECT * FROM ({found.sql}) ORDER BY r").to_arrow_table()
    duck.register(_VALUES, values)
    try:
        counts = ", ".join(_counts(0, found))
        counted = duck.execute(f"SELECT r >> 32, {counts} FROM {_VALUES} GROUP BY 1").fetchall()
    finally:
        duck.unregister(_VALUES)
    by_position = {position: figures for position, *figures in counted}
    result = values["d0"].combine_chunks()
    for number, (at, position) in enumerate(zip(some, positions, strict=True)):
        _fill(report.columns[at], rows, by_position.get(position, (0, None, 0, None)))
        source.converted[position] = result.slice(number * rows, rows)
    report.rows = rows


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
