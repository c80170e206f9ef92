"""What the shapes of a column's cells tell: how numbers and dates are written, and what could be null."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from gentus.align.notation import COMMA, POINT, Evidence, What
from gentus.union.plain import Notation

_NO_EVIDENCE = Evidence()


class _Parsed(NamedTuple):
    """What counts of shapes tell: the fields of `ColumnShapes` that are made of them."""

    numbers: Counter[str]
    orders: Counter[str]
    null_words: Counter[str]
    units: frozenset[str]
    times: frozenset[str]
    booleans: frozenset[str]
    classes: frozenset[str]
    evidence: Evidence


@lru_cache(maxsize=4096)  # most columns of a wide table have the shapes of another
def _parsed(shapes: tuple[tuple[str, int], ...]) -> _Parsed:
    numbers, orders, null_words = Counter[str](), Counter[str](), Counter[str]()
    names = [shape for shape, _ in shapes]
    parts = [(one[0], one[1], one[2]) for one in (name.split(":", 2) for name in names)]
    for (value_class, how, more), (_, count) in zip(parts, shapes, strict=True):
        if value_class == "e":
            null_words[how] += count
        elif value_class == "n":
            numbers[more] += count
        elif value_class == "d":
            orders["day" if how == "day." else how] += count
    units, times, booleans = (
        frozenset(part[at] for part in parts if part[0] == kind)
        for kind, at in (("n", 1), ("d", 2), ("b", 1))
    )
    classes = frozenset(part[0] for part in parts) - {"e"}
    evidence = _evidence(names, numbers, orders, len(classes) == 1)
    return _Parsed(numbers, orders, null_words, units, times, booleans, classes, evidence)


def _evidence(shapes: Sequence[str], numbers: Counter[str], orders: Counter[str], typed: bool) -> Evidence:
    if not numbers and not orders:
        return _NO_EVIDENCE
    return Evidence(
        sum(numbers[one] for one in POINT),
        sum(numbers[one] for one in COMMA),
        orders["month"],
        orders["day"],
        bool(_open_shapes(shapes, "decimal")),
        bool(_open_shapes(shapes, "dates")),
        typed,
        any(shape.startswith(("d:day.", "d:either.")) for shape in shapes),
        orders["either."] > orders["either/"],
    )


def _open_shapes(shapes: Iterable[str], what: What) -> list[str]:
    """The shapes whose decimal mark, or order of day and month, can be read in two ways."""
    ends, begins = (("comma3", "point3"), "n:") if what == "decimal" else (("",), "d:either")
    return sorted(shape for shape in shapes if shape.startswith(begins) and shape.endswith(ends))


@dataclass(frozen=True, slots=True)
class ColumnShapes:
    """The shapes of all cells of a column."""

    type: str  # in its table
    untyped: bool  # the whole table is text
    counts: Counter[str]  # of each shape
    largest: float | None = None  # absolute value among its plain numbers
    examples: dict[str, str] = field(default_factory=dict)  # cells of shapes that are open to two readings
    filled: int | None = None  # cells with a value; None: only the first rows were read
    plain: Notation | None = None  # of all cells, if a cast can convert them
    width: float = 8.0  # the mean number of bytes of a cell
    numbers: Counter[str] = field(init=False)  # how digits are grouped
    units: frozenset[str] = field(init=False)  # currencies and percent, "" for none
    orders: Counter[str] = field(init=False)  # of day and month
    times: frozenset[str] = field(init=False)  # of day: "", time or zone
    booleans: frozenset[str] = field(init=False)  # words such as yes and no
    null_words: Counter[str] = field(init=False)  # such as N/A: null if the other cells are typed, else text
    classes: frozenset[str] = field(init=False)  # n, d, b and t: numbers, dates, booleans, text
    evidence: Evidence = field(init=False)  # what the cells show of the notations

    def __post_init__(self) -> None:
        """Parse the shapes."""
        parsed = _parsed(tuple(self.counts.items()))
        for name, value in zip(_Parsed._fields, parsed, strict=True):
            object.__setattr__(self, name, value)

    def open_cells(self, what: What) -> tuple[str, ...]:
        """Cells whose decimal mark, or order of day and month, can be read in two ways: one of each shape."""
        return tuple(self.examples.get(shape, "") for shape in _open_shapes(self.counts, what))

    @property
    def only_bits(self) -> bool:
        """Whether all numbers are 0 or 1."""
        return set(self.numbers) <= {"bit"}
