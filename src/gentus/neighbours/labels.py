"""Labels: annotated pairs for training, and those of some queries for validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64
from gentus.metrics import score

Ranker = Callable[[I64], Iterable[Sequence[int]]]  # from queries to the best tables of each


SHARE, MOST = 0.1, 150  # of the queries that validate, and how many at most


@dataclass(frozen=True, slots=True)
class Labels:
    """(query, unionable table) pairs by id. No pair for training names a validation query, on either side."""

    pairs: I64  # (P, 2) for training
    validation: I64  # (H, 2) to choose between alternatives
    withheld: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))  # other pairs that name one
    unknown: int = 0  # pairs with a table that is not in the lake
    k: int = 20  # of the validation MAP@k

    @classmethod
    def split(
        cls,
        truth: Mapping[str, Sequence[str]],
        tables: Mapping[str, int],
        random: np.random.Generator,
        queries: Mapping[str, int] | None = None,
    ) -> Labels:
        """Draw validation queries. Ids are those of `tables` in the lake, and of `queries` outside it."""
        asked = {**(queries or {}), **tables}
        known = [
            (asked[query], tables[table])
            for query, found in truth.items()
            for table in found
            if query in asked and table in tables and query != table
        ]
        pairs = np.unique(np.array(known, np.int64).reshape(-1, 2), axis=0)
        every = np.unique(pairs[:, 0])
        count = min(int(SHARE * len(every)), MOST)
        drawn = random.choice(every, count, replace=False) if count else every[:0]
        validation, naming = np.isin(pairs, drawn).T
        return cls(
            pairs[~validation & ~naming],
            pairs[validation],
            pairs[~validation & naming],
            sum(map(len, truth.values())) - len(known),
        )

    @property
    def every(self) -> I64:
        """(P, 2) all pairs."""
        return np.concatenate([self.pairs, self.validation, self.withheld])

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
