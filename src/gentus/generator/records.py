"""Training records of a generator (section 4.3), from annotated pairs of a query and a unionable table.

As in the paper: a positive record leads from a view of the query to the annotated table, an indexing record
from a table to itself, a ranking record adds a hard negative. A record refers to its tables and is made from
its number, so that an epoch of any length costs a permutation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gentus.arrays import I32, Integers
from gentus.features.extract import HASH_BITS, KINDS, Features
from gentus.settings import RecordSettings
from gentus.table import Column, Table

RecordKind = Literal["positive", "indexing", "ranking"]
_BITS = 16  # of a word's hash in profiles
_BUCKETS = 1 << _BITS
_AT_ONCE = 1 << 21  # similarities in memory while mining


# --- views and records --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """A table with some rows and columns left out and its columns in another order."""

    table: int  # its position in the lake
    share: float = 1.0  # of the cells of each column
    seed: int = 0  # which cells these are
    columns: tuple[int, ...] | None = None  # positions among those with cells, as in `Features`; None: all

    def apply(self, table: Table) -> Table:
        """The view of its table."""
        columns = table.columns
        if self.columns is not None:
            filled = [column for column in columns if column.cells]
            if max(self.columns, default=-1) >= len(filled):
                raise ValueError(f"{table.name} has fewer columns than it had when it was indexed")
            columns = [filled[at] for at in self.columns]
        if self.share == 1:
            return replace(table, columns=columns)
        # Which cells stay depends on how many there are: columns without gaps keep the same rows.
        kept = {size: self._kept(size) for size in {len(column.cells) for column in columns}}
        columns = [Column(c.name, [c.cells[at] for at in kept[len(c.cells)]]) for c in columns]
        return Table(table.name, columns, self._size(table.rows))

    def _size(self, cells: int) -> int:
        return min(cells, max(1, round(self.share * cells)))

    def _kept(self, cells: int) -> list[int]:
        random = np.random.default_rng((self.seed, cells))
        chosen: list[int] = np.sort(random.choice(cells, self._size(cells), replace=False)).tolist()
        return chosen


@dataclass(frozen=True, slots=True)
class Record:
    """One training instance; tables are positions in the lake."""

    kind: RecordKind
    view: View
    target: int
    negative: int | None = None


def make_view(query: int, number: int, width: int, settings: RecordSettings, seed: int) -> View:
    """View `number` of a query of `width` columns; number 0 is the query as it is."""
    if number == 0:
        return View(query)
    random = np.random.default_rng((seed, query, number))
    share = float(random.uniform(settings.least_rows, 1))
    columns = int(random.integers(math.ceil(settings.least_columns * width), width, endpoint=True))
    order = random.permutation(width)[:columns].tolist()
    return View(query, share, int(random.integers(1 << 31)), tuple(order))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The pairs and tables that records are made from."""

    pairs: Integers  # (P, 2) by query
    rows: Integers  # (P,) the number of the pair's query among the queries
    starts: Integers  # (Q + 1,) where the pairs of each query begin
    found: Integers  # (Q,) number of negatives
    ranked: Integers  # (R,) pairs whose query has negatives
    indexed: Integers  # (I,) tables

    @classmethod
    def of(cls, pairs: Integers, tables: int, negatives: I32, settings: RecordSettings) -> _Plan:
        pairs = np.unique(pairs.reshape(-1, 2), axis=0)
        queries, rows, counts = np.unique(pairs[:, 0], return_inverse=True, return_counts=True)
        if len(negatives) != len(queries):
            raise ValueError(f"there are {len(queries)} queries and negatives of {len(negatives)}")
        found = (negatives >= 0).sum(1)
        indexed = {"positives": np.unique(pairs[:, 1]), "all": np.arange(tables), "none": pairs[:0, 1]}
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(pairs, rows, starts, found, np.flatnonzero(found[rows]), indexed[settings.index])

    def counts(self, settings: RecordSettings) -> dict[RecordKind, int]:
        views = settings.views + 1
        return {
            "positive": len(self.pairs) * views,
            "indexing": len(self.indexed),
            "ranking": len(self.ranked) * views,
        }


def count_records(
    pairs: Integers, widths: Integers, negatives: I32, settings: RecordSettings
) -> dict[RecordKind, int]:
    """How many records of each kind `records` gives."""
    return _Plan.of(pairs, len(widths), negatives, settings).counts(settings)


