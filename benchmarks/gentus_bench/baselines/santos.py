"""A baseline of the SANTOS type: columns by their semantics, and pairs of columns by their relationship.

As in Khatiwada et al. (SIGMOD 2023), the part with a synthesized knowledge base: every text column of the
lake is a type, its values being instances; a column is annotated with types by the share of its values that
they hold, two columns are as alike as the best type they share. Every pair of columns of a table is a
relationship, its pairs of values being facts, and annotates other pairs of columns likewise. Left out: the
annotations by YAGO, an external knowledge base that cannot be had. Replaced: a user marks the column of
interest for SANTOS; here every column and every pair counts. Frequent values count less, as they are
instances of many types.
Columns of numbers have no semantics, as in the original: a table of numbers only finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from gentus.arrays import F32, I64, U64
from gentus.neighbours.graph import column_ids
from gentus.table import Table
from gentus_bench.baselines.base import serving_mb
from gentus_bench.baselines.matching import top_tables
from gentus_bench.baselines.minhash import Postings, hashes, scatter
from gentus_bench.baselines.numbers import quantiles

TYPES = 64  # with which a column of a query is annotated, the surest first
FACTS = 64  # rows a relationship is known by
WIDEST = 24  # text columns of a table whose pairs are relationships


class Santos:
    """Column and relationship semantics from a knowledge base that the lake's own values make up."""

    name = "SANTOS-type"
    note = "synthesized knowledge base only, no YAGO; every column is of interest"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed  # nothing here is random

    def fit(self, tables: Iterable[Table]) -> None:
        """Make types of the lake's columns and relationships of their pairs."""
        self.names: list[str] = []
        starts = [0]
        values: list[U64] = []
        facts: list[U64] = []
        related: list[int] = []
        for number, table in enumerate(tables):
            own, pairs = semantics(table)
            self.names.append(table.name)
            values.extend(own)
            starts.append(len(values))
            facts.extend(pairs)
            related.extend([number] * len(pairs))
        self._starts = np.array(starts, np.int64)
        self._owner = np.repeat(np.arange(len(self.names)), np.diff(self._starts))
        self._related = np.array(related, np.int64)  # the table of every relationship
        self._values = _postings(values)
        self._facts = _postings(facts)
        counts = np.diff(self._values.starts)
        self._weights: F32 = np.log1p(len(values) / np.maximum(counts, 1)).astype(np.float32)
        lists = (np.ones(len(self._values.owners), np.float32), self._values.owners, self._values.starts)
        held = sparse.csr_matrix(lists, (len(self._values.keys), len(values)))  # (values, columns)
        self._holders = held
        self._held = held.T.tocsr()  # (columns, values)
        total = self._held @ self._weights
        # (values, columns): the share of a column that each value is, frequent ones being less of it
        scaled = sparse.diags_array(self._weights) @ held
        self._shares = (scaled @ sparse.diags_array(1 / np.maximum(total, 1e-9))).astype(np.float32).tocsr()

    def search(self, table: Table, k: int) -> list[str]:
        """Annotate the query's columns and pairs, and score the tables that share an annotation."""
        own, pairs = semantics(table)
        if not own or not len(self._owner):
            return []
        alike = np.stack([self._alike(values) for values in own])  # (q, C)
        relations = self._relations(pairs)  # (T,)
        tables = np.union1d(self._owner[alike.any(0)], np.flatnonzero(relations))
        at, counts = column_ids(self._starts, tables)
        # Both kinds of semantics count alike: a mean over columns, and one over pairs.
        places, scores = top_tables(alike[:, at] / np.float32(len(own)), counts, k, offsets=relations[tables])
        return [self.names[tables[place]] for place in places[scores > 0]]

    def facts(self) -> dict[str, Any]:
        """Return how large the knowledge base is, and what is not as in the paper."""
        # Columns by value are the lists turned around; the weights follow from their lengths.
        size = self._values.nbytes + self._facts.nbytes + 4 * (len(self._starts) + len(self._related))
        return {
            "bytes_per_table": size / max(1, len(self.names)),
            "serving_mb": serving_mb(self),
            "types": len(self._owner),
            "relationships": len(self._related),
            "note": self.note,
        }

    def _alike(self, values: U64) -> F32:
        """(C,) likeness to the lake's columns: sureness of the best type that both are annotated with."""
        places = self._values.places(values)
        known = places[places >= 0]
        best = np.zeros(len(self._owner), np.float32)
        if not len(known):
            return best
        # Values that the lake does not hold weigh as much as one that it holds once.
        rarest = float(np.log1p(len(self._owner)))
        total = float(self._weights[known].sum()) + rarest * (len(values) - len(known))
        row = sparse.csr_matrix(
            (self._weights[known], (np.zeros(len(known), int), known)), (1, self._held.shape[1])
        )
        sure = (row @ self._holders).toarray()[0] / total  # (C,) with which types, how surely
        types = np.argsort(-sure, kind="stable")[:TYPES]
        types = types[sure[types] > 0]
        shared = (self._held[types] @ self._shares).tocsr()  # (types, C) how surely each column has them
        shared.data *= np.repeat(sure[types], np.diff(shared.indptr)).astype(np.float32)
        np.maximum.at(best, shared.indices, shared.data)
        return best

    def _relations(self, pairs: list[U64]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """(T,) the mean over the query's pairs of columns of the share of facts a relationship holds."""
        total = np.zeros(len(self.names))
        for facts in pairs:
            _, found = self._facts.lookup(facts)
            relations, counts = np.unique(found, return_counts=True)
            best = np.zeros(len(self.names))
            np.maximum.at(best, self._related[relations], counts / len(facts))
            total += best
        return total / max(1, len(pairs))


def semantics(table: Table) -> tuple[list[U64], list[U64]]:
    """The values of every text column, and the facts of every pair of them that has its rows side by side.

    Empty cells are gone from a `Table`, so rows are known to be side by side only in columns of one length.
    """
    cells = [
        [cell.lower() for cell in column.cells]
        for column in table.columns
        if column.cells and quantiles(column.cells) is None
    ]
    hashed = [hashes(column) for column in cells]
    pairs: list[U64] = []
    for left, own in enumerate(hashed[:WIDEST]):
        for other in hashed[left + 1 : WIDEST]:
            if len(own) == len(other):
                # The same whichever column comes first: a sum of what is scattered.
                facts = scatter(scatter(own[:FACTS], 1) + scatter(other[:FACTS], 1), 2)
                pairs.append(np.unique(facts))
    return [np.unique(column) for column in hashed], pairs


def _postings(sets: list[U64]) -> Postings:
    counts: I64 = np.array([len(one) for one in sets], np.int64)
    keys = np.concatenate(sets) if sets else np.zeros(0, np.uint64)
    return Postings(keys, np.repeat(np.arange(len(sets)), counts))
