"""Which columns of two tables belong together: one-to-one, by optimal assignment over all evidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from gentus.alignment import Alignment, ColumnRef, Pair
from gentus.digest import Digest, digest
from gentus.pairs import FEATURES, pair_features
from gentus.table import Table

F64 = NDArray[np.float64]
THRESHOLD = 0.5
_FIRST = {  # to be learnt
    "values as frequent": 3.0,
    "rare values shared": 2.0,
    "words": 1.0,
    "grams": 2.0,
    "shapes": 1.0,
    "pieces": 1.0,
    "numbers: largest gap": -8.0,
    "numbers: mean gap": -2.0,
    "dates: largest gap": -4.0,
    "decimal places": 1.0,
    "both numbers": 3.5,
    "both dates": 4.0,
    "equal names": 4.0,
    "alike letters": 2.0,
    "apart: chance that two cells are equal": -2.0,
    "apart: profile 0": -2.0,
}
_BIAS = -3.0


def align(query: Table, table: Table, names: bool = True) -> Alignment:
    """Match the columns of two tables; `names=False` looks at their cells only."""
    return align_digests(digest(query), digest(table), names)


def align_digests(query: Digest, table: Digest, names: bool = True) -> Alignment:
    """The same for tables that were looked at before."""
    scores = pair_scores(query, table, names)
    rows, cells = linear_sum_assignment(np.maximum(scores - THRESHOLD, 0), maximize=True)
    chosen = [(i, j) for i, j in zip(rows.tolist(), cells.tolist(), strict=True) if scores[i, j] >= THRESHOLD]
    ours, theirs = (
        [ColumnRef(at, column.name) for at, column in enumerate(side.table.columns)]
        for side in (query, table)
    )
    taken, used = {i for i, _ in chosen}, {j for _, j in chosen}
    pairs = [Pair(ours[i], theirs[j], round(float(scores[i, j]), 4), "alike") for i, j in chosen]
    return Alignment(
        query.table.name,
        table.table.name,
        round(sum(pair.score for pair in pairs) / max(len(ours), 1), 4),
        pairs,
        [column for column in ours if column.at not in taken],
        [column for column in theirs if column.at not in used],
    )


def no_alignment(query: Table, table: str, reason: str) -> Alignment:
    """What there is to say of a table that cannot be read."""
    columns = [ColumnRef(at, column.name) for at, column in enumerate(query.columns)]
    return Alignment(query.name, table, 0.0, [], columns, [], reason)


def pair_scores(query: Digest, table: Digest, names: bool = True) -> F64:
    """(q, t) how sure we are that two columns belong together, 0 to 1."""
    features = pair_features(query, table, names)
    weights = np.array([_FIRST.get(feature, 0.0) for feature in FEATURES])
    scores = 1 / (1 + np.exp(-(features @ weights + _BIAS)))
    empty = ~np.outer(query.kinds.any(1), table.kinds.any(1))
    return np.asarray(np.where(empty, 0, scores), np.float64)