def records(
    pairs: Integers, widths: Integers, negatives: I32, settings: RecordSettings, seed: int, epoch: int = 0
) -> Iterator[Record]:
    """Make the records of (P, 2) annotated pairs, shuffled; `widths` are the column counts of all tables.

    Every pair gives a positive record and, with the query's negatives in turn, a ranking record for each view
    of its query. Views are the same in every epoch; the order and the negatives change.
    """
    plan = _Plan.of(pairs, len(widths), negatives, settings)
    count = plan.counts(settings)
    views = settings.views + 1
    order = np.arange(sum(count.values()), dtype=np.int32)
    np.random.default_rng((seed, epoch)).shuffle(order)

    def paired(pair: int, number: int) -> tuple[View, int]:
        query, target = plan.pairs[pair].tolist()
        return make_view(query, number, int(widths[query]), settings, seed), target

    def ranking(pair: int, number: int) -> Record:
        row = plan.rows[pair]
        begin, end = plan.starts[row], plan.starts[row + 1]
        turn = (epoch * (end - begin) + pair - begin) * views + number
        return Record("ranking", *paired(pair, number), int(negatives[row, turn % plan.found[row]]))

    for number in map(int, order):
        if number < count["positive"]:
            yield Record("positive", *paired(*divmod(number, views)))
        elif (number := number - count["positive"]) < count["indexing"]:
            table = int(plan.indexed[number])
            yield Record("indexing", View(table), table)
        else:
            pair, view = divmod(number - count["indexing"], views)
            yield ranking(int(plan.ranked[pair]), view)


# --- hard negatives -----------------------------------------------------------------------------------


def word_profiles(batches: Iterable[Features], tokens: int) -> sp.csr_matrix:
    """(N, _BUCKETS) at most `tokens` of the words of each table.

    A word's id is a bucket of its hash, so the smallest ids are a random sample that tables with the same
    words share (a bottom-k sketch).
    """
    first, last = KINDS["words"]  # the first kind: its ids are the hashes themselves
    ids, counts = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for features in batches:
        columns = np.repeat(np.arange(len(features)), np.diff(features.tables))
        owners = np.repeat(columns, np.diff(features.starts))
        words = (features.ids >= first) & (features.ids < last)
        keys = np.unique(owners[words] * _BUCKETS + (features.ids[words] >> np.uint32(HASH_BITS - _BITS)))
        owners = keys // _BUCKETS
        begins = np.searchsorted(owners, np.arange(len(features)))
        sampled = np.arange(len(keys)) - begins[owners] < tokens
        ids.append((keys[sampled] % _BUCKETS).astype(np.int32))
        counts.append(np.bincount(owners[sampled], minlength=len(features)))
    indices, starts = np.concatenate(ids), np.cumsum(np.concatenate(counts))
    return sp.csr_matrix((np.ones(len(indices), bool), indices, starts), (len(starts) - 1, _BUCKETS))


def mine_negatives(profiles: sp.csr_matrix, pairs: Integers, count: int) -> I32:
    """(Q, count) the tables most like each query by Jaccard similarity, best first, then by position.

    Queries are the distinct `pairs[:, 0]` in order. The query and the tables annotated for it are left out,
    and tables that share no word; where there are too few, the rest is -1.
    """
    pairs = np.unique(pairs.reshape(-1, 2), axis=0)
    queries, rows = np.unique(pairs[:, 0], return_inverse=True)
    negatives = np.full((len(queries), count), -1, np.int32)
    total = profiles.shape[0]
    sizes = np.diff(profiles.indptr)
    counted = profiles.astype(np.int32)  # a product of booleans would not count
    holders = counted.T.tocsr()  # (_BUCKETS, N)
    block = max(1, _AT_ONCE // max(total, 1))
    kth = max(0, total - count)
    for begin in range(0, len(queries) if count else 0, block):
        some = queries[begin : begin + block]
        shared = (counted[some] @ holders).toarray()  # (block, N)
        similarity = shared / np.maximum(sizes[some, None] + sizes - shared, 1)
        annotated = slice(*np.searchsorted(rows, [begin, begin + block]))
        similarity[rows[annotated] - begin, pairs[annotated, 1]] = 0
        similarity[np.arange(len(some)), some] = 0
        least = np.partition(similarity, kth, axis=1)[:, kth]
        for row, (scores, bound) in enumerate(zip(similarity, least, strict=True), begin):
            near = np.flatnonzero((scores >= bound) & (scores > 0))
            best = near[np.argsort(-scores[near], kind="stable")[:count]]
            negatives[row, : len(best)] = best
    return negatives


def jaccard(profiles: sp.csr_matrix, a: int, b: int) -> float:
    """Jaccard similarity of the sampled words of two tables."""
    one, other = set(profiles[a].indices.tolist()), set(profiles[b].indices.tolist())
    return len(one & other) / max(len(one | other), 1)


def label_pairs(
    truth: Mapping[str, Sequence[str]], position: Mapping[str, int]
) -> tuple[NDArray[np.int64], int]:
    """(P, 2) annotated pairs as positions, and how many name a table that is not there."""
    named = [(query, candidate) for query, candidates in truth.items() for candidate in candidates]
    pairs = [(position[a], position[b]) for a, b in named if a in position and b in position]
    return np.array(pairs, np.int64).reshape(-1, 2), len(named) - len(pairs)
