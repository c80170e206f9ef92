"""The pair scorer learnt from labels: a listwise fit of non-negative weights of pair features.

Without labels every kind of evidence counts alike, and positions and numbers of columns do not count. With
annotated pairs the weights are learnt. They are few, so that they generalise to tables without annotations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch.nn import functional

from gentus.arrays import F32, I32, I64
from gentus.features.evidence import BLOCKS, block_weights, rescale
from gentus.neighbours.graph import column_ids, nearest
from gentus.neighbours.matching import Columns, table_vectors
from gentus.settings import TeacherSettings

FEATURES = (
    *(f"{kind}, best matching" for kind in BLOCKS),
    *(f"{kind}, same position" for kind in BLOCKS),
    "same number of columns",
    "similar number of columns",
    "similar number of filled columns",
)
POSITIONS = 32  # that have signs of their own; columns further right share those of columns on the left
CandidateGenerator = Literal["any position", "same position", "both"]
CANDIDATE_GENERATORS: tuple[CandidateGenerator, ...] = ("any position", "same position", "both")


@dataclass(frozen=True, slots=True)
class LearnedScorer:
    """Candidates by one of the generators, pairs by weighted features."""

    candidate_generator: CandidateGenerator
    weights: F32  # (FEATURES,)

    def vectors(self, columns: Columns) -> F32:
        """(T, W) vectors; candidates are the nearest tables by their product."""
        return _vectors(columns, self.candidate_generator)

    def scores(self, columns: Columns, anchor: int, candidates: I32) -> F32:
        """(n,) unionability of an anchor with each of its candidates."""
        return np.asarray(pair_features(columns, anchor, candidates) @ self.weights, np.float32)

    def reweigh(self, columns: Columns, least: float = 0.03) -> F32:
        """Scale the evidence, in place, by the learnt weights; returns the new weights of kinds (kinds,)."""
        kinds = len(BLOCKS)
        learnt = self.weights[:kinds] + self.weights[kinds : 2 * kinds]
        old = block_weights(columns.evidence)
        new = np.maximum(old * learnt / (old * learnt).sum(), least) * (old > 0)
        new /= new.sum()
        rescale(columns.evidence, new / np.where(old > 0, old, 1))
        return np.asarray(new, np.float32)

    def report(self) -> dict[str, float]:
        """The weights by name."""
        return {name: round(float(weight), 3) for name, weight in zip(FEATURES, self.weights, strict=True)}


def _vectors(columns: Columns, generator: CandidateGenerator) -> F32:
    """(T, W) vectors of tables, with the columns at any position, at the same position, or both."""
    unordered = table_vectors(columns.evidence, columns.starts)
    if generator == "any position":
        return unordered
    # Random signs per position: columns at the same position keep their product, others lose it.
    signs = np.random.Generator(np.random.PCG64(7)).choice([-1, 1], (POSITIONS, columns.evidence.shape[1]))
    signed = columns.evidence * signs.astype(np.float32)[columns.positions[:, 0] % POSITIONS]
    ordered = table_vectors(signed, columns.starts)
    width = np.minimum(columns.widths(), POSITIONS - 1)
    same_width = 0.7 * np.eye(POSITIONS, dtype=np.float32)[width]
    return np.hstack([*([unordered] if generator == "both" else []), ordered, same_width])


def pair_features(columns: Columns, anchor: int, candidates: I32) -> F32:
    """(n, FEATURES) features of an anchor with each of its candidates."""
    starts, candidates = columns.starts, candidates.astype(np.int64)
    at, counts = column_ids(starts, candidates)
    own = slice(starts[anchor], starts[anchor + 1])
    mine, theirs = columns.evidence[own], columns.evidence[at]
    kinds = np.stack([mine[:, block] @ theirs[:, block].T for block in BLOCKS.values()])  # (kinds, q, C)
    scale = np.sqrt(len(mine) * counts)
    begins = np.cumsum(counts) - counts
    same = columns.positions[own, 0][:, None] == columns.positions[at, 0]  # (q, C)
    aligned = np.add.reduceat((kinds * same).sum(1), begins, axis=1) / scale
    total = kinds.sum(0)
    matched = np.empty((len(kinds), len(counts)), np.float32)
    for i, (begin, count) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
        rows, cells = linear_sum_assignment(total[:, begin : begin + count], maximize=True)
        matched[:, i] = kinds[:, rows, cells + begin].sum(1) / scale[i]
    width = columns.widths(candidates) / columns.widths(np.array([anchor]))
    filled = counts / len(mine)
    sizes = [width == 1, -np.abs(np.log(width)), -np.abs(np.log(filled))]
    return np.stack([*matched, *aligned, *sizes], 1).astype(np.float32)


def learn_scorer(
    columns: Columns,
    pairs: I64,
    settings: TeacherSettings,
    random: np.random.Generator,
    most: int = 600,
) -> LearnedScorer:
    """Choose the candidate generator and fit the weights, by (P, 2) annotated pairs of `most` queries."""
    queries = np.unique(pairs[:, 0])
    queries = np.sort(random.choice(queries, min(most, len(queries)), replace=False))
    positives = {int(q): pairs[(pairs[:, 0] == q) & (pairs[:, 1] != q), 1] for q in queries}
    anchors, width = queries.astype(np.int32), settings.width(len(columns))
    found = {
        one: dict(zip(queries.tolist(), nearest(_vectors(columns, one), width, anchors).ids, strict=True))
        for one in CANDIDATE_GENERATORS
    }

    def recall(one: CandidateGenerator) -> float:
        shares = [np.isin(p, found[one][q]).mean() for q, p in positives.items() if len(p)]
        return float(np.mean(shares)) if shares else 0.0

    best = max(CANDIDATE_GENERATORS, key=recall)
    lists, targets = [], []
    for query, right in positives.items():
        candidates = np.union1d(found[best][query], right).astype(np.int32)
        lists.append(pair_features(columns, query, candidates))
        targets.append(np.isin(candidates, right))
    return LearnedScorer(best, fit_listwise(lists, targets))


def fit_listwise(lists: list[F32], targets: list[NDArray[np.bool_]], steps: int = 300) -> F32:
    """Non-negative weights that minimise the cross-entropy of each query's positives among its candidates."""
    width, most = lists[0].shape[1], max(map(len, lists))
    features = np.zeros((len(lists), most, width), np.float32)
    target = np.zeros((len(lists), most), np.float32)
    mask = np.ones((len(lists), most), bool)
    for i, (rows, right) in enumerate(zip(lists, targets, strict=True)):
        features[i, : len(rows)], target[i, : len(rows)] = rows, right / max(right.sum(), 1)
        mask[i, : len(rows)] = False
    spread = np.concatenate(lists).std(0) + 1e-6
    inputs, goal, masked = (
        torch.from_numpy(features / spread),
        torch.from_numpy(target),
        torch.from_numpy(mask),
    )
    raw = torch.full((width,), -1.0, requires_grad=True)
    optimizer = torch.optim.Adam([raw], 0.05)
    for _ in range(steps):
        weights = functional.softplus(raw)
        log_p = torch.log_softmax((inputs @ weights).masked_fill(masked, -1e9), 1)
        loss = -(goal * log_p).sum(1).mean() + 1e-3 * (weights**2).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return np.asarray(functional.softplus(raw).detach().numpy() / spread, np.float32)
