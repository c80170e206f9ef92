"""Which columns of two tables belong together: one-to-one, by optimal assignment over all evidence.

Every column has one vote, which it shares out among the columns of the other table and nobody, by a softmax
over what speaks for each pair. A pair has what its two columns give each other. This is done twice: after a
first look at each pair on its own, and after a second in the light of all other pairs. Names count in the
first look, if they are to count at all. All weights and the threshold were learnt on slices of real tables,
by `gentus-bench learn-align`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gentus.align.alignment import Alignment, ColumnRef, Pair
from gentus.align.digest import Digest, digest
from gentus.align.pairs import FIRST, NAMES, SECOND, Evidence, first_look, second_look
from gentus.align.reasons import reason
from gentus.arrays import F64
from gentus.lake import Unreadable
from gentus.table import Table

FILE = "weights.json"
_ONLY_NAMED = (
    2.0  # log-odds of two columns of the same name of which one is empty: there is nothing to learn it by
)
_EQUAL = NAMES.index("equal names")


@dataclass(frozen=True, slots=True)
class Weights:
    """What was learnt. Scores are probabilities that a pair is right."""

    first: dict[str, float]  # of the first look
    first_bias: float
    names: dict[str, float]
    second: dict[str, float]
    second_bias: float
    scale: float  # from what two columns give each other to a probability: log-odds times this ...
    shift: float  # ... plus this
    threshold: float  # pairs below are left alone
    learnt: dict[str, Any]  # on what, and when

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@lru_cache(maxsize=1)
def shipped_weights() -> Weights:
    """The weights that come with the package."""
    weights = Weights(**json.loads(files("gentus.align").joinpath(FILE).read_text("utf-8")))
    for told, known in ((weights.first, FIRST), (weights.names, NAMES), (weights.second, SECOND)):
        if tuple(told) != known:
            raise ValueError(f"{FILE} was learnt for other evidence; run gentus-bench learn-align")
    return weights


def align(query: Table, table: Table, names: bool = True) -> Alignment:
    """Match the columns of two tables; without `names` by their cells only."""
    return align_digests(digest(query), digest(table), names)


def align_digests(query: Digest, table: Digest, names: bool = True) -> Alignment:
    """The same for tables that were looked at before."""
    weights = shipped_weights()
    evidence = first_look(query, table, names)
    scores = pair_scores(query, table, evidence, weights)
    ours, theirs = (_columns(side.table) for side in (query, table))
    pairs = [
        Pair(ours[i], theirs[j], round(float(scores[i, j]), 4), reason(query, table, evidence, i, j))
        for i, j in assign(scores, weights.threshold)
    ]
    taken, used = {pair.query.at for pair in pairs}, {pair.table.at for pair in pairs}
    return Alignment(
        query.table.name,
        table.table.name,
        round(sum(pair.score for pair in pairs) / max(len(ours), 1), 4),
        pairs,
        [column for column in ours if column.at not in taken],
        [column for column in theirs if column.at not in used],
    )


def align_each(query: Table, names: Iterable[str], read: Callable[[str], Table]) -> Iterator[Alignment]:
    """Align a query with tables that are read by their names; of one that cannot be read it is said why."""
    own = digest(query)
    for name in names:
        try:
            yield align_digests(own, digest(read(name)))
        except Unreadable as error:
            yield no_alignment(query, name, error.reason)


def no_alignment(query: Table, table: str, why: str) -> Alignment:
    """What there is to say of a table that cannot be read."""
    return Alignment(query.name, table, 0.0, [], _columns(query), [], why)


def _columns(table: Table) -> list[ColumnRef]:
    return [ColumnRef(at, column.name) for at, column in enumerate(table.columns)]


def assign(scores: F64, threshold: float) -> list[tuple[int, int]]:
    """The one-to-one pairs that are worth most above the threshold, in the order of the rows."""
    rows, columns = linear_sum_assignment(np.maximum(scores - threshold, 0), maximize=True)
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if scores[i, j] >= threshold]


def pair_scores(query: Digest, table: Digest, evidence: Evidence, weights: Weights) -> F64:
    """(q, t) how likely it is that two columns belong together, 0 to 1."""
    given, allowed = first_votes(evidence, weights)
    seen = second_look(query, table, evidence, given, votes(given, allowed))
    again = seen @ _array(weights.second) + weights.second_bias
    return probability(votes(again, allowed), weights) * allowed


def first_votes(evidence: Evidence, weights: Weights) -> tuple[F64, NDArray[np.bool_]]:
    """(q, t) log-odds after the first look, and which pairs are possible at all."""
    scores = evidence.first @ _array(weights.first) + weights.first_bias
    scores += evidence.names @ _array(weights.names)
    same = evidence.names[:, :, _EQUAL] > 0
    scores = np.where(evidence.filled, scores, np.where(same, _ONLY_NAMED, -8.0))
    return scores, evidence.filled | same


def votes(scores: F64, allowed: NDArray[np.bool_]) -> F64:
    """(q, t) what two columns give each other: the geometric mean of two softmaxes, in which nobody has 0."""
    odds = np.exp(np.clip(scores, -50, 50)) * allowed
    return np.asarray(odds / np.sqrt((1 + odds.sum(1, keepdims=True)) * (1 + odds.sum(0))), np.float64)


def probability(given: F64, weights: Weights) -> F64:
    """Votes as probabilities."""
    given = np.clip(given, 1e-9, 1 - 1e-9)
    log_odds = weights.scale * np.log(given / (1 - given)) + weights.shift
    return np.asarray(1 / (1 + np.exp(-log_odds)), np.float64)


def _array(weights: dict[str, float]) -> F64:
    return np.array(list(weights.values()))
