"""Rules that decide how cells are read where there are two ways: `1,234` and `3/4/2020`.

Alignment applies them to samples, a union to all rows. The first of these that says anything decides: the
cells of the column, the other columns of its table, the delimiter of its file, the column of the query, those
of the other tables if they agree, the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from gentus.sent import Sent

What: TypeAlias = Literal["decimal", "dates"]
MONTH_FIRST, DAY_FIRST = "month first", "day first"
VALUES: dict[What, tuple[str, str]] = {"decimal": (".", ","), "dates": (MONTH_FIRST, DAY_FIRST)}
_EUROPEAN: dict[What, str] = {"decimal": ",", "dates": DAY_FIRST}
POINT = ("point", "commas", "commas.", "spaces.")  # groupings of digits that show a decimal point ...
COMMA = ("comma", "points", "points,", "spaces,")  # ... and a decimal comma
OPEN = ("comma3", "point3")  # 1,234 and 1.234


class Found(NamedTuple):
    """How cells are read, and what decided it."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Evidence(Sent):
    """What the cells of a column show of its notations."""

    point: int = 0  # numbers that can only have a decimal point ...
    comma: int = 0  # ... or a decimal comma
    month: int = 0  # dates in which only the month can come first ...
    day: int = 0  # ... or the day
    open_numbers: bool = False  # there are numbers that can be read in both ways
    open_dates: bool = False
    typed: bool = False  # all cells are numbers, or all are dates
    dotted: bool = False  # there are dates such as 31.12.2020
    open_points: bool = False  # most open dates have points

    def votes(self, what: What) -> tuple[int, int]:
        """How many cells can only be read in the first way, and how many only in the other."""
        return (self.point, self.comma) if what == "decimal" else (self.month, self.day)

    def is_open(self, what: What) -> bool:
        """Whether there are cells that can be read in both ways."""
        return self.open_numbers if what == "decimal" else self.open_dates

    def shows(self, what: What) -> bool:
        """Whether cells show a notation; whole numbers and ISO dates show none."""
        return any(self.votes(what))


def by_column(what: What, shown: Evidence) -> Found | None:
    """What the cells of a column decide; None if they can be read in both ways."""
    (one, other), (first, second) = VALUES[what], shown.votes(what)
    if first and second:
        return Found(one if first >= second else other, "majority")
    if first or second:
        return Found(one if first else other, "column")
    return None if shown.is_open(what) else Found(one, "column")


def by_file(what: What, columns: Iterable[Evidence], delimiter: str | None) -> Found | None:
    """What the columns of a table and its delimiter decide for those that leave it open.

    Who writes 25.06.2024 in delimited text, or puts a semicolon between cells, writes a decimal comma; who
    writes a decimal comma puts the day first. A table without a delimiter, such as Parquet, need not be
    written in one locale: there such dates say nothing of numbers.
    """
    typed = [column for column in columns if column.typed]
    found = {
        kind: {
            value for column in typed for value, n in zip(VALUES[kind], column.votes(kind), strict=True) if n
        }
        for kind in VALUES
    }
    if found[what]:
        return Found(found[what].pop(), "other columns") if len(found[what]) == 1 else None
    dotted = any(column.dotted for column in typed) and delimiter not in (",", None)
    if (what == "decimal" and dotted) or (what == "dates" and found["decimal"] == {","}):
        return Found(_EUROPEAN[what], "other columns")
    return Found(_EUROPEAN[what], "delimiter") if delimiter == ";" else None


def by_default(what: What, shown: Evidence) -> Found:
    """As such cells mostly are: thousands for 1,234, a fraction for 1.234, day first with points."""
    if what == "decimal":
        return Found(".", "default")
    return Found(DAY_FIRST if shown.open_points else MONTH_FIRST, "default")


def by_others(
    what: What, columns: Mapping[int, tuple[Evidence, Found | None]], query: int = 0
) -> dict[int, Found]:
    """Decide what is open of columns that belong together, by the number of their table.

    By the column of the query, by those of the tables if they agree, else by default.
    """
    shown = {
        number: found.value
        for number, (evidence, found) in columns.items()
        if found is not None
        and found.source not in ("majority", "default")
        and (found.source != "column" or evidence.shows(what))
    }
    decided = {}
    for number, (evidence, found) in columns.items():
        if found is not None:
            decided[number] = found
        elif query in shown:
            decided[number] = Found(shown[query], "query")
        elif len(set(shown.values())) == 1:
            decided[number] = Found(next(iter(shown.values())), "tables")
        else:
            decided[number] = by_default(what, evidence)
    return decided
