"""The nearest identifiers of every identifier of a prefix tree, in time that grows with their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.identifiers.codebooks import Codebooks
from gentus.neighbours.graph import BLOCK, Graph, largest
from gentus.progress import Tick
from gentus.retrieval.trie import Tree
from gentus.threads import parallel

REACH = 20_000  # identifiers that one is compared with: those with its first code, and with near ones


@dataclass(frozen=True, slots=True)
class RowGraph:
    """The rows of a tree, and their neighbours by position among these rows."""

    rows: I64  # (T,)
    nearest: Graph  # (T, n)


def nearest_rows(tree: Tree, codebooks: Codebooks, count: int, tick: Tick = lambda n: None) -> RowGraph:
    """The `count` nearest other rows of every row, by the cosine of their decoded identifiers.

    Rows are compared with those whose first codeword is nearest to theirs; if there are few, with all.
    """
    cells = tree.expand(np.array([tree.root]), np.array([len(tree)]), 0)
    parent, rows = tree.descendants(cells.nodes, cells.counts)
    rows = rows[np.argsort(parent, kind="stable")]  # cell by cell
    ends = np.cumsum(cells.counts)
    vectors = _unit_vectors(tree, codebooks, rows)
    ids = np.zeros((len(rows), min(count, len(rows) - 1)), np.int32)
    scores = np.zeros(ids.shape, np.float32)
    books = codebooks.codewords[0][cells.symbols]  # (cells, d)

    def compare(job: tuple[int, int, int]) -> int:
        """Find the neighbours of some rows of a cell."""
        cell, begin, end = job
        near = np.sort(_near_cells(books, cells.counts, cell))
        others = np.concatenate([np.arange(ends[at] - cells.counts[at], ends[at]) for at in near])
        similarity = vectors[begin:end].astype(np.float32) @ vectors[others].astype(np.float32).T
        similarity[np.arange(end - begin), np.searchsorted(others, np.arange(begin, end))] = -np.inf
        for at, values in enumerate(similarity, begin):
            best = largest(values, ids.shape[1])
            ids[at], scores[at] = others[best], values[best]
        return end - begin

    jobs = [
        (cell, begin, min(begin + BLOCK, end))
        for cell, (end, size) in enumerate(zip(ends.tolist(), cells.counts.tolist(), strict=True))
        for begin in range(end - size, end, BLOCK)
    ]
    for done in parallel(compare, jobs):
        tick(done)
    return RowGraph(rows, Graph(ids, scores))


def _unit_vectors(tree: Tree, codebooks: Codebooks, rows: I64) -> NDArray[np.float16]:
    """(T, d) decoded identifiers of length one, in half precision: memory is what limits T."""
    vectors = np.zeros((len(rows), codebooks.codewords.shape[2]), np.float16)
    step = 1 << 16
    for begin in range(0, len(rows), step):
        some = codebooks.decode(tree.codes_of(rows[begin : begin + step]))
        vectors[begin : begin + step] = some / np.maximum(np.linalg.norm(some, axis=1, keepdims=True), 1e-9)
    return vectors


def _near_cells(books: F32, counts: I64, cell: int) -> I64:
    """The cells around one that have `REACH` rows together, or all cells."""
    distance = ((books - books[cell]) ** 2).sum(1)
    distance[cell] = -1
    order = np.argsort(distance, kind="stable")
    return order[: int(np.searchsorted(np.cumsum(counts[order]), REACH)) + 1]
