"""An HNSW graph over vectors, many of which may be equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.extras import install_extra


class Neighbours:
    """Nearest rows of a matrix by inner product, from an HNSW graph of its distinct rows.

    Lakes repeat columns thousands of times, and equal points cut an HNSW graph into islands: each distinct
    row is one point. Rows are rounded to the half precision in which the graph keeps them, so that what
    verifies candidates is what a saved index would hold.
    """

    def __init__(self, rows: F32, connectivity: int = 16, expansion: int = 128) -> None:
        try:
            from usearch.index import Index
        except ImportError as error:
            raise ImportError(f"this baseline needs usearch: {install_extra('bench')}") from error
        halves = np.ascontiguousarray(rows.astype(np.float16) + np.float16(0))  # -0 is 0
        keys = halves.view(np.dtype((np.void, halves.shape[1] * 2))).ravel()
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        self.rows: F32 = halves.astype(np.float32)
        self._members: I64 = np.argsort(group, kind="stable")
        self._starts: I64 = np.append(0, np.cumsum(np.bincount(group, minlength=len(first))))
        self._graph: Any = Index(
            ndim=rows.shape[1], metric="ip", dtype="f16", connectivity=connectivity, expansion_add=expansion
        )
        if len(first):  # one thread: the order of insertion, and so the graph, is the same in every run
            self._graph.add(np.arange(len(first)), self.rows[first], threads=1)

    def nearest(self, queries: F32, count: int) -> I64:
        """Rows near to any of the queries, in order: of each at least `count`, if there are so many."""
        distinct = len(self._starts) - 1
        if not len(queries) or not distinct:
            return np.zeros(0, np.int64)
        if count >= distinct:  # a graph is no help when everything is asked for
            return np.arange(len(self.rows))
        found = self._graph.search(queries, count, threads=1)
        keys = np.atleast_2d(found.keys).astype(np.int64)  # (q, count), nearest first; (n,) of one query
        there = np.ones(keys.shape, bool)
        if len(queries) > 1:
            there = np.arange(count) < found.counts[:, None]
        sizes = np.where(there, np.diff(self._starts)[np.where(there, keys, 0)], 0)
        # A point may stand for thousands of rows: nearer points are taken until there are rows enough.
        places = np.unique(keys[there & (np.cumsum(sizes, axis=1) - sizes < count)])
        return np.sort(_ranges(self._members, self._starts[places], self._starts[places + 1]))

    @property
    def nbytes(self) -> int:
        """Bytes on disk: the graph with its vectors, and which row is which point."""
        return int(self._graph.serialized_length) + 4 * len(self.rows)


def _ranges(values: I64, begins: I64, ends: I64) -> I64:
    """Concatenate `values[begin:end]` of many ranges."""
    counts = ends - begins
    shift = np.repeat(begins - np.append(0, np.cumsum(counts)[:-1]), counts)
    picked: NDArray[np.int64] = values[shift + np.arange(counts.sum())]
    return picked
