"""Rules that decide a notation: from the column itself, from its file, or by default.

`resolve` asks in this order: the column, a person, the file's other columns, its delimiter, the column of the
query and of the other tables, the default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gentus.union.decision import DAY_FIRST, MONTH_FIRST, Decision, What
from gentus.union.shapes import ColumnShapes

POINT = ("point", "commas", "commas.", "spaces.")  # groupings of digits that show a decimal point ...
COMMA = ("comma", "points", "points,", "spaces,")  # ... and a decimal comma
FRACTIONS = {".": ("point", "point3", "commas.", "spaces."), ",": ("comma", "comma3", "points,", "spaces,")}


def has(counts: Counter[str], shapes: Iterable[str]) -> bool:
    """Whether any of some shapes was counted."""
    return any(counts[shape] for shape in shapes)


def by_column(what: What, shapes: ColumnShapes) -> Decision | None:
    """What the cells of a column decide; None if they can be read in both ways."""
    (one, first), (other, second) = _votes(what, shapes)
    if first and second:
        return Decision(what, one if first >= second else other, "majority")
    if first or second:
        return Decision(what, one if first else other, "column")
    return None if shapes.open_cells(what) else Decision(what, one, "column")


def _votes(what: What, shapes: ColumnShapes) -> tuple[tuple[str, int], tuple[str, int]]:
    """How many cells of a column can only be read in one way, and how many only in the other."""
    if what == "decimal":
        numbers = shapes.numbers
        return (".", sum(numbers[one] for one in POINT)), (",", sum(numbers[one] for one in COMMA))
    return (MONTH_FIRST, shapes.orders["month"]), (DAY_FIRST, shapes.orders["day"])


def by_file(what: What, columns: Iterable[ColumnShapes], delimiter: str | None) -> Decision | None:
    """What the columns of a table and its delimiter decide for those that leave it open.

    Who writes 25.06.2024, or puts a semicolon between cells, writes a decimal comma; who writes a decimal
    comma puts the day first.
    """
    typed = [column for column in columns if len(column.classes) == 1]
    found = {
        kind: {value for column in typed for value, count in _votes(kind, column) if count}
        for kind in ("decimal", "dates")
    }
    european = {"decimal": ",", "dates": DAY_FIRST}[what]
    if found[what]:
        return Decision(what, found[what].pop(), "other columns") if len(found[what]) == 1 else None
    dotted = any(column.dotted for column in typed) and delimiter != ","
    if (what == "decimal" and dotted) or (what == "dates" and found["decimal"] == {","}):
        return Decision(what, european, "other columns")
    return Decision(what, european, "delimiter") if delimiter == ";" else None


def by_default(what: What, shapes: ColumnShapes) -> Decision:
    """As such cells mostly are: thousands for 1,234, a fraction for 1.234, day first with points."""
    if what == "decimal":
        return Decision(what, ".", "default")
    points_first = shapes.orders["either."] > shapes.orders["either/"]
    return Decision(what, DAY_FIRST if points_first else MONTH_FIRST, "default")


def shows(what: What, shapes: ColumnShapes) -> bool:
    """Whether cells of a column show a notation; whole numbers and ISO dates show none."""
    return any(count for _, count in _votes(what, shapes))
