"""Features of every pair of columns given the other pairs: margins, order, correlations, usual names."""

from __future__ import annotations

import numpy as np

from gentus.align.pair_features import NAME_FEATURES, PairFeatures
from gentus.align.table_profile import TableProfile
from gentus.arrays import F64

CONTEXT_FEATURES = (
    "pair score",
    "row margin",
    "column margin",
    "dual softmax",
    "order agreement",
    "order agreement, ordered tables",
    "correlation distance",
    "correlation cosine",
    "correlation distance, scaled",
    "correlation support",
    "equal names, like other pairs",
    "different names, unlike other pairs",
)


def context_features(
    query: TableProfile, table: TableProfile, features: PairFeatures, scores: F64, matches: F64
) -> F64:
    """(q, t, CONTEXT_FEATURES) features of every pair given the others, weighted by how certain they are.

    `scores` are log-odds from the features of each pair, `matches` their dual softmax.
    """
    scores = np.clip(scores, -8, 8)
    weights = matches**2
    local, overall = _order_agreement(weights)
    return np.stack(
        [
            scores,
            scores - np.maximum(_best_other(scores), -6),
            scores - np.maximum(_best_other(scores.T).T, -6),
            matches,
            local,
            local * max(overall, 0),
            *_correlation_features(query, table, weights),
            *_name_agreement(features.names, weights),
        ],
        2,
    )


def _best_other(scores: F64) -> F64:
    """(q, t) the best score of the other pairs in the same row."""
    if scores.shape[1] < 2:
        return np.full(scores.shape, -6.0)
    ordered = np.sort(scores, 1)
    return np.where(scores == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])


def _order_agreement(weights: F64) -> tuple[F64, float]:
    """(q, t) whether a pair has the same order to the other pairs in both tables, and overall; -1 to 1."""
    left, right = (np.sign(np.subtract.outer(np.arange(n), np.arange(n))) for n in weights.shape)
    agreeing = left @ weights @ right.T
    compared = np.abs(left) @ weights @ np.abs(right).T
    overall = float((agreeing * weights).sum() / ((compared * weights).sum() + 0.5))
    return agreeing / (compared + 0.5), overall


def _correlation_features(
    query: TableProfile, table: TableProfile, weights: F64
) -> tuple[F64, F64, F64, F64]:
    """(q, t) each: whether two columns have the same rank correlations with the columns of other pairs."""
    both = np.outer(query.complete, table.complete)
    weights = weights * both
    ours, theirs = query.correlations, table.correlations
    mine, its = weights.sum(1), weights.sum(0)
    others = np.maximum(weights.sum() - mine[:, None] - its[None] + weights, 0)
    cross = ours @ weights @ theirs.T
    left, right = (ours**2 @ mine)[:, None], (theirs**2 @ its)[None]
    distance = (left - 2 * cross + right) / (others + 0.3)
    chance = 1 / max(query.table.rows, 1) + 1 / max(table.table.rows, 1)
    return (
        np.sqrt(np.maximum(distance, 0)) * both,
        cross / np.sqrt(left * right + 0.02) * both,
        np.minimum((distance - chance) / (chance + 0.02), 10) * both,
        np.minimum(others, 5) / 5 * both,
    )


def _name_agreement(names: F64, weights: F64) -> tuple[F64, F64]:
    """(q, t) each: equal and different names, weighted by how usual equal names are in the other pairs."""
    named, equal = (
        names[:, :, NAME_FEATURES.index("both named")],
        names[:, :, NAME_FEATURES.index("equal names")],
    )
    equals, all_named = weights * equal, weights * named
    usual = (equals.sum() - equals) / (all_named.sum() - all_named + 0.5)
    return usual * equal, usual * (named - equal)
