"""Learning verdicts: column matches from the aligner's, then the probability that a table fits.

1. Logistic regressions teach both stages of column matches what the aligner says of the same tables.
2. All weights are tuned together for a while: tables that fit should match, others should not.
3. The probability of a fit is learnt last, from hits as users see them: the first ten of queries with and
   without an answer, as many of each. Hits that a ground truth may have missed are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gentus.align.matcher import shipped_weights
from gentus.align.second_look import (
    CONTEXT_FEATURES,
    NAME_FEATURES,
    PAIR_FEATURES,
    TABLE_FEATURES,
    LookWeights,
    Matches,
    table_features,
)
from gentus.align.verdict import VerdictWeights, matched_pairs
from gentus.arrays import F32, F64
from gentus_bench.experiments.verdict_pairs import BY_CHANCE, TAUGHT, Look
from gentus_bench.lakes.benchmarks import UNLISTED_MAY_FIT

SHOWN = 10  # hits of a query that people see
EPOCHS, RATE, TEACHER = 4, 0.01, 0.2  # of tuning; weight of the teacher beside the labels
NAMES = 0.5  # of what the aligner gives to names: it is used to tables whose headers agree
COLUMNS = 200_000  # column pairs that a regression sees
THRESHOLDS = np.arange(0.05, 0.96, 0.05)


def learn(looks: Sequence[Look], facts: dict[str, Any], fits: float = 0.5, seed: int = 0) -> VerdictWeights:
    """All weights; from which probability on a table fits is chosen on lakes that were left out."""
    random = np.random.default_rng(seed)
    weights = _tuned(_taught(looks, random), looks, seed)
    weights = replace(weights, names=_names(looks, weights))
    features, answers, share = shown_hits(looks, weights)
    table, bias = logistic(features, answers, share)
    weights = replace(weights, table=_rounded(table), table_bias=round(bias, 5))
    return VerdictWeights(
        _by_name(PAIR_FEATURES, weights.pair),
        weights.pair_bias,
        _by_name(NAME_FEATURES, weights.names),
        _by_name(CONTEXT_FEATURES, weights.context),
        weights.context_bias,
        _by_name(TABLE_FEATURES, weights.table),
        weights.table_bias,
        _matched(looks, weights),
        fits,
        facts | {"made": datetime.now(UTC).date().isoformat()},
    )


def _by_name(names: Sequence[str], weights: F32) -> dict[str, float]:
    return {name: round(float(weight), 5) for name, weight in zip(names, weights, strict=True)}


def _rounded(weights: F64) -> F32:
    return weights.round(5).astype(np.float32)


def logistic(
    features: NDArray[Any],
    target: NDArray[Any],
    share: F64 | None = None,
    offset: F64 | None = None,
    ridge: float = 1e-4,
) -> tuple[F64, float]:
    """Weights and bias of a logistic regression by Newton's method; an `offset` takes the bias's place."""
    centre, spread = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64) + 1e-6
    if offset is not None:
        centre = np.zeros_like(centre)
    design = np.concatenate([(features - centre) / spread, np.full((len(features), 1), offset is None)], 1)
    share = np.full(len(design), 1 / len(design)) if share is None else share / share.sum()
    penalty = np.append(np.full(len(centre), ridge), 1e-9)
    found, fixed = np.zeros(design.shape[1]), 0.0 if offset is None else offset
    for _ in range(30):
        expected = 1 / (1 + np.exp(-np.clip(design @ found + fixed, -30, 30)))
        slope = design.T @ (share * (expected - target)) + penalty * found
        curvature = (design * (share * expected * (1 - expected))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        found = found - step
        if np.abs(step).max() < 1e-5:
            break
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ centre)


# --- column matches by the aligner -------------------------------------------------------------------


def _taught(looks: Sequence[Look], random: np.random.Generator) -> LookWeights:
    """Both stages of column matches, as the aligner has them."""
    pair, names, context, table = (
        np.zeros(len(features), np.float32)
        for features in (PAIR_FEATURES, NAME_FEATURES, CONTEXT_FEATURES, TABLE_FEATURES)
    )
    nothing = LookWeights(pair, 0.0, names, context, 0.0, table, 0.0)
    chosen = _some(looks, random, [look.pairs.pair for look in looks])
    found, bias = logistic(*chosen)
    weights = replace(nothing, pair=found.astype(np.float32), pair_bias=bias)
    chosen = _some(looks, random, [look.pairs.context(_log_odds(look, weights)) for look in looks])
    found, bias = logistic(*chosen)
    return replace(weights, context=found.astype(np.float32), context_bias=bias)


def _log_odds(look: Look, weights: LookWeights) -> F32:
    """(T, q, W) of the first stage, by cells alone."""
    return look.pairs.padded(look.pairs.pair @ weights.pair + np.float32(weights.pair_bias))


def _some(looks: Sequence[Look], random: np.random.Generator, features: Iterable[F32]) -> tuple[F32, F32]:
    """Features of some column pairs, and what the teacher says of them."""
    rows, targets = [], []
    for look, values in zip(looks, features, strict=True):
        if values.ndim == 3:  # (q, n, features) of all columns
            values = values[:, np.minimum(look.pairs.columns, values.shape[1] - 1)].transpose(1, 0, 2, 3)
        seen = look.taught[:, None, None] & look.pairs.inside & np.ones(look.teacher.shape, bool)
        rows.append(values[seen])
        targets.append(look.teacher[seen])
    flat, target = np.concatenate(rows), np.concatenate(targets)
    some = random.permutation(len(flat))[:COLUMNS]
    return flat[some], target[some]


def _names(looks: Sequence[Look], weights: LookWeights) -> F32:
    """What names add to the log-odds of cells."""
    rows, targets, known = [], [], []
    for look in looks:
        seen = ~np.isnan(look.named_teacher) & look.pairs.inside
        places = np.minimum(look.pairs.columns, look.pairs.names.shape[1] - 1)
        rows.append(look.pairs.names[:, places].transpose(1, 0, 2, 3)[seen])
        targets.append(look.named_teacher[seen])
        known.append(_log_odds(look, weights)[seen])
    # Equal names are nearly always right in a search's first hits; a strong ridge keeps cells in the game.
    found, _ = logistic(
        np.concatenate(rows), np.concatenate(targets), None, np.concatenate(known), ridge=3e-3
    )
    return _rounded(NAMES * found)


# --- tuning ------------------------------------------------------------------------------------------


def _tuned(weights: LookWeights, looks: Sequence[Look], seed: int) -> LookWeights:
    """Adjust all weights, so that tables that fit match more than others; the teacher keeps its say."""
    features = np.concatenate([table_features(matches_of(look, weights)) for look in looks])
    share = np.concatenate(balanced(looks))
    table, bias = logistic(features, np.concatenate([look.answers for look in looks]), share)
    start = {
        "pair": weights.pair,
        "pair_bias": weights.pair_bias,
        "context": weights.context,
        "context_bias": weights.context_bias,
        "table": table,
        "table_bias": bias,
    }
    tuned = {
        name: torch.tensor(np.asarray(of), dtype=torch.float32).requires_grad_() for name, of in start.items()
    }
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam(tuned.values(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, EPOCHS * len(looks))
    shares = balanced(looks)
    scale = sum(map(len, shares)) / sum(float(one.sum()) for one in shares)
    for _ in range(EPOCHS):
        for at in torch.randperm(len(looks)).tolist():
            loss = _loss(looks[at], shares[at] * scale, tuned)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    found = {name: value.detach().numpy() for name, value in tuned.items()}
    return replace(
        weights,
        pair=_rounded(found["pair"]),
        pair_bias=round(float(found["pair_bias"]), 5),
        context=_rounded(found["context"]),
        context_bias=round(float(found["context_bias"]), 5),
    )


def _loss(look: Look, share: F64, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of tables, and of the column pairs that the teacher has seen."""
    rows = np.flatnonzero((share > 0) | look.taught)  # the others cost time and teach nothing
    widths = look.pairs.widths[rows]
    most = max(int(widths.max(initial=0)), 1)
    inside = torch.from_numpy(look.pairs.inside[rows][:, :, :most])
    places = np.minimum(look.pairs.columns[rows][:, :most], look.pairs.pair.shape[1] - 1)
    pair = torch.from_numpy(look.pairs.pair[:, places].transpose(1, 0, 2, 3).copy())  # (T, q, W, features)
    log_odds = (pair @ weights["pair"] + weights["pair_bias"]).masked_fill(~inside, -20.0)
    context = _context(log_odds, inside)
    matches = _dual_softmax(context @ weights["context"] + weights["context_bias"], inside)
    query, total, wide = matches.shape[1], matches.sum((1, 2)), torch.from_numpy(widths).clamp_min(1).float()
    features = [total / torch.sqrt(query * wide), total / wide.clamp_min(query), torch.log1p(total)]
    said = torch.stack(features, 1) @ weights["table"] + weights["table_bias"]
    answers = torch.from_numpy(look.answers[rows]).float()
    losses = torch.nn.functional.binary_cross_entropy_with_logits(said, answers, reduction="none")
    taught = torch.from_numpy(look.taught[rows])
    teacher = torch.nan_to_num(torch.from_numpy(look.teacher[rows][:, :, :most]))
    columns = torch.nn.functional.binary_cross_entropy(
        matches.clamp(1e-5, 1 - 1e-5), teacher, reduction="none"
    )
    columns = (columns * inside).sum((1, 2)) / torch.sqrt(query * wide)
    weighted = losses * torch.from_numpy(share[rows]).float()
    return weighted.sum() / len(share) + TEACHER * (columns * taught).sum() / taught.sum().clamp_min(1)


