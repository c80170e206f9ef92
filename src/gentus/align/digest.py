"""What alignment knows of a table: every column's values, numbers, formats and habits, as arrays.

Search looks at 24 values a column, because a lake has millions of them. Two tables side by side can be looked
at more closely: all sampled values with their frequencies, all numbers, and how columns move together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.align.quantities import Quantities, read_quantities
from gentus.arrays import F64, I64
from gentus.features.extract import (
    ALPHA_BIT,
    DIGIT_BIT,
    SPACE_BIT,
    UPPER_BIT,
    classes_of,
    counted,
    hashed_text,
    points_of,
    tokens_of,
)
from gentus.table import Table, evenly_spaced

MOST_CELLS = 512  # looked at of a column
VALUES = 24  # distinct values whose letters are looked at
LENGTHS = 64  # longer values count as that long
LETTERS = 128
_CATEGORIES = 64  # text with more values than that is no category, and its order says nothing
_NONE = np.zeros(0)
_DAYS = 0x5DAD0C1E  # sets the keys of days apart from those of numbers
DECIMALS = 7  # 0 to 5 decimal places, or more
# What people write where they know nothing: no value that two columns could share.
_NOTHING = ("NA", "na", "N.A.", "n.a.", "#N/A", "-", "--", "---", "?", ".", "..", "\\N")
HABITS = (
    "empty cells",
    "equal cells",
    "distinct values",
    "rising rows",
    "whole numbers",
    "negative numbers",
    "middle number",
    "digits",
    "letters",
    "capitals",
    "spaces",
)
_CHARACTERS = (DIGIT_BIT, ALPHA_BIT, UPPER_BIT, SPACE_BIT)  # the last four


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
    text: NDArray[np.uint32]  # (m,) ... its words, grams, shapes and tokens, as ids of `features` ...
    times: F64  # (m,) ... and how often each occurs


def digest(table: Table) -> Digest:
    """Look at a table closely, once, to compare it with others."""
    looks = [_look(column.cells, table.rows) for column in table.columns]
    some = [[look.values[at] for at in evenly_spaced(len(look.values), VALUES)] for look in looks]
    kinds = np.array([look.kinds for look in looks]).reshape(len(looks), 3)
    distinct = np.array([len(look.keys) for look in looks], np.int64)
    owner = np.repeat(np.arange(len(looks)), distinct)
    counts = _joined([look.counts for look in looks])
    sizes = np.bincount(owner, counts, len(looks)).astype(np.float64)
    letters, lengths, decimals, characters = _letters(some)
    habits = [*_repetition(sizes, distinct, owner, counts, table.rows), *_sequence(looks), *_numbers(looks)]
    complete = np.array([look.ranks is not None for look in looks], bool)
    return Digest(
        table,
        sizes,
        distinct.astype(np.float64),
        owner,
        np.concatenate([np.zeros(0, np.int64), *(look.keys for look in looks)]),
        counts,
        [look.numbers for look in looks],
        [look.unit for look in looks],
        kinds,
        decimals * (kinds[:, :1] > 0),
        lengths,
        letters,
        np.stack([*habits, *characters], 1),
        _together(looks, min(table.rows, MOST_CELLS)),
        complete,
        *_text(some, kinds[:, 2] > 0.3),
    )


def says_nothing(cell: str) -> bool:
    """Whether a cell is as good as empty."""
    return cell in _NOTHING


def _joined(parts: Iterable[F64]) -> F64:
    return np.concatenate([np.zeros(0), *parts])


# --- one column --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    values: list[str]  # distinct ones
    keys: I64  # of those that are not the same ...
    counts: F64  # ... and how often each occurs
    kinds: tuple[float, float, float]
    unit: str
    numbers: F64  # sorted
    series: F64  # in the order of the rows
    ranks: F64 | None  # (rows,) of length one and mean zero; None if cells are missing or all are equal


def _look(cells: list[str], rows: int) -> _Look:
    whole = len(cells) == rows  # then every cell is in its row
    if len(cells) > MOST_CELLS:
        cells = [cells[at] for at in evenly_spaced(len(cells), MOST_CELLS)]
    values = list(dict.fromkeys(cells))
    unknown = set(_NOTHING).intersection(values)
    if unknown:
        cells, whole = [cell for cell in cells if cell not in unknown], False
        values = [value for value in values if value not in unknown]
    places = _places(values, cells)
    times = np.bincount(places, minlength=len(values)).astype(np.float64)
    read = read_quantities(values)
    if read.kind == "text":
        return _look_at_text(values, times, places, whole)
    return _look_at_quantities(values, times, places, read, whole)


def _look_at_text(values: list[str], times: F64, places: I64, whole: bool) -> _Look:
    plain = [value.casefold() for value in values]
    keys = np.fromiter(map(hash, plain), np.int64, len(plain))
    counts = times
    if len(set(plain)) < len(plain):
        keys, counts = _merged(keys, times)
    ranks = None
    if whole and len(values) <= _CATEGORIES:  # by the alphabet: what matters is that both tables do it alike
        order = np.array(sorted(range(len(values)), key=values.__getitem__), np.int64)
        ranks = _ranks(order, times, places)
    return _Look(values, keys, counts, (0.0, 0.0, float(len(places) > 0)), "", _NONE, _NONE, ranks)


def _look_at_quantities(values: list[str], times: F64, places: I64, read: Quantities, whole: bool) -> _Look:
    order = np.argsort(read.values)  # those that are no quantities come last
    ordered = read.values[order]
    numbers = np.repeat(ordered, times[order].astype(np.int64))
    keys = (read.values + 0.0).view(np.int64) ^ (_DAYS if read.kind == "date" else 0)
    series = read.values[places]
    if np.isnan(ordered[-1]):  # some are text
        numbers, series = numbers[: numbers.searchsorted(np.nan)], series[np.isfinite(series)]
        text = np.flatnonzero(np.isnan(read.values)).tolist()
        keys[text] = [hash(values[at].casefold()) for at in text]
    counts = times
    if not (ordered[1:] != ordered[:-1]).all():
        keys, counts = _merged(keys, times)
    share = len(numbers) / len(places)
    kinds = (share, 0.0, 1 - share) if read.kind == "number" else (0.0, share, 1 - share)
    ranks = _ranks(order, times, places) if whole else None
    return _Look(values, keys, counts, kinds, read.unit, numbers, series, ranks)


def _merged(keys: I64, times: F64) -> tuple[I64, F64]:
    """Values that differ in writing only are one."""
    unique, at = np.unique(keys, return_inverse=True)
    return unique, np.bincount(at, times).astype(np.float64)


def _places(values: list[str], cells: list[str]) -> I64:
    """(n,) which of the values every cell has."""
    if len(values) == len(cells):
        return np.arange(len(cells))
    at = dict(zip(values, range(len(values)), strict=True))
    return np.fromiter(map(at.__getitem__, cells), np.int64, len(cells))


def _ranks(order: I64, times: F64, places: I64) -> F64 | None:
    """(n,) ranks of cells, equal ones sharing theirs, whose products are correlations."""
    if len(order) < 2 or len(places) < 8:
        return None
    ranks = np.empty(len(order))
    ranks[order] = np.cumsum(times[order]) - times[order] / 2
    ranks -= len(places) / 2  # their mean
    return np.asarray((ranks / np.sqrt(ranks**2 @ times))[places], np.float64)


# --- all columns at once -----------------------------------------------------------------------------


def _together(looks: Sequence[_Look], rows: int) -> F64:
    """(C, C) rank correlations."""
    ranks = np.zeros((len(looks), rows))
    for at, look in enumerate(looks):
        if look.ranks is not None:
            ranks[at] = look.ranks
    together = ranks @ ranks.T
    np.fill_diagonal(together, 0)
    return np.asarray(together, np.float64)


def _repetition(sizes: F64, distinct: I64, owner: I64, counts: F64, rows: int) -> list[F64]:
    """(C,) each: empty cells, the chance that two cells are equal, its root, and distinct values."""
    pairs = np.bincount(owner, counts * (counts - 1), len(sizes))
    empty = np.where(sizes > 0, 1 - np.minimum(sizes / max(min(rows, MOST_CELLS), 1), 1), 0)
    equal = np.sqrt(pairs / np.maximum(sizes * (sizes - 1), 1))
    return [empty, equal, distinct / np.maximum(sizes, 1)]


def _sequence(looks: Sequence[_Look]) -> list[F64]:
    """(C,) how far numbers rise from row to row, 1 if they always do, -1 if they always fall."""
    lengths = np.array([len(look.series) for look in looks], np.int64)
    owner = np.repeat(np.arange(len(looks)), lengths)
    steps = np.sign(np.diff(_joined([look.series for look in looks])))
    steps[owner[1:] != owner[:-1]] = 0  # from one column to the next
    return [np.bincount(owner[1:], steps, len(looks)) / np.maximum(lengths - 1, 1)]


def _numbers(looks: Sequence[_Look]) -> list[F64]:
    """(C,) each: shares of whole and of negative numbers, and the middle one on a signed log scale."""
    plain = [look.numbers if look.kinds[0] else _NONE for look in looks]
    lengths = np.array([len(numbers) for numbers in plain], np.int64)
    owner = np.repeat(np.arange(len(looks)), lengths)
    numbers = _joined(plain)
    total = np.maximum(lengths, 1)
    middle = np.array([column[len(column) // 2] if len(column) else 0 for column in plain])
    return [
        np.bincount(owner, np.rint(numbers) == numbers, len(looks)) / total,
        np.bincount(owner, numbers < 0, len(looks)) / total,
        np.sign(middle) * np.log1p(np.abs(middle)) / 4,
    ]


def _letters(some: list[list[str]]) -> tuple[F64, F64, F64, list[F64]]:
    """Of some values of each column: characters, lengths, decimal places, and shares of kinds of characters.

    (C, LETTERS) and (C, DECIMALS) roots of shares, whose products are affinities; (C, LENGTHS); (C,) each.
    """
    count = len(some)
    owner = np.repeat(np.arange(count), [len(values) for values in some])
    cells = list(chain.from_iterable(some))
    values = np.maximum(np.bincount(owner, minlength=count), 1)[:, None]
    size = np.fromiter(map(len, cells), np.int64, len(cells))
    lengths = _histogram(owner, np.minimum(size, LENGTHS - 1), count, LENGTHS)
    places = [len(cell) - 1 - cell.find(".") if "." in cell else 0 for cell in cells]
    decimals = _histogram(owner, np.minimum(np.array(places, np.int64), DECIMALS - 1), count, DECIMALS)
    points = points_of("".join(cells))
    classes = classes_of(points)
    of = np.repeat(owner, size)  # the column of every character
    letters = _histogram(of, points % LETTERS, count, LETTERS)
    total = np.maximum(letters.sum(1), 1)
    return (
        np.sqrt(letters / total[:, None]),
        np.cumsum(lengths / values, 1),
        np.sqrt(decimals / values),
        [np.bincount(of, (classes & bit) > 0, count) / total for bit in _CHARACTERS],
    )


def _histogram(owner: I64, bins: NDArray[np.integer[Any]], count: int, width: int) -> I64:
    """(count, width) how often each owner has each."""
    return np.bincount(owner * width + bins, minlength=count * width).reshape(count, width)


def _text(some: list[list[str]], wordy: NDArray[np.bool_]) -> tuple[I64, NDArray[np.uint32], F64]:
    """Hashed words, grams and shapes and the tokens of columns that hold text, as search has them."""
    columns = np.flatnonzero(wordy)
    values = [some[at] for at in columns]
    found = [*hashed_text(values), tokens_of(values)] if values else []
    starts, ids, times = counted([columns[owner] for owner, _ in found], [ids for _, ids in found], len(some))
    return starts, ids, times.astype(np.float64)
