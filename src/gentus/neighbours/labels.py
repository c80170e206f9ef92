"""Annotated pairs: most of them to learn from, the pairs of some queries held out to choose by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gentus.arrays import I64
from gentus.metrics import score

Ranker = Callable[[I64], Iterable[Sequence[int]]]  # queries in, the best tables of each out


@dataclass(frozen=True, slots=True)
class Labels:
    """(query, unionable table) pairs as positions in the lake; no query is in both parts."""

    pairs: I64  # (P, 2) to learn from
    validation: I64  # (H, 2) to choose by
    unknown: int = 0  # pairs that name a table which is not there
    k: int = 20  # answers that count when choosing

    @classmethod
    def split(
        cls,
        truth: Mapping[str, Sequence[str]],
        position: Mapping[str, int],
        random: np.random.Generator,
        share: float = 0.1,
        most: int = 150,
    ) -> Labels:
        """Hold out a tenth of the queries, where there are enough of them to do without."""
        known = [
            (position[query], position[table])
            for query, tables in truth.items()
            for table in tables
            if query in position and table in position and query != table
        ]
        pairs = np.unique(np.array(known, np.int64).reshape(-1, 2), axis=0)
        queries = np.unique(pairs[:, 0])
        count = min(int(share * len(queries)), most)
        held = (
            np.isin(pairs[:, 0], random.choice(queries, count, replace=False)) if count else pairs[:, 0] < 0
        )
        return cls(pairs[~held], pairs[held], sum(map(len, truth.values())) - len(known))

    def __bool__(self) -> bool:
        """Whether there is anything to learn from."""
        return len(self.pairs) > 0

    def queries(self) -> I64:
        """Queries held out."""
        return np.unique(self.validation[:, 0])

    def precision(self, rank: Ranker) -> float:
        """MAP of a ranking of the queries held out; 0 if there are none."""
        each = self.precisions(rank)
        return float(each.mean()) if len(each) else 0.0

    def precisions(self, rank: Ranker) -> NDArray[np.float64]:
        """(Q,) average precision of a ranking, for each of the queries held out."""
        truth: dict[int, list[int]] = {}
        for query, table in self.validation.tolist():
            truth.setdefault(query, []).append(table)
        queries = self.queries()
        found = zip(queries.tolist(), rank(queries), strict=True) if len(queries) else ()
        return np.array([score({q: list(best)}, {q: truth[q]}, self.k).map for q, best in found])

    def affinity(self, total: int, hop: float = 1.0) -> sp.csr_matrix:
        """(T, T) how likely two tables are unionable by the labels alone.

        Annotated together: sure. Annotated with the same third table: likely, the more of those there are.
        """
        both = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        direct = sp.csr_matrix((np.ones(len(both), np.float32), (both[:, 0], both[:, 1])), (total, total))
        direct.data[:] = 1
        degree = np.maximum(np.asarray(direct.sum(1)).ravel(), 1)
        step = sp.diags(1 / degree) @ direct
        soft = sp.csr_matrix(step + hop * (step @ step) if hop else step, dtype=np.float32)
        rows = np.repeat(np.arange(total), np.diff(soft.indptr))
        soft.data[rows == soft.indices] = 0
        soft.eliminate_zeros()
        return soft
