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
    SIGNATURE,
    SKETCHES,
    VALUES,
    Signatures,
    Sketches,
    ValueHashes,
    joined,
    names_of,
    unpacked,
)
from gentus.arrays import F32, I64, U8
from gentus.features.extract import PROFILE
from gentus.features.wide import FIRST
from gentus.table import Table

MOST_COLUMNS = FIRST  # of a table that are looked at, from the left
_NO_HASHES = np.zeros(0, np.uint16)
_EMPTY = np.zeros(1, SIGNATURE)
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

    @classmethod
    def stored(cls, names: list[str], signatures: Signatures) -> QueryColumns:
        """Of a table of the index: of its values, those are known that its signatures keep."""
        some = signatures[:MOST_COLUMNS]
        values = [row["values"][: min(int(row["distinct"]), VALUES)] for row in some]
        return cls(names[:MOST_COLUMNS], some, values)

    def lookup(self) -> tuple[NDArray[np.int32], U8]:
        """(65536,) rows of hashes, 0 for those of no column, and (rows, q) 1 where a column has the hash."""
        hashes = np.concatenate([_NO_HASHES, *self.values])
        rows = np.zeros(1 << 16, np.int32)
        rows[hashes] = np.arange(1, len(hashes) + 1)
        contains = np.zeros((len(hashes) + 1, len(self.values)), np.uint8)
        contains[rows[hashes], np.repeat(np.arange(len(self.values)), list(map(len, self.values)))] = 1
        return rows, contains


@dataclass(frozen=True, slots=True)
class Matches:
    """How the columns of a query match those of T tables, each padded to W columns."""

    scores: F32  # (T, q, W) 0 to 1, and 0 beyond the columns of a table
    widths: I64  # (T,) columns of each table


def look(
    query: QueryColumns, tables: Sequence[Signatures], weights: LookWeights, names: bool
) -> Iterator[tuple[list[int], Matches]]:
    """Matches of a query with tables, some at a time: their positions in the list, and the matches.

    The last of the matches are those of a table with an empty column, so that there are always two.
    """
    for some in batches([len(table) for table in tables], len(query.signatures)):
        pairs = PairLook.of(query, [*(tables[at][:MOST_COLUMNS] for at in some), _EMPTY], names)
        yield some, pairs.matches(weights)


def batches(widths: Sequence[int], query: int) -> Iterator[list[int]]:
    """Tables of like width together, as far as memory allows."""
    order = sorted(range(len(widths)), key=widths.__getitem__)
    batch: list[int] = []
    for at in order:
        width = min(widths[at], MOST_COLUMNS)
        first = max(widths[batch[0]], 1) if batch else width
        if batch and ((len(batch) + 1) * width * query > _MOST_PAIRS or width > 2 * first + 32):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class PairLook:
    """Features of the column pairs of a query and some tables.

    A pair has the same numbers, to the last digit, whichever other tables are compared: products of
    sketches are whole numbers, and all else is added up in the order of columns or features. NumPy does so
    because n and T are the innermost axes in memory, if they are 2 at least.
    """

    pair: F32  # (q, n, PAIR_FEATURES), a view: feature by feature in memory
    names: F32  # (q, n, NAME_FEATURES) all zero if names are not used
    columns: I64  # (T, W), W >= 1: positions among the n columns; n where a table has fewer
    widths: I64  # (T,)

    @classmethod
    def of(cls, query: QueryColumns, tables: Sequence[Signatures], names: bool) -> PairLook:
        """Compare all columns of a query with all columns of some tables."""
        widths = np.array([len(table) for table in tables], np.int64)
        ends = np.cumsum(widths)
        places = np.arange(int(widths.max(initial=1)))
        columns = np.where(places < widths[:, None], (ends - widths)[:, None] + places, ends[-1])
        return cls(*_pair_features(query, joined(tables), names), columns, widths)

    def matches(self, weights: LookWeights) -> Matches:
        """The matches by learnt weights."""
        log_odds = np.einsum("qnf,f->qn", self.pair, weights.pair) + np.float32(weights.pair_bias)
        log_odds += np.einsum("qnf,f->qn", self.names, weights.names)
        context = self.context(self.padded(log_odds))
        final = np.einsum("tqwf,f->tqw", context, weights.context) + np.float32(weights.context_bias)
        return Matches(dual_softmax(final, self.inside), self.widths)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """(T, 1, W) where there are columns."""
        return np.asarray(np.arange(self.columns.shape[1])[:, None] < self.widths).T[:, None]

    def padded(self, values: F32, beyond: float = -20.0) -> F32:
        """(T, q, W) values of the pairs (q, n), table by table."""
        extended = np.full((len(values), values.shape[1] + 1), beyond, np.float32)
        extended[:, :-1] = values
        return extended.take(self.columns.T, 1).transpose(2, 0, 1)

    def context(self, log_odds: F32) -> F32:
        """(T, q, W, CONTEXT_FEATURES) features of every pair given the other pairs of its table, a view."""
        scores = np.clip(log_odds, -8, 8)
        matches = dual_softmax(log_odds, self.inside)
        local, overall = _order_agreement(matches * matches)
        rows, columns = (np.maximum(_best_other(scores, axis), -6) for axis in (2, 1))
        ordered = local * np.maximum(overall, 0)[:, None, None]
        features = np.stack([scores, scores - rows, scores - columns, matches, local, ordered])
        return features.transpose(1, 2, 3, 0)


