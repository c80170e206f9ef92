"""Plain columns: text whose cells are all written as DuckDB itself reads numbers and dates.

Most columns are plain. The first rows say what a column could be, one cheap check over all rows verifies it,
and a cast converts it. Cells in other notations need the macros of `sql_macros`, which take much longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gentus.lake.formats.typed import literal
from gentus.lake.full.rows import FullTable, Tally
from gentus.union.stacked import cell_text, stacked_cells

if TYPE_CHECKING:
    import duckdb

_WHOLE = r"-?(?:0|[1-9]\d{0,14})"
_LARGEST = 10**15 - 1  # whole numbers with more digits may be identifiers
_TOGETHER = 64  # columns that are verified in one query; more take more memory than they save time


@dataclass(frozen=True, slots=True)
class Notation:
    """One way to write the cells of a column."""

    shape: str  # that all cells have which match (see `sql_macros`)
    pattern: str
    cast: str = ""  # a type that the cells must also be castable to: not every date exists ...
    length: int = 0  # ... and how long they are

    def sql(self, cell: str) -> str:
        """Whether a cell is written so."""
        if self == WHOLE:  # faster than a pattern; longer numbers are found by the largest one
            return f"CAST(TRY_CAST({cell} AS BIGINT) AS VARCHAR) = {cell}"
        matches = f"regexp_full_match({cell}, {literal(self.pattern)})"
        if not self.cast:
            return matches
        value = f"TRY_CAST({cell} AS {self.cast})"  # most are written as DuckDB itself would: no pattern
        usual = f"strlen({cell}) = {self.length} AND CAST({value} AS VARCHAR) = {cell}"
        return f"CASE WHEN {usual} THEN true ELSE {matches} AND {value} IS NOT NULL END"

    @property
    def is_number(self) -> bool:
        """Whether it is one of numbers."""
        return self.shape.startswith("n")


BITS = Notation("n::bit", "[01]")
WHOLE = Notation("n::int", _WHOLE)
POINT = Notation("n::point", rf"{_WHOLE}(?:\.\d+)?(?:[eE][+-]?\d{{1,2}})?")
COMMA = Notation("n::comma", rf"{_WHOLE}(?:,\d+)?")
DATE = Notation("d:any:", r"\d{4}-\d{2}-\d{2}", "DATE", 10)
TIME = Notation("d:any:time", r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}", "TIMESTAMP", 19)
_NUMBERS = {"n::bit", "n::int"}
_SHAPES = (  # the shapes of the first rows, one that has to be among them, and the notation of such a column
    ({"n::bit"}, "n::bit", BITS),
    (_NUMBERS, "n::int", WHOLE),
    (_NUMBERS | {"n::point", "n::point3"}, "n::point", POINT),
    (_NUMBERS | {"n::comma", "n::comma3"}, "n::comma", COMMA),
    ({"d:any:"}, "d:any:", DATE),
    ({"d:any:time"}, "d:any:time", TIME),
)
_CASTS = {  # how the cells of a notation become a type
    **{(one, "BIGINT"): "TRY_CAST({cell} AS BIGINT)" for one in (BITS, WHOLE)},
    **{(one, "DOUBLE"): "TRY_CAST({cell} AS DOUBLE)" for one in (BITS, WHOLE)},
    (POINT, "DOUBLE"): "TRY_CAST({cell} AS DOUBLE)",
    (COMMA, "DOUBLE"): "TRY_CAST(replace({cell}, ',', '.') AS DOUBLE)",
    (DATE, "DATE"): "TRY_CAST({cell} AS DATE)",
    **{(one, "TIMESTAMP"): "TRY_CAST({cell} AS TIMESTAMP)" for one in (DATE, TIME)},
}


def notation_of(shapes: Mapping[str, int]) -> Notation | None:
    """The notation that a column with such first rows may have throughout; None: no plain one."""
    values = {shape for shape in shapes if not shape.startswith("e:")}
    return next((found for some, one, found in _SHAPES if one in values and values <= some), None)


def plain_cast(notation: Notation | None, cell: str, target: str, decimal: str) -> str | None:
    """SQL that makes a cell of a plain column a value; None if that takes more than a cast."""
    marks = {POINT: ".", COMMA: ","}
    if notation is None or marks.get(notation, decimal) != decimal or (notation, target) not in _CASTS:
        return None
    return _CASTS[notation, target].format(cell=cell)


@dataclass(frozen=True, slots=True)
class Verified:
    """What all cells of a column show."""

    filled: int  # cells with a value
    matching: int  # of these, how many have the expected notation
    largest: float | None  # absolute value, of a column of numbers
    words: Counter[str]  # that may stand for a missing value; counted in columns without a notation
    width: float  # the mean number of bytes of a cell


def verify(
    duck: duckdb.DuckDBPyConnection,
    full: FullTable,
    expected: Mapping[int, Notation | None],
    held: bool = False,
) -> tuple[int, dict[int, Verified]]:
    """The number of rows, and what the columns at these positions hold, given the notation to expect.

    If all cells are in memory, many columns of a notation are verified as one.
    """
    found: dict[int, Verified] = {}
    rows, alone = 0, list(expected)
    for notation in dict.fromkeys(expected.values()) if held else ():
        some = [at for at in alone if expected[at] == notation and full.types[at] == "VARCHAR"]
        if len(some) > _TOGETHER:
            rows, more = _verify_stacked(duck, full, some, notation)
            found.update(more)
            alone = [at for at in alone if at not in found]
    for begin in range(0, len(alone) if found else max(1, len(alone)), _TOGETHER):
        some = alone[begin : begin + _TOGETHER]
        counts = [
            one for at in some for one in _counts(cell_text(full, at), full, full.types[at], expected[at])
        ]
        with full.scan(duck, some, Tally()) as relation:
            ((rows, *values),) = duck.execute(
                f"SELECT {', '.join(['count(*)', *counts])} FROM {relation}"
            ).fetchall()
        for number, at in enumerate(some):
            found[at] = _verified(expected[at], *values[5 * number : 5 * number + 5])
    return rows, found


def _verify_stacked(
    duck: duckdb.DuckDBPyConnection, full: FullTable, positions: Sequence[int], notation: Notation | None
) -> tuple[int, dict[int, Verified]]:
    counts = ", ".join(_counts("t", full, "VARCHAR", notation))
    found = dict.fromkeys(positions, _verified(notation, 0, 0, None, None, None))
    with stacked_cells(duck, full, positions, None) as (rows, relation):
        for at, *values in duck.execute(
            f"SELECT position, {counts} FROM {relation} GROUP BY position"
        ).fetchall():
            found[at] = _verified(notation, *values)
    return rows, found


def _verified(notation: Notation | None, filled: int, matching: int, *others: Any) -> Verified:
    largest, words, width = others
    if notation == WHOLE and (largest or 0) > _LARGEST:
        matching = 0
    return Verified(filled, matching, largest, Counter(words or {}), width or 0.0)


def _counts(cell: str, full: FullTable, kind: str, notation: Notation | None) -> Sequence[str]:
    is_text = kind == "VARCHAR"
    filled = f"count(nullif({cell}, ''))" if full.delimiter is not None and is_text else f"count({cell})"
    if notation is None:
        words = f"histogram(CASE WHEN gentus_is_null_word({cell}) THEN {cell} END)" if is_text else "NULL"
        return filled, "0", "NULL", words, f"avg(strlen({cell}))" if is_text else "64"
    value = f"TRY_CAST({cell} AS {'BIGINT' if notation == WHOLE else 'DOUBLE'})"
    largest = f"greatest(max({value})::DOUBLE, -min({value})::DOUBLE)" if notation.is_number else "NULL"
    # Not FILTER: each one takes memory for all columns.
    return filled, f"count(CASE WHEN {notation.sql(cell)} THEN 1 END)", largest, "NULL", "8"
