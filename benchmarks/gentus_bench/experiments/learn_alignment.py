"""Learning the weights of alignment: a log-linear model by gradient descent, on slices of real tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gentus.align.context_features import CONTEXT_FEATURES, context_features
from gentus.align.matcher import Weights, calibrated, dual_softmax, one_to_one, pair_log_odds
from gentus.align.pair_features import NAME_FEATURES, PAIR_FEATURES, PairFeatures, pair_features
from gentus.align.table_profile import TableProfile, profile_table
from gentus.arrays import F64
from gentus.progress import Progress
from gentus_bench.experiments.column_pairs import Example

EPOCHS = 15
BATCH = 48  # pairs of tables
THRESHOLDS = np.arange(0.05, 0.96, 0.01)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A pair of tables, looked at once."""

    query: TableProfile
    table: TableProfile
    features: PairFeatures
    truth: NDArray[np.bool_]  # (q, t)

    def unnamed(self) -> Lesson:
        """The same as if columns had no names."""
        return replace(self, features=replace(self.features, names=np.zeros_like(self.features.names)))


def learn(
    examples: Sequence[Example], facts: dict[str, Any], seed: int = 0, progress: Progress | None = None
) -> Weights:
    """Fit both looks, the probabilities and the threshold.

    The first look is learnt from cells alone; what names add is learnt on top of it, so that the same weights
    of cells hold with names and without. The second look and the threshold are learnt from both.
    """
    progress = progress or Progress()
    with progress.stage("Looking at pairs of tables", len(examples)) as tick:
        lessons = [_lesson(example, tick) for example in examples]
    names, context = dict.fromkeys(NAME_FEATURES, 0.0), dict.fromkeys(CONTEXT_FEATURES, 0.0)
    weights = Weights({}, 0.0, names, context, 0.0, 1.0, 0.0, 0.5, facts | {"made": _today()})
    with progress.stage("Learning", 3) as tick:
        found, bias = _fit([lesson.features.pair for lesson in lessons], lessons, seed)
        weights = replace(weights, pair=dict(zip(PAIR_FEATURES, found, strict=True)), pair_bias=bias)
        tick(1)
        named = [lesson for lesson in lessons if lesson.features.names.any()]
        known = [pair_log_odds(lesson.unnamed().features, weights)[0] for lesson in named]
        found, _ = _fit([lesson.features.names for lesson in named], named, seed, known)
        weights = replace(weights, names=dict(zip(NAME_FEATURES, found, strict=True)))
        tick(1)
        both = [*(lesson.unnamed() for lesson in lessons), *named]
        seen = []
        for lesson in both:
            scores, allowed = pair_log_odds(lesson.features, weights)
            shares = dual_softmax(scores, allowed)
            seen.append(context_features(lesson.query, lesson.table, lesson.features, scores, shares))
        found, bias = _fit(seen, both, seed)
        weights = replace(weights, context=dict(zip(CONTEXT_FEATURES, found, strict=True)), context_bias=bias)
        tick(1)
    second_votes = [look @ np.array(found) + bias for look in seen]
    given = [
        dual_softmax(some, lesson.features.nonempty) for some, lesson in zip(second_votes, both, strict=True)
    ]
    return _calibrated(weights, given, [lesson.truth for lesson in both])


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _lesson(example: Example, tick: Any) -> Lesson:
    query, table = profile_table(example.query), profile_table(example.table)
    tick(1)
    return Lesson(query, table, pair_features(query, table), example.truth)


def _fit(
    looks: Sequence[F64], lessons: Sequence[Lesson], seed: int, known: Sequence[F64] | None = None
) -> tuple[list[float], float]:
    """Weights and bias under which columns are assigned to those they belong to, or to no match.

    With `known` log-odds, only what is to be added to them is learnt, and no bias.
    """
    flat = np.concatenate([look.reshape(-1, look.shape[2])[::5] for look in looks])
    centre, spread = flat.mean(0), flat.std(0) + 1e-6
    if known is not None:
        centre = np.zeros_like(centre)
    batches = _batches([(look - centre) / spread for look in looks], lessons, known)
    torch.manual_seed(seed)
    layer = torch.nn.Linear(looks[0].shape[2], 1, bias=known is None)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=2e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, EPOCHS * len(batches))
    for _ in range(EPOCHS):
        for at in torch.randperm(len(batches)).tolist():
            look, truth, real, before = batches[at]
            loss = _loss(layer(look)[..., 0] + before, truth, real)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    weights = layer.weight.detach()[0].numpy().astype(np.float64) / spread
    bias = 0.0 if known is not None else float(layer.bias.detach()) - float(weights @ centre)
    return [round(float(weight), 5) for weight in weights], round(bias, 5)


_Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _batches(looks: Sequence[F64], lessons: Sequence[Lesson], known: Sequence[F64] | None) -> list[_Batch]:
    """Pairs of tables of like size together, padded to the largest."""
    order = sorted(range(len(looks)), key=lambda at: lessons[at].truth.size)
    out = []
    for begin in range(0, len(order), BATCH):
        some = order[begin : begin + BATCH]
        shape = (len(some), *(max(lessons[at].truth.shape[side] for at in some) for side in (0, 1)))
        look = torch.zeros(*shape, looks[0].shape[2])
        truth, real, before = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)
        for row, at in enumerate(some):
            q, t = lessons[at].truth.shape
            look[row, :q, :t] = torch.from_numpy(looks[at].astype(np.float32))
            truth[row, :q, :t] = torch.from_numpy(lessons[at].truth.astype(np.float32))
            real[row, :q, :t] = 1
            if known is not None:
                before[row, :q, :t] = torch.from_numpy(known[at].astype(np.float32))
        out.append((look, truth, real, before))
    return out


def _loss(scores: torch.Tensor, truth: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the softmaxes of all columns; a pair of tables counts by the root of its columns."""
    scores = scores.masked_fill(real == 0, -1e4)
    total, columns = torch.zeros(len(scores)), torch.zeros(len(scores))
    for dim in (1, 2):
        none = torch.zeros_like(scores.sum(dim, keepdim=True))
        voted = torch.log_softmax(torch.cat([scores, none], dim), dim)
        chosen = torch.cat([truth, 1 - truth.sum(dim, keepdim=True)], dim)
        there = real.amax(dim)
        total = total - ((voted * chosen).sum(dim) * there).sum(1)
        columns = columns + there.sum(1)
    return (total / columns.sqrt()).mean()


def _calibrated(weights: Weights, given: Sequence[F64], truths: Sequence[NDArray[np.bool_]]) -> Weights:
    """Votes to probabilities, from the pairs that are assigned without a threshold; then the threshold."""
    votes_of, right = [], []
    for some, truth in zip(given, truths, strict=True):
        for i, j in one_to_one(some, 1e-6):
            votes_of.append(some[i, j])
            right.append(truth[i, j])
    clipped = np.clip(votes_of, 1e-9, 1 - 1e-9)
    log_odds, target = np.log(clipped / (1 - clipped)), np.array(right, np.float64)
    scale, shift = 1.0, 0.0
    for _ in range(50):  # Newton's method for a logistic regression of one variable
        expected = 1 / (1 + np.exp(-(scale * log_odds + shift)))
        design = np.stack([log_odds, np.ones_like(log_odds)], 1)
        curvature = (design * (expected * (1 - expected))[:, None]).T @ design + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, design.T @ (target - expected))
        scale, shift = scale + step[0], shift + step[1]
    weights = replace(weights, scale=round(float(scale), 5), shift=round(float(shift), 5))
    scores = [calibrated(some, weights) for some in given]
    best = max(THRESHOLDS, key=lambda threshold: _f1(scores, truths, float(threshold)))
    return replace(weights, threshold=round(float(best), 2))


def _f1(scores: Sequence[F64], truths: Sequence[NDArray[np.bool_]], threshold: float) -> float:
    hits = pairs = 0
    for some, truth in zip(scores, truths, strict=True):
        chosen = one_to_one(some, threshold)
        hits += sum(bool(truth[pair]) for pair in chosen)
        pairs += len(chosen)
    return 2 * hits / max(pairs + sum(int(truth.sum()) for truth in truths), 1)
