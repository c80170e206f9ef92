"""The neighbour graph of a lake without labels: which of its tables belong together.

Candidates are the nearest tables by their vectors. They are scored by how well columns match, and also at the
same position as far as the lake keeps column positions. After hubness correction the best are a table's
weighted neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I32, I64
from gentus.features.evidence import normalize
from gentus.progress import Tick
from gentus.settings import GraphSettings
from gentus.sparse import SparseRows
from gentus.threads import parallel

BLOCK = 256  # tables compared with the lake at once: (BLOCK, T) similarities in memory
ANCHORS, PARTNERS = 1000, 3  # tables, and best matches of each, that `kept_positions` compares


@dataclass(frozen=True, slots=True)
class Graph:
    """Every table's best candidates, best first; never the table itself."""

    ids: I32  # (T, n)
    scores: F32  # (T, n)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Weighted neighbours, and how far tables that belong together have their columns in the same order."""

    weights: SparseRows  # (T, T), zero for all but a table's neighbours
    order: float  # 0: no more than by chance, 1: always; times `GraphSettings.order`
    width: float = 0.0  # weight of the number of columns, where labels say that it counts


def find_neighbours(
    vectors: F32, columns: F32, starts: I64, settings: GraphSettings, tick: Tick = lambda n: None
) -> Neighbours:
    """The neighbours of tables with (T, D) vectors and (C, d) columns."""
    count = min(settings.candidates, len(vectors) - 1)
    found = nearest(principal(vectors, settings.n_components), count)
    order = round(settings.order * kept_positions(columns, starts, found.ids), 3)
    scores = match_candidates(columns, starts, found.ids, order, tick)
    return Neighbours(weighted_neighbours(Graph(found.ids, scores), settings), order)


