"""The label-free teacher: which tables of a lake are unionable, judged offline from their evidence.

Candidates come from table vectors (blocked products, never an N x N matrix); the best of them are judged
by an optimal one-to-one matching of columns. The result is a sparse graph of scored neighbours, which the
latent space then learns to reproduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gentus.evidence import BLOCKS, F32, normalize
from gentus.progress import Tick

I32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TeacherSettings:
    """How hard the teacher looks."""

    candidates: int = 200  # tables judged by column matching, for each anchor ...
    candidates_in_large_lakes: int = 100  # ... and where that would take many minutes
    large: int = 20_000  # tables
    block: int = 256  # anchors compared with the lake at once
    weighing_anchors: int = 200  # tables from which the weight of each kind of evidence is judged

    def width(self, tables: int) -> int:
        """How many candidates each anchor of a lake gets."""
        most = self.candidates if tables <= self.large else self.candidates_in_large_lakes
        return min(most, tables - 1)


@dataclass(frozen=True, slots=True)
class Graph:
    """Every anchor's best candidates, best first; never the anchor itself."""

    ids: I32  # (T, n)
    scores: F32  # (T, n)


def _table_vectors(columns: F32, starts: NDArray[np.int64]) -> F32:
    """(T, W) sums of column evidence, every kind of length one times the root of its weight."""
    parts = []
    for at in BLOCKS.values():
        block = columns[:, at]
        # The rows of a block all have the same length: the root of its weight.
        scale = float(np.sqrt((block[:4096] ** 2).sum(1).max()))
        parts.append(scale * normalize(np.add.reduceat(block, starts[:-1])))
    return np.hstack(parts)


def _candidates(tables: F32, anchors: I32, settings: TeacherSettings) -> Iterator[tuple[int, I32]]:
    """For every anchor the tables nearest to it as a whole."""
    lake = torch.from_numpy(tables)
    count = settings.width(len(tables))
    for begin in range(0, len(anchors), settings.block):
        block = torch.from_numpy(anchors[begin : begin + settings.block].astype(np.int64))
        similarity = lake[block] @ lake.T  # (block, T)
        similarity[torch.arange(len(block)), block] = -torch.inf
        nearest = similarity.topk(count, dim=1).indices.numpy().astype(np.int32)
        yield from zip(block.tolist(), nearest, strict=True)


def column_ids(
    starts: NDArray[np.int64], tables: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The columns of some tables, and how many each has."""
    counts = starts[tables + 1] - starts[tables]
    shift = starts[tables] - np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.repeat(shift, counts) + np.arange(counts.sum()), counts


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


def find_neighbours(
    columns: F32, starts: NDArray[np.int64], settings: TeacherSettings, tick: Tick = lambda n: None
) -> Graph:
    """Judge every table's candidates. Tables without columns must have been left out."""
    total = len(starts) - 1
    tables = _table_vectors(columns, starts)
    ids = np.zeros((total, settings.width(total)), np.int32)
    scores = np.zeros(ids.shape, np.float32)
    for anchor, nearest in _candidates(tables, np.arange(total, dtype=np.int32), settings):
        at, counts = column_ids(starts, nearest)
        similarity = columns[starts[anchor] : starts[anchor + 1]] @ columns[at].T
        judged = match_columns(similarity, counts)
        order = np.argsort(-judged, kind="stable")
        ids[anchor], scores[anchor] = nearest[order], judged[order]
        tick(1)
    return Graph(ids, scores)


def kind_scores(
    columns: F32, starts: NDArray[np.int64], anchors: I32, settings: TeacherSettings
) -> Iterator[tuple[I32, F32]]:
    """For every anchor its candidates and, (kinds, n), what each kind of evidence alone thinks of them."""
    tables = _table_vectors(columns, starts)
    for anchor, nearest in _candidates(tables, anchors, settings):
        at, counts = column_ids(starts, nearest)
        own, theirs = columns[starts[anchor] : starts[anchor + 1]], columns[at]
        yield (
            nearest,
            np.stack([match_columns(own[:, b] @ theirs[:, b].T, counts) for b in BLOCKS.values()]),
        )


def weigh_evidence(
    columns: F32, starts: NDArray[np.int64], settings: TeacherSettings, random: np.random.Generator
) -> F32:
    """How much each kind of evidence counts in this lake, judged from the lake alone.

    Unionability is the one cause that all kinds of evidence share, so a kind is as trustworthy as it agrees
    with the others: one common factor is fitted to the correlations of their scores, and the weights are
    those of its best linear estimate. A kind whose scores spread more is scaled down to the others' spread.
    """
    total = len(starts) - 1
    anchors = random.choice(total, min(total, settings.weighing_anchors), replace=False).astype(np.int32)
    correlations, spreads = [], []
    for _, scores in kind_scores(columns, starts, anchors, settings):
        spread = scores.std(1)
        if scores.shape[1] > 2 and (spread > 1e-6).all():
            correlations.append(np.corrcoef(scores))
            spreads.append(spread)
    if not correlations:
        return np.full(len(BLOCKS), 1 / len(BLOCKS), np.float32)
    loadings = _one_factor(np.mean(correlations, 0))
    weights = loadings / (1 - loadings**2) / np.mean(spreads, 0)
    return np.asarray(weights / weights.sum(), np.float32)


def _one_factor(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Loadings of the common factor of a correlation matrix, by principal axis factoring."""
    shared = np.full(len(correlation), 0.5)
    loadings = np.sqrt(shared)
    for _ in range(100):
        reduced = correlation.copy()
        np.fill_diagonal(reduced, shared)
        values, vectors = np.linalg.eigh(reduced)
        loadings = np.abs(vectors[:, -1]) * np.sqrt(max(values[-1], 1e-9))
        shared = np.clip(loadings**2, 0.01, 0.8)  # above that a weight would grow without bound
    return np.asarray(np.sqrt(shared), np.float64)


def add_labels(graph: Graph, pairs: NDArray[np.int64]) -> Graph:
    """The graph with (P, 2) annotated pairs, both ways, above everything the teacher found by itself."""
    ids, scores = graph.ids.copy(), graph.scores.copy()
    lift = 2 * float(scores.std(1).mean())
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    rows, begins = np.unique(both[:, 0], return_index=True)
    for row, labelled in zip(rows, np.split(both[:, 1], begins[1:]), strict=True):
        best = labelled[labelled != row][: ids.shape[1]]
        rest = ~np.isin(ids[row], best)
        top = float(scores[row, 0]) + lift
        ids[row] = np.concatenate([best, ids[row][rest]])[: ids.shape[1]]
        scores[row] = np.concatenate([np.full(len(best), top), scores[row][rest]])[: ids.shape[1]]
    return Graph(ids, scores)


def mutual_pairs(graph: Graph, nearest: int = 5) -> NDArray[np.int64]:
    """(P, 2) tables that are among each other's nearest: they stand in where annotations are missing."""
    total = len(graph.ids)
    near = graph.ids[:, :nearest]
    forward = np.repeat(np.arange(total), near.shape[1]) * total + near.ravel()
    backward = near.ravel().astype(np.int64) * total + np.repeat(np.arange(total), near.shape[1])
    both = np.intersect1d(forward, backward)
    return np.stack([both // total, both % total], 1)
