"""Whether the first row of delimited text is a header, or looks like the rows below it.

Each cell of the row is compared with its column: how likely is it as a value there, and how likely as a name?
The sum of these log-odds decides. A wrong alarm is worse than a miss: words above words say nothing, years
and counts such as 1, 2, 3 are names as well, and a row without digits needs cells that occur again below.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Literal, TypeAlias

from gentus.table import EMPTY, evenly_spaced

Kind: TypeAlias = Literal["empty", "number", "code", "text"]
Cells: TypeAlias = Sequence[str]

NAMES: dict[Kind, float] = {"empty": 0.03, "number": 0.015, "code": 0.06, "text": 0.9}  # shares of names
_AMOUNTS = 0.005  # share of names that are a number and nothing else, neither a year nor of a count
_DOUBT = 4.0  # log-odds from which on the row looks like data
_UNSURE = 1.0  # log-odds from which on it is a header that may be data, which is told
_FOR_HEADER, _FOR_DATA = -8.0, 5.0  # the most that one column says
_REPEATED = 0.01  # share of names that are also values of their column, by chance
_LOOK = 64  # rows that tell at first sight
_COLUMNS = 256  # that are compared
_TOP = 2  # rows under the first one that may belong to a header of several rows
_BLANK = EMPTY | {"-", "--", "–", "—", "?", ".", "*", "na"}
_LONGEST_BLANK = max(map(len, _BLANK))
_LETTER = re.compile(r"[^\W\d_]")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_YEAR = re.compile(r"(1[5-9]|20)\d\d")
_AMOUNT = re.compile(r"[-+]?\d[\d.,]*")
_WHOLE = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a column says of the cell above it."""

    odds: float = 0.0  # logarithm; above 0: it looks like a value
    typed: bool = False  # it is a number, a date or the like, as the values are
    repeated: bool = False  # it occurs among the values


def header_doubt(names: Cells, rows: Sequence[Cells]) -> str:
    """Why the first row looks like data, in words; empty if it looks like a header."""
    return judge_header(names, rows)[0]


def judge_header(names: Cells, rows: Sequence[Cells]) -> tuple[str, bool]:
    """Why the first row looks like data, in words, or nothing; and whether it may be data all the same."""
    some = evenly_spaced(len(names), _COLUMNS)  # enough of a wide table
    if len(some) < len(names):
        rows = [[row[at] if at < len(row) else "" for at in some] for row in rows]
    columns = compare_with_columns([names[at] for at in some], rows)
    odds = sum(column.odds for column in columns)
    typed, repeated = sum(one.typed for one in columns), sum(one.repeated for one in columns)
    said = [f"{typed} numbers, dates or the like as in the rows below"] if typed else []
    said += [f"{repeated} that occur again below"] if repeated else []
    if odds < _DOUBT or not said:
        return "", odds > _UNSURE
    return f"its first row looks like data: {len(some)} cells, {' and '.join(said)}", False


def compare_with_columns(names: Cells, rows: Sequence[Cells]) -> list[Evidence]:
    """What each column says of its name; nothing, where the row is a header at first sight."""
    width = len(names)
    others = [
        row if len(row) == width else [*row, *[""] * (width - len(row))][:width]
        for row in rows
        if row != names
    ]
    columns = list(zip(*others, strict=True))
    if len(others) < _TOP or not any(map(_is_suspect, names, columns)):
        return []
    counted = _counted(names, columns)
    return [
        _compared(name.strip(), [cell.strip() for cell in column], at in counted, at == 0)
        for at, (name, column) in enumerate(zip(names, columns, strict=True))
    ]


def _is_suspect(name: str, column: Cells) -> bool:
    kind = kind_of(name.strip())
    typed = kind in ("number", "code") and any(kind_of(cell.strip()) == kind for cell in column[:_LOOK])
    return typed or _is_repeated(name, column)


def _is_repeated(name: str, column: Cells) -> bool:
    return bool(name) and column[_TOP:].count(name) > 1


def kind_of(cell: str) -> Kind:
    """What a cell looks like: numbers, dates and times have digits and no letters, codes have both."""
    if cell.isdecimal():  # most cells, in less time
        return "number"
    if len(cell) <= _LONGEST_BLANK and cell.lower() in _BLANK:
        return "empty"
    if cell.isalpha() or not _DIGITS.search(cell):
        return "text"
    return "code" if _LETTER.search(cell) else "number"


