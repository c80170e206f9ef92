"""Why two columns were put together, in words that can be checked against the tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from gentus.digest import Digest
from gentus.pairs import FIRST, NAMES, Evidence

F64 = NDArray[np.float64]
_SHARED = 0.05  # of all distinct values; fewer are not worth a word
_ALIKE = 0.35  # largest gap between distributions that still look alike
_WORD = re.compile(r"[^\W\d_]{3,}")
_WORDS = 3  # named at most


def reason(query: Digest, table: Digest, evidence: Evidence, i: int, j: int) -> str:
    """What speaks for a pair: names first, then what the cells have in common, the most telling first."""
    said = [*_names(query, table, evidence, i, j)]
    if not evidence.filled[i, j]:
        both = query.sizes[i] == table.sizes[j]
        return "; ".join([*said, "both are empty" if both else "one of them is empty"])
    seen = {name: float(value) for name, value in zip(FIRST, evidence.first[i, j], strict=True)}
    shared = float(evidence.shared[i, j])
    if shared >= _SHARED:
        said.append(f"{_percent(shared)} of distinct values shared")
    if seen["both dates"] > 0.5:
        said.append(_dates(query, table, i, j))
    elif seen["both numbers"] > 0.5:
        said.append(_numbers(query, table, seen, i, j))
    elif seen["both text"] > 0.25 and shared < 0.5:
        said += _text(query, table, seen, i, j)
    return "; ".join(said[:3]) or "cells of like length and letters"


def _percent(share: float) -> str:
    return f"{max(round(100 * share), 1)} %" if share < 0.995 else "all"


def _names(query: Digest, table: Digest, evidence: Evidence, i: int, j: int) -> Iterator[str]:
    alike = dict(zip(NAMES, evidence.names[i, j], strict=True))
    if alike["equal names"]:
        same = query.table.columns[i].name == table.table.columns[j].name
        yield "same column name" if same else "same words in the column names"
    elif alike["alike letters"] > 0.6:
        yield "alike column names"
    elif alike["alike meaning"] > 0.6:
        yield "column names of like meaning"


def _dates(query: Digest, table: Digest, i: int, j: int) -> str:
    ours, theirs = query.units[i], table.units[j]
    days = [side[at][[0, -1]] for side, at in ((query.numbers, i), (table.numbers, j))]
    if ours.startswith("times") or theirs.startswith("times"):
        return f"both {ours}" if ours == theirs else f"{ours} and {theirs}"
    ranges = _ranges([str(np.datetime64(int(day), "D"))[:4] for ends in days for day in ends])
    return f"both {ours}, {ranges}" if ours == theirs else f"{ours}, and {theirs}: {ranges}"


def _numbers(query: Digest, table: Digest, seen: dict[str, float], i: int, j: int) -> str:
    ours, theirs = query.numbers[i], table.numbers[j]
    whole = all((np.rint(side) == side).all() for side in (ours, theirs))
    ends = [ours[0], ours[-1], theirs[0], theirs[-1]]
    unit = query.units[i] if query.units[i] == table.units[j] else ""
    ranges = _ranges([_number(end) for end in ends]) + (f" {unit}" if unit else "")
    if whole and min(ends) >= 1500 and max(ends) <= 2100 and not unit:
        return f"both years, {ranges}"
    if len(set(ends)) == 1:
        return f"both are {ranges} throughout"
    if seen["distributions apart"] <= _ALIKE:
        what = "same units and range" if unit else "numbers spread alike"
        return f"{what} ({ranges})"
    if seen["range shared"] > 0.5:
        return f"{'same units, ' if unit else ''}ranges that overlap ({ranges})"
    kind = "whole numbers" if whole else "numbers"
    return f"both {kind}{' in the same unit' if unit else ''} ({ranges})"


def _ranges(ends: list[str]) -> str:
    """One range for two columns if they have the same; else both."""
    first, second = (low if low == high else f"{low} to {high}" for low, high in (ends[:2], ends[2:]))
    short = first.replace(" to ", "-") if "-" not in first else first
    if first == second:
        return short
    return f"{first} and {second}"


def _number(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def _text(query: Digest, table: Digest, seen: dict[str, float], i: int, j: int) -> Iterator[str]:
    ours, theirs = query.table.columns[i].cells, table.table.columns[j].cells
    words = _common_words(ours, theirs)
    shape = _common_shape(ours, theirs)
    if shape:
        yield f"same format, such as {shape}"
    elif words and evidence_of_words(seen):
        yield f"alike words: {', '.join(words)}"
    elif seen["meaning, text"] > 0.4:
        yield "words of like meaning"


def evidence_of_words(seen: dict[str, float]) -> bool:
    """Whether common words count for anything in this pair."""
    return seen["words, text"] > 0.02 or seen["grams, text"] > 0.1


def _common_words(ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """The words that are most frequent in both columns."""
    counts = [
        Counter(word for cell in cells for word in set(_WORD.findall(cell.lower())))
        for cells in (ours, theirs)
    ]
    common = counts[0] & counts[1]  # the lesser of both
    return [word for word, _ in sorted(common.items(), key=lambda item: (-item[1], item[0]))[:_WORDS]]


_RUNS = ((re.compile(r"[^\W\d_]+"), "A"), (re.compile(r"\d"), "0"))


def _common_shape(ours: list[str], theirs: list[str]) -> str:
    """A cell of the format that nearly all cells of both columns have, if it is one of codes."""
    shapes = [Counter(map(_shape, cells)).most_common(1)[0] for cells in (ours, theirs)]
    (shape, times), (other, other_times) = shapes
    if shape != other or "0" not in shape or times < 0.9 * len(ours) or other_times < 0.9 * len(theirs):
        return ""
    return next(cell for cell in ours if _shape(cell) == shape)


def _shape(cell: str) -> str:
    for pattern, letter in _RUNS:
        cell = pattern.sub(letter, cell)
    return cell