def _pair_features(query: QueryColumns, columns: Signatures, names: bool) -> tuple[F32, F32]:
    """(q, n, PAIR_FEATURES) and (q, n, NAME_FEATURES)."""
    ours = query.signatures
    left, right = unpacked(ours["sketches"]), unpacked(columns["sketches"])
    cosines = {kind: _cosines(left, right, kind) for kind in SKETCHES if names or kind != "names"}
    mine, its = ours["distinct"].astype(np.float32)[:, None], columns["distinct"].astype(np.float32)[None]
    profile, others = (side["profile"].T.astype(np.float32) for side in (ours, columns))  # (PROFILE, q or n)
    number, its_number = (np.clip(side[0] / 2, 0, 1) for side in (profile, others))
    numbers, text = np.outer(number, its_number), np.outer(1 - number, 1 - its_number)
    common = np.minimum(_shared(query, columns) * its, mine)
    fewest = np.minimum(mine, its)
    containment = np.minimum(common / np.maximum(fewest, 1), 1)
    jaccard = common / np.maximum(mine + its - common, 1)
    many = np.minimum(*(np.log1p(side) / 3 for side in (mine, its)))
    cells = np.minimum(*np.ix_(*(np.log1p(side["cells"].astype(np.float32)) / 4 for side in (ours, columns))))
    features = [
        *(cosines["grams"] * text, cosines["words"] * text, cosines["shapes"], cosines["tokens"] * text),
        *(containment, containment * numbers, containment * many, (containment == 0) * text * many),
        *(jaccard, jaccard * numbers, numbers, text, many, cells, (mine == 1) != (its == 1)),
    ]
    pair = np.empty((len(PAIR_FEATURES), *numbers.shape), np.float32)
    for at, feature in enumerate(features):
        pair[at] = feature
    differences = pair[len(features) :]
    np.subtract(profile[:, :, None], others[:, None], out=differences)
    np.minimum(np.abs(differences, out=differences), 4, out=differences)
    named = np.zeros((len(NAME_FEATURES), *numbers.shape), np.float32)
    if names:
        both = np.outer(*(side.lengths["names"] > 0 for side in (left, right)))
        named[:] = both, cosines["names"], cosines["names"] > 0.999
    return pair.transpose(1, 2, 0), named.transpose(1, 2, 0)


def _cosines(left: Sketches, right: Sketches, kind: str) -> F32:
    """(q, n) cosines of the sketches of a kind; 0 where one is empty."""
    part = SKETCHES[kind]
    products = left.numbers[:, part] @ right.numbers[:, part].T
    products /= np.maximum(np.outer(left.lengths[kind], right.lengths[kind]), 1)
    return products


def _shared(query: QueryColumns, columns: Signatures) -> F32:
    """(q, n) the share of a column's kept values that a column of the query has."""
    kept = np.minimum(columns["distinct"], VALUES)  # (n,)
    row_of, contains = query.lookup()
    rows = row_of.take(columns["values"])  # (n, VALUES)
    rows *= np.arange(VALUES) < kept[:, None]
    at = np.flatnonzero(rows)
    found = np.zeros((len(columns), contains.shape[1]), np.float32)
    if len(at):
        owners = at // VALUES
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        found[owners[starts]] = np.add.reduceat(contains[rows.ravel()[at]], starts, dtype=np.uint8)
    return np.asarray((found / np.maximum(kept, 1)[:, None]).T, np.float32)


def dual_softmax(log_odds: F32, inside: NDArray[np.bool_]) -> F32:
    """(T, q, W) the geometric mean of the softmaxes over rows and columns; "no match" has log-odds 0."""
    odds = np.exp(np.clip(log_odds, -30, 30)) * inside
    both = (1 + odds.sum(2, keepdims=True)) * (1 + odds.sum(1, keepdims=True))
    return np.asarray(odds / np.sqrt(both), np.float32)


def _best_other(scores: F32, axis: int) -> F32:
    """(T, q, W) the best score of the other pairs along an axis; very low where there are none."""
    best = scores.max(axis, keepdims=True, initial=-20)
    at_best = scores == best
    others = np.where(at_best, np.float32(-20), scores).max(axis, keepdims=True, initial=-20)
    several = at_best.sum(axis, keepdims=True) > 1
    return np.asarray(np.where(at_best & ~several, others, best), np.float32)


def _order_agreement(weights: F32) -> tuple[F32, F32]:
    """(T, q, W) whether a pair has the same order to the other pairs in both tables; (T,) overall.

    Of all pairs in other rows and columns: the weights of those before it in both or behind it in both, minus
    those of the rest.
    """
    agreeing, compared = weights, weights
    for axis in (1, 2):
        agreeing = 2 * np.add.accumulate(agreeing, axis) - agreeing - agreeing.sum(axis, keepdims=True)
        compared = compared.sum(axis, keepdims=True) - compared
    overall = _total(agreeing * weights) / (_total(compared * weights) + np.float32(0.5))
    return agreeing / (compared + np.float32(0.5)), overall


def _total(values: F32) -> F32:
    """(T,) sums of all pairs of a table."""
    return np.asarray(values.sum(2).sum(1))


def table_features(matches: Matches) -> F32:
    """(T, TABLE_FEATURES) how much of the query and of each table matches."""
    query, widths = max(matches.scores.shape[1], 1), np.maximum(matches.widths, 1)
    total = _total(matches.scores)
    shares = [total / np.sqrt(query * widths), total / np.maximum(query, widths), np.log1p(total)]
    return np.stack(shares, 1).astype(np.float32)
