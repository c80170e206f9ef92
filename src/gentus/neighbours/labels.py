"""Labels: annotated pairs for training, and those of some queries for validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64
from gentus.metrics import score

Ranker = Callable[[I64], Iterable[Sequence[int]]]  # from queries to the best tables of each


@dataclass(frozen=True, slots=True)
class Labels:
    """(query, unionable table) pairs as positions in the lake; no query is in both parts."""

    pairs: I64  # (P, 2) for training
    validation: I64  # (H, 2) to choose between alternatives
    unknown: int = 0  # pairs with a table that is not in the lake
    k: int = 20  # of the validation MAP@k

    @classmethod
    def split(
        cls,
        truth: Mapping[str, Sequence[str]],
        position: Mapping[str, int],
        random: np.random.Generator,
        share: float = 0.1,
        most: int = 150,
    ) -> Labels:
        """Use a `share` of the queries, but at most `most`, for validation."""
        known = [
            (position[query], position[table])
            for query, tables in truth.items()
            for table in tables
            if query in position and table in position and query != table
        ]
        pairs = np.unique(np.array(known, np.int64).reshape(-1, 2), axis=0)
        queries = np.unique(pairs[:, 0])
        count = min(int(share * len(queries)), most)
        drawn = random.choice(queries, count, replace=False) if count else queries[:0]
        validation = np.isin(pairs[:, 0], drawn)
        return cls(pairs[~validation], pairs[validation], sum(map(len, truth.values())) - len(known))

    def __bool__(self) -> bool:
        """Whether there are pairs for training."""
        return len(self.pairs) > 0

    def queries(self) -> I64:
        """The validation queries."""
        return np.unique(self.validation[:, 0])

    def precision(self, rank: Ranker) -> float:
        """MAP of a ranking on the validation queries; 0 if there are none."""
        each = self.precisions(rank)
        return float(each.mean()) if len(each) else 0.0

    def precisions(self, rank: Ranker) -> NDArray[np.float64]:
        """(Q,) average precision of a ranking, per validation query."""
        truth: dict[int, list[int]] = {}
        for query, table in self.validation.tolist():
            truth.setdefault(query, []).append(table)
        queries = self.queries()
        found = zip(queries.tolist(), rank(queries), strict=True) if len(queries) else ()
        return np.array([score({q: list(best)}, {q: truth[q]}, self.k).map for q, best in found])