def principal(vectors: F32, n_components: int, sample: int = 20_000) -> F32:
    """(T, n_components) unit vectors in their leading principal components."""
    some = vectors[:: max(1, -(-len(vectors) // sample))].astype(np.float64)
    if len(some) < some.shape[1]:
        basis = np.linalg.svd(some, full_matrices=False)[2].T
    else:
        basis = np.linalg.eigh(some.T @ some)[1][:, ::-1]
    return normalize(vectors @ np.ascontiguousarray(basis[:, :n_components], np.float32))


def nearest(vectors: F32, count: int, anchors: I32 | None = None) -> Graph:
    """The `count` nearest other tables of every table, or of `anchors`, by the product of (T, d) vectors."""
    every = np.arange(len(vectors), dtype=np.int32) if anchors is None else anchors
    ids = np.empty((len(every), count), np.int32)
    scores = np.empty(ids.shape, np.float32)
    across = np.ascontiguousarray(vectors.T)

    def block(begin: int) -> None:
        own = every[begin : begin + BLOCK]
        similarity = vectors[own] @ across  # (block, T)
        similarity[np.arange(len(own)), own] = -np.inf
        for row, values in enumerate(similarity, begin):
            ids[row] = best = largest(values, count)
            scores[row] = values[best]

    for _ in parallel(block, range(0, len(every), BLOCK)):
        pass
    return Graph(ids, scores)


def largest(values: F32, count: int) -> I64:
    """Positions of the `count` largest values, largest first, of equals the first."""
    step = len(values) // (8 * count) if count else 0
    some: I64 = np.arange(len(values))
    if step > 1:  # a value below the largest of a sample is not among the largest of all
        part = values[::step]
        some = np.flatnonzero(values >= np.partition(part, len(part) - count)[len(part) - count])
    if 0 < count < len(some):
        edge = np.partition(values[some], len(some) - count)[len(some) - count]
        some = some[values[some] >= edge]
    return some[np.argsort(-values[some], kind="stable")[:count]]


def kept_positions(columns: F32, starts: I64, candidates: I32) -> float:
    """How far columns keep their positions in this lake: 0 no more than by chance, 1 always.

    Some tables are compared with their best matches. Of the columns that are each other's best match, it is
    the share at the same position, less the share expected by chance for tables of that width.
    """
    same = chance = pairs = 0.0
    for table in np.unique(np.linspace(0, len(candidates) - 1, ANCHORS).astype(int)):
        own = columns[starts[table] : starts[table + 1]]
        scores = match_columns(own, columns, starts, candidates[table])
        for other in candidates[table][np.argsort(-scores, kind="stable")[:PARTNERS]]:
            theirs = columns[starts[other] : starts[other + 1]]
            similarity = own @ theirs.T
            best = similarity.argmax(1)
            mutual = np.flatnonzero(similarity.argmax(0)[best] == np.arange(len(own)))
            if len(mutual) > 1:
                same += float((best[mutual] == mutual).mean())
                chance += 1 / max(len(own), len(theirs))
                pairs += 1
    return max(same - chance, 0) / (pairs - chance) if pairs else 0.0


def match_candidates(
    columns: F32, starts: I64, candidates: I32, order: float = 0.0, tick: Tick = lambda n: None
) -> F32:
    """(T, n) how well the columns of every table and each of its candidates match."""
    scores = np.empty(candidates.shape, np.float32)

    def block(begin: int) -> int:
        end = min(begin + 64, len(candidates))
        for table in range(begin, end):
            own = columns[starts[table] : starts[table + 1]]
            scores[table] = match_columns(own, columns, starts, candidates[table], order)
        return end - begin

    for done in parallel(block, range(0, len(candidates), 64)):
        tick(done)
    return scores


def match_columns(
    own: F32, columns: F32, starts: I64, candidates: NDArray[np.integer], order: float = 0.0
) -> F32:
    """(n,) similarity of a table's (q, d) columns to the best of each candidate's, and the other way round.

    The lesser of the two sums counts, over the geometric mean of the widths: so a table with two of the ten
    columns scores low, and also one with a hundred more. Every table has columns. The similarity of columns
    at the same position is added with the weight `order`.
    """
    at, counts = column_ids(starts, candidates)
    similarity = np.maximum(own @ columns[at].T, 0)  # (q, sum of counts)
    begins = np.cumsum(counts) - counts
    forward = np.maximum.reduceat(similarity, begins, axis=1).sum(0)
    backward = np.add.reduceat(similarity.max(0), begins)
    total = np.minimum(forward, backward)
    if order:
        position = np.arange(len(at)) - np.repeat(begins, counts)
        inside = np.flatnonzero(position < len(own))
        aligned = np.zeros(len(at), np.float32)
        aligned[inside] = similarity[position[inside], inside]
        total = total + order * np.add.reduceat(aligned, begins)
    return np.asarray(total / np.sqrt(len(own) * counts), np.float32)


def column_ids(starts: I64, tables: NDArray[np.integer]) -> tuple[I64, I64]:
    """The columns of some tables, one after the other, and (n,) how many each has."""
    counts = starts[tables + 1] - starts[tables]
    shift = starts[tables] - np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.repeat(shift, counts) + np.arange(counts.sum()), counts


def weighted_neighbours(found: Graph, settings: GraphSettings) -> SparseRows:
    """(T, T) the best candidates of each table after hubness correction, weighted by score above the rest."""
    total, width = found.ids.shape
    kept = min(settings.kept, width)
    order = np.argsort(-found.scores, axis=1, kind="stable")[:, : settings.reciprocal]
    usual = np.take_along_axis(found.scores, order, 1).mean(1)  # the mean score of a table's neighbours
    scores = found.scores - settings.hubness * usual[found.ids]
    order = np.argsort(-scores, axis=1, kind="stable")
    ids, scores = np.take_along_axis(found.ids, order, 1), np.take_along_axis(scores, order, 1)
    floor = scores[:, kept][:, None] if kept < width else scores[:, -1:]
    weights = np.maximum(scores[:, :kept] - floor, 0) + 1e-9
    pointers = np.arange(0, total * kept + 1, kept)
    return SparseRows(weights.ravel(), ids[:, :kept].ravel(), pointers, total)


def mutual_neighbours(graph: SparseRows, count: int) -> SparseRows:
    """(T, T) weights of k-reciprocal neighbours, k = `count`, in rows of sum one."""
    total, owners = len(graph), graph.owners()
    best = np.flatnonzero(np.arange(len(owners)) - graph.starts[owners] < count)  # rows are best first
    rows, columns = owners[best], graph.columns[best].astype(np.int64)
    mutual = np.isin(rows * total + columns, columns * total + rows)
    shape = total, total
    near = SparseRows.of_entries(graph.values[best][mutual], rows[mutual], columns[mutual], shape)
    return near.scaled((1 / np.maximum(near.sums(), 1e-12)).astype(np.float32))
