"""Blocks of columns that are compared with each other, where two tables are too wide to compare all pairs.

A block has columns of the query that are alike, and the columns of the table that are most like them: of
columns that could be mistaken for each other, all are in it, so that none of them looks certain. Columns are
alike by sketches of their values, words and names, and by statistics: one product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.align.name_similarity import name_grams
from gentus.align.table_profile import TableProfile
from gentus.arrays import F32, F64, I64

OURS = 48  # columns of the query in a block ...
_THEIRS = 80  # ... and of the table, at most
BLOCK_GRID = 128  # points at which distributions are compared in a block
_ALIKE = 8  # columns that are looked up for each column of the query
_SKETCH = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)
_QUANTILES = 5
_POWER_STEPS = 4
_LEAST_SLOPE = 1e-6  # above 0, as 0 times infinity is no number


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """Columns that are compared with each other, and how like them the columns outside of the block are."""

    ours: list[int]  # positions in the query
    theirs: list[int]  # positions in the table
    alike: F32  # (ours, theirs)
    others_theirs: F32  # (ours, all columns of the table); minus infinity for those inside
    others_ours: F32  # (theirs, all columns of the query); minus infinity for those inside

    def outside(self, log_odds: F64) -> tuple[F64, F64]:
        """(ours, 1) and (1, theirs) the odds of pairs with columns outside, by those of like pairs inside.

        Without them, a column with many like it outside of the block would look certain.
        """
        alike, known = self.alike.ravel().astype(np.float64), np.clip(log_odds, -8, 8).ravel()
        apart = alike - alike.mean()
        slope = max(_LEAST_SLOPE, float(apart @ known / max(apart @ apart, 1e-9)))
        base = float(known.mean() - slope * alike.mean())
        spread = float(np.var(known - base - slope * alike))
        top = float(known.max())

        def odds(likeness: F32) -> F64:
            expected = np.float32(slope) * likeness
            expected += np.float32(base + spread / 2)
            np.minimum(expected, np.float32(top), out=expected)
            return np.asarray(np.exp(expected, out=expected).sum(1), np.float64)

        return odds(self.others_theirs)[:, None], odds(self.others_ours)[None]


def column_blocks(query: TableProfile, table: TableProfile, names: bool) -> Iterator[ColumnBlock]:
    """Blocks of two tables; every column of the query is in one."""
    ours, theirs = (_Likeness(side, names) for side in (query, table))
    likeness = ours.with_all(theirs)
    of_theirs = likeness.T.copy()  # its rows are taken in a fraction of the time
    for block in _halved(np.concatenate([ours.vectors, ours.points], 1), np.arange(len(ours.points))):
        alike = likeness[block]
        namesakes = [theirs.by_name[name] for at in block if (name := ours.names[at]) in theirs.by_name]
        candidates = dict.fromkeys(namesakes)
        ranked = _most_alike(alike.copy())
        while len(candidates) < _THEIRS and (next_best := next(ranked, None)) is not None:
            candidates |= dict.fromkeys(next_best)
        chosen = np.array(list(candidates)[:_THEIRS])
        chosen.sort()
        inside, others = alike[:, chosen], of_theirs[chosen]
        alike[:, chosen] = others[:, block] = -np.inf  # cheaper than copies without them
        yield ColumnBlock(block.tolist(), chosen.tolist(), inside, alike, others)


def _most_alike(alike: F32) -> Iterator[list[int]]:
    """For each row the column that is most like it, then the next ones; `alike` is used up."""
    rows = np.arange(len(alike))
    for _ in range(min(_ALIKE, alike.shape[1])):
        best = alike.argmax(1)
        yield best.tolist()
        alike[rows, best] = -np.inf


def _halved(vectors: F32, some: I64) -> Iterator[I64]:
    """Blocks of alike columns: halves of halves, cut across the direction in which they differ most."""
    if len(some) <= OURS:
        yield some
        return
    centred = vectors[some] - vectors[some].mean(0)
    direction = centred[np.argmax((centred**2).sum(1))]
    for _ in range(_POWER_STEPS):
        direction = centred.T @ (centred @ direction)
        direction /= max(float(np.linalg.norm(direction)), 1e-12)
    order = np.argsort(centred @ direction, kind="stable")
    for half in np.array_split(order, 2):
        yield from _halved(vectors, some[np.sort(half)])


class _Likeness:
    """Columns as vectors: products of `vectors` and distances of `points` say how alike two columns are."""

    def __init__(self, profile: TableProfile, names: bool) -> None:
        width = len(profile.cell_counts)
        owner = np.repeat(np.arange(width), np.diff(profile.text_starts))
        parts = [
            2 * _sketched(profile.value_columns, profile.value_keys, np.sqrt(profile.value_counts), width),
            2 * _sketched(owner, profile.text_ids, 1 + np.log(profile.text_counts), width),
            _folded(profile.characters),
        ]
        if names:
            parts.append(3 * _folded(name_grams([column.name for column in profile.table.columns])))
        self.vectors: F32 = np.concatenate(parts, 1).astype(np.float32)
        self.names = [column.name for column in profile.table.columns]
        self.by_name = {name: at for at, name in enumerate(self.names) if names}
        quantiles = _quantiles(profile.numbers)
        scaled = np.sign(quantiles) * np.log1p(np.abs(quantiles)) / 4
        place = np.arange(width)[:, None] / max(width, 1)  # decides between columns that are equally alike
        self.points: F32 = np.concatenate(
            [2 * profile.type_shares, scaled, profile.statistics, place], 1
        ).astype(np.float32)

    def with_all(self, others: _Likeness) -> F32:
        """(q, t) how alike the columns are to those of another table."""
        likeness = (
            np.concatenate([self.vectors, self.points], 1)
            @ np.concatenate([others.vectors, others.points], 1).T
        )
        likeness -= (self.points**2).sum(1)[:, None] / 2
        likeness -= (others.points**2).sum(1) / 2
        return np.asarray(likeness, np.float32)


def _quantiles(columns: list[F64]) -> F64:
    """(width, _QUANTILES) evenly spaced numbers of sorted columns, the least and the largest too."""
    lengths = np.array(list(map(len, columns)), np.int64)
    filled = lengths > 0
    places = np.linspace(0, lengths[filled] - 1, _QUANTILES, axis=1).astype(np.int64)
    quantiles = np.zeros((len(columns), _QUANTILES))
    flat = np.concatenate([np.zeros(0), *columns])
    quantiles[filled] = flat[(np.cumsum(lengths) - lengths)[filled, None] + places]
    return quantiles


def _sketched(owner: I64, ids: NDArray[np.integer[Any]], weights: NDArray[Any], width: int) -> NDArray[Any]:
    """(width, _SKETCH) random projections by hashed signs of what each column has, of length one."""
    hashed = (ids.astype(np.uint64) * _MIX) >> np.uint64(33)
    at = owner * _SKETCH + (hashed % np.uint64(_SKETCH)).astype(np.int64)
    signs = np.where((hashed >> np.uint64(20)) & np.uint64(1), weights, -weights)
    sketches = np.bincount(at, signs, width * _SKETCH).reshape(width, _SKETCH)
    return np.asarray(sketches / np.maximum(np.linalg.norm(sketches, axis=1, keepdims=True), 1e-9))


def _folded(vectors: NDArray[Any]) -> NDArray[Any]:
    """(n, _SKETCH) vectors with fewer numbers, of length one."""
    folded = vectors.reshape(len(vectors), -1, _SKETCH).sum(1)
    return np.asarray(folded / np.maximum(np.linalg.norm(folded, axis=1, keepdims=True), 1e-9))