def _compared(name: str, column: list[str], counted: bool, first: bool) -> Evidence:
    """The evidence of one column; of a name that is `counted`, a number is no evidence."""
    kind, found = kind_of(name), list(map(kind_of, column))
    kinds = Counter(found)
    filled = len(column) - kinds["empty"]
    if not filled or (kind == "empty" and kinds["empty"] >= NAMES["empty"] * len(column)):
        return Evidence()
    if kind == "empty":  # the first column often has no name; another one may lack its first value
        before = NAMES["empty"] if first else 0.5
        return Evidence(min(0.0, log((kinds["empty"] + before) / (len(column) + 1) / NAMES["empty"])))
    share = _AMOUNTS if _AMOUNT.fullmatch(name) else NAMES[kind]
    odds = log((kinds[kind] + share) / (filled + 1) / (1.0 if counted else share))
    if kind == "text" or counted:
        odds = min(odds, 0.0)
    same = [cell for cell, other in zip(column, found, strict=True) if other == kind]
    if kind in ("number", "code") and not counted:
        odds += _odds_of_shape(name, same)
    typed = kind in ("number", "code") and odds > 2
    repeated = kind != "number" and len(same) * 2 >= filled and _is_repeated(name, column)
    if kind != "number":
        odds += _odds_of_repeats(name, column, filled, repeated)
    if kind == "text" and same and name not in column:
        odds += _odds_of_writing(name, same)
    return Evidence(max(_FOR_HEADER, min(_FOR_DATA, odds)), typed, repeated)


def _odds_of_shape(name: str, values: list[str]) -> float:
    """By how digits and letters follow each other: a new shape is likely where many values have their own."""
    shapes = Counter(map(_shape, values))
    seen = shapes[_shape(name)]
    if not seen and _is_as_long(name, values):
        seen = sum(count == 1 for count in shapes.values())
    return min(0.0, log((seen + 0.5) / (len(values) + 1) / 0.5))


def _is_as_long(name: str, values: list[str]) -> bool:
    return bool(values) and min(map(len, values)) <= len(name) <= max(map(len, values))


def _odds_of_repeats(name: str, column: list[str], filled: int, repeated: bool) -> float:
    """By whether it occurs among the values, given how many of them occur several times."""
    counts = Counter(column)
    share = sum(count for cell, count in counts.items() if count > 1 and kind_of(cell) != "empty") / filled
    if repeated:
        return log((share + 0.5 / (filled + 1)) / _REPEATED)
    return 0.0 if name in counts else min(0.0, log(1 - share + 1 / (filled + 1)))


def _odds_of_writing(name: str, values: list[str]) -> float:
    """By capitals and length: values that are written otherwise speak for a name."""
    cases = Counter(map(_case, values))
    odds = min(0.0, log((cases[_case(name)] + 0.3) / (len(values) + 1) / 0.3))
    if len(values) > 3 and not _is_as_long(name, values):
        odds += log(2 / (len(values) + 2) / 0.4)
    return odds


def _shape(cell: str) -> str:
    return _LETTERS.sub("a", _DIGITS.sub("0", cell))


def _case(cell: str) -> str:
    if "_" in cell:
        return "_"
    if cell.islower():
        return "lower"
    if cell.isupper() and len(cell) > 1:
        return "upper"
    return "capital" if cell[:1].isupper() else "other"


def _counted(names: Cells, columns: list[tuple[str, ...]]) -> set[int]:
    """Numbers that may be names all the same: those of a count, and years above other values."""
    whole = [at for at, name in enumerate(names) if _WHOLE.fullmatch(name.strip())]
    found = {at for at in whole if _YEAR.fullmatch(names[at].strip()) and not _are_years(columns[at])}
    steps = _steps([names[at] for at in whole])
    if steps == {1} or (len(steps) == 1 and len(whole) > 2 and steps != {0}):
        below = [_steps(row) for row in zip(*(columns[at] for at in whole), strict=True)]
        if 2 * sum(step == steps for step in below) < len(below) or not below:
            found.update(whole)
    return found


def _steps(cells: Cells) -> set[int]:
    """The differences of whole numbers; none if others are among them."""
    if not all(_WHOLE.fullmatch(cell.strip()) for cell in cells):
        return set()
    numbers = list(map(int, cells))
    return {after - before for before, after in pairwise(numbers)}


def _are_years(column: Cells) -> bool:
    filled = [cell for cell in column if kind_of(cell.strip()) != "empty"]
    return 2 * sum(_YEAR.fullmatch(cell.strip()) is not None for cell in filled) >= len(filled)
