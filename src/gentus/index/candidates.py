"""Candidates of a query where labels were learnt from, and their features: prior, walks, and columns.

The same function describes the training queries of a build and the queries of a search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gentus.align.column_summary import SUMMARY, summarise
from gentus.align.verdict import look_weights
from gentus.arrays import F32, I64, Integers
from gentus.index.catalogue import Catalogue
from gentus.index.queries import Query
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Tree
from gentus.retrieval.walk import WALK_FEATURES, AnnotatedGraph, Walked

NEAREST, WALKED = 250, 100  # candidates by the prior, and by walks, at least
PRIOR_FEATURES = ("similarity", "similarity below the best", "rank, logarithm")
FEATURES = (*PRIOR_FEATURES, *WALK_FEATURES, *SUMMARY)
PARTS = {  # of the features
    "prior": slice(0, len(PRIOR_FEATURES)),
    "walk": slice(len(PRIOR_FEATURES), len(PRIOR_FEATURES) + len(WALK_FEATURES)),
    "columns": slice(len(PRIOR_FEATURES) + len(WALK_FEATURES), len(FEATURES)),
}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a query."""

    rows: I64  # (n,) of the prefix tree
    tables: I64  # (n,) catalogue ids
    features: F32  # (n, FEATURES)


@dataclass(frozen=True, slots=True)
class CandidateFinder:
    """Finds candidates by the prior and by walks in the annotated graph."""

    decoder: Decoder
    catalogue: Catalogue
    graph: AnnotatedGraph
    rows: I64  # (N,) of the graph's tables in the prefix tree; -1: removed
    names: bool  # whether names of columns count
    feedback: float = 0.0  # of the prior
    columns: bool = True  # whether features of columns are wanted; else they are 0

    def search(self, query: Query, beam: int, count: int = NEAREST) -> Candidates:
        """The candidates of a query, by the prior alone and by walks."""
        latent = query.content.identity
        ranked, _ = self.decoder.search_with_feedback(latent, beam, self.feedback, query.self_ids)
        return self.find(query, latent, ranked, count)

    def find(self, query: Query, latent: F32, ranked: I64, count: int = NEAREST) -> Candidates:
        """The first `count` of the rows that the prior `ranked`, best first, and those that walks lead to."""
        trie, codebooks = self.decoder.trie, self.decoder.codebooks
        first = trie.table(ranked)
        others = np.flatnonzero(~np.isin(first, list(query.self_ids)))
        ranked, first = ranked[others], first[others]
        similarity = _similarity(latent, codebooks.decode(trie.codes_of(ranked[:count])))
        order = np.argsort(-similarity, kind="stable")
        walked = Walked.of(self.graph, first[order], similarity[order], query.self_ids)
        found = walked.best(WALKED + len(query.self_ids))
        found = found[~np.isin(found, list(query.self_ids)) & ~np.isin(found, first[:count])]
        new = self.rows[self.graph.find(found)[0]]
        found, new = found[new >= 0], new[new >= 0]
        tables, rows = np.concatenate([first[:count], found]), np.concatenate([ranked[:count], new])
        similarity = np.append(similarity, _similarity(latent, codebooks.decode(trie.codes_of(new))))
        rank = np.append(np.arange(len(similarity) - len(new)), np.full(len(new), count))
        prior = np.stack([similarity, similarity - similarity.max(initial=-2.0), np.log1p(rank)], 1)
        columns, present = self._columns(query, tables)
        features = np.concatenate([prior, walked.features(tables), columns], axis=1)
        return Candidates(rows[present], tables[present], features[present].astype(np.float32))

    def _columns(self, query: Query, tables: I64) -> tuple[F32, I64]:
        """(n, SUMMARY) features of columns, and positions of the tables that were not removed just now."""
        found = np.zeros((len(tables), len(SUMMARY)), np.float32)
        if not self.columns:
            return found, np.arange(len(tables))
        signed = self.catalogue.signatures.of(tables.tolist())
        present = np.array([at for at, table in enumerate(tables.tolist()) if table in signed], np.int64)
        signatures = [signed[table].signatures for table in tables[present].tolist()]
        found[present] = summarise(query.content.columns, signatures, look_weights(), self.names)
        return found, present


def rows_of(tree: Tree, tables: Integers) -> I64:
    """(n,) the rows of tables in the prefix tree, by catalogue id; -1 where there is none."""
    if not len(tree):
        return np.full(len(tables), -1)
    _, rows = tree.descendants(np.array([tree.root]), np.array([len(tree)]))
    ids = tree.table(rows)
    order = np.argsort(ids)
    at = order[np.searchsorted(ids, tables, sorter=order).clip(max=len(ids) - 1)]
    return np.where(ids[at] == tables, rows[at], -1)


def _similarity(latent: F32, decoded: F32) -> F32:
    """(n,) similarities of a latent with (n, d) quantized ones, 1 for the same."""
    apart = decoded - latent
    return np.asarray(1 - np.einsum("nd,nd->n", apart, apart) / 2, np.float32)
