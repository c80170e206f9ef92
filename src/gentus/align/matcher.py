"""The matcher: scores for all column pairs of two tables, and the best one-to-one assignment.

1. Log-odds of every pair from its features (`pair_features`), names among them if they are used.
2. A dual softmax: every column distributes its probability over the columns of the other table and "no
   match", and a pair gets the geometric mean of what its two columns give each other.
3. Log-odds given the other pairs (`context_features`), then the dual softmax again, as a probability.
4. Optimal assignment of the pairs above the threshold.

Weights, calibration and threshold were learnt on slices of real tables by `gentus-bench learn-align`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gentus.align.alignment import Alignment, ColumnPair, ColumnRef
from gentus.align.context_features import CONTEXT_FEATURES, context_features
from gentus.align.pair_features import NAME_FEATURES, PAIR_FEATURES, PairFeatures, pair_features
from gentus.align.reasons import pair_reason
from gentus.align.table_profile import TableProfile, profile_table
from gentus.arrays import F64
from gentus.table import Table

FILE = "weights.json"
_SAME_NAME_ONLY = 2.0  # log-odds of two columns of the same name if one is empty; no data to learn it from
_NO_MATCH = -8.0  # log-odds of other pairs with an empty column
_EQUAL = NAME_FEATURES.index("equal names")


@dataclass(frozen=True, slots=True)
class Weights:
    """The learnt weights of the matcher. Scores are probabilities that a pair is right."""

    pair: dict[str, float]  # of the features of each pair
    pair_bias: float
    names: dict[str, float]
    context: dict[str, float]  # of the features given the other pairs
    context_bias: float
    scale: float  # calibration: log-odds of the dual softmax times this ...
    shift: float  # ... plus this
    threshold: float  # pairs below are not matched
    trained_on: dict[str, Any]  # tables, and the date

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@lru_cache(maxsize=1)
def shipped_weights() -> Weights:
    """The weights that come with the package."""
    weights = Weights(**json.loads(files("gentus.align").joinpath(FILE).read_text("utf-8")))
    for given, features in (
        (weights.pair, PAIR_FEATURES),
        (weights.names, NAME_FEATURES),
        (weights.context, CONTEXT_FEATURES),
    ):
        if tuple(given) != features:
            raise ValueError(f"{FILE} was learnt for other features; run gentus-bench learn-align")
    return weights


def align(query: Table, table: Table, names: bool = True) -> Alignment:
    """Match the columns of two tables; without `names` by their cells only."""
    return align_profiles(profile_table(query), profile_table(table), names)


def align_profiles(query: TableProfile, table: TableProfile, names: bool = True) -> Alignment:
    """The same for tables that are profiled already."""
    weights = shipped_weights()
    features = pair_features(query, table, names)
    scores = pair_scores(query, table, features, weights)
    ours, theirs = (_columns(side.table) for side in (query, table))
    pairs = [
        ColumnPair(
            ours[i], theirs[j], round(float(scores[i, j]), 4), pair_reason(query, table, features, i, j)
        )
        for i, j in one_to_one(scores, weights.threshold)
    ]
    matched, used = {pair.query.at for pair in pairs}, {pair.table.at for pair in pairs}
    return Alignment(
        query.table.name,
        table.table.name,
        pairs,
        [column for column in ours if column.at not in matched],
        [column for column in theirs if column.at not in used],
    )


def _columns(table: Table) -> list[ColumnRef]:
    return [ColumnRef(at, column.name) for at, column in enumerate(table.columns)]


def one_to_one(scores: F64, threshold: float) -> list[tuple[int, int]]:
    """The one-to-one pairs with the largest sum of scores above the threshold, in the order of the rows."""
    rows, columns = linear_sum_assignment(np.maximum(scores - threshold, 0), maximize=True)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if scores[i, j] >= threshold]


def pair_scores(query: TableProfile, table: TableProfile, features: PairFeatures, weights: Weights) -> F64:
    """(q, t) the probability that two columns belong together."""
    log_odds, allowed = pair_log_odds(features, weights)
    context = context_features(query, table, features, log_odds, dual_softmax(log_odds, allowed))
    log_odds = context @ _array(weights.context) + weights.context_bias
    return calibrated(dual_softmax(log_odds, allowed), weights) * allowed


def pair_log_odds(features: PairFeatures, weights: Weights) -> tuple[F64, NDArray[np.bool_]]:
    """(q, t) log-odds from the features of each pair, and which pairs are possible at all."""
    log_odds = features.pair @ _array(weights.pair) + weights.pair_bias
    log_odds += features.names @ _array(weights.names)
    same_name = features.names[:, :, _EQUAL] > 0
    log_odds = np.where(features.nonempty, log_odds, np.where(same_name, _SAME_NAME_ONLY, _NO_MATCH))
    return log_odds, features.nonempty | same_name


def dual_softmax(log_odds: F64, allowed: NDArray[np.bool_]) -> F64:
    """(q, t) the geometric mean of the softmaxes over rows and over columns; "no match" has log-odds 0."""
    odds = np.exp(np.clip(log_odds, -50, 50)) * allowed
    return np.asarray(odds / np.sqrt((1 + odds.sum(1, keepdims=True)) * (1 + odds.sum(0))), np.float64)


def calibrated(matches: F64, weights: Weights) -> F64:
    """The dual softmax as a probability."""
    matches = np.clip(matches, 1e-9, 1 - 1e-9)
    log_odds = weights.scale * np.log(matches / (1 - matches)) + weights.shift
    return np.asarray(1 / (1 + np.exp(-log_odds)), np.float64)


def _array(weights: dict[str, float]) -> F64:
    return np.array(list(weights.values()))
