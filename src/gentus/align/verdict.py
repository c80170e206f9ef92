"""The verdict on a table: the probability that a person would append its rows, and how far it fits.

Learnt weights and thresholds are in `verdict.json`, made by `gentus-bench run verdict --set ship=FILE`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import numpy as np

from gentus.align.second_look import (
    CONTEXT_FEATURES,
    NAME_FEATURES,
    PAIR_FEATURES,
    TABLE_FEATURES,
    LookWeights,
    QueryColumns,
    look,
    table_features,
)
from gentus.align.signatures import Signatures
from gentus.arrays import F32

FILE = "verdict.json"
Fit: TypeAlias = Literal["full", "partial", "none"]
FITS: tuple[Fit, ...] = ("full", "partial", "none")


@dataclass(frozen=True, slots=True)
class VerdictWeights:
    """All that was learnt, as the file has it."""

    pair: dict[str, float]
    pair_bias: float
    names: dict[str, float]
    context: dict[str, float]
    context_bias: float
    table: dict[str, float]
    table_bias: float
    matched: float  # columns match from this score on
    fits: float  # a table fits from this probability on
    trained_on: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def look_weights(self) -> LookWeights:
        """As arrays; raises if it was learnt for other features."""
        learnt = {
            PAIR_FEATURES: self.pair,
            NAME_FEATURES: self.names,
            CONTEXT_FEATURES: self.context,
            TABLE_FEATURES: self.table,
        }
        if any(tuple(given) != features for features, given in learnt.items()):
            raise ValueError(f"{FILE} was learnt for other features; learn it anew: gentus-bench run verdict")
        pair, names, context, table = (np.array(list(one.values()), np.float32) for one in learnt.values())
        return LookWeights(pair, self.pair_bias, names, context, self.context_bias, table, self.table_bias)


@lru_cache(maxsize=1)
def shipped_verdict() -> VerdictWeights:
    """The weights that come with the package."""
    return VerdictWeights(**json.loads(files("gentus.align").joinpath(FILE).read_text("utf-8")))


@lru_cache(maxsize=1)
def look_weights() -> LookWeights:
    """The weights of the second look that come with the package."""
    return shipped_verdict().look_weights()


MATCH = TABLE_FEATURES.index("matched, of the wider")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the second look says of one table."""

    score: float  # the probability that a person would append it
    match: float  # how much of the wider of the two tables matches
    matches: F32  # (q, t) of their columns

    def pairs(self) -> list[tuple[int, int]]:
        """The columns of the query and of the table that match, one to one."""
        return matched_pairs(self.matches, shipped_verdict().matched)


def judge(query: QueryColumns, tables: Sequence[Signatures], names: bool) -> list[Verdict]:
    """A verdict on each table; column names count with `names`."""
    weights = look_weights()
    verdicts: list[Verdict | None] = [None] * len(tables)
    for some, matches in look(query, tables, weights, names):
        features = table_features(matches)
        log_odds = (features * weights.table).sum(1) + np.float32(weights.table_bias)
        scores = 1 / (1 + np.exp(-log_odds.astype(np.float64)))
        shown = zip(some, scores.tolist(), features[:, MATCH].tolist(), matches.widths.tolist(), strict=False)
        for at, (position, score, match, width) in enumerate(shown):
            verdicts[position] = Verdict(score, match, matches.scores[at, :, :width])
    return [one for one in verdicts if one is not None]


def matched_pairs(matches: F32, threshold: float) -> list[tuple[int, int]]:
    """One-to-one pairs from the threshold on, the best first chosen, in the order of the query's columns.

    The dual softmax has few conflicts, and an optimal assignment would need SciPy, which is slow to import.
    """
    rows, columns = np.nonzero(matches >= threshold)
    scores = -matches[rows, columns]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in sorted(zip(scores.tolist(), rows.tolist(), columns.tolist(), strict=True)):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    return sorted(pairs.items())


def fit_of(score: float, matched: int, columns: int) -> Fit:
    """How far a table fits: `full` if all columns of the query with cells are matched."""
    if score < shipped_verdict().fits or not matched:
        return "none"
    return "full" if matched == columns else "partial"
