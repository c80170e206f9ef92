"""The reason for a column pair, in words that can be checked against the tables."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from gentus.align.pair_features import NAME_FEATURES, PAIR_FEATURES, PairFeatures
from gentus.align.table_profile import TableProfile
from gentus.arrays import F64
from gentus.table import evenly_spaced

_SHARED = 0.05  # Jaccard similarity from which shared values are named
_SIMILAR = 0.35  # largest KS distance between distributions that are called similar
_CLEARLY = 0.6  # similarity of names that are called similar
_CELLS = 128  # searched for words and formats
_YEARS = (1500, 2100)
_WORD = re.compile(r"[^\W\d_]{3,}")
_EXAMPLES = 3  # common words, without these:
_STOP_WORDS = {"the", "and", "for", "with", "from", "not", "are", "was", "his", "her", "its", "that", "this"}


def pair_reason(query: TableProfile, table: TableProfile, features: PairFeatures, i: int, j: int) -> str:
    """The names, the shared values and the type of the cells of a pair."""
    parts = list(_names(query, table, features, i, j))
    if not features.nonempty[i, j]:
        neither = query.cell_counts[i] == table.cell_counts[j]
        return "; ".join([*parts, "both are empty" if neither else "one of them is empty"])
    values: dict[str, float] = dict(zip(PAIR_FEATURES, features.pair[i, j].tolist(), strict=True))
    shared = float(features.jaccard[i, j])
    if shared == 1:
        parts.append("the same distinct values")
    elif shared >= _SHARED:
        parts.append(f"{100 * shared:.0f} % of distinct values shared")
    if values["both dates"] > 0.5:
        parts.append(_dates(query, table, i, j))
    elif values["both numbers"] > 0.5:
        parts.append(_numbers(query, table, values, i, j))
    elif shared < 0.5:
        parts += _text(query, table, values, i, j)
    return "; ".join(parts) or "similar lengths and letters"


def _names(query: TableProfile, table: TableProfile, features: PairFeatures, i: int, j: int) -> Iterator[str]:
    names = dict(zip(NAME_FEATURES, features.names[i, j].tolist(), strict=True))
    if names["equal names"]:
        same = query.table.columns[i].name == table.table.columns[j].name
        yield "same column name" if same else "same words in the column names"
    elif names["name n-gram cosine"] > _CLEARLY:
        yield "similar column names"
    elif names["name embedding cosine"] > _CLEARLY:
        yield "column names of similar meaning"


def _dates(query: TableProfile, table: TableProfile, i: int, j: int) -> str:
    ours, theirs = query.units[i], table.units[j]
    written = f"both {ours}" if ours == theirs else f"{ours} and {theirs}"
    if "times" in ours or "times" in theirs:
        return written
    years = [
        [int(str(np.datetime64(int(day), "D"))[:4]) for day in days[[0, -1]]]
        for days in _both(query, table, i, j)
    ]
    return f"{written}, {_ranges(*years)}"


def _numbers(query: TableProfile, table: TableProfile, values: dict[str, float], i: int, j: int) -> str:
    ours, theirs = _both(query, table, i, j)
    unit = query.units[i] if query.units[i] == table.units[j] else ""
    ranges = _ranges(ours[[0, -1]], theirs[[0, -1]]) + (f" {unit}" if unit else "")
    if ours[0] == theirs[-1] and theirs[0] == ours[-1]:
        return f"both are {ranges} throughout"
    whole = all(bool((np.rint(numbers) == numbers).all()) for numbers in (ours, theirs))
    low, high = min(ours[0], theirs[0]), max(ours[-1], theirs[-1])
    if whole and not unit and _YEARS[0] <= low and high <= _YEARS[1]:
        return f"both years, {ranges}"
    if values["KS distance"] <= _SIMILAR:
        return f"same units and range ({ranges})" if unit else f"similar distributions ({ranges})"
    kind = "whole numbers" if whole else "numbers"
    return f"both {kind}{' in the same unit' if unit else ''} ({ranges})"


def _both(query: TableProfile, table: TableProfile, i: int, j: int) -> tuple[F64, F64]:
    return query.numbers[i], table.numbers[j]


def _ranges(ours: Iterable[float], theirs: Iterable[float]) -> str:
    """Two ranges as one if they overlap by half or more, else both."""
    (low, high), (least, most) = ours, theirs
    whole, common = max(high, most) - min(low, least), min(high, most) - max(low, least)
    if 2 * common >= whole:
        return _range(min(low, least), max(high, most))
    return f"{_range(low, high)} and {_range(least, most)}"


def _range(low: float, high: float) -> str:
    if low == high:
        return _number(low)
    join = "-" if low >= 0 else " to "
    return f"{_number(low)}{join}{_number(high)}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def _text(
    query: TableProfile, table: TableProfile, values: dict[str, float], i: int, j: int
) -> Iterator[str]:
    ours, theirs = (_some(side.table.columns[at].cells) for side, at in ((query, i), (table, j)))
    if shape := _common_shape(ours, theirs):
        yield f"same format, such as {shape}"
    elif words := _common_words(ours, theirs):
        yield f"common words: {', '.join(words)}"
    elif values["embedding cosine, text"] > 0.4:
        yield "words of similar meaning"


def _some(cells: list[str]) -> list[str]:
    return [cells[at] for at in evenly_spaced(len(cells), _CELLS)]


def _common_words(ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """The words that most cells of both columns have."""
    words = [set(_WORD.findall("\n".join(cells).lower())) for cells in (ours, theirs)]
    if words[0].isdisjoint(words[1]):  # then there is nothing to count
        return []
    counts = [
        Counter(word for cell in cells for word in set(_WORD.findall(cell.lower())) - _STOP_WORDS)
        for cells in (ours, theirs)
    ]
    common = counts[0] & counts[1]  # the lesser count of each
    return sorted(common, key=lambda word: (-common[word], word))[:_EXAMPLES]


def _common_shape(ours: list[str], theirs: list[str]) -> str:
    """A cell of the format that nearly all cells of both columns have, if it is one of codes with digits."""
    if not (any(letter.isdigit() for letter in ours[0]) and any(letter.isdigit() for letter in theirs[0])):
        return ""
    shapes = _shapes(ours)
    (shape, times), (other, others) = (Counter(some).most_common(1)[0] for some in (shapes, _shapes(theirs)))
    usual = times >= 0.9 * len(ours) and others >= 0.9 * len(theirs)
    return ours[shapes.index(shape)] if shape == other and usual else ""


_LETTERS, _DIGIT = re.compile(r"[^\W\d_]+"), re.compile(r"\d")
_LETTER_RUN = re.compile(b"A{2,}")
_ASCII = bytes.maketrans(string.ascii_letters.encode() + b"123456789", b"A" * 52 + b"0" * 9)


def _shapes(cells: list[str]) -> list[str]:
    """The formats of cells, all at once; a line break within a cell is a space."""
    text = "\n".join(cells)
    if text.count("\n") >= len(cells):
        text = "\n".join([cell.replace("\n", " ") for cell in cells])
    if text.isascii():  # several times as fast
        return _LETTER_RUN.sub(b"A", text.encode().translate(_ASCII)).decode().split("\n")
    return _DIGIT.sub("0", _LETTERS.sub("A", text)).split("\n")
