"""What alignment knows of a table: every column's values, numbers, formats and habits, as arrays.

Search looks at 24 values a column, because a lake has millions of them. Two tables side by side can be looked
at more closely: all sampled values with their frequencies, all numbers, and the order they come in.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gentus.dates import read_dates
from gentus.features import PROFILE, Features, _number, featurize
from gentus.lake.base import spread
from gentus.table import Column, Table

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_CELLS = 512  # looked at of a column
_LOOK = 16  # distinct values that tell whether a column holds any numbers
DECIMALS = 7  # 0 to 5 decimal places, or more
HABITS = (  # numbers that any column has, whatever it holds; all about 0 to 1
    "share of cells that are empty",
    "chance that two cells are equal",
    "follows the rows",
    *(f"profile {at}" for at in range(PROFILE)),
)


@dataclass(frozen=True, slots=True)
class Digest:
    """The C columns of a table. Empty ones are rows of zeros."""

    table: Table
    features: Features  # of the filled columns
    filled: I64  # (F,) which columns these are
    owner: I64  # (n,) the column of every distinct value ...
    keys: I64  # (n,) ... a number that equal values share, however they are written ...
    counts: F64  # (n,) ... and how often it occurs
    numbers: list[F64]  # of every column its numbers, or its dates in days, sorted
    kinds: F64  # (C, 3) share of cells that are numbers, dates and text
    decimals: F64  # (C, DECIMALS) roots of the shares of numbers with so many decimal places
    habits: F64  # (C, HABITS)
    formats: list[str]  # of every column the name of its date format, or nothing


def digest(table: Table) -> Digest:
    """Look at a table closely, once, to compare it with others."""
    columns = [_thinned(column.cells) for column in table.columns]
    count = len(columns)
    kinds, habits = np.zeros((count, 3)), np.zeros((count, len(HABITS)))
    decimals = np.zeros((count, DECIMALS))
    numbers: list[F64] = []
    formats: list[str] = []
    keys: list[I64] = []
    counts: list[F64] = []
    for at, cells in enumerate(columns):
        counter = Counter(cells)
        values, times = list(counter), np.fromiter(counter.values(), np.float64, len(counter))
        dates = read_dates(values) if values else None
        quantities = dates.days if dates else _numbers(values)
        found = np.isfinite(quantities)
        share = float(times[found].sum() / max(times.sum(), 1))
        kinds[at] = (0, share, 1 - share) if dates else (share, 0, 1 - share)
        if not cells:
            kinds[at] = 0
        if found.any():
            numbers.append(np.sort(np.repeat(quantities[found], times[found].astype(np.int64))))
            if not dates:
                decimals[at] = _decimals(
                    [v for v, good in zip(values, found, strict=True) if good], times[found]
                )
        else:
            numbers.append(np.zeros(0))
        keys.append(_keys(values, quantities, found))
        counts.append(times)
        formats.append(dates.format if dates else "")
        habits[at, :3] = (
            1 - len(cells) / max(table.rows, len(cells), 1) if len(cells) < MOST_CELLS else 0,
            _equal(times),
            _follows(cells, dict(zip(values, quantities.tolist(), strict=True)) if found.any() else {}),
        )
    features = featurize(
        Table(
            table.name,
            [Column(c.name, cells) for c, cells in zip(table.columns, columns, strict=True)],
            table.rows,
        )
    )
    filled = np.array([at for at, cells in enumerate(columns) if cells], np.int64)
    habits[filled, 3:] = features.profile
    return Digest(
        table,
        features,
        filled,
        np.repeat(np.arange(count), [len(part) for part in keys]),
        np.concatenate([np.zeros(0, np.int64), *keys]),
        np.concatenate([np.zeros(0), *counts]),
        numbers,
        kinds,
        decimals,
        habits,
        formats,
    )


def _thinned(cells: list[str]) -> list[str]:
    return cells if len(cells) <= MOST_CELLS else [cells[at] for at in spread(len(cells), MOST_CELLS)]


def _numbers(values: list[str]) -> F64:
    """(n,) the numbers that values are, NaN for others."""
    try:
        read = np.array(list(map(float, values)))
    except ValueError:
        some = values[:: max(1, len(values) // _LOOK)][:_LOOK]
        if not any(_number(value) == _number(value) for value in some):
            return np.full(len(values), np.nan)
        read = np.array([_number(value) for value in values])
    return np.where(np.isfinite(read), read, np.nan)


def _keys(values: list[str], quantities: F64, found: NDArray[np.bool_]) -> I64:
    """Equal numbers, equal days and texts that differ in case or spaces get equal keys."""
    keys = (quantities + 0.0).view(np.int64)
    if not found.all():
        keys = keys.copy()
        for at in np.flatnonzero(~found).tolist():
            keys[at] = hash(" ".join(values[at].casefold().split()))
    return keys


def _decimals(values: list[str], times: F64) -> F64:
    """Roots of the shares, so that the product of two such is their affinity."""
    places = [len(value) - 1 - value.rfind(".") if "." in value else 0 for value in values]
    shares = np.bincount(np.minimum(places, DECIMALS - 1), times, DECIMALS) / times.sum()
    return np.asarray(np.sqrt(shares), np.float64)


def _equal(times: F64) -> float:
    """The chance that two cells of a column are equal: unlike the number of values, alike in all samples."""
    total = times.sum()
    return float((times * (times - 1)).sum() / max(total * (total - 1), 1))


def _follows(cells: list[str], quantities: dict[str, float]) -> float:
    """How the order of rows follows the values: 1 rising, -1 falling, by neighbours in the sample."""
    if len(cells) < 3:
        return 0.0
    if quantities:
        series = np.array([quantities[cell] for cell in cells])
        steps = np.diff(series[np.isfinite(series)])
        up, down = float((steps > 0).sum()), float((steps < 0).sum())
    else:
        up = float(sum(a < b for a, b in pairwise(cells)))
        down = float(sum(a > b for a, b in pairwise(cells)))
    return (up - down) / max(up + down, 1)
