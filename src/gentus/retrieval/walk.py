"""Walks in the graph of annotated pairs: which tables the annotations lead to from a query's nearest tables.

A step forward goes from an annotated query to its unionable tables, a step backward from a table to the
queries it was annotated with. Walks start at the tables that the prior finds, also for a query that is
annotated itself: what is learnt from has no annotations of its own. NumPy only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, F64, I64, Integers
from gentus.retrieval.trie import ranges
from gentus.sparse import SparseRows

STARTS = 20  # nearest tables that walks start from
TEMPERATURE = 0.02  # of the softmax over their similarities
WALKS = ("", "F", "B", "FF", "FB", "BF", "BB")  # steps from the nearest tables: forward, backward
WALK_FEATURES = (
    *(f"walk {steps or 'start'}" for steps in WALKS),
    "annotated, logarithm",
    "annotated",
    "annotated as a query",
)
LEAST = 1e-3  # mass below which the features, logarithms, tell nothing apart


@dataclass(frozen=True, slots=True)
class AnnotatedGraph:
    """Annotated pairs of N tables, as steps with rows of sum one."""

    tables: I64  # (N,) catalogue ids, rising
    forward: SparseRows  # (N, N) from queries to unionable tables
    backward: SparseRows  # (N, N)

    @classmethod
    def of(cls, pairs: Integers) -> AnnotatedGraph:
        """From (P, 2) catalogue ids of queries and tables."""
        tables, at = np.unique(np.asarray(pairs, np.int64).reshape(-1, 2), return_inverse=True)
        queries, found = at.reshape(-1, 2).T
        shape, ones = (len(tables), len(tables)), np.ones(len(queries), np.float32)
        forward = SparseRows.of_entries(ones, queries, found, shape, np.maximum)
        return cls(tables, _steps(forward), _steps(forward.transposed()))

    def without(self, queries: Integers) -> AnnotatedGraph:
        """Without every pair that names one of some queries, on either side."""
        left_out = np.isin(self.tables, queries)
        kept = ~(left_out[self.forward.owners()] | left_out[self.forward.columns])
        ends = np.concatenate([[0], np.cumsum(kept)])[self.forward.starts]
        ones, columns = np.ones(int(kept.sum()), np.float32), self.forward.columns[kept]
        forward = replace(self.forward, values=ones, columns=columns, starts=ends)
        return replace(self, forward=_steps(forward), backward=_steps(forward.transposed()))

    def find(self, tables: Integers) -> tuple[I64, NDArray[np.bool_]]:
        """(n,) positions of tables, and (n,) whether they are annotated."""
        if not len(self.tables):
            return np.zeros(len(tables), np.int64), np.zeros(len(tables), bool)
        at = np.searchsorted(self.tables, tables).clip(max=len(self.tables) - 1)
        return at, self.tables[at] == tables

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored of it."""
        return {
            "labels.tables": self.tables.astype(np.int32),
            "labels.starts": self.forward.starts.astype(np.int32),
            "labels.columns": self.forward.columns.astype(np.int32),
        }

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]]) -> AnnotatedGraph:
        """What `arrays` stored, checked."""
        tables, starts, columns = (
            np.asarray(stored[f"labels.{part}"], np.int64) for part in ("tables", "starts", "columns")
        )
        total = len(tables)
        if len(starts) != total + 1 or starts[0] or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
            raise ValueError("labels.starts does not fit labels.columns")
        if (np.diff(tables) <= 0).any() or ((columns < 0) | (columns >= total)).any():
            raise ValueError("labels.tables and labels.columns do not fit each other")
        forward = SparseRows(np.ones(len(columns), np.float32), columns, starts, total)
        return cls(tables, _steps(forward), _steps(forward.transposed()))

    # --- walks -----------------------------------------------------------------------------------------

    def walk(self, mass: F64, step: str) -> F64:
        """(N,) where the mass of (N,) is after a step: F forward, B backward."""
        steps = self.forward if step == "F" else self.backward
        some = np.flatnonzero(mass)
        starts = steps.starts[some].astype(np.int64)
        owner, entries = ranges(starts, steps.starts[some + 1] - starts)
        return _sums(steps.columns[entries], mass[some][owner] * steps.values[entries], len(self.tables))

    def walks(self, mass: F64, wanted: Collection[str]) -> dict[str, F64]:
        """(N,) where the mass of (N,) is after each of some sequences of steps."""
        found = {"": mass}
        prefixes = {steps[:end] for steps in wanted for end in range(1, len(steps) + 1)}
        for prefix in sorted(prefixes, key=len):
            found[prefix] = self.walk(found[prefix[:-1]], prefix[-1])
        return {steps: found[steps] for steps in wanted}


@dataclass(frozen=True, slots=True)
class Walked:
    """Where the walks of one query led."""

    graph: AnnotatedGraph
    mass: F32  # (walks, N) after WALKS
    nearest: dict[int, float]  # the tables they started from, and their shares

    @classmethod
    def of(cls, graph: AnnotatedGraph, tables: I64, scores: F32, self_ids: Collection[int]) -> Walked:
        """Walk from the nearest tables (n,), best first, with their similarities; not from the query."""
        some = np.flatnonzero(~np.isin(tables, list(self_ids)))[:STARTS]
        tables, scores = tables[some], scores[some].astype(np.float64)
        at, known = graph.find(tables)
        share = np.exp((scores - scores.max(initial=-np.inf)) / TEMPERATURE)
        share /= max(share.sum(), 1e-12)
        start = _sums(at[known], share[known], len(graph.tables))
        masses = list(graph.walks(start, WALKS).values())
        nearest = dict(zip(tables.tolist(), share.tolist(), strict=True))
        return cls(graph, np.array(masses, np.float32), nearest)

    def best(self, count: int) -> I64:
        """(n,) catalogue ids of the tables that the walks lead to first, best first."""
        total = self.mass[1:].sum(0)
        reached = np.flatnonzero(total)
        order = np.argsort(-total[reached], kind="stable")[:count]
        return np.asarray(self.graph.tables[reached[order]], np.int64)

    def features(self, tables: I64) -> F32:
        """(n, WALK_FEATURES) of some tables, by catalogue id."""
        at, known = self.graph.find(tables)
        mass = np.zeros((len(tables), len(self.mass)), np.float32)
        mass[known] = self.mass[:, at[known]].T
        # The nearest tables that are not annotated have their share, too.
        mass[:, 0] = [self.nearest.get(table, 0.0) for table in tables.tolist()]
        counts = np.zeros((len(tables), 2), np.float32)
        for side, steps in enumerate((self.graph.backward, self.graph.forward)):
            counts[known, side] = np.diff(steps.starts)[at[known]]
        annotated = [np.log1p(counts[:, 0]), counts[:, 0] > 0, counts[:, 1] > 0]
        return np.column_stack([np.log(mass + LEAST), *annotated]).astype(np.float32)


def _steps(graph: SparseRows) -> SparseRows:
    """Rows of sum one."""
    return graph.scaled((1 / np.maximum(np.diff(graph.starts), 1)).astype(np.float32))


def _sums(places: Integers, mass: F64, count: int) -> F64:
    """(count,) the mass at every place."""
    return np.bincount(places, mass, count).astype(np.float64)
