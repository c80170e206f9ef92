"""Features of every pair of columns of two tables: similarities of values, text, numbers and names.

Everything is (q, t), for the q columns of the query and the t of the table, without a loop over pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gentus.align.name_similarity import SIMILARITIES, compare_names
from gentus.align.table_profile import STATISTICS, TableProfile
from gentus.arrays import F64, I64
from gentus.features.extract import KINDS, TOKEN
from gentus.features.weights import TOKEN_WIDTH, load_vectors
from gentus.sparse import SparseRows

GRID = 2048  # points at which distributions are compared, at most
_POINTS = 16  # of them from each column
DENSE = 1 << 18  # entries up to which a dense matrix is faster than a sparse one
PAIRS = 1 << 20  # of entries of sparse ones that are multiplied at once

PAIR_FEATURES = (
    "value overlap",
    "value overlap, numbers",
    "containment",
    "containment, numbers",
    "containment, many values",
    "no overlap, text",
    "word cosine, text",
    "n-gram cosine, text",
    "shape cosine, text",
    "character affinity, text",
    "embedding cosine, text",
    "length distance",
    "length distance, text",
    "KS distance",
    "mean CDF distance",
    "KS statistic",
    "KS statistic, distinct numbers",
    "range overlap",
    "log IQR difference",
    "decimal places affinity",
    "both numbers",
    "both dates",
    "both text",
    "cell count",
    "distinct count",
    "only one is constant",
    *(f"{name} difference" for name in STATISTICS),
)
NAME_FEATURES = ("both named", *SIMILARITIES)


@dataclass(frozen=True, slots=True)
class PairFeatures:
    """The features of every pair on its own."""

    pair: F64  # (q, t, PAIR_FEATURES)
    names: F64  # (q, t, NAME_FEATURES) all zero if names are not used
    jaccard: F64  # (q, t) of the distinct values
    nonempty: NDArray[np.bool_]  # (q, t) both columns have cells


def pair_features(
    query: TableProfile, table: TableProfile, names: bool = True, grid: int = GRID
) -> PairFeatures:
    """Compare every column of the query with every column of the table; names only with `names`.

    Distributions are compared at `grid` points at most.
    """
    containment, jaccard, overlap = _value_overlap(query, table)
    words, grams, shapes, meaning = _text_cosines(query, table)
    largest, mean, scaled, distinct_scaled, within, spreads = _distributions(query, table, grid)
    numbers, dates, text = (np.outer(query.type_shares[:, at], table.type_shares[:, at]) for at in range(3))
    characters = query.characters @ table.characters.T
    lengths = _largest_distances(query.length_cdf, table.length_cdf)
    fewest = np.minimum(query.distinct_counts[:, None], table.distinct_counts[None])
    many = np.log1p(fewest) / 3
    constant = (query.distinct_counts == 1)[:, None] != (table.distinct_counts == 1)[None]
    cells = np.minimum(query.cell_counts[:, None], table.cell_counts[None])
    features = [
        *(overlap, overlap * numbers, containment, containment * numbers, containment * many),
        (containment == 0) * text * many,
        *(similarity * text for similarity in (words, grams, shapes, characters, meaning)),
        *(lengths, lengths * text),
        *(largest * numbers, mean * numbers, scaled * numbers),
        *(part * (numbers + dates) for part in (distinct_scaled, within, spreads)),
        query.decimal_places @ table.decimal_places.T,
        *(numbers, dates, text, np.log1p(cells) / 4, many, constant),
    ]
    differences = np.abs(query.statistics[:, None] - table.statistics[None])  # (q, t, STATISTICS)
    ours, theirs = ([column.name for column in side.table.columns] for side in (query, table))
    return PairFeatures(
        np.concatenate([np.stack(features, 2), differences], 2),
        compare_names(ours, theirs) if names else np.zeros((*numbers.shape, len(NAME_FEATURES))),
        jaccard,
        cells > 0,
    )


def _value_overlap(query: TableProfile, table: TableProfile) -> tuple[F64, F64, F64]:
    """(q, t) each: containment and Jaccard similarity of distinct values, overlap by frequency."""
    width, count = len(query.cell_counts), len(query.cell_counts) + len(table.cell_counts)
    owner = np.concatenate([query.value_columns, table.value_columns + width])
    ids, columns = _consecutive_ids(np.concatenate([query.value_keys, table.value_keys]))
    # The more columns have a value, the less it counts: 0 and 1 are in many columns.
    weight = np.concatenate([query.value_counts, table.value_counts]) / np.maximum(columns[ids] - 1, 1)
    share = weight / np.bincount(owner, weight, count)[owner]
    some = columns[ids] > 1  # values of a single column are not shared
    both = _product(np.ones(some.sum()), owner[some], ids[some], width, count)
    mine, its = query.distinct_counts[:, None], table.distinct_counts[None]
    return (
        both / np.maximum(np.minimum(mine, its), 1),
        both / np.maximum(mine + its - both, 1),
        _product(np.sqrt(share[some]), owner[some], ids[some], width, count),  # 1 if distributions are equal
    )


def _consecutive_ids(keys: NDArray[np.integer[Any]]) -> tuple[I64, I64]:
    """(n,) keys as consecutive ids in their order, and how often each id occurs."""
    order = np.argsort(keys)
    ordered = keys[order]
    ids = np.zeros(len(keys), np.int64)
    ids[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1])
    return ids, np.bincount(ids)


def _product(weights: F64, owner: I64, ids: I64, width: int, count: int) -> F64:
    """(q, t) dot products of the first `width` columns with the others; entries are sorted by column."""
    used = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    used[ids] = 1
    total = int(used.sum())
    if count * total <= DENSE:
        dense = np.zeros((count, total))
        dense[owner, (np.cumsum(used) - 1)[ids]] = weights
        return np.asarray(dense[:width] @ dense[width:].T, np.float64)
    return _sparse_product(weights, owner, ids, width, count - width)


def _sparse_product(weights: F64, owner: I64, ids: I64, width: int, others: int) -> F64:
    """The same by pairs of entries with the same id, which are few in long columns of rare values."""
    middle = int(np.searchsorted(owner, width))
    order = middle + np.argsort(ids[middle:], kind="stable")
    first, last = (np.searchsorted(ids[order], ids[:middle], side) for side in ("left", "right"))
    pairs = np.concatenate([[0], np.cumsum(last - first)])
    product = np.zeros(width * others)
    begin = 0
    while begin < middle:  # as many entries at once as have at most PAIRS pairs, and at least one
        end = max(int(np.searchsorted(pairs, pairs[begin] + PAIRS, "right")) - 1, begin + 1)
        own = np.repeat(np.arange(begin, end), (last - first)[begin:end])
        its = order[np.arange(pairs[begin], pairs[end]) - pairs[own] + first[own]]
        places = owner[own] * others + owner[its] - width
        product += np.bincount(places, weights[own] * weights[its], len(product))
        begin = end
    return product.reshape(width, others)


def _largest_distances(ours: F64, theirs: F64) -> F64:
    """(q, t) the largest difference of (q, n) and (t, n) rows."""
    largest, differences = np.zeros((len(ours), len(theirs))), np.empty_like(theirs)
    for at, row in enumerate(ours):
        np.abs(np.subtract(theirs, row, out=differences), out=differences)
        differences.max(1, out=largest[at])
    return largest


def _distances(ours: F64, theirs: F64) -> tuple[F64, F64]:
    """(q, t) each: the largest and the mean difference of (q, n) and (t, n) rows."""
    largest, sums = np.zeros((2, len(ours), len(theirs)))
    differences = np.empty_like(theirs)
    for at, row in enumerate(ours):
        np.abs(np.subtract(theirs, row, out=differences), out=differences)
        differences.max(1, out=largest[at])
        differences.sum(1, out=sums[at])
    return largest, sums / max(ours.shape[1], 1)


def _text_cosines(query: TableProfile, table: TableProfile) -> list[F64]:
    """(q, t) each: tf-idf cosines of words, n-grams and shapes, and the cosine of embeddings."""
    width, count = len(query.cell_counts), len(query.cell_counts) + len(table.cell_counts)
    text = np.concatenate([query.text_ids, table.text_ids])
    lengths = np.concatenate([np.diff(query.text_starts), np.diff(table.text_starts)])
    owner = np.repeat(np.arange(count), lengths)
    ids, columns = _consecutive_ids(text)
    weight = np.log((1 + (lengths > 0).sum()) / (0.5 + columns))[ids]
    weight *= 1 + np.log(np.concatenate([query.text_counts, table.text_counts]))
    out = []
    for kind in ("words", "grams", "shapes"):
        of_kind = _of_kind(text, kind)
        norm = np.sqrt(np.bincount(owner[of_kind], weight[of_kind] ** 2, count))
        some = of_kind & (columns[ids] > 1)
        out.append(_product(weight[some] / norm[owner[some]], owner[some], ids[some], width, count))
    some = _of_kind(text, "tokens")
    vectors = _embeddings(weight[some], owner[some], text[some] - TOKEN, count)
    return [*out, vectors[:width] @ vectors[width:].T]


def _of_kind(ids: NDArray[np.uint32], kind: str) -> NDArray[np.bool_]:
    """(n,) which ids of the vocabulary of `features` are of a kind."""
    first, last = KINDS[kind]
    return (ids >= first) & (ids < last)


def _embeddings(weight: F64, owner: I64, tokens: NDArray[np.integer[Any]], count: int) -> F64:
    """(C, TOKEN_WIDTH) mean static vectors of tokens, centred on the mean of these columns, of length one."""
    means = np.zeros((count, TOKEN_WIDTH))
    if len(tokens):
        seen, at = np.unique(tokens, return_inverse=True)
        starts = np.searchsorted(owner, np.arange(count + 1))
        total = np.bincount(owner, weight, count)
        rows = SparseRows(weight, at, starts, len(seen))
        means = np.asarray(rows @ load_vectors()[seen].astype(np.float64), np.float64)
        means[total > 0] /= total[total > 0, None]
        means[total > 0] -= means[total > 0].mean(0)
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9), np.float64)


def _distributions(
    query: TableProfile, table: TableProfile, grid: int
) -> tuple[F64, F64, F64, F64, F64, F64]:
    """(q, t) each: distances of numbers.

    Largest (Kolmogorov-Smirnov) and mean distance of the CDFs, the KS statistic by cells and by distinct
    numbers, range overlap, and the difference of log interquartile ranges.
    """
    columns = [*query.numbers, *table.numbers]
    width = len(query.numbers)
    numbers = _Numbers.of(columns)
    cdf = numbers.cdf(grid)
    # Columns without numbers are left at 0: what is made of these distances counts numbers only.
    filled = numbers.lengths > 0
    both = np.ix_(filled[:width], filled[width:])
    largest, mean = np.zeros((2, width, len(columns) - width))
    largest[both], mean[both] = _distances(cdf[:width][filled[:width]], cdf[width:][filled[width:]])
    sizes = np.stack([numbers.lengths, numbers.distinct()], 1).astype(np.float64)
    mine, its = sizes[:width, None], sizes[None, width:]
    # (q, t, 2) root of the effective number of cells, and of distinct numbers
    effective = np.sqrt(mine * its / np.maximum(mine + its, 1))
    scaled = np.minimum(largest[:, :, None] * effective, (8, 4)) / 4
    quartiles = numbers.quartiles()
    within = np.minimum(
        _within(columns[:width], quartiles[width:]), _within(columns[width:], quartiles[:width]).T
    )
    spread = np.log(np.maximum(quartiles[:, 2] - quartiles[:, 1], 1e-9))
    spreads = np.minimum(np.abs(spread[:width, None] - spread[None, width:]), 4)
    return largest, mean, scaled[:, :, 0], scaled[:, :, 1] * 4, within, spreads


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The sorted numbers of C columns, one after another."""

    flat: F64  # (n,)
    lengths: I64  # (C,)

    @classmethod
    def of(cls, columns: list[F64]) -> _Numbers:
        return cls(
            np.concatenate([np.zeros(0), *columns]), np.array([len(column) for column in columns], np.int64)
        )

    def at(self, places: I64) -> F64:
        """(filled, p) the numbers at these places in each column that has any."""
        lengths = self.lengths[self.lengths > 0]
        return np.asarray(self.flat[(np.cumsum(lengths) - lengths)[:, None] + places], np.float64)

    @property
    def last(self) -> I64:
        """(filled, 1) the last place in each column that has numbers."""
        return self.lengths[self.lengths > 0, None] - 1

    def cdf(self, most: int) -> F64:
        """(C, grid) share of a column's numbers up to each point of a grid; of equal ones the half."""
        evenly = np.linspace(0, self.last[:, 0], _POINTS, axis=1).astype(np.int64)
        grid = np.unique(np.append(self.at(evenly), 0.0))
        grid = grid[:: -(-len(grid) // most)]
        count, width = len(self.lengths), len(grid) + 1
        owner = np.repeat(np.arange(count) * width, self.lengths)
        below, equal = (np.searchsorted(grid, self.flat, side) for side in ("right", "left"))
        places = np.concatenate([owner + below, owner + equal])
        up_to = np.bincount(places, minlength=count * width).reshape(count, width)[:, :-1].cumsum(1)
        return np.asarray(up_to / np.maximum(2 * self.lengths, 1)[:, None], np.float64)

    def counts(self, limits: F64, side: Literal["left", "right"]) -> I64:
        """(C, n) how many numbers of each column are below limits; with `left` up to them."""
        order = np.argsort(limits)
        width = len(limits) + 1
        owner = np.repeat(np.arange(len(self.lengths)) * width, self.lengths)
        places = owner + np.searchsorted(limits[order], self.flat, side)
        found = np.empty((len(self.lengths), len(limits)), np.int64)
        ordered = np.bincount(places, minlength=len(self.lengths) * width).reshape(-1, width)[:, :-1]
        found[:, order] = ordered.cumsum(1)
        return found

    def distinct(self) -> I64:
        """(C,) how many distinct numbers each column has."""
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        first = np.ones(len(self.flat), bool)
        first[1:] = (self.flat[1:] != self.flat[:-1]) | (owner[1:] != owner[:-1])
        return np.bincount(owner[first], minlength=len(self.lengths)).astype(np.int64)

    def quartiles(self) -> F64:
        """(C, 4) minimum, quartiles and maximum."""
        quartiles: F64 = np.tile([np.inf, 0.0, 0.0, -np.inf], (len(self.lengths), 1))
        quartiles[self.lengths > 0] = self.at(self.last * (0, 1, 3, 4) // 4)
        return quartiles


def _within(columns: list[F64], quartiles: F64) -> F64:
    """(q, t) share of the numbers of one column that lie in the range of another."""
    numbers = _Numbers.of(columns)
    up_to, below = numbers.counts(quartiles[:, 3], "left"), numbers.counts(quartiles[:, 0], "right")
    return np.maximum((up_to - below) / np.maximum(numbers.lengths, 1)[:, None], 0)
