"""The shapes of a column's cells, counted over all rows by DuckDB: what types are inferred from.

The shape of a cell is a short text such as `n:$:commas.` for $1,200.50; see `sql_macros`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from gentus.lake.full.rows import FullTable, Tally, first_rows
from gentus.union.column_shapes import ColumnShapes
from gentus.union.convert import bare, trimmed
from gentus.union.plain import Notation, notation_of, verify
from gentus.union.sql_macros import is_any
from gentus.union.sql_types import FLOATS, INTEGERS, is_date, is_number, is_zoned, union_type
from gentus.union.stacked import cell_text, stacked_cells

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
_SAMPLE = 10_000  # rows that are read before all others ...
_CELLS, _LEAST = 200_000, 32  # ... fewer of wide tables, but not less
_TOGETHER = 512  # columns whose shapes are counted in one query over all rows
_WIDE = 256  # columns from which each form of a cell is looked at once, which takes more memory
_HELD = 1_000_000  # cells that are held in memory to be counted in one query

_OPEN = "suffix(shape, 'comma3') OR suffix(shape, 'point3') OR prefix(shape, 'd:either')"  # to two readings
_MOST_SAMPLED = 200  # columns that are read only to learn the notation of others


@dataclass(slots=True)
class TableShapes:
    """What is known of a table so far."""

    rows: int | None = None  # None: not all of them had to be read
    columns: dict[int, ColumnShapes] = field(default_factory=dict)  # by position
    null_values: tuple[str, ...] = ()  # cells that a person takes as null
    placed: list[int] = field(default_factory=list)  # columns whose cells are counted in any case
    binary: int = 0  # cells that are no text, which a read has counted
    sampled: bool = False  # only the first rows are read
    held: bool = False  # all cells are in memory
    is_plain: Callable[[], bool] = lambda: True  # whether DuckDB reads all of the file as it should ...
    fall_back: Callable[[], bool] = lambda: False  # ... else read in another way; false if there is none

    def checked(self, work: Callable[[], T]) -> T:
        """Work that reads all rows, in a way that can be trusted."""
        if self.rows is None and not self.is_plain():
            self.fall_back()
        return self.retried(work)

    def retried(self, work: Callable[[], T]) -> T:
        """Work that is done in the other way where DuckDB refuses the file."""
        import duckdb as api

        try:
            return work()
        except (api.InterruptException, api.OutOfMemoryException):
            raise
        except api.Error:
            if not self.fall_back():
                raise
            return work()

    @property
    def row_bytes(self) -> float:
        """The mean number of bytes of a row."""
        return sum(shapes.width for shapes in self.columns.values())

    @property
    def plain(self) -> dict[int, Notation]:
        """The notations of columns that a cast converts."""
        return {at: shapes.plain for at, shapes in self.columns.items() if shapes.plain is not None}


def count_shapes(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    positions: Sequence[int],
    known: TableShapes,
    strict: Collection[int] = (),
) -> None:
    """Count the shapes of columns that are not known yet, and the cells of all that are placed.

    A column in `strict` is text if one of its cells is. Most columns of text show that in their first rows;
    of the others, most are plain. The shapes of the rest are found cell by cell.
    """
    if known.sampled:
        known.retried(lambda: _count_shapes(duck, full, positions, known, strict))
    else:
        known.checked(lambda: _count_shapes(duck, full, positions, known, strict))


def filled_columns(
    duck: duckdb.DuckDBPyConnection, full: FullTable, positions: Sequence[int], known: TableShapes
) -> set[int]:
    """Those of some columns that have a value in any row."""
    if not positions:
        return set()
    _, found = known.checked(lambda: verify(duck, full, dict.fromkeys(positions)))
    return {at for at, seen in found.items() if seen.filled}


def _count_shapes(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    positions: Sequence[int],
    known: TableShapes,
    strict: Collection[int],
) -> None:
    wanted = [at for at in dict.fromkeys([*positions, *known.placed]) if at not in known.columns]
    texts = [at for at in wanted if union_type(full.types[at]) == "VARCHAR"]
    if typed := [at for at in wanted if union_type(full.types[at]) != "VARCHAR"]:
        known.rows, found = _count_typed(duck, full, typed, _SAMPLE if known.sampled else None)
        known.columns.update(found)
    if not texts:
        if known.rows is None and not known.sampled:
            known.rows, _ = verify(duck, full, {})
        return
    limit = max(_LEAST, min(_SAMPLE, _CELLS // len(texts)))
    if limit < _SAMPLE and len(full.first) >= _LEAST:
        limit = min(limit, len(full.first))  # of a wide table, those that were read already
    rows, found = _count_texts(duck, full, texts, known.null_values, limit)
    if known.sampled:
        known.rows = rows if rows < limit else None
        known.columns.update(found)
        return
    expected = {at: notation_of(shapes.counts) for at, shapes in found.items()}
    known.rows, verified = verify(duck, full, expected, known.held)
    left = []
    for at, sampled in found.items():
        seen, notation = verified[at], expected[at]
        shapes = replace(sampled, filled=seen.filled, width=seen.width)
        is_text = "t" in shapes.classes or len(shapes.classes - {"b"}) > 1  # 1 may stand beside yes
        if notation is not None and seen.matching == seen.filled:
            counts = Counter({notation.shape: seen.filled})
            plain = notation if full.types[at] == "VARCHAR" else None
            known.columns[at] = replace(shapes, counts=counts, largest=seen.largest, plain=plain)
        elif rows < limit:
            known.columns[at] = shapes
        elif at not in positions or (is_text and at in strict and full.written):
            counts = Counter({f"e:{word}:": count for word, count in seen.words.items()})
            counts.update({shape: n for shape, n in shapes.counts.items() if not shape.startswith("e:")})
            known.columns[at] = replace(shapes, counts=counts)
        else:
            left.append(at)
    if left:
        few = known.rows * len(left) <= _HELD
        _, found = _count_texts(duck, full, left, known.null_values, known.rows if few else None)
        for at, shapes in found.items():
            known.columns[at] = replace(shapes, filled=verified[at].filled, width=verified[at].width)


def sample_shapes(
    duck: duckdb.DuckDBPyConnection, full: FullTable, known: TableShapes
) -> Iterator[ColumnShapes]:
    """The shapes of all columns of text: those that are known, and of the others those in the first rows."""
    yield from (shapes for shapes in known.columns.values() if shapes.type == "VARCHAR")
    texts = [at for at, kind in enumerate(full.types) if union_type(kind) == "VARCHAR"]
    if left := [at for at in texts if at not in known.columns][:_MOST_SAMPLED]:
        yield from _count_texts(duck, full, left, known.null_values, _SAMPLE)[1].values()


def _count_typed(
    duck: duckdb.DuckDBPyConnection, full: FullTable, positions: Sequence[int], limit: int | None
) -> tuple[int | None, dict[int, ColumnShapes]]:
    """What the values of typed columns tell besides their type: how many, how large, any fractions."""
    types = {at: full.types[at] for at in positions}
    counts = [f"count(c{at}), {', '.join(_facts(f'c{at}', kind))}" for at, kind in types.items()]
    with full.scan(duck, positions, Tally()) as relation:
        sql = f"SELECT count(*), {', '.join(counts)} FROM {first_rows(relation, limit)}"
        ((rows, *values),) = duck.execute(sql).fetchall()
    complete = limit is None or rows < limit
    found = {}
    for number, (at, kind) in enumerate(types.items()):
        count, largest, special = values[3 * number : 3 * number + 3]
        shape = _typed_shape(kind, largest, bool(special))
        found[at] = ColumnShapes(
            kind,
            full.written,
            Counter({shape: count} if count else {}),
            largest if is_number(kind) else None,
            filled=count if complete else None,
        )
    return (rows if complete else None), found


def _facts(value: str, kind: str) -> tuple[str, str]:
    """SQL of the largest number, and of whether any value has a fraction, a time of day, or is true."""
    if is_number(kind):
        finite = f"CASE WHEN isfinite({value}) THEN {value} END" if kind in FLOATS else value
        largest = f"greatest(abs(max({finite})::DOUBLE), abs(min({finite})::DOUBLE))"
        return largest, "false" if kind in INTEGERS else f"bool_or({value} <> trunc({value}))"
    if kind == "BOOLEAN":
        return "NULL", f"bool_or({value})"
    day = f"TRY_CAST(TRY_CAST({value} AS DATE) AS {kind})"
    return "NULL", f"bool_or({value} IS DISTINCT FROM {day})" if is_date(kind) else "false"


def _typed_shape(kind: str, largest: float | None, special: bool) -> str:
    """The shape (see `sql_macros`) that stands for the values of a typed column."""
    if is_number(kind):
        whole = "n::bit" if kind in INTEGERS and largest is not None and largest <= 1 else "n::int"
        return "n::point" if special else whole
    if kind == "BOOLEAN":
        return "b:true:" if special else "b:false:"
    if is_zoned(kind):
        return "d:any:zone"
    if is_date(kind):
        return "d:any:time" if special else "d:any:"
    return "t::"


def _count_texts(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    positions: Sequence[int],
    null_values: Sequence[str],
    limit: int | None = None,
) -> tuple[int, dict[int, ColumnShapes]]:
    """The number of rows, and the shapes of columns of text: in the first rows, or in all of them."""
    if limit is not None:
        with stacked_cells(duck, full, positions, limit) as (rows, relation):
            return rows, _count_cells(duck, full, positions, null_values, relation, len(positions) > _WIDE)[1]
    rows, found = 0, dict[int, ColumnShapes]()
    for begin in range(0, len(positions), _TOGETHER):
        some = positions[begin : begin + _TOGETHER]
        with full.scan(duck, some, Tally()) as relation:
            cells = ", ".join(cell_text(full, at) for at in some)
            numbers = ", ".join(map(str, some))
            stacked = f"(SELECT unnest([{numbers}]) AS position, unnest([{cells}]) AS t FROM {relation})"
            rows, more = _count_cells(duck, full, some, null_values, stacked)
        found.update(more)
    return rows, found


def _count_cells(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    positions: Sequence[int],
    null_values: Sequence[str],
    relation: str,
    by_form: bool = False,
) -> tuple[int, dict[int, ColumnShapes]]:
    """Count the shapes of all columns in one, their positions beside: DuckDB compiles the macros once.

    With `by_form`, each form of a cell is looked at once.
    """
    cells = _stepped(
        relation,
        f"position, {trimmed('t', 'VARCHAR')} AS t",
        f"position, CASE WHEN {is_any('t', ['', *null_values])} THEN NULL ELSE t END AS t",
    )
    if by_form:
        sql = (
            f"WITH forms AS MATERIALIZED (SELECT position, gentus_form(t) AS form, count(*) AS times,"
            f" {_largest('t')} AS largest, min(t) AS example FROM {cells} GROUP BY ALL)"
            " SELECT position, shape, sum(times)::BIGINT, max(largest),"
            f" min(CASE WHEN {_OPEN} THEN example END)"
            f" FROM forms LEFT JOIN {_shaped('(SELECT DISTINCT form AS t FROM forms)')} ON form = t"
            " GROUP BY ALL"
        )
    else:
        sql = (
            f"SELECT position, shape, count(*), {_largest('t')}, min(CASE WHEN {_OPEN} THEN t END)"
            f" FROM {_shaped(cells)} GROUP BY ALL"
        )
    found = duck.execute(sql).fetchall()
    counts = {position: Counter[str]() for position in positions}
    examples: dict[int, dict[str, str]] = {position: {} for position in positions}
    largest: dict[int, float] = {}
    rows = 0
    for position, shape, count, number, example in found:
        rows += count if position == positions[0] else 0
        if shape is not None:
            counts[position][shape] = count
        if number is not None:
            largest[position] = max(number, largest.get(position, 0.0))
        if example is not None:
            examples[position][shape] = example
    return rows, {
        at: ColumnShapes("VARCHAR", full.written, counts[at], largest.get(at), examples[at])
        for at in positions
    }


def _shaped(sql: str) -> str:
    """SQL of a relation with a column `t`, and its `shape` beside."""
    date = "gentus_date_shape(t, day_first, month_first, zoned)"
    return _stepped(
        sql,
        f"*, {bare('t')} AS bare, gentus_like_a_date(t) AS dated",
        "*, CASE WHEN dated THEN gentus_stamp(t, true) END AS day_first,"
        " CASE WHEN dated THEN gentus_stamp(t, false) END AS month_first,"
        " CASE WHEN dated THEN gentus_zoned(t, true) END AS zoned",
        "* EXCLUDE (bare, dated, day_first, month_first, zoned),"
        f" gentus_shape(t, {date}, gentus_dressed_shape(t, bare)) AS shape",
    )


def _stepped(sql: str, *steps: str) -> str:
    """Each step in a query around the last, so that nothing is computed twice."""
    for step in steps:
        sql = f"(SELECT {step} FROM {sql})"
    return sql


def _largest(value: str) -> str:
    return f"max(abs(TRY_CAST({value} AS DOUBLE)))"
