"""What alignment knows of a table: every column's values, numbers, formats and habits, as arrays.

Search looks at 24 values a column, because a lake has millions of them. Two tables side by side can be looked
at more closely: all sampled values with their frequencies, all numbers, and how columns move together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gentus.features import (
    ALPHA_BIT,
    DIGIT_BIT,
    SPACE_BIT,
    UPPER_BIT,
    classes_of,
    counted,
    hashed_text,
    pieces_of,
    points_of,
)
from gentus.lake.base import spread
from gentus.quantities import Quantities, read_quantities
from gentus.table import Table

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_CELLS = 512  # looked at of a column
VALUES = 24  # distinct values whose letters are looked at
LENGTHS = 64  # longer values count as that long
LETTERS = 128
_CATEGORIES = 64  # text with more values than that is no category, and its order says nothing
_DAYS = 0x5DAD0C1E  # sets the keys of days apart from those of numbers
DECIMALS = 7  # 0 to 5 decimal places, or more
# What people write where they know nothing: no value that two columns could share.
_NOTHING = ("NA", "na", "N.A.", "n.a.", "#N/A", "-", "--", "---", "?", ".", "..", "\\N")
HABITS = (
    "empty cells",
    "equal cells",
    "rising rows",
    "distinct values",
    "whole numbers",
    "negative numbers",
    "middle number",
    "digits",
    "letters",
    "capitals",
    "spaces",
)
_OF_LETTERS = (DIGIT_BIT, ALPHA_BIT, UPPER_BIT, SPACE_BIT)  # the last of them


@dataclass(frozen=True, slots=True)
class Digest:
    """The C columns of a table. Of empty ones everything is zero."""

    table: Table
    sizes: F64  # (C,) cells looked at
    distinct: F64  # (C,) values among them
    owner: I64  # (n,) the column of every distinct value ...
    keys: I64  # (n,) ... a number that equal values share, however they are written ...
    counts: F64  # (n,) ... and how often it occurs
    numbers: list[F64]  # of every column its numbers, or its dates in days, sorted
    units: list[str]  # of every column what its numbers are, or how its dates are written
    kinds: F64  # (C, 3) share of cells that are numbers, dates and text
    decimals: F64  # (C, DECIMALS) roots of the shares of numbers with so many decimal places
    lengths: F64  # (C, LENGTHS) share of values up to this length
    letters: F64  # (C, LETTERS) roots of the shares of characters
    habits: F64  # (C, HABITS)
    together: F64  # (C, C) rank correlation of columns that have a value in every row; 0 for others
    complete: NDArray[np.bool_]  # (C,) which these are
    starts: I64  # (C + 1,) where the text of each column begins, none of a column of numbers ...
    text: NDArray[
        np.int32
    ]  # (m,) ... its words, grams, shapes and word pieces, by id in the joint vocabulary ...
    times: F64  # (m,) ... and how often each occurs


def digest(table: Table) -> Digest:
    """Look at a table closely, once, to compare it with others."""
    looks = [_look(column.cells, table.rows) for column in table.columns]
    some = [[look.values[at] for at in spread(len(look.values), VALUES)] for look in looks]
    letters, lengths, habits = _letters(some)
    complete = np.array([look.ranks is not None for look in looks], bool)
    ranks = np.zeros((len(looks), min(table.rows, MOST_CELLS)))
    for at, look in enumerate(looks):
        if look.ranks is not None:
            ranks[at] = look.ranks
    together = ranks @ ranks.T
    np.fill_diagonal(together, 0)
    kinds = _stacked([look.kinds for look in looks], 3)
    return Digest(
        table,
        np.array([look.counts.sum() for look in looks], np.float64),
        np.array([len(look.keys) for look in looks], np.float64),
        np.repeat(np.arange(len(looks)), [len(look.keys) for look in looks]),
        np.concatenate([np.zeros(0, np.int64), *(look.keys for look in looks)]),
        np.concatenate([np.zeros(0), *(look.counts for look in looks)]),
        [look.numbers for look in looks],
        [look.unit for look in looks],
        kinds,
        _stacked([look.decimals for look in looks], DECIMALS),
        lengths,
        letters,
        np.hstack([_stacked([look.habits for look in looks], len(HABITS) - len(_OF_LETTERS)), habits]),
        together,
        complete,
        *_text(some, kinds[:, 2] > 0.3),
    )


def says_nothing(cell: str) -> bool:
    """Whether a cell is as good as empty."""
    return cell in _NOTHING


def _stacked(rows: list[F64], width: int) -> F64:
    return np.stack(rows) if rows else np.zeros((0, width))


# --- one column --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    values: list[str]  # distinct ones
    keys: I64  # of those that are not the same ...
    counts: F64  # ... and how often each occurs
    numbers: F64
    unit: str
    kinds: F64  # (3,)
    decimals: F64  # (DECIMALS,)
    habits: F64  # those that do not depend on letters
    ranks: F64 | None  # (rows,) of length one and mean zero; None if cells are missing or all are equal


def _look(cells: list[str], rows: int) -> _Look:
    whole = len(cells) == rows  # then every cell is in its row
    if len(cells) > MOST_CELLS:
        cells = [cells[at] for at in spread(len(cells), MOST_CELLS)]
    counter = Counter(cells)
    unknown = [word for word in _NOTHING if counter.pop(word, 0)]
    if unknown:
        cells, whole = [cell for cell in cells if cell not in unknown], False
    values, total = list(counter), len(cells)
    times = np.fromiter(counter.values(), np.float64, len(values))
    read = read_quantities(values)
    habits = np.zeros(len(HABITS) - len(_OF_LETTERS))
    if total:
        equal = float(times @ times - total) / max(total * (total - 1), 1)
        habits[[0, 1, 3]] = 1 - min(total / min(rows, MOST_CELLS), 1), equal**0.5, len(values) / total
    ranks = None
    if read.kind == "text":
        kinds, numbers = np.array([0.0, 0.0, float(total > 0)]), np.zeros(0)
        plain = [value.casefold() for value in values]
        keys = np.fromiter(map(hash, plain), np.int64, len(plain))
        same = len(set(plain)) < len(plain)
        if whole and len(values) <= _CATEGORIES:
            order = np.array(sorted(range(len(values)), key=values.__getitem__), np.int64)
            ranks = _ranks(order, times, _places(values, cells))
    else:
        found = np.isfinite(read.values)
        order = np.argsort(read.values)  # those that are no quantities come last
        numbers = np.repeat(read.values[order], times[order].astype(np.int64))
        numbers = numbers[: int(times[found].sum())]
        share = len(numbers) / total
        kinds = np.array([share, 0, 1 - share] if read.kind == "number" else [0, share, 1 - share])
        keys = _keys(values, read, found)
        same = not np.diff(read.values[order]).all()
        places = _places(values, cells)
        series = read.values[places]
        steps = np.sign(np.diff(series if len(numbers) == total else series[np.isfinite(series)]))
        habits[2] = steps.mean() if len(steps) else 0
        if read.kind == "number":
            middle = numbers[len(numbers) // 2]
            habits[4:] = (
                (np.rint(numbers) == numbers).mean(),
                numbers.searchsorted(0) / len(numbers),
                np.sign(middle) * np.log1p(abs(middle)) / 4,
            )
        if whole:
            ranks = _ranks(order, times, places)
    decimals = _decimals(values, times, read)
    keys, counts = _merged(keys, times) if same else (keys, times)
    return _Look(values, keys, counts, numbers, read.unit, kinds, decimals, habits, ranks)


def _places(values: list[str], cells: list[str]) -> I64:
    """(n,) which of the values every cell has."""
    if len(values) == len(cells):
        return np.arange(len(cells))
    at = dict(zip(values, range(len(values)), strict=True))
    return np.fromiter(map(at.__getitem__, cells), np.int64, len(cells))


def _keys(values: list[str], read: Quantities, found: NDArray[np.bool_]) -> I64:
    """Equal numbers, equal days and texts that differ in case only get equal keys."""
    keys = (read.values + 0.0).view(np.int64) ^ (_DAYS if read.kind == "date" else 0)
    if not found.all():
        text = np.flatnonzero(~found).tolist()
        keys[text] = [hash(values[at].casefold()) for at in text]
    return keys


def _merged(keys: I64, times: F64) -> tuple[I64, F64]:
    """Values that differ in writing only are one."""
    unique, at = np.unique(keys, return_inverse=True)
    return unique, np.bincount(at, times).astype(np.float64)


def _decimals(values: list[str], times: F64, read: Quantities) -> F64:
    """Roots of the shares, so that the product of two such is their affinity."""
    if read.kind != "number":
        return np.zeros(DECIMALS)
    at = np.flatnonzero(np.isfinite(read.values))
    at = at[spread(len(at), 4 * VALUES)]
    places = [len(values[i]) - 1 - values[i].find(".") if "." in values[i] else 0 for i in at.tolist()]
    shares = np.bincount(np.minimum(places, DECIMALS - 1), times[at], DECIMALS)
    return np.asarray(np.sqrt(shares / times[at].sum()), np.float64)


def _ranks(order: I64, times: F64, places: I64) -> F64 | None:
    """Ranks of cells, of text by the alphabet: what matters is that both tables do it alike."""
    if len(order) < 2 or len(places) < 8:
        return None
    ranks = np.empty(len(order))
    ranks[order] = np.cumsum(times[order]) - times[order] / 2
    ranks -= len(places) / 2  # their mean
    return np.asarray((ranks / np.sqrt(ranks**2 @ times))[places], np.float64)


# --- the letters of all columns at once --------------------------------------------------------------


def _letters(some: list[list[str]]) -> tuple[F64, F64, F64]:
    """(C, LETTERS) characters, (C, LENGTHS) lengths of values, and (C, 4) shares of kinds of characters."""
    count = len(some)
    owner = np.repeat(np.arange(count), [len(values) for values in some])
    cells = list(chain.from_iterable(some))
    size = np.fromiter(map(len, cells), np.int64, len(cells))
    points = points_of("".join(cells))
    classes = classes_of(points)
    of = np.repeat(owner, size)  # the column of every character
    total = np.maximum(np.bincount(of, minlength=count), 1)[:, None]
    letters = np.bincount(of * LETTERS + points % LETTERS, minlength=count * LETTERS)
    long = np.minimum(size, LENGTHS - 1)
    lengths = np.bincount(owner * LENGTHS + long, minlength=count * LENGTHS).reshape(count, LENGTHS)
    habits = [np.bincount(of, (classes & bit) > 0, count) for bit in _OF_LETTERS]
    return (
        np.sqrt(letters.reshape(count, LETTERS) / total),
        np.cumsum(lengths / np.maximum(lengths.sum(1, keepdims=True), 1), 1),
        np.stack(habits, 1) / total,
    )


def _text(some: list[list[str]], wordy: NDArray[np.bool_]) -> tuple[I64, NDArray[np.int32], F64]:
    """Hashed words, grams and shapes and the word pieces of columns that hold text, as search has them."""
    columns = np.flatnonzero(wordy)
    values = [some[at] for at in columns]
    found = [*hashed_text(values), pieces_of(values)] if values else []
    starts, ids, times = counted([columns[owner] for owner, _ in found], [ids for _, ids in found], len(some))
    return starts, ids, times.astype(np.float64)
