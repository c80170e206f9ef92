"""Columns as bags of word pieces, value by value, so that views of a table can drop single cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus_bench.baselines.minhash import scatter
from gentus_bench.baselines.word_pieces import PIECES, load_tokenizer, load_vectors

LONGEST = 32  # pieces read of a value
BATCH = 20_000  # values tokenized at once


@dataclass(frozen=True, slots=True)
class Tokens:
    """The word pieces of C columns."""

    ids: NDArray[np.int32]  # (n,)
    value: I64  # (n,) the value each piece is of
    starts: I64  # (C + 1,) where each column's pieces begin
    values: int  # how many values there are

    def take(self, columns: I64) -> tuple[I64, I64, I64]:
        """Pieces of some columns, their values, and where each of those columns begins."""
        counts = self.starts[columns + 1] - self.starts[columns]
        begins = np.cumsum(counts) - counts
        at = np.repeat(self.starts[columns] - begins, counts) + np.arange(counts.sum())
        return self.ids[at].astype(np.int64), self.value[at], begins


def tokenize(values: list[list[str]]) -> Tokens:
    """Read the values of columns as word pieces."""
    flat = [value for column in values for value in column]
    parts: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    for begin in range(0, len(flat), BATCH):
        found = load_tokenizer().encode_batch_fast(flat[begin : begin + BATCH], add_special_tokens=False)
        read = [encoding.ids[:LONGEST] for encoding in found]
        parts.append(np.fromiter(chain.from_iterable(read), np.int32))
        lengths.extend(map(len, read))
    per_value = np.array(lengths, np.int64)
    ends = np.append(0, np.cumsum(per_value))
    first = np.append(0, np.cumsum([len(column) for column in values])).astype(np.int64)
    ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return Tokens(ids, np.repeat(np.arange(len(flat)), per_value), ends[first], len(flat))


def chance(values: I64, salt: int) -> NDArray[np.float64]:
    """(n,) a number in [0, 1) for each value, the same wherever in a batch that value stands."""
    return scatter(values.astype(np.uint64), salt) / np.float64(1 << 63) / 2


def rarity(tokens: Tokens) -> F32:
    """(PIECES,) inverse document frequency of every piece, a column being a document."""
    column = np.repeat(np.arange(len(tokens.starts) - 1), np.diff(tokens.starts))
    seen = np.unique(column * PIECES + tokens.ids) % PIECES
    frequency = np.bincount(seen, minlength=PIECES)
    return (np.log((1 + len(tokens.starts) - 1) / (1 + frequency)) + 1).astype(np.float32)


def projected_vectors(tokens: Tokens, weights: F32, width: int, random: np.random.Generator) -> F32:
    """(PIECES, width) static vectors in the directions in which the lake's columns differ most.

    They are centred on the mean column, so that what all columns share is no likeness.
    """
    vectors = np.asarray(load_vectors(), np.float32)
    total = len(tokens.starts) - 1
    rows = np.sort(random.choice(total, min(total, 20_000), replace=False))
    rows = rows[tokens.starts[rows + 1] > tokens.starts[rows]]
    means = np.zeros((1, vectors.shape[1]), np.float32)
    if len(rows):
        chunks = []
        for part in np.array_split(rows, -(-len(rows) // 2048)):
            ids, _, begins = tokens.take(part)
            weight = weights[ids][:, None]
            total_weight = np.add.reduceat(weight, begins)
            chunks.append(np.add.reduceat(vectors[ids] * weight, begins) / total_weight)
        means = np.concatenate(chunks)
    centre = means.mean(0)
    covariance = (means - centre).T @ (means - centre)
    _, directions = np.linalg.eigh(covariance.astype(np.float64))
    basis = directions[:, ::-1][:, :width].astype(np.float32)
    basis *= np.where(basis[np.abs(basis).argmax(0), np.arange(width)] < 0, -1, 1)  # a sign of its own choice
    return np.asarray((vectors - centre) @ basis, np.float32)
