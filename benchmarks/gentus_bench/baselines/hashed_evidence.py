"""The counts of `hashed` as dense vectors of columns whose dot product is a similarity.

A column's vector is five blocks, each of length one: hashed words, grams and shapes (signed feature
hashing of TF-IDF), the IDF-weighted mean of MiniLM's static token vectors, and random Fourier features of
its profile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from gentus.arrays import F32, I64
from gentus.features.extract import PROFILE, Features
from gentus_bench.baselines.hashed import KINDS, PIECE, VOCABULARY
from gentus_bench.baselines.word_pieces import WIDTH as PIECE_WIDTH
from gentus_bench.baselines.word_pieces import load_vectors

HASHED = {"words": 256, "grams": 512, "shapes": 128}
HASHED_WIDTH = sum(HASHED.values())
PROFILE_WIDTH = 64
_WIDTHS = {**HASHED, "pieces": PIECE_WIDTH, "profile": PROFILE_WIDTH}
BLOCKS: dict[str, slice] = {  # where each kind of evidence lies in a column's vector
    kind: slice(end - width, end)
    for (kind, width), end in zip(_WIDTHS.items(), accumulate(_WIDTHS.values()), strict=True)
}
WIDTH = sum(_WIDTHS.values())
SAMPLE = 16  # batches that the mean column is taken from


@dataclass(slots=True)
class Evidence:
    """How a lake turns features into vectors: what is rare in it, and its mean column."""

    idf: F32  # (VOCABULARY,)
    centre: F32  # (PIECE_WIDTH,) the mean column: what every column shares says nothing

    @classmethod
    def fit(cls, batches: Iterable[Features]) -> Evidence:
        """Document frequencies and the mean column, from features streamed once."""
        frequency = np.zeros(VOCABULARY, np.int64)
        tables = 0
        sample: list[Features] = []
        for batch in batches:
            frequency += _document_frequency(batch)
            tables += len(batch)
            if len(sample) < SAMPLE:
                sample.append(batch)
        idf = np.log((1 + tables) / (1 + frequency)) + 1
        evidence = cls(_rounded(idf.astype(np.float32)), np.zeros(PIECE_WIDTH, np.float32))
        means = [evidence._pieces(batch, evidence._tfidf(batch)) for batch in sample]
        evidence.centre = np.concatenate(means).mean(0).astype(np.float16).astype(np.float32)
        return evidence

    def blocks(self, features: Features) -> F32:
        """(C, WIDTH) evidence of every column, every block of length one (or zero, if it has none)."""
        weights = self._tfidf(features)
        vectors = np.empty((len(features.starts) - 1, WIDTH), np.float32)
        vectors[:, :HASHED_WIDTH] = _signed_sums(features, weights)
        vectors[:, BLOCKS["pieces"]] = self._pieces(features, weights) - self.centre
        frequencies, phases = _fourier()
        vectors[:, BLOCKS["profile"]] = np.cos(features.profile @ frequencies + phases)
        for block in BLOCKS.values():
            normalize(vectors[:, block])
        return vectors

    def _tfidf(self, features: Features) -> F32:
        return (1 + np.log(features.counts.astype(np.float32))) * self.idf[features.ids]

    def _pieces(self, features: Features, weights: F32) -> F32:
        """(C, PIECE_WIDTH) weighted mean of the static vectors of each column's word pieces."""
        count = len(features.starts) - 1
        at = np.flatnonzero(features.ids >= PIECE)
        starts = np.searchsorted(at, features.starts)  # ids are sorted, so a column's pieces are together
        mean = np.zeros((count, PIECE_WIDTH), np.float32)
        filled = np.flatnonzero(np.diff(starts) > 0)
        if len(filled):
            weight = weights[at][:, None]
            rows = load_vectors()[features.ids[at] - PIECE] * weight
            total = np.add.reduceat(weight, starts[filled])
            mean[filled] = np.add.reduceat(rows, starts[filled]) / total
        return mean


def _document_frequency(batch: Features) -> I64:
    """(VOCABULARY,) how many tables hold each id."""
    owner = np.repeat(np.repeat(np.arange(len(batch)), np.diff(batch.tables)), np.diff(batch.starts))
    seen = np.unique(owner * VOCABULARY + batch.ids)
    return np.bincount(seen % VOCABULARY, minlength=VOCABULARY)


def _rounded(idf: F32) -> F32:
    """IDF to a sixteenth, at most what a byte holds of those."""
    return np.asarray(np.minimum(np.rint(idf * 16), 255) / 16, np.float32)


def _signed_sums(features: Features, weights: F32) -> F32:
    """(C, HASHED_WIDTH) the weights of every column's hashed ids, summed by dimension."""
    count = len(features.starts) - 1
    owner = np.repeat(np.arange(count), np.diff(features.starts))
    hashed = features.ids < PIECE
    ids = features.ids[hashed]
    bucket, sign = projection()
    flat = owner[hashed] * HASHED_WIDTH + bucket[ids]
    sums = np.bincount(flat, weights[hashed] * sign[ids], count * HASHED_WIDTH)
    return sums.reshape(count, HASHED_WIDTH).astype(np.float32)


def normalize(vectors: F32) -> F32:
    """Scale rows to length one, in place; zero rows stay."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    np.divide(vectors, length, out=vectors, where=length > 1e-9)
    return vectors


@lru_cache(maxsize=1)
def projection() -> tuple[I64, F32]:
    """Signed feature hashing: the dimension and the sign of every id of the hashed kinds."""
    ids = np.arange(PIECE, dtype=np.uint64)
    mixed = (ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    bucket = np.zeros(PIECE, np.int64)
    for kind, width in HASHED.items():
        first, last = KINDS[kind]
        bucket[first:last] = BLOCKS[kind].start + (mixed[first:last] % np.uint64(width)).astype(np.int64)
    return bucket, np.where(mixed >> np.uint64(63), 1.0, -1.0).astype(np.float32)


@lru_cache(maxsize=1)
def _fourier() -> tuple[F32, F32]:
    """Random Fourier features of a Gaussian kernel on profiles."""
    random = np.random.Generator(np.random.PCG64(20_180))
    uniform = random.random((3, PROFILE, PROFILE_WIDTH))
    gaussian = np.sqrt(-2 * np.log(1 - uniform[0])) * np.cos(2 * np.pi * uniform[1])  # Box-Muller
    phases = 2 * np.pi * uniform[2, 0]
    return (np.sqrt(2) * gaussian).astype(np.float32), phases.astype(np.float32)
