"""A baseline of the LIFTus type: a column seen in several aspects, each embedded on its own.

As in Qiu et al. (ICDE 2025): linguistic and non-linguistic aspects of a column (meaning of words, word
co-occurrence, character patterns, formats, distribution of values) have embeddings of their own, learned on
the lake without labels, and are aggregated adaptively, since a column of numbers says little in words.
Replaced: a small static model stands for the language model, truncated factorisations of the lake's own
statistics for the autoencoders of the other aspects, and the attention that aggregates is not trained but
follows from the share of text and of numbers in the column. Tables are compared by matching of columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gentus.arrays import F32
from gentus_bench.baselines.column_features import FITTED, sparse_counts
from gentus_bench.baselines.columns import Columns, unit
from gentus_bench.baselines.hashed import KINDS
from gentus_bench.baselines.hashed_evidence import BLOCKS, Evidence, projection
from gentus_bench.baselines.matching import MatchedColumns, cosine

RANK = {"words": 96, "grams": 96, "shapes": 64}


class LIFTus(MatchedColumns):
    """Five aspects of a column side by side, weighed by what the column holds."""

    name = "LIFTus-type"
    note = "static token vectors for the language model, factorisations for autoencoders, untrained weights"
    score = staticmethod(cosine)

    def _learn(self, columns: Columns) -> None:
        from sklearn.decomposition import TruncatedSVD

        random = np.random.default_rng(self.seed)
        self._evidence = Evidence.fit(columns.some(rows) for rows in columns.chunks())
        total = len(columns.values)
        rows = np.sort(random.choice(total, min(total, FITTED), replace=False))
        counts = sparse_counts(columns.features, rows)
        self._bases: dict[str, F32] = {}
        for kind, rank in RANK.items():
            weighed = self._tfidf(counts, kind)
            rank = max(1, min(rank, min(weighed.shape) - 1))
            with np.errstate(invalid="ignore"):  # shares of a variance that one column does not have
                analysis = TruncatedSVD(rank, n_iter=3, random_state=self.seed).fit(weighed)
            # Directions that vary much are tempered: else one frequent word would be all that is compared.
            strength = np.sqrt(np.maximum(analysis.singular_values_, 1e-6))
            self._bases[kind] = (analysis.components_.T / strength).astype(np.float32)

    def _encode(self, columns: Columns) -> F32:
        parts = []
        for rows in columns.chunks():
            blocks = self._evidence.blocks(columns.some(rows))
            counts = sparse_counts(columns.features, rows)
            aspects = {"pieces": blocks[:, BLOCKS["pieces"]], "profile": blocks[:, BLOCKS["profile"]]}
            for kind, basis in self._bases.items():
                aspects[kind] = unit(np.asarray(self._tfidf(counts, kind) @ basis, np.float32))
            parts.append(aggregate(aspects, columns.features.numbers[rows]))
        return np.concatenate(parts)

    def _outside(self) -> tuple[object, ...]:
        return *super()._outside(), projection()

    def _tfidf(self, counts: Any, kind: str) -> Any:
        first, last = KINDS[kind]
        weighed = counts[:, first:last].copy()
        weighed.data = (1 + np.log(weighed.data)) * self._evidence.idf[first:last][weighed.indices]
        length = np.sqrt(np.asarray(weighed.multiply(weighed).sum(1))).ravel()
        return sparse.diags_array((1 / np.maximum(length, 1e-9)).astype(np.float32)) @ weighed


def aggregate(aspects: dict[str, F32], share: F32) -> F32:
    """Set aspects side by side, weighed by how much of a column is text and how much is numbers."""
    numbers = share[:, None]
    weights = {
        "pieces": 0.35 - 0.25 * numbers,
        "words": 0.25 - 0.15 * numbers,
        "grams": 0.20 - 0.10 * numbers,
        "shapes": 0.10 + 0.15 * numbers,
        "profile": 0.10 + 0.35 * numbers,
    }
    return unit(np.hstack([np.sqrt(weights[aspect]) * unit(vectors) for aspect, vectors in aspects.items()]))
