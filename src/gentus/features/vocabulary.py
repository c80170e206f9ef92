"""Vocabularies: TF-IDF of tables in its leading singular directions (latent semantic analysis)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.features.extract import KINDS, Features
from gentus.sparse import Floats, SparseRows

SVD_WIDTHS = {"words": 200, "grams": 150, "shapes": 128, "name words": 100, "name grams": 100}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The ids of one kind: the IDF of each, and its row in the latent semantic space of the kind."""

    ids: NDArray[np.uint32]  # (V,) sorted
    idf: F32  # (V,)
    rows: NDArray[np.int8]  # (V, width)
    scales: F32  # (V,) a row of length about one is `rows * scales`

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are stored."""
        scales = self.scales.astype(np.float16)
        return {"ids": self.ids, "idf": idf_bytes(self.idf), "rows": self.rows, "scales": scales}

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]], kind: str) -> Vocabulary:
        """From stored arrays, whose shapes are checked."""
        ids = stored[f"{kind}.ids"]
        shapes = {"idf": ids.shape, "rows": (len(ids), SVD_WIDTHS[kind]), "scales": ids.shape}
        for name, shape in shapes.items():
            if stored[f"{kind}.{name}"].shape != shape:
                raise ValueError(f"{kind}.{name} is not of shape {shape}")
        idf, rows, scales = (stored[f"{kind}.{name}"] for name in shapes)
        return cls(ids, restore_idf(idf), rows, scales.astype(np.float32))


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of ids of one kind, per table."""

    tables: I64  # (n,)
    ids: NDArray[np.int64]  # (n,)
    weights: F32  # (n,) 1 + log of the count

    def count(self, size: int, first: int) -> I64:
        """(size,) the number of tables that have each id."""
        return np.bincount(self.ids - first, minlength=size)


def table_counts(features: Features, kind: str) -> Counts:
    """Counts of the ids of a kind in each table, over all columns."""
    first, last = KINDS[kind]
    some = np.flatnonzero((features.ids >= first) & (features.ids < last))
    column_of = np.repeat(np.arange(len(features.starts) - 1), np.diff(features.starts))[some]
    table_of = np.repeat(np.arange(len(features)), np.diff(features.tables))
    keys = (table_of[column_of].astype(np.int64) << 32) | features.ids[some]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    times = np.add.reduceat(features.counts[some[order]].astype(np.int64), begins) if len(begins) else begins
    unique = ordered[begins]
    weights = (1 + np.log(np.maximum(times, 1))).astype(np.float32)
    return Counts(unique >> 32, unique & 0xFFFFFFFF, weights)


def learn_vocabulary(features: Features, kind: str, most: int, seed: int) -> Vocabulary:
    """The `most` ids of a kind with the highest table frequency, and their TF-IDF's singular directions."""
    counts = table_counts(features, kind)
    ids, at, frequency = np.unique(counts.ids, return_inverse=True, return_counts=True)
    common = np.flatnonzero(frequency > 1)  # ids of one table say nothing about others ...
    width = SVD_WIDTHS[kind]
    if len(common) < 2 * width:
        common = np.arange(len(ids))  # ... but in a small lake there are too few others
    kept = np.sort(common[np.argsort(-frequency[common], kind="stable")[:most]])
    idf = idf_of(frequency[kept], len(features))
    number = np.full(len(ids), -1)
    number[kept] = np.arange(len(kept))
    known = number[at] >= 0
    at, tables = number[at[known]], counts.tables[known]
    matrix = SparseRows.of_entries(counts.weights[known] * idf[at], tables, at, (len(features), len(kept)))
    rows = np.zeros((len(kept), width), np.float32)
    found = singular_directions(_unit_rows(matrix), width, seed)
    rows[:, : found.shape[1]] = found
    scales = (np.abs(rows).max(1, initial=0) / 127).astype(np.float16).astype(np.float32)
    whole = np.rint(rows / np.maximum(scales, 1e-9)[:, None])
    return Vocabulary(ids[kept].astype(np.uint32), idf, np.clip(whole, -127, 127).astype(np.int8), scales)


def singular_directions(matrix: SparseRows, width: int, seed: int, rounds: int = 1) -> F32:
    """(V, width) leading right singular vectors of a sparse matrix, by randomised subspace iteration."""
    width = min(width, len(matrix), matrix.width)
    if not width or not len(matrix.values):
        return np.zeros((matrix.width, 0), np.float32)
    random = np.random.default_rng(seed)
    some = min(width + 20, len(matrix))
    sketch = _orthonormal(matrix @ random.standard_normal((matrix.width, some), dtype=np.float32))
    across = matrix.transposed()
    for _ in range(rounds):
        sketch = _orthonormal(matrix @ _orthonormal(across @ sketch))
    small = np.asarray(across @ sketch, np.float64)  # (V, some)
    values, vectors = np.linalg.eigh(small.T @ small)
    leading = vectors[:, ::-1][:, :width] / np.sqrt(np.maximum(values[::-1][:width], 1e-12))
    return np.asarray(small @ leading, np.float32)


def _orthonormal(vectors: Floats) -> F32:
    """An orthonormal basis of the columns of a tall matrix, by its small Gram matrix."""
    gram = vectors.T.astype(np.float64) @ vectors
    values, directions = np.linalg.eigh(gram)
    scale = 1 / np.sqrt(np.maximum(values, values[-1] * 1e-12 + 1e-300))
    return np.asarray(vectors @ (directions * scale).astype(np.float32), np.float32)


def idf_of(frequency: I64, tables: int) -> F32:
    """Smoothed inverse document frequency, the documents being tables, quantized."""
    return quantize_idf((np.log((1 + tables) / (1 + frequency)) + 1).astype(np.float32))


def quantize_idf(idf: F32) -> F32:
    """IDF rounded to a sixteenth, so that a stored byte restores it exactly."""
    return np.asarray(np.minimum(np.rint(idf * 16), 255) / 16, np.float32)


def idf_bytes(idf: F32) -> NDArray[np.uint8]:
    """Quantized IDF as it is stored."""
    return np.rint(idf * 16).astype(np.uint8)


def restore_idf(stored: NDArray[np.uint8]) -> F32:
    """The IDF of stored bytes."""
    return np.asarray(stored / 16, np.float32)


def _unit_rows(matrix: SparseRows) -> SparseRows:
    """Rows scaled to length one."""
    return matrix.scaled((1 / np.sqrt(np.maximum(matrix.sums(2), 1e-18))).astype(np.float32))
