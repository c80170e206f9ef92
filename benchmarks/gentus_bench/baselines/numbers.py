"""Which columns are numbers, and what numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gentus.arrays import F32

QUANTILES = 33
_NOISE = str.maketrans("", "", ",%$€£ ")


def number(cell: str) -> float:
    """The number a cell holds, units of money and percent left off; NaN if it holds none."""
    if not any(character.isdigit() for character in cell):
        return math.nan  # also "nan" and "infinity"
    try:
        value = float(cell.translate(_NOISE))
    except ValueError:
        return math.nan
    return value if abs(value) < 1e30 else math.nan


def quantiles(cells: Iterable[str]) -> F32 | None:
    """(QUANTILES,) evenly spread order statistics if most cells are numbers, else None."""
    every = np.array([number(cell) for cell in cells])
    found = np.sort(every[~np.isnan(every)])
    if len(found) * 2 <= len(every):
        return None
    at = np.rint(np.linspace(0, len(found) - 1, QUANTILES)).astype(np.int64)
    return found[at].astype(np.float32)


def kolmogorov_smirnov(own: F32, theirs: F32) -> F32:
    """(n,) the largest gap between the distribution of one sorted sample and of each row of another."""
    below = np.searchsorted(own, theirs, side="right") / len(own)  # (n, m) of own values at their points
    order = np.arange(1, theirs.shape[1] + 1) / theirs.shape[1]
    # Of equal points only the last has the full share below it.
    last = np.append(theirs[:, 1:] != theirs[:, :-1], np.ones((len(theirs), 1), bool), axis=1)
    at_theirs = np.where(last, np.abs(below - order), 0).max(1)
    points, ties = np.unique(own, return_counts=True)
    shares = np.cumsum(ties) / len(own)
    at_own = np.zeros(len(theirs))
    for point, share in zip(points, shares, strict=True):
        at_own = np.maximum(at_own, np.abs((theirs <= point).mean(1) - share))
    return np.asarray(np.maximum(at_theirs, at_own), np.float32)