def _context(log_odds: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """`PairLook.context`, for gradients."""
    scores, matches = log_odds.clamp(-8, 8), _dual_softmax(log_odds, inside)
    weights = matches**2
    left, right = (torch.sign(torch.arange(n)[:, None] - torch.arange(n)).float() for n in scores.shape[1:])
    agreeing, compared = left @ weights @ right.T, left.abs() @ weights @ right.abs().T
    overall = (agreeing * weights).sum((1, 2)) / ((compared * weights).sum((1, 2)) + 0.5)
    local = agreeing / (compared + 0.5)
    rows, columns = (_best_other(scores, axis).clamp_min(-6) for axis in (2, 1))
    ordered = local * overall.clamp_min(0)[:, None, None]
    return torch.stack([scores, scores - rows, scores - columns, matches, local, ordered], 3)


def _dual_softmax(log_odds: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    odds = torch.exp(log_odds.clamp(-30, 30)) * inside
    return odds / torch.sqrt((1 + odds.sum(2, keepdim=True)) * (1 + odds.sum(1, keepdim=True)))


def _best_other(scores: torch.Tensor, axis: int) -> torch.Tensor:
    if scores.shape[axis] < 2:
        return torch.full_like(scores, -20.0)
    top = scores.topk(2, axis).values
    best, second = top.narrow(axis, 0, 1), top.narrow(axis, 1, 1)
    return torch.where(scores == best, second, best)


def balanced(looks: Sequence[Look]) -> list[F64]:
    """(T,) of every look: weights by which answers count as much as other tables, in every lake alike.

    Of the others, half are what queries without an answer find. Where a ground truth may have missed tables,
    the hits that it does not list count little.
    """
    kinds = [
        np.where(look.answers, 0, np.where(look.ranks > TAUGHT, -1, 1 if look.own else 2)) for look in looks
    ]
    kinds = [np.where(look.ranks == BY_CHANCE, 1, kind) for look, kind in zip(looks, kinds, strict=True)]
    shares = [np.zeros(len(look.tables)) for look in looks]
    for lake in {look.lake for look in looks}:
        mine = [at for at, look in enumerate(looks) if look.lake == lake]
        for kind, total in ((0, 1.0), (1, 0.1 if lake in UNLISTED_MAY_FIT else 0.5), (2, 0.5)):
            count = sum(int((kinds[at] == kind).sum()) for at in mine)
            for at in mine:
                shares[at][kinds[at] == kind] = total / max(count, 1)
    return shares


# --- probabilities and thresholds --------------------------------------------------------------------


def matches_of(look: Look, weights: LookWeights, names: bool = False) -> Matches:
    """Matches by cells, or by names too."""
    shown = look.pairs if names else replace(look.pairs, names=np.zeros_like(look.pairs.names))
    return shown.matches(weights)


def shown_hits(looks: Sequence[Look], weights: LookWeights, all_hits: bool = False) -> tuple[F32, Any, F64]:
    """Features of the first hits, whether they are answers, and weights: queries with an answer count half.

    Hits that a ground truth may have missed are left out, unless `all_hits`.
    """
    features, answers, shares = [], [], []
    sizes: dict[tuple[str, bool], int] = {}
    for look in looks:
        shown = look.ranks <= SHOWN
        if look.lake in UNLISTED_MAY_FIT and look.own and not all_hits:
            shown &= look.answers
        features.append(table_features(matches_of(look, weights))[shown])
        answers.append(look.answers[shown])
        shares.append(np.full(int(shown.sum()), 1.0))
        key = look.lake, look.own
        sizes[key] = sizes.get(key, 0) + int((look.ranks <= SHOWN).sum())
    for look, share in zip(looks, shares, strict=True):
        share /= sizes[look.lake, look.own]
    return np.concatenate(features), np.concatenate(answers), np.concatenate(shares)


def probabilities(look: Look, weights: LookWeights, names: bool = False) -> F64:
    """(T,) that a person would append the tables."""
    log_odds = table_features(matches_of(look, weights, names)) @ weights.table + weights.table_bias
    return np.asarray(1 / (1 + np.exp(-log_odds)), np.float64)


def _matched(looks: Sequence[Look], weights: LookWeights) -> float:
    """The threshold by which matched columns agree best with the aligner's."""
    counts = np.zeros((len(THRESHOLDS), 3))
    least = shipped_weights().threshold
    for look in looks[::3]:
        matches = matches_of(look, weights)
        for at in np.flatnonzero(look.taught).tolist():
            true = set(zip(*(x.tolist() for x in np.nonzero(look.teacher[at] >= least)), strict=True))
            for row, threshold in enumerate(THRESHOLDS.tolist()):
                found = set(matched_pairs(matches.scores[at], threshold))
                counts[row] += len(found & true), len(found), len(true)
    f1 = 2 * counts[:, 0] / np.maximum(counts[:, 1] + counts[:, 2], 1)
    return round(float(THRESHOLDS[int(f1.argmax())]), 2)
