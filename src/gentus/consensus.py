"""The teacher of a lake without labels: what its evidence says as a whole, and neighbours of each other.

Three things that no single pair of tables can tell are taken from the lake as a whole. Directions in which
the evidence of columns varies together stand for what is said in different words, and are compared instead
of the words (`column_views`). Tables that are near to everything are near to nothing in particular
(`_without_hubs`). And tables whose neighbours are the same are alike, even where their own cells are not
(`_spread`). What the lake says of a table, its identifier says too: before its codes are written, a table
leans towards its neighbours (`lean`). A query is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gentus.evidence import BLOCKS, F32, block_weights, normalize
from gentus.teacher import I32, Columns, Graph, column_ids, match_columns

# What evidence is usually worth in columns of text, and in columns of numbers, which say little in words.
TEXT = np.array(
    [{"words": 0.25, "grams": 0.20, "shapes": 0.10, "pieces": 0.35, "profile": 0.10}[k] for k in BLOCKS]
)
NUMBERS = np.array(
    [{"words": 0.10, "grams": 0.10, "shapes": 0.25, "pieces": 0.10, "profile": 0.45}[k] for k in BLOCKS]
)


@dataclass(frozen=True, slots=True)
class ConsensusSettings:
    """How much the lake as a whole has to say."""

    directions: int = 384  # of the evidence that are compared
    tempered: float = 0.25  # 0: as they vary, 1: all alike
    hubs: float = 0.4  # how much a table loses for being near to everything
    circle: int = 15  # neighbours that two tables may share
    spread: float = 1.0  # how much neighbours have to say
    kept: int = 50  # neighbours of each table in the end
    lean: float = 0.5  # how far a table of the lake moves towards them


def usual_weights(found: F32) -> F32:
    """(kinds,) weights midway between those found in a lake and what text usually needs."""
    return np.asarray((found + TEXT) / 2, np.float32)


class Consensus:
    """A judge without labels: columns matched in the directions that the lake's evidence has."""

    def __init__(self, columns: Columns, settings: ConsensusSettings, random: np.random.Generator) -> None:
        self.views = column_views(columns, settings, random)

    def vectors(self, columns: Columns) -> F32:
        """(T, directions) whole tables."""
        return normalize(np.add.reduceat(self.views, columns.starts[:-1]))

    def scores(self, columns: Columns, anchor: int, candidates: I32) -> F32:
        """(n,) optimal matchings of columns."""
        at, counts = column_ids(columns.starts, candidates)
        own = self.views[columns.starts[anchor] : columns.starts[anchor + 1]]
        return match_columns(own @ self.views[at].T, counts)


def column_views(
    columns: Columns, settings: ConsensusSettings, random: np.random.Generator, block: int = 8192
) -> F32:
    """(C, directions) columns of length one, in the leading directions of the lake's evidence."""
    weights = block_weights(columns.evidence)
    shift = (NUMBERS - TEXT) / 2 / np.maximum(weights, 1e-9)

    def weighed(rows: slice | NDArray[np.int64]) -> F32:
        part = columns.evidence[rows].copy()
        for change, kind in zip(shift, BLOCKS.values(), strict=True):
            part[:, kind] *= np.sqrt(np.maximum(1 + change * columns.numbers[rows], 0))[:, None]
        return part

    total = len(columns.evidence)
    sample = weighed(np.sort(random.choice(total, min(total, 20_000), replace=False)))
    values, vectors = np.linalg.eigh(sample.T @ sample / len(sample))
    width = min(settings.directions, len(values))
    values = np.maximum(values[::-1][:width], values[-1] * 1e-9)
    scale = (values / values[0]) ** (-settings.tempered / 2)
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :width] * scale, np.float32)
    views = np.empty((total, width), np.float32)
    for begin in range(0, total, block):
        rows = slice(begin, min(begin + block, total))
        views[rows] = normalize(weighed(rows) @ basis)
    return views


def agree(graph: Graph, settings: ConsensusSettings) -> Graph:
    """The graph after its tables have heard their neighbours: hubs step back, circles close."""
    total, width = graph.ids.shape
    kept, circle = min(settings.kept, width), min(settings.circle, width)
    ids, scores = _without_hubs(graph, settings.hubs, circle)
    floor = scores[:, kept][:, None] if kept < width else scores[:, -1:]
    # Above the floor: absent pairs then count as pairs at the floor, not as far below it.
    above = np.maximum(scores[:, :kept] - floor, 0) + 1e-9
    near = _rows(ids[:, :kept], above, total)
    ids, scores = _best(_spread(near, ids[:, :circle], settings.spread), kept)
    return Graph(ids, scores)


def _without_hubs(graph: Graph, hubs: float, circle: int) -> tuple[I32, F32]:
    """Neighbours in the order of their scores less a part of what each scores with its own neighbours."""
    usual = graph.scores[:, :circle].mean(1)
    scores = graph.scores - hubs * usual[graph.ids]
    order = np.argsort(-scores, 1, kind="stable")
    return np.take_along_axis(graph.ids, order, 1), np.take_along_axis(scores, order, 1)


def _spread(near: sp.csr_matrix, circles: I32, strength: float) -> sp.csr_matrix:
    """(T, T) scores plus those of mutual neighbours, each as far as it shares the circle, on both sides."""
    total, circle = circles.shape
    member = _rows(circles, np.ones(circles.shape, np.float32), total)
    mutual = member.multiply(member.T).tocsr()
    closed = (member + sp.identity(total, np.float32, "csr")).tocsr()
    shared = (closed @ closed.T).multiply(mutual).tocsr()
    shared.data = shared.data / (2 * (circle + 1) - shared.data) / circle  # Jaccard, over the circle's size
    spread = (near + strength / 2 * (shared @ near) + strength / 2 * (near @ shared)).tocsr()
    owner = np.repeat(np.arange(total), np.diff(spread.indptr))
    spread.data[spread.indices == owner] = (
        0  # what comes back from its neighbours says nothing new of a table
    )
    spread.eliminate_zeros()
    return spread


def _rows(ids: I32, values: F32, total: int) -> sp.csr_matrix:
    """(T, T) with the values of each row at its ids."""
    width = ids.shape[1]
    pointers = np.arange(0, total * width + 1, width)
    return sp.csr_matrix((values.ravel().astype(np.float32), ids.ravel(), pointers), (total, total))


def _best(scores: sp.csr_matrix, count: int) -> tuple[I32, F32]:
    """The `count` highest of every row, which must have as many, best first."""
    owner = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, owner))
    at = order[scores.indptr[:-1, None] + np.arange(count)]
    return scores.indices[at].astype(np.int32), scores.data[at].astype(np.float32)


def towards(latents: F32, near: sp.csr_matrix, weight: float) -> F32:
    """(T, d) what draws each table to its neighbours: the mean of their latents by (T, T) weights `near`."""
    share = sp.diags(weight / np.maximum(near.sum(1).A1, 1e-9)) @ near
    return np.asarray(share @ latents, np.float32)
