"""Scored neighbours where there are labels (the teacher): candidates by vectors, scored by column matching.

The result is a sparse graph, which the network then learns to reproduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gentus.arrays import F32, I32, I64
from gentus.features.evidence import BLOCKS, block_weights, normalize
from gentus.neighbours.graph import Graph, column_ids, nearest
from gentus.progress import Tick
from gentus.settings import TeacherSettings


@dataclass(slots=True)
class Columns:
    """The columns of T tables, each of which has some."""

    evidence: F32  # (C, W)
    starts: I64  # (T + 1,)
    positions: NDArray[np.uint16]  # (C, 2) columns to the left and to the right, empty ones too

    def __len__(self) -> int:
        """T."""
        return len(self.starts) - 1

    def widths(self, tables: NDArray[np.integer[Any]] | slice = slice(None)) -> I64:
        """(n,) widths of some tables, or all, empty columns included."""
        return np.asarray(self.positions[self.starts[:-1][tables]].astype(np.int64).sum(1) + 1, np.int64)


class PairScorer(Protocol):
    """Generates candidates for a table, the anchor, and scores the pairs."""

    def vectors(self, columns: Columns) -> F32:
        """(T, W) vectors; candidates are the nearest tables by their product."""

    def scores(self, columns: Columns, anchor: int, candidates: I32) -> F32:
        """(n,) unionability of an anchor with each of its candidates."""


class MatchingScorer:
    """Without labels: optimal matching of columns by all of their evidence, at any position."""

    def vectors(self, columns: Columns) -> F32:
        """(T, W) vectors of whole tables."""
        return table_vectors(columns.evidence, columns.starts)

    def scores(self, columns: Columns, anchor: int, candidates: I32) -> F32:
        """(n,) scores of optimal matchings of columns."""
        at, counts = column_ids(columns.starts, candidates)
        own = columns.evidence[columns.starts[anchor] : columns.starts[anchor + 1]]
        return assign_columns(own @ columns.evidence[at].T, counts)


def table_vectors(columns: F32, starts: I64) -> F32:
    """(T, W) sums of column evidence, each kind scaled to the square root of its weight."""
    parts = [
        float(np.sqrt(weight)) * normalize(np.add.reduceat(columns[:, block], starts[:-1]))
        for weight, block in zip(block_weights(columns), BLOCKS.values(), strict=True)
    ]
    return np.hstack(parts)


def assign_columns(similarity: F32, counts: NDArray[np.int64]) -> F32:
    """(n,) scores of optimal one-to-one assignments, from (q, sum of counts) column similarities.

    The summed similarity is divided by the geometric mean of the two widths, so that a table with two of the
    ten columns scores low, and also one with a hundred more.
    """
    scores = np.empty(len(counts), np.float32)
    width = len(similarity)
    end = 0
    for i, count in enumerate(counts.tolist()):
        part = similarity[:, end : end + count]
        end += count
        rows, matched = linear_sum_assignment(part, maximize=True)
        scores[i] = part[rows, matched].sum() / (width * count) ** 0.5
    return scores


def scored_candidates(
    columns: Columns, anchors: I32, settings: TeacherSettings, scorer: PairScorer
) -> Iterator[tuple[int, I32, F32]]:
    """Every anchor with its candidates, best first, and their scores."""
    found = nearest(scorer.vectors(columns), settings.width(len(columns)), anchors)
    for anchor, candidates in zip(anchors.tolist(), found.ids, strict=True):
        scores = scorer.scores(columns, anchor, candidates)
        order = np.argsort(-scores, kind="stable")
        yield anchor, candidates[order], scores[order]


def score_neighbours(
    columns: Columns, settings: TeacherSettings, scorer: PairScorer | None = None, tick: Tick = lambda n: None
) -> Graph:
    """The graph of every table's scored candidates."""
    total = len(columns)
    ids = np.zeros((total, settings.width(total)), np.int32)
    scores = np.zeros(ids.shape, np.float32)
    anchors = np.arange(total, dtype=np.int32)
    for anchor, found, scored in scored_candidates(columns, anchors, settings, scorer or MatchingScorer()):
        ids[anchor], scores[anchor] = found, scored
        tick(1)
    return Graph(ids, scores)


def mutual_pairs(graph: Graph, nearest: int = 5) -> NDArray[np.int64]:
    """(P, 2) k-reciprocal neighbours, k = `nearest`: positive pairs where there are no annotations."""
    total = len(graph.ids)
    near = graph.ids[:, :nearest]
    forward = np.repeat(np.arange(total), near.shape[1]) * total + near.ravel()
    backward = near.ravel().astype(np.int64) * total + np.repeat(np.arange(total), near.shape[1])
    both = np.intersect1d(forward, backward)
    return np.stack([both // total, both % total], 1)
