"""The teacher beside labels: which tables of a lake are unionable, judged offline from their evidence.

Candidates come from table vectors (blocked products, never an N x N matrix); the best of them are judged
by an optimal one-to-one matching of columns. The result is a sparse graph of scored neighbours, which the
latent space then learns to reproduce.
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
    """The columns of T tables, as the teacher sees them. Tables without columns must have been left out."""

    evidence: F32  # (C, W)
    starts: I64  # (T + 1,)
    positions: NDArray[np.uint16]  # (C, 2) columns before and behind, empty ones too

    def __len__(self) -> int:
        """How many tables these are."""
        return len(self.starts) - 1

    def widths(self, tables: NDArray[np.integer[Any]] | slice = slice(None)) -> I64:
        """(n,) how many columns some tables have, or all, empty ones too."""
        return np.asarray(self.positions[self.starts[:-1][tables]].astype(np.int64).sum(1) + 1, np.int64)


class PairScorer(Protocol):
    """Anything that finds an anchor's candidates and scores them."""

    def vectors(self, columns: Columns) -> F32:
        """(T, W) vectors by whose product candidates are found."""

    def scores(self, columns: Columns, anchor: int, candidates: I32) -> F32:
        """(n,) how unionable an anchor and its candidates are."""


class MatchingScorer:
    """The judge without labels: all evidence in one, columns matched wherever they stand."""

    def vectors(self, columns: Columns) -> F32:
        """(T, W) whole tables."""
        return table_vectors(columns.evidence, columns.starts)

    def scores(self, columns: Columns, anchor: int, candidates: I32) -> F32:
        """(n,) optimal matchings of columns."""
        at, counts = column_ids(columns.starts, candidates)
        own = columns.evidence[columns.starts[anchor] : columns.starts[anchor + 1]]
        return match_columns(own @ columns.evidence[at].T, counts)


def table_vectors(columns: F32, starts: I64) -> F32:
    """(T, W) sums of column evidence, every kind of length one times the root of its weight."""
    parts = [
        float(np.sqrt(weight)) * normalize(np.add.reduceat(columns[:, block], starts[:-1]))
        for weight, block in zip(block_weights(columns), BLOCKS.values(), strict=True)
    ]
    return np.hstack(parts)


def match_columns(similarity: F32, counts: NDArray[np.int64]) -> F32:
    """Score candidates by optimal matching: (q, sum of counts) column similarities in, (n,) scores out.

    The matched similarity is divided by the geometric mean of the two widths, so that a table with two of
    the ten columns is no answer, and neither is one with a hundred more.
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
    columns: Columns, anchors: I32, settings: TeacherSettings, judge: PairScorer
) -> Iterator[tuple[int, I32, F32]]:
    """Every anchor with its candidates, best first, and their scores."""
    found = nearest(judge.vectors(columns), settings.width(len(columns)), anchors)
    for anchor, candidates in zip(anchors.tolist(), found.ids, strict=True):
        judged = judge.scores(columns, anchor, candidates)
        order = np.argsort(-judged, kind="stable")
        yield anchor, candidates[order], judged[order]


def find_neighbours(
    columns: Columns, settings: TeacherSettings, judge: PairScorer | None = None, tick: Tick = lambda n: None
) -> Graph:
    """Score every table's candidates."""
    total = len(columns)
    ids = np.zeros((total, settings.width(total)), np.int32)
    scores = np.zeros(ids.shape, np.float32)
    anchors = np.arange(total, dtype=np.int32)
    for anchor, found, judged in scored_candidates(columns, anchors, settings, judge or MatchingScorer()):
        ids[anchor], scores[anchor] = found, judged
        tick(1)
    return Graph(ids, scores)


def mutual_pairs(graph: Graph, nearest: int = 5) -> NDArray[np.int64]:
    """(P, 2) tables that are among each other's nearest: they stand in where annotations are missing."""
    total = len(graph.ids)
    near = graph.ids[:, :nearest]
    forward = np.repeat(np.arange(total), near.shape[1]) * total + near.ravel()
    backward = near.ravel().astype(np.int64) * total + np.repeat(np.arange(total), near.shape[1])
    both = np.intersect1d(forward, backward)
    return np.stack([both // total, both % total], 1)
