"""Noise in values and column names, as spreadsheets, exports and typing make it."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from random import Random


class Headers(StrEnum):
    """What becomes of column names."""

    KEEP = "keep"
    MANGLE = "mangle"  # shortened, joined and cased otherwise
    NUMBER = "number"  # col_1, col_2, ..
    DROP = "drop"  # empty
    MIX = "mix"  # each table one of these


@dataclass(frozen=True, slots=True)
class Noise:
    """Chances between 0 and 1."""

    typos: float = 0.0  # of a cell of text to get a typing error
    missing: float = 0.0  # of a cell to be emptied
    case: float = 0.0  # of a column to come in other letter case
    numbers: float = 0.0  # of a column of numbers to be written otherwise
    dates: float = 0.0  # of a column of dates to be written otherwise
    headers: Headers = Headers.KEEP

    def __post_init__(self) -> None:
        """Refuse what is no chance."""
        for name in ("typos", "missing", "case", "numbers", "dates"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a chance between 0 and 1, not {getattr(self, name)}")


_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")
_DATE = re.compile(r"(\d{4})[-/](\d{2})[-/](\d{2})([ T].*)?")  # with a time or without
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EMPTY = ("", "", "N/A", "null")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_MOSTLY = 0.8  # a column is one of numbers or dates if so many of its cells are


def noisy(column: Sequence[str], noise: Noise, rng: Random) -> list[str]:
    """Spoil a column. Without noise, its cells are as they were."""
    cells = list(column)
    filled = [cell for cell in cells if cell]
    if rng.random() < noise.dates and _mostly(filled, _as_date):
        cells = _each(cells, rng.choice(_DATE_STYLES), _as_date)
    elif rng.random() < noise.numbers and _mostly(filled, _as_number):
        cells = _each(cells, rng.choice(_NUMBER_STYLES), _as_number)
    elif rng.random() < noise.case:
        cells = list(map(rng.choice((str.upper, str.lower, str.title)), cells))
    if noise.typos:
        cells = [_typo(cell, rng) if rng.random() < noise.typos else cell for cell in cells]
    if noise.missing:
        empty = rng.choice(_EMPTY)
        cells = [empty if rng.random() < noise.missing else cell for cell in cells]
    return cells


def headers(names: Sequence[str], kind: Headers, rng: Random) -> list[str]:
    """Rename the columns of one table."""
    if kind is Headers.MIX:
        kind = rng.choice([Headers.KEEP, Headers.MANGLE, Headers.NUMBER, Headers.DROP])
    match kind:
        case Headers.NUMBER:
            return [f"col_{number}" for number in range(1, len(names) + 1)]
        case Headers.DROP:
            return [""] * len(names)
        case Headers.MANGLE:
            join = rng.choice(_JOINS)
            return [_mangled(name, join, rng) for name in names]
    return list(names)


def _mangled(name: str, join: Callable[[list[str]], str], rng: Random) -> str:
    words = _WORDS.findall(name) or ["field"]
    if len(words) > 1 and rng.random() < 0.3:
        words.pop(rng.randrange(len(words)))
    words = [_short(word) if rng.random() < 0.5 else word for word in words]
    if rng.random() < 0.4:
        words.insert(rng.choice((0, len(words))), rng.choice(("src", "val", "raw", "x", "fld", "new")))
    return join(words)


def _short(word: str) -> str:
    """Leave out vowels as people do, or the end of the word."""
    consonants = word[0] + re.sub("[aeiouAEIOU]", "", word[1:])
    return consonants if len(consonants) > 2 else word[:4]


_JOINS: tuple[Callable[[list[str]], str], ...] = (
    lambda words: "_".join(words).lower(),
    lambda words: "".join(word.capitalize() for word in words),
    lambda words: "_".join(words).upper(),
    lambda words: " ".join(words).title(),
    lambda words: "-".join(words).lower(),
)


def _as_number(cell: str) -> float | None:
    return float(cell) if _NUMBER.fullmatch(cell) else None


def _as_date(cell: str) -> date | None:
    if not (found := _DATE.fullmatch(cell)):
        return None
    try:
        return date(*map(int, found.groups()[:3]))
    except ValueError:
        return None


def _mostly(filled: Sequence[str], read: Callable[[str], object]) -> bool:
    return bool(filled) and sum(read(cell) is not None for cell in filled) >= _MOSTLY * len(filled)


def _each(cells: Sequence[str], write: Callable[[str], str], read: Callable[[str], object]) -> list[str]:
    return [write(cell) if read(cell) is not None else cell for cell in cells]


def _thousands(cell: str) -> str:
    whole, dot, rest = cell.partition(".")
    return f"{int(whole):,}{dot}{rest}" if abs(int(whole)) >= 10_000 else cell  # 1999 may be a year


def _continental(cell: str) -> str:
    return _thousands(cell).translate(str.maketrans(",.", ".,"))


_NUMBER_STYLES = (_thousands, _continental, lambda cell: f"{float(cell):.2f}")


def _styled(write: Callable[[int, int, int], str]) -> Callable[[str], str]:
    def style(cell: str) -> str:
        found = _DATE.fullmatch(cell)
        assert found
        return write(*(int(part) for part in found.groups()[:3])) + (found[4] or "")

    return style


_DATE_STYLES = (  # not by strftime, whose month names depend on the machine
    _styled(lambda year, month, day: f"{day:02}/{month:02}/{year}"),
    _styled(lambda year, month, day: f"{month}/{day}/{year}"),
    _styled(lambda year, month, day: f"{day} {_MONTHS[month - 1]} {year}"),
    _styled(lambda year, month, day: f"{year}{month:02}{day:02}"),
)


def _typo(cell: str, rng: Random) -> str:
    """Swap, drop, double or replace one letter; cells with hardly any are left alone."""
    places = [at for at, letter in enumerate(cell) if letter.isalpha()]
    if len(places) < 3:
        return cell
    at = rng.choice(places[1:])
    return rng.choice(
        (
            cell[: at - 1] + cell[at] + cell[at - 1] + cell[at + 1 :],
            cell[:at] + cell[at + 1 :],
            cell[:at] + cell[at] + cell[at:],
            cell[:at] + rng.choice(string.ascii_lowercase) + cell[at + 1 :],
        )
    )
