"""The second look of a search: column matches of a query with many tables at once, from signatures alone.

The same steps as in `matcher`, for all tables together: log-odds of every column pair from its features, a
dual softmax, log-odds given the other pairs of the same table, and the dual softmax again. What comes out for
each table is a matrix of matches, and from it the log-odds that a person would append the table's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gentus.align.signatures import (
    SKETCHES,
    VALUES,
    Signatures,
    ValueHashes,
    joined,
    names_of,
    unpacked,
)
from gentus.arrays import F32, I64
from gentus.features.extract import PROFILE
from gentus.table import Table

MOST_COLUMNS = 256  # of a table that are looked at, from the left
_MOST_PAIRS = 1 << 18  # of columns that are compared at once: what bounds memory
PAIR_FEATURES = (
    "n-gram cosine, text",
    "word cosine, text",
    "shape cosine",
    "token cosine, text",
    "containment",
    "containment, numbers",
    "containment, many values",
    "no overlap, text",
    "jaccard",
    "jaccard, numbers",
    "both numbers",
    "both text",
    "distinct count",
    "cell count",
    "only one is constant",
    *(f"profile {at} difference" for at in range(PROFILE)),
)
NAME_FEATURES = ("both named", "name cosine", "equal names")
CONTEXT_FEATURES = (
    "pair score",
    "row margin",
    "column margin",
    "dual softmax",
    "order agreement",
    "order agreement, ordered tables",
)
TABLE_FEATURES = ("matched, of both", "matched, of the wider", "matches, logarithm")


@dataclass(frozen=True, slots=True)
class LookWeights:
    """The learnt weights of the second look."""

    pair: F32  # (PAIR_FEATURES,)
    pair_bias: float
    names: F32  # (NAME_FEATURES,)
    context: F32  # (CONTEXT_FEATURES,)
    context_bias: float
    table: F32  # (TABLE_FEATURES,)
    table_bias: float


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The columns of a query that have cells: their names, signatures, and all of their values."""

    names: list[str]
    signatures: Signatures  # (q,)
    values: list[NDArray[np.uint16]]  # hashes per column

    @classmethod
    def of(cls, table: Table, signatures: Signatures, values: ValueHashes) -> QueryColumns:
        """Of a query that was read."""
        short = [hashes.astype(np.uint16) for hashes in values[:MOST_COLUMNS]]
        return cls(names_of(table)[:MOST_COLUMNS], signatures[:MOST_COLUMNS], short)

    def lookup(self) -> NDArray[np.bool_]:
        """(65536, q) whether a column has a value with this hash."""
        contains = np.zeros((1 << 16, len(self.values)), bool)
        for at, hashes in enumerate(self.values):
            contains[hashes, at] = True
        return contains


@dataclass(frozen=True, slots=True)
class Matches:
    """How the columns of a query match those of T tables, each padded to W columns."""

    scores: F32  # (T, q, W) 0 to 1, and 0 beyond the columns of a table
    widths: I64  # (T,) columns of each table


def look(
    query: QueryColumns, tables: Sequence[Signatures], weights: LookWeights, names: bool
) -> Iterator[tuple[list[int], Matches]]:
    """Matches of a query with tables, some at a time: their positions in the list, and the matches."""
    for some in _batches([len(table) for table in tables], len(query.signatures)):
        pairs = PairLook.of(query, [tables[at][:MOST_COLUMNS] for at in some], names)
        yield some, pairs.matches(weights)


def _batches(widths: Sequence[int], query: int) -> Iterator[list[int]]:
    """Tables of like width together, as far as memory allows."""
    order = sorted(range(len(widths)), key=widths.__getitem__)
    batch: list[int] = []
    for at in order:
        width = min(widths[at], MOST_COLUMNS)
        first = max(widths[batch[0]], 1) if batch else width
        if batch and ((len(batch) + 1) * width * query > _MOST_PAIRS or width > 2 * first + 8):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class PairLook:
    """Features of the column pairs of a query and some tables."""

    pair: F32  # (q, n, PAIR_FEATURES)
    names: F32  # (q, n, NAME_FEATURES) all zero if names are not used
    columns: I64  # (T, W) positions among the n columns; n where a table has fewer
    widths: I64  # (T,)

    @classmethod
    def of(cls, query: QueryColumns, tables: Sequence[Signatures], names: bool) -> PairLook:
        """Compare all columns of a query with all columns of some tables."""
        widths = np.array([len(table) for table in tables], np.int64)
        ends = np.cumsum(widths)
        places = np.arange(int(widths.max(initial=0)))
        columns = np.where(places < widths[:, None], (ends - widths)[:, None] + places, ends[-1])
        return cls(*_pair_features(query, joined(tables), names), columns, widths)

    def matches(self, weights: LookWeights) -> Matches:
        """The matches by learnt weights."""
        log_odds = self.pair @ weights.pair + np.float32(weights.pair_bias) + self.names @ weights.names
        context = self.context(self.padded(log_odds))
        scores = dual_softmax(context @ weights.context + np.float32(weights.context_bias), self.inside)
        return Matches(scores, self.widths)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """(T, 1, W) where there are columns."""
        return np.asarray(np.arange(self.columns.shape[1]) < self.widths[:, None])[:, None]

    def padded(self, values: F32, beyond: float = -20.0) -> F32:
        """(T, q, W) values of the pairs (q, n), table by table."""
        extended = np.concatenate([values, np.full((len(values), 1), beyond, np.float32)], axis=1)
        return np.ascontiguousarray(extended[:, self.columns].transpose(1, 0, 2))

    def context(self, log_odds: F32) -> F32:
        """(T, q, W, CONTEXT_FEATURES) features of every pair given the other pairs of its table."""
        scores = np.clip(log_odds, -8, 8)
        matches = dual_softmax(log_odds, self.inside)
        local, overall = _order_agreement(matches**2)
        rows, columns = (np.maximum(_best_other(scores, axis), -6) for axis in (2, 1))
        ordered = local * np.maximum(overall, 0)[:, None, None]
        return np.stack([scores, scores - rows, scores - columns, matches, local, ordered], axis=3)


