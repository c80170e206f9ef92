"""The shapes of a column's cells, counted over all rows by DuckDB: what types are inferred from.

The shape of a cell is a short text such as `n:$:commas.` for $1,200.50; see `sql_macros`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gentus.lake.formats.typed import text_of
from gentus.lake.full.rows import FullTable, Tally
from gentus.union.convert import bare, trimmed
from gentus.union.decision import What
from gentus.union.sql_macros import is_any
from gentus.union.sql_types import FLOATS, INTEGERS, ZONED, is_date, is_decimal, is_number, union_type

if TYPE_CHECKING:
    import duckdb

_SAMPLE = 10_000  # rows that are read before all others
_OPEN = "suffix(shape, 'comma3') OR suffix(shape, 'point3') OR prefix(shape, 'd:either')"  # to two readings
_MOST_SAMPLED = 200  # columns that are read only to learn the notation of others


@dataclass(frozen=True, slots=True)
class ColumnShapes:
    """The shapes of all cells of a column."""

    type: str  # in its table
    untyped: bool  # the whole table is text
    counts: Counter[str]  # of each shape
    largest: float | None = None  # absolute value among its plain numbers
    examples: dict[str, str] = field(default_factory=dict)  # cells of shapes that are open to two readings
    numbers: Counter[str] = field(init=False)  # how digits are grouped
    units: set[str] = field(init=False)  # currencies and percent, "" for none
    orders: Counter[str] = field(init=False)  # of day and month
    times: set[str] = field(init=False)  # of day: "", time or zone
    booleans: set[str] = field(init=False)  # words such as yes and no
    null_words: Counter[str] = field(init=False)  # such as N/A: null if the other cells are typed, else text
    classes: set[str] = field(init=False)  # n, d, b and t: numbers, dates, booleans, text

    def __post_init__(self) -> None:
        """Parse the shapes."""
        numbers, orders, null_words = Counter[str](), Counter[str](), Counter[str]()
        units, times, booleans, classes = set[str](), set[str](), set[str](), set[str]()
        for shape, count in self.counts.items():
            value_class, how, more = shape.split(":", 2)
            if value_class == "e":
                null_words[how] += count
                continue
            classes.add(value_class)
            if value_class == "n":
                numbers[more] += count
                units.add(how)
            elif value_class == "d":
                orders["day" if how == "day." else how] += count
                times.add(more)
            elif value_class == "b":
                booleans.add(how)
        parts = {"numbers": numbers, "units": units, "orders": orders, "times": times, "booleans": booleans}
        for name, value in {**parts, "null_words": null_words, "classes": classes}.items():
            object.__setattr__(self, name, value)

    def open_cells(self, what: What) -> tuple[str, ...]:
        """Cells whose decimal mark, or order of day and month, can be read in two ways: one of each shape."""
        ends, begins = (("comma3", "point3"), "n:") if what == "decimal" else (("",), "d:either")
        shapes = sorted(shape for shape in self.counts if shape.startswith(begins) and shape.endswith(ends))
        return tuple(self.examples.get(shape, "") for shape in shapes)

    @property
    def dotted(self) -> bool:
        """Whether there are dates such as 31.12.2020."""
        return any(shape.startswith(("d:day.", "d:either.")) for shape in self.counts)

    @property
    def only_bits(self) -> bool:
        """Whether all numbers are 0 or 1."""
        return set(self.numbers) <= {"bit"}


@dataclass(slots=True)
class TableShapes:
    """What is known of a table so far."""

    rows: int | None = None  # None: not all of them had to be read
    columns: dict[int, ColumnShapes] = field(default_factory=dict)  # by position
    null_values: tuple[str, ...] = ()  # cells that a person takes as null


def count_shapes(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    positions: Sequence[int],
    known: TableShapes,
    strict: Collection[int] = (),
) -> None:
    """Count the shapes of columns that are not known yet. One in `strict` is text if one of its cells is.

    Most columns of text show that in their first rows, and are not read to their end.
    """
    wanted = [position for position in positions if position not in known.columns]
    texts = [position for position in wanted if union_type(full.types[position]) == "VARCHAR"]
    typed = [position for position in wanted if position not in texts]
    if typed:
        known.rows, found = _count_typed(duck, full, typed)
        known.columns.update(found)
    if texts:
        rows, found = _count_texts(duck, full, texts, known.null_values, _SAMPLE)
        if rows < _SAMPLE:
            known.rows = rows
        for position, shapes in found.items():
            is_text = "t" in shapes.classes or len(shapes.classes - {"b"}) > 1  # 1 may stand beside yes
            if rows < _SAMPLE or (is_text and position in strict and full.written):
                known.columns[position] = shapes
        if left := [position for position in texts if position not in known.columns]:
            known.rows, found = _count_texts(duck, full, left, known.null_values)
            known.columns.update(found)


def sample_shapes(
    duck: duckdb.DuckDBPyConnection, full: FullTable, known: TableShapes
) -> Iterator[ColumnShapes]:
    """The shapes of all columns of text: those that are known, and of the others those in the first rows."""
    yield from (shapes for shapes in known.columns.values() if shapes.type == "VARCHAR")
    texts = [at for at, kind in enumerate(full.types) if union_type(kind) == "VARCHAR"]
    if left := [at for at in texts if at not in known.columns][:_MOST_SAMPLED]:
        yield from _count_texts(duck, full, left, known.null_values, _SAMPLE)[1].values()


def _count_typed(
    duck: duckdb.DuckDBPyConnection, full: FullTable, positions: Sequence[int]
) -> tuple[int, dict[int, ColumnShapes]]:
    types = {position: union_type(full.types[position]) for position in positions}
    counts = [
        f"histogram({_typed_shape(f'c{position}', kind)}),"
        f" {_largest(f'c{position}') if is_number(kind) else 'NULL'}"
        for position, kind in types.items()
    ]
    with full.scan(duck, positions, Tally()) as relation:
        ((rows, *values),) = duck.execute(f"SELECT count(*), {', '.join(counts)} FROM {relation}").fetchall()
    return rows, {
        position: ColumnShapes(kind, full.written, Counter(shapes or {}), largest)
        for (position, kind), shapes, largest in zip(types.items(), values[::2], values[1::2], strict=True)
    }


def _typed_shape(value: str, kind: str) -> str:
    """The shape of a cell (see `sql_macros`) of a typed column."""
    whole = f"CASE WHEN {value} = trunc({value}) THEN 'n::int' ELSE 'n::point' END"
    midnight = f"CASE WHEN {value} = date_trunc('day', {value}) THEN 'd:any:' ELSE 'd:any:time' END"
    if kind in INTEGERS:
        found = f"CASE WHEN {value} = 0 OR {value} = 1 THEN 'n::bit' ELSE 'n::int' END"
    elif kind in FLOATS:
        found = f"CASE WHEN NOT isnan({value}) THEN {whole} END"
    elif is_decimal(kind):
        found = whole
    elif kind == "BOOLEAN":
        found = f"'b:' || CAST({value} AS VARCHAR) || ':'"
    elif kind == ZONED:
        found = "'d:any:zone'"
    elif is_date(kind):
        found = midnight
    else:
        found = "'t::'"
    return f"CASE WHEN {value} IS NOT NULL THEN {found} END"


def _count_texts(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    positions: Sequence[int],
    null_values: Sequence[str],
    limit: int | None = None,
) -> tuple[int, dict[int, ColumnShapes]]:
    """Count the shapes of all columns in one, their positions beside: DuckDB compiles the macros once."""
    cells = ", ".join(
        f"c{position}" if full.types[position] == "VARCHAR" else text_of(f"c{position}", full.types[position])
        for position in positions
    )
    limited = "" if limit is None else f" LIMIT {limit}"
    date = "gentus_date_shape(t, day_first, month_first, zoned)"
    with full.scan(duck, positions, Tally()) as relation:
        sql = f"SELECT unnest([{', '.join(map(str, positions))}]) AS position, unnest([{cells}]) AS t"
        sql = f"{sql} FROM (SELECT * FROM {relation}{limited})"
        for step in (  # each in a query around the last, so that nothing is computed twice
            f"position, {trimmed('t', 'VARCHAR')} AS t",
            f"position, CASE WHEN {is_any('t', ['', *null_values])} THEN NULL ELSE t END AS t",
            f"*, {bare('t')} AS bare, gentus_like_a_date(t) AS dated",
            "*, CASE WHEN dated THEN gentus_stamp(t, true) END AS day_first,"
            " CASE WHEN dated THEN gentus_stamp(t, false) END AS month_first,"
            " CASE WHEN dated THEN gentus_zoned(t, true) END AS zoned",
            f"position, t, gentus_shape(t, {date}, gentus_dressed_shape(t, bare)) AS shape",
        ):
            sql = f"SELECT {step} FROM ({sql})"
        found = duck.execute(
            f"SELECT position, shape, count(*), {_largest('t')}, min(CASE WHEN {_OPEN} THEN t END)"
            f" FROM ({sql}) GROUP BY ALL"
        ).fetchall()
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


def _largest(value: str) -> str:
    return f"max(abs(TRY_CAST({value} AS DOUBLE)))"
