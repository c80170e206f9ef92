"""Sparse matrices by rows: all that a lake without labels needs of them, in NumPy.

SciPy has them, too, and takes 140 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64, Integers

Floats: TypeAlias = NDArray[np.floating[Any]]

AT_ONCE = 512  # entries whose rows of the other factor are gathered at once: more do not stay in the cache


@dataclass(frozen=True, slots=True)
class SparseRows:
    """A matrix of R rows with n entries; all others are zero."""

    values: Floats  # (n,)
    columns: Integers  # (n,)
    starts: Integers  # (R + 1,) where the entries of each row begin, and where those of the last end
    width: int

    @classmethod
    def of_entries(
        cls,
        values: Floats,
        rows: Integers,
        columns: Integers,
        shape: tuple[int, int],
        join: np.ufunc = np.add,
    ) -> SparseRows:
        """From entries in any order; those at the same place are added, or joined by another function."""
        height, width = shape
        keys = rows.astype(np.int64) * width + columns
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        joined = join.reduceat(values[order], begins) if len(begins) else values[:0]
        places = keys[begins]
        starts = np.searchsorted(places, np.arange(height + 1) * width)
        return cls(joined, places % max(width, 1), starts, width)

    def __len__(self) -> int:
        """R."""
        return len(self.starts) - 1

    def owners(self) -> I64:
        """(n,) the row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def sums(self, power: int = 1) -> NDArray[np.float64]:
        """(R,) the sum of the entries of each row, or of a power of them, in double precision."""
        powers = self.values.astype(np.float64) ** power
        return np.bincount(self.owners(), powers, len(self)).astype(np.float64)

    def scaled(self, factors: Floats) -> SparseRows:
        """Every row times its factor of (R,)."""
        return replace(self, values=self.values * np.repeat(factors, np.diff(self.starts)))

    def transposed(self) -> SparseRows:
        """Its columns as rows."""
        order = np.argsort(self.columns, kind="stable")
        starts = np.searchsorted(self.columns[order], np.arange(self.width + 1))
        return SparseRows(self.values[order], self.owners()[order], starts, len(self))

    def some(self, begin: int, end: int) -> SparseRows:
        """Consecutive rows."""
        first, last = self.starts[[begin, end]].tolist() if begin < end else (0, 0)
        starts = self.starts[begin : end + 1] - first
        return SparseRows(self.values[first:last], self.columns[first:last], starts, self.width)

    def __matmul__(self, other: Floats) -> Floats:
        """(R, d) its product with a dense (width, d) matrix.

        A row of the product does not depend on the other rows, to the last bit.
        """
        product = np.zeros((len(self), other.shape[1]), np.result_type(self.values, other))
        for rows, at in self._equally_long():
            gathered = other.take(self.columns[at], axis=0)  # (r, m, d)
            product[rows] += np.matmul(self.values[at][:, None], gathered)[:, 0]
        return product

    def _equally_long(self) -> Iterator[tuple[I64, I64]]:
        """(r,) rows of the same length m and (r, m) their entries; of longer rows a piece at a time."""
        lengths = np.diff(self.starts)
        order = np.argsort(lengths, kind="stable")
        ends = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1))
        for first, last in pairwise(ends.tolist()):
            length = int(lengths[order[first]])
            step = max(AT_ONCE // max(length, 1), 1)
            for begin in range(first, last if length else first, step):
                rows = order[begin : min(begin + step, last)]
                for piece in range(0, length, AT_ONCE):
                    within = np.arange(piece, min(piece + AT_ONCE, length))
                    yield rows, self.starts[rows][:, None] + within
