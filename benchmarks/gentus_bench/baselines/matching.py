"""Tables compared by a maximum-weight one-to-one matching of their columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from heapq import heappush, heappushpop
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from gentus.arrays import F32, F64, I64
from gentus.neighbours.graph import column_ids
from gentus.table import Table
from gentus_bench.baselines.ann import Neighbours
from gentus_bench.baselines.base import serving_mb
from gentus_bench.baselines.columns import Columns, gather
from gentus_bench.baselines.word_pieces import load_tokenizer, load_vectors

CANDIDATES = 10_000  # columns looked up for a query table ...
FEWEST = 500  # ... and at least for each of its columns

Score = Callable[[F64, int, I64], F64]  # from matched weight and both widths; grows with the weight


def weight_alone(weight: F64, width: int, widths: I64) -> F64:
    """Score a table by what is matched, however many columns are not."""
    return weight


def soft_jaccard(weight: F64, width: int, widths: I64) -> F64:
    """Score two sets of columns by intersection over union, the matched weight being the intersection."""
    return np.asarray(weight / (width + widths - weight), np.float64)


def cosine(weight: F64, width: int, widths: I64) -> F64:
    """Divide what is matched by the geometric mean of the widths."""
    return np.asarray(weight / np.sqrt(width * widths), np.float64)


def matched_weight(similarity: F32) -> float:
    """Weight of the best one-to-one matching of rows and columns."""
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[rows, columns].sum())


def top_tables(
    similarity: F32, counts: I64, k: int, score: Score = weight_alone, offsets: F64 | None = None
) -> tuple[I64, F64]:
    """Return the places of the `k` best tables and their scores, best first; of equals, the earlier one.

    `similarity` is (q, sum of counts), not negative, `counts` the width of every table, none of them zero.
    `offsets` are added to scores. A matching cannot weigh more than the best edge of every row, or of every
    column: tables are matched in the order of that bound, until it falls below the k-th score. The answer
    is the same as if all had been matched.
    """
    if not len(counts) or k < 1:
        return np.zeros(0, np.int64), np.zeros(0)
    ends = np.cumsum(counts)
    begins = ends - counts
    by_row = np.maximum.reduceat(similarity, begins, axis=1).sum(0, dtype=np.float64)
    by_column = np.add.reduceat(similarity.max(0).astype(np.float64), begins)
    extra = np.zeros(len(counts)) if offsets is None else offsets
    bounds = score(np.minimum(by_row, by_column), len(similarity), counts) + extra
    order = np.argsort(-bounds, kind="stable")
    places: list[int] = []
    scores: list[float] = []
    best: list[float] = []  # a heap of the k highest scores
    for place in order.tolist():
        if len(best) == k and bounds[place] < best[0] - 1e-6:  # sums in another order differ a little
            break
        part = similarity[:, begins[place] : ends[place]]
        weight = np.array([matched_weight(part)])
        scores.append(float(score(weight, len(similarity), counts[place : place + 1])[0] + extra[place]))
        places.append(place)
        if len(best) < k:
            heappush(best, scores[-1])
        else:
            heappushpop(best, scores[-1])
    found, values = np.array(places, np.int64), np.array(scores)
    order = np.lexsort((found, -values))[:k]
    return found[order], values[order]


class MatchedColumns(ABC):
    """The frame of a column-centric method: vectors of columns, a graph of them, verification by matching.

    A subclass says how vectors are learned (`_learn`) and computed (`_encode`). Every table that owns one of
    the columns found is verified.
    """

    name = "columns"
    note = ""
    needs_features = True
    threshold = 0.0  # column similarities below it are no edge
    score: Score = staticmethod(soft_jaccard)

    def __init__(self, seed: int = 0, candidates: int = CANDIDATES) -> None:
        self.seed = seed
        self.candidates = candidates

    def fit(self, tables: Iterable[Table]) -> None:
        """Learn from the lake, and index the vectors of its columns."""
        columns = gather(tables, features=self.needs_features)
        self.names, self._starts, self._owner = columns.names, columns.starts, columns.owner
        if columns.values:
            vectors = self._learn(columns)
            self._index = Neighbours(self._encode(columns) if vectors is None else vectors)

    def search(self, table: Table, k: int) -> list[str]:
        """Find near columns, then match the columns of the tables that own them."""
        query = gather([table], features=self.needs_features)
        if not query.values or not len(self._owner):
            return []
        vectors = self._encode(query)  # (q, W)
        each = max(FEWEST, -(-self.candidates // len(vectors)))
        tables = np.unique(self._owner[self._index.nearest(vectors, each)])
        at, counts = column_ids(self._starts, tables)
        similarity = edges(vectors, self._index.rows[at], self.threshold)
        places, scores = top_tables(similarity, counts, k, self.score)
        return [self.names[tables[place]] for place in places[scores > 0]]

    def facts(self) -> dict[str, Any]:
        """Return how large the index is, and what is not as in the paper."""
        size = (self._index.nbytes if len(self._owner) else 0) + 4 * len(self._starts)
        return {
            "bytes_per_table": size / max(1, len(self.names)),
            "serving_mb": serving_mb(self, *self._outside()),
            "note": self.note,
        }

    def _outside(self) -> tuple[object, ...]:
        """What a search reads that is no part of this object."""
        return load_tokenizer(), load_vectors()

    @abstractmethod
    def _learn(self, columns: Columns) -> F32 | None:
        """Learn from the lake; return the vectors of its columns where learning has read them already."""

    @abstractmethod
    def _encode(self, columns: Columns) -> F32:
        """(C, W) vectors whose products are similarities."""


def edges(own: F32, theirs: F32, threshold: float = 0.0) -> F32:
    """(q, n) similarities of columns, those below the threshold (and negative ones) as no edge: 0."""
    similarity = own @ theirs.T
    similarity[similarity < max(threshold, 0.0)] = 0
    return np.asarray(similarity, np.float32)
