"""Sherlock's kinds of column features: characters, words, a paragraph vector, global statistics.

Characters are as in the paper: the occurrences of each of 96 printable characters in a value, in ten
aggregates over the values of a column. Words are mean and spread of MiniLM's static token vectors where
Sherlock has GloVe's (which cannot be had), so also without median and mode. The paragraph vector is a
latent semantic analysis of the lake's words, in the place of a Doc2Vec model trained on another corpus.
The statistics are GenTUS' profile of 17 numbers and ten of lengths and counts, 27 as in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gentus.arrays import F32, I64
from gentus.features.extract import Features
from gentus_bench.baselines.columns import CHUNK, Columns
from gentus_bench.baselines.hashed import GRAM, PIECE, VOCABULARY, WORD
from gentus_bench.baselines.word_pieces import load_vectors

CHARACTERS = 96
PARAGRAPH = 100
FITTED = 20_000  # columns that the paragraph vectors, scales and types are learned from


def sparse_counts(features: Features, rows: I64 | slice = slice(None)) -> Any:
    """(n, VOCABULARY) the counts of `featurize` as a sparse matrix, of all columns or of some."""
    shape = (len(features.starts) - 1, VOCABULARY)
    narrow = features.starts.astype(np.int32)
    ids = features.ids.view(np.int32)  # of one type with the starts, so that they are not copied
    return sparse.csr_matrix((features.counts, ids, narrow), shape)[rows].astype(np.float32)


def moments(values: F32, counts: F32, present: F32) -> list[F32]:
    """Mean, variance, skew and kurtosis over axis 1 of (C, n, ...), where `present`."""
    shape = (-1,) + (1,) * (values.ndim - 2)
    number = counts.reshape(shape)
    mean = (values * present).sum(1) / number
    apart = (values - mean[:, None]) * present
    variance = (apart**2).sum(1) / number
    scale = np.sqrt(variance) + 1e-6
    return [mean, variance, (apart**3).sum(1) / number / scale**3, (apart**4).sum(1) / number / scale**4]


def aggregates(values: F32, counts: I64) -> F32:
    """(C, 10 * m) any, all, mean, variance, skew, kurtosis, min, max, median, sum of (C, n, m)."""
    number = counts.astype(np.float32)
    present = (np.arange(values.shape[1]) < counts[:, None])[:, :, None].astype(np.float32)
    ordered = np.sort(np.where(present > 0, values, np.inf), axis=1)  # what is absent comes last
    at = np.arange(len(values))
    low, high = ordered[:, 0], ordered[at, counts - 1]
    median = (ordered[at, (counts - 1) // 2] + ordered[at, counts // 2]) / 2
    parts = moments(values, number, present)
    parts += [low, high, median, parts[0] * number[:, None], (high > 0) * 1.0, (low > 0) * 1.0]
    return np.concatenate(parts, axis=1, dtype=np.float32)


class ColumnFeatures:
    """Features in groups, scaled to the lake they were fitted on."""

    def fit(self, columns: Columns, random: np.random.Generator) -> list[F32]:
        """Learn paragraph vectors and scales, and return the groups of the columns learned from."""
        from sklearn.decomposition import TruncatedSVD

        total = len(columns.values)
        self.rows: I64 = np.sort(random.choice(total, min(total, FITTED), replace=False))
        words = sparse_counts(columns.features, self.rows)[:, WORD:GRAM]
        present = np.asarray((words > 0).sum(0)).ravel()
        self._idf: F32 = (np.log((1 + len(self.rows)) / (1 + present)) + 1).astype(np.float32)
        weighed = self._tfidf(words)
        rank = max(1, min(PARAGRAPH, min(weighed.shape) - 1))
        analysis = TruncatedSVD(rank, n_iter=3, random_state=int(random.integers(1 << 31)))
        with np.errstate(invalid="ignore"):  # shares of a variance that one column does not have
            analysis.fit(weighed)
        self._basis: F32 = analysis.components_.T.astype(np.float32)  # (words, rank)
        self._scales: list[tuple[F32, F32]] = []
        groups = self.groups(columns, self.rows)
        for number, group in enumerate(groups):
            mean, spread = group.mean(0), group.std(0)
            self._scales.append((mean, np.where(spread > 1e-4, spread, 1)))
            groups[number] = self._scaled(number, group)
        return groups

    def groups(self, columns: Columns, rows: I64) -> list[F32]:
        """Characters, words, paragraph and statistics of some columns, (n, width) each."""
        chunks = [rows[begin : begin + CHUNK] for begin in range(0, len(rows), CHUNK)]
        parts = [self._chunk(columns, chunk) for chunk in chunks]
        groups = [np.concatenate(group) for group in zip(*parts, strict=True)]
        if self._scales:
            groups = [self._scaled(number, group) for number, group in enumerate(groups)]
        return groups

    def _scaled(self, number: int, group: F32) -> F32:
        mean, spread = self._scales[number]
        return np.asarray(np.clip((group - mean) / spread, -5, 5), np.float32)

    def _chunk(self, columns: Columns, rows: I64) -> list[F32]:
        values = [columns.values[row] for row in rows]
        counts = np.array([len(column) for column in values])
        width = int(counts.max())
        flat = [value for column in values for value in column]
        lengths = np.array([len(value) for value in flat])
        place = np.repeat(np.arange(len(rows)), counts) * width + np.concatenate(
            [np.arange(count) for count in counts]
        )
        points = np.frombuffer("".join(flat).encode("utf-32-le", "replace"), np.uint32).astype(np.int64)
        bins = np.where((points >= 32) & (points < 127), points - 32, CHARACTERS - 1)  # the rest as one
        keys = np.repeat(place, lengths) * CHARACTERS + bins
        total = len(rows) * width * CHARACTERS
        characters = np.bincount(keys, minlength=total).reshape(len(rows), width, CHARACTERS)
        sizes = np.zeros((len(rows) * width, 1), np.float32)
        sizes[place, 0] = lengths
        matrix = sparse_counts(columns.features, rows)
        statistics = [
            aggregates(sizes.reshape(len(rows), width, 1), counts)[:, :8],
            counts[:, None],
            np.array([[sum(value.count(" ") for value in column) / len(column)] for column in values]),
        ]
        return [
            _squeeze(aggregates(characters.astype(np.float32), counts)),
            _words(matrix[:, PIECE:]),
            np.asarray(self._tfidf(matrix[:, WORD:GRAM]) @ self._basis, np.float32),
            np.hstack([columns.features.profile[rows], _squeeze(np.hstack(statistics))]).astype(np.float32),
        ]

    def _tfidf(self, words: Any) -> Any:
        weighed = words.copy()
        weighed.data = (1 + np.log(weighed.data)) * self._idf[weighed.indices]
        length = np.sqrt(np.asarray(weighed.multiply(weighed).sum(1))).ravel()
        return sparse.diags_array((1 / np.maximum(length, 1e-9)).astype(np.float32)) @ weighed


def _squeeze(values: F32) -> F32:
    """Logarithms of counts: their tails are long."""
    return np.asarray(np.sign(values) * np.log1p(np.abs(values)), np.float32)


def _words(pieces: Any) -> F32:
    """(n, 2 * 384) mean and spread of the static vectors of the word pieces of a column."""
    share = pieces.multiply(1 / np.maximum(pieces.sum(1), 1)).tocsr()
    touched = np.unique(share.indices)  # a query touches few of the thirty thousand
    vectors = np.asarray(load_vectors()[touched], np.float32)
    share = share[:, touched]
    mean = share @ vectors
    return np.hstack([mean, np.sqrt(np.maximum(share @ vectors**2 - mean**2, 0))]).astype(np.float32)
