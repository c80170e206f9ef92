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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gentus.align.alignment import Alignment, ColumnPair, ColumnRef
from gentus.align.assignment import assign
from gentus.align.column_blocks import BLOCK_GRID, column_blocks
from gentus.align.column_notations import agree
from gentus.align.context_features import CONTEXT_FEATURES, context_features
from gentus.align.pair_features import GRID, NAME_FEATURES, PAIR_FEATURES, PairFeatures, pair_features
from gentus.align.reasons import pair_reason
from gentus.align.table_profile import TableProfile, profile_table
from gentus.arrays import F64
from gentus.table import Table

FILE = "weights.json"
Outside: TypeAlias = Callable[[F64], tuple[F64, F64]]  # see `ColumnBlock.outside`
MOST_PAIRS = 1 << 18  # of columns that are compared at once: what bounds time and memory
_COPIED = 128  # columns of a copy that are described at once
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
    ours, theirs = (_columns(side.table) for side in (query, table))
    found = _match(query, table, names)
    agreed = agree(query.notations, table.notations, ((one.ours, one.theirs) for one in found))
    if any(agreed):  # cells of one table say how those of the other are read
        query, table = (
            profile_table(side.table, of_side) if of_side else side
            for side, of_side in zip((query, table), agreed, strict=True)
        )
        found = _match(query, table, names)
    pairs = [ColumnPair(ours[one.ours], theirs[one.theirs], round(one.score, 4), one.reason) for one in found]
    matched, used = {pair.query.at for pair in pairs}, {pair.table.at for pair in pairs}
    return Alignment(
        query.table.name,
        table.table.name,
        pairs,
        [column for column in ours if column.at not in matched],
        [column for column in theirs if column.at not in used],
    )


class _Match(NamedTuple):
    score: float
    ours: int  # positions
    theirs: int
    reason: str


def _match(query: TableProfile, table: TableProfile, names: bool) -> list[_Match]:
    """Matched columns in the order of the query: of all pairs, or of those in blocks if there are too many.

    Of two blocks that want the same column, the one with the better score gets it; what stays unmatched is
    compared once more if it is not too much.
    """
    if query.table.columns == table.table.columns:
        return _match_copy(query, table, names)
    if len(query.numbers) * len(table.numbers) <= MOST_PAIRS:
        return _match_all(query, table, names)
    found: list[_Match] = []
    for block in column_blocks(query, table, names):
        some = _match_all(query.select(block.ours), table.select(block.theirs), names, block.outside)
        found += [one._replace(ours=block.ours[one.ours], theirs=block.theirs[one.theirs]) for one in some]
    best: dict[int, _Match] = {}
    for one in sorted(found, key=lambda one: -one.score):
        best.setdefault(one.theirs, one)
    kept, matched = list(best.values()), {one.ours for one in best.values()}
    left = [at for at in range(len(query.numbers)) if at not in matched]
    right = [at for at in range(len(table.numbers)) if at not in best]
    if 0 < len(left) * len(right) <= MOST_PAIRS:
        more = _match_all(query.select(left), table.select(right), names)
        kept += [one._replace(ours=left[one.ours], theirs=right[one.theirs]) for one in more]
    return sorted(kept, key=lambda one: one.ours)


def _match_copy(query: TableProfile, table: TableProfile, names: bool) -> list[_Match]:
    """Every column with itself, in a table and its copy: by features, a near twin may score better."""
    found: list[_Match] = []
    for begin in range(0, len(query.numbers), _COPIED):
        some = range(len(query.numbers))[begin : begin + _COPIED]
        ours, theirs = query.select(some), table.select(some)
        features = pair_features(ours, theirs, names, GRID)
        found += [
            _Match(1.0, column, column, pair_reason(ours, theirs, features, at, at))
            for at, column in enumerate(some)
        ]
    return found


def _match_all(
    query: TableProfile, table: TableProfile, names: bool, outside: Outside | None = None
) -> list[_Match]:
    """Matched columns of two tables, or of a block of them, of which all pairs are compared."""
    weights = shipped_weights()
    features = pair_features(query, table, names, GRID if outside is None else BLOCK_GRID)
    scores = pair_scores(query, table, features, weights, outside)
    return [
        _Match(float(scores[i, j]), i, j, pair_reason(query, table, features, i, j))
        for i, j in one_to_one(scores, weights.threshold)
    ]


def _columns(table: Table) -> list[ColumnRef]:
    return [ColumnRef(at, column.name) for at, column in enumerate(table.columns)]


def one_to_one(scores: F64, threshold: float) -> list[tuple[int, int]]:
    """The one-to-one pairs with the largest sum of scores above the threshold, in the order of the rows."""
    gains = np.maximum(scores - threshold, 0)
    if (best := _best_of_rows(scores, gains, threshold)) is not None:
        return best
    rows, columns = assign(gains)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if scores[i, j] >= threshold]


def _best_of_rows(scores: F64, gains: F64, threshold: float) -> list[tuple[int, int]] | None:
    """The best pair of each row, if no two of them have a column in common: then no sum is larger.

    None if two have, or if two pairs of a row are equally good.
    """
    if not gains.size:
        return None
    top = gains.max(1)
    rows, columns = np.nonzero((gains == top[:, None]) & (top > 0)[:, None])
    certain = len(rows) == np.count_nonzero(top) == len(np.unique(columns))
    if not certain or (scores == threshold).any():
        return None
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def pair_scores(
    query: TableProfile,
    table: TableProfile,
    features: PairFeatures,
    weights: Weights,
    outside: Outside | None = None,
) -> F64:
    """(q, t) the probability that two columns belong together, with the odds of columns outside, if any."""
    log_odds, allowed = pair_log_odds(features, weights)
    matches = dual_softmax(log_odds, allowed, outside)
    context = context_features(query, table, features, log_odds, matches)
    log_odds = context @ _array(weights.context) + weights.context_bias
    return calibrated(dual_softmax(log_odds, allowed, outside), weights) * allowed


def pair_log_odds(features: PairFeatures, weights: Weights) -> tuple[F64, NDArray[np.bool_]]:
    """(q, t) log-odds from the features of each pair, and which pairs are possible at all."""
    log_odds = features.pair @ _array(weights.pair) + weights.pair_bias
    log_odds += features.names @ _array(weights.names)
    same_name = features.names[:, :, _EQUAL] > 0
    log_odds = np.where(features.nonempty, log_odds, np.where(same_name, _SAME_NAME_ONLY, _NO_MATCH))
    return log_odds, features.nonempty | same_name


def dual_softmax(log_odds: F64, allowed: NDArray[np.bool_], outside: Outside | None = None) -> F64:
    """(q, t) the geometric mean of the softmaxes over rows and over columns; "no match" has log-odds 0."""
    odds = np.exp(np.clip(log_odds, -50, 50)) * allowed
    rows, columns = (0.0, 0.0) if outside is None else outside(log_odds)
    both = (1 + rows + odds.sum(1, keepdims=True)) * (1 + columns + odds.sum(0, keepdims=True))
    return np.asarray(odds / np.sqrt(both), np.float64)


def calibrated(matches: F64, weights: Weights) -> F64:
    """The dual softmax as a probability."""
    matches = np.clip(matches, 1e-9, 1 - 1e-9)
    log_odds = weights.scale * np.log(matches / (1 - matches)) + weights.shift
    return np.asarray(1 / (1 + np.exp(-log_odds)), np.float64)


def _array(weights: dict[str, float]) -> F64:
    return np.array(list(weights.values()))
