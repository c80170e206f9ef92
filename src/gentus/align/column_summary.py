"""Summaries of how the columns of a query match those of tables, as features of a ranking learnt from labels.

Every pair feature of the second look is summed twice: over the pairs that match, each as far as it does, and
over the pairs at the same position, empty columns counted. No file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gentus.align.second_look import (
    MOST_COLUMNS,
    NAME_FEATURES,
    PAIR_FEATURES,
    TABLE_FEATURES,
    LookWeights,
    Matches,
    PairLook,
    QueryColumns,
    batches,
    table_features,
)
from gentus.align.signatures import SIGNATURE, Signatures, joined, table_widths
from gentus.arrays import F32

SUMMED = (*PAIR_FEATURES, *NAME_FEATURES)
SUMMARY = (
    *(f"{name}, matched" for name in SUMMED),
    *(f"{name}, same position" for name in SUMMED),
    *TABLE_FEATURES,
    "same number of columns",
    "similar number of columns",
    "similar number of filled columns",
)
_EMPTY = np.zeros(1, SIGNATURE)


def summarise(query: QueryColumns, tables: Sequence[Signatures], weights: LookWeights, names: bool) -> F32:
    """(T, SUMMARY) features of each table for a query; a table has the same ones among any others."""
    found = np.zeros((len(tables), len(SUMMARY)), np.float32)
    own = len(query.signatures)
    if not own:
        return found
    for some in batches([len(table) for table in tables], own):
        looked = [*(tables[at][:MOST_COLUMNS] for at in some), _EMPTY]
        look = PairLook.of(query, looked, names)
        found[some] = _summed(look, look.matches(weights), query.signatures, joined(looked))[:-1]
    return found


def _summed(look: PairLook, matches: Matches, query: Signatures, columns: Signatures) -> F32:
    """(T, SUMMARY) features of the tables that were looked at, which have these n columns."""
    own, widths = len(query), look.widths
    owners, starts, filled = np.repeat(np.arange(len(widths)), widths), np.cumsum(widths) - widths, widths > 0
    matched = matches.scores[owners, :, np.arange(len(owners)) - starts[owners]].T  # (q, n)
    same = (query["left"][:, None] == columns["left"]).astype(np.float32)
    scale = 1 / np.sqrt(own * np.maximum(widths, 1)).astype(np.float32)
    every, mine = np.ones(len(widths), np.int64), table_widths(query)[0]  # with empty columns
    every[filled] = table_widths(columns[starts[filled]])
    parts = []
    for weight in (matched, same):
        for features in (look.pair, look.names):
            summed = np.einsum("qnf,qn->nf", features, weight)
            total = np.zeros((len(widths), summed.shape[1]), np.float32)
            total[filled] = np.add.reduceat(summed, starts[filled])
            parts.append(total * scale[:, None])
    ratios = [np.log(every / mine), np.log(np.maximum(widths, 1) / own)]
    sizes = np.stack([every == mine, *(-np.abs(ratio) for ratio in ratios)], 1)
    return np.concatenate([*parts, table_features(matches), sizes], axis=1).astype(np.float32)
