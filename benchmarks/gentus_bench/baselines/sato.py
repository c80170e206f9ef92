"""A baseline of the Sato type: semantic types in the context of their table.

As in Zhang et al. (VLDB 2020), two things are added to Sherlock: a topic vector of the whole table (LDA over
the words of its cells) as a further group of features, and a conditional random field over the types of
neighbouring columns. Replaced: types are clusters, as in the Sherlock-type baseline, and without labels the
field's pairwise potentials are not trained but are the log-odds of types standing side by side in the lake,
with which the original's begin; marginals come from mean-field steps, for all tables at once.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from gentus.arrays import F32, I64
from gentus_bench.baselines.column_features import sparse_counts
from gentus_bench.baselines.columns import Columns
from gentus_bench.baselines.hashed import GRAM, WORD
from gentus_bench.baselines.sherlock import Sherlock

TOPICS = 48
FITTED_TABLES = 10_000  # tables that topics are learned from
STEPS = 3
STRENGTH = 0.5  # of a neighbour: a column has two, and mean-field marginals count their agreement twice


class Sato(Sherlock):
    """Sherlock's types, with topics of the table and smoothed by the types of neighbouring columns."""

    name = "SATO-type"
    note = "types are clusters of the lake's columns; pairwise potentials are co-occurrence log-odds"

    def _learn(self, columns: Columns) -> None:
        super()._learn(columns)
        types, hidden = super()._types(columns)
        self._before: tuple[Columns, F32, F32] | None = (columns, types, hidden)  # these are asked for next
        left = np.flatnonzero(_has_next(columns))
        joint = types[left].T @ types[left + 1]  # (K, K)
        total = max(1.0, float(joint.sum()))
        expected = np.outer(joint.sum(1), joint.sum(0)) / total
        self._potentials: F32 = np.log((joint + 1) / (expected + 1)).astype(np.float32)

    def _types(self, columns: Columns) -> tuple[F32, F32]:
        if self._before is not None and self._before[0] is columns:
            _, types, hidden = self._before
        else:
            types, hidden = super()._types(columns)
        self._before = None
        return smooth(types, _has_next(columns), self._potentials), hidden

    def _fit_context(self, columns: Columns) -> None:
        from sklearn.decomposition import LatentDirichletAllocation

        random = np.random.default_rng(self.seed)
        words = _table_words(columns)
        total = words.shape[0]
        rows = np.sort(random.choice(total, min(total, FITTED_TABLES), replace=False))
        common = np.asarray((words > 0).sum(0)).ravel()
        # Words of one table make no topic, and neither do those of every other one.
        self._vocabulary: I64 = np.flatnonzero((common > 1) & (common <= max(2, total // 2)))
        self._topics = None
        if len(self._vocabulary):
            self._topics = LatentDirichletAllocation(
                TOPICS, learning_method="online", batch_size=512, max_iter=5, random_state=self.seed
            ).fit(words[rows][:, self._vocabulary])
        self._of_table: tuple[Columns, F32] | None = None

    def _context(self, columns: Columns, rows: I64) -> list[F32]:
        if self._of_table is None or self._of_table[0] is not columns:
            if self._topics is None:
                topics = np.zeros((len(columns.names), TOPICS), np.float32)
            else:
                topics = self._topics.transform(_table_words(columns)[:, self._vocabulary])
            # Square roots, as far apart as distributions are; times a constant to weigh like other groups.
            self._of_table = (columns, (np.sqrt(topics) * np.sqrt(TOPICS)).astype(np.float32))
        return [self._of_table[1][columns.owner[rows]]]


def smooth(types: F32, has_next: np.ndarray[tuple[int], np.dtype[np.bool_]], potentials: F32) -> F32:
    """Mean-field marginals of a chain a table: every column is drawn to types that suit its neighbours."""
    left = np.flatnonzero(has_next)
    unary = np.log(np.maximum(types, 1e-9))
    marginals = types
    for _ in range(STEPS):
        pull = np.zeros_like(types)
        pull[left] += marginals[left + 1] @ potentials.T
        pull[left + 1] += marginals[left] @ potentials
        logits = unary + STRENGTH * pull
        marginals = np.exp(logits - logits.max(1, keepdims=True))
        marginals /= marginals.sum(1, keepdims=True)
    return marginals


def _has_next(columns: Columns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(C,) whether the next column is of the same table."""
    owner = columns.owner
    return np.append(owner[1:] == owner[:-1], False)


def _table_words(columns: Columns) -> sparse.csr_matrix:
    """(T, words) how often each hashed word occurs in the values of a table."""
    count = len(columns.values)
    member = sparse.csr_matrix(
        (np.ones(count, np.float32), np.arange(count), columns.starts), (len(columns.names), count)
    )
    return (member @ sparse_counts(columns.features)[:, WORD:GRAM]).tocsr()