def _pair_features(query: QueryColumns, columns: Signatures, names: bool) -> tuple[F32, F32]:
    """(q, n, PAIR_FEATURES) and (q, n, NAME_FEATURES)."""
    ours = query.signatures
    left, right = unpacked(ours["sketches"]), unpacked(columns["sketches"])
    cosines = {kind: left[:, part] @ right[:, part].T for kind, part in SKETCHES.items()}
    mine, its = ours["distinct"].astype(np.float32)[:, None], columns["distinct"].astype(np.float32)[None]
    profile, others = ours["profile"].astype(np.float32), columns["profile"].astype(np.float32)
    numbers = np.outer(*(np.clip(side[:, 0] / 2, 0, 1) for side in (profile, others)))
    text = np.outer(*(1 - np.clip(side[:, 0] / 2, 0, 1) for side in (profile, others)))
    common = np.minimum(_shared(query, columns) * its, mine)
    fewest = np.minimum(mine, its)
    containment = np.minimum(common / np.maximum(fewest, 1), 1)
    jaccard = common / np.maximum(mine + its - common, 1)
    many = np.log1p(fewest) / 3
    cells = np.minimum(ours["cells"][:, None], columns["cells"][None]).astype(np.float32)
    features = [
        *(cosines["grams"] * text, cosines["words"] * text, cosines["shapes"], cosines["tokens"] * text),
        *(containment, containment * numbers, containment * many, (containment == 0) * text * many),
        *(jaccard, jaccard * numbers, numbers, text, many, np.log1p(cells) / 4),
        ((mine == 1) != (its == 1)).astype(np.float32),
    ]
    differences = np.minimum(np.abs(profile[:, None] - others[None]), 4)
    pair = np.concatenate([np.stack(features, 2), differences], 2, dtype=np.float32)
    named = np.zeros((*numbers.shape, len(NAME_FEATURES)), np.float32)
    if names:
        part = SKETCHES["names"]
        both = np.outer(left[:, part].any(1), right[:, part].any(1))
        named = np.stack([both, cosines["names"], cosines["names"] > 0.999], 2).astype(np.float32)
    return pair, named


def _shared(query: QueryColumns, columns: Signatures) -> F32:
    """(q, n) the share of a column's kept values that a column of the query has."""
    kept = np.minimum(columns["distinct"], VALUES)  # (n,)
    found = query.lookup()[columns["values"]]  # (n, VALUES, q)
    found &= (np.arange(VALUES) < kept[:, None])[:, :, None]
    return np.asarray(found.sum(1, dtype=np.float32).T / np.maximum(kept, 1), np.float32)


def dual_softmax(log_odds: F32, inside: NDArray[np.bool_]) -> F32:
    """(T, q, W) the geometric mean of the softmaxes over rows and columns; "no match" has log-odds 0."""
    odds = np.exp(np.clip(log_odds, -30, 30)) * inside
    both = (1 + odds.sum(2, keepdims=True)) * (1 + odds.sum(1, keepdims=True))
    return np.asarray(odds / np.sqrt(both), np.float32)


def _best_other(scores: F32, axis: int) -> F32:
    """(T, q, W) the best score of the other pairs along an axis; very low where there are none."""
    best = scores.max(axis, keepdims=True)
    at_best = scores == best
    others = np.where(at_best, np.float32(-20), scores).max(axis, keepdims=True)
    several = at_best.sum(axis, keepdims=True) > 1
    return np.asarray(np.where(at_best & ~several, others, best), np.float32)


def _order_agreement(weights: F32) -> tuple[F32, F32]:
    """(T, q, W) whether a pair has the same order to the other pairs in both tables; (T,) overall."""
    left, right = (
        np.sign(np.subtract.outer(np.arange(n), np.arange(n))).astype(np.float32) for n in weights.shape[1:]
    )
    agreeing = left @ weights @ right.T
    compared = np.abs(left) @ weights @ np.abs(right).T
    overall = (agreeing * weights).sum((1, 2)) / ((compared * weights).sum((1, 2)) + 0.5)
    return agreeing / (compared + np.float32(0.5)), overall


def table_features(matches: Matches) -> F32:
    """(T, TABLE_FEATURES) how much of the query and of each table matches."""
    query, widths = max(matches.scores.shape[1], 1), np.maximum(matches.widths, 1)
    total = matches.scores.sum((1, 2))
    shares = [total / np.sqrt(query * widths), total / np.maximum(query, widths), np.log1p(total)]
    return np.stack(shares, 1).astype(np.float32)
