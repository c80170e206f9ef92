"""Blocks: a table as one vector of weighted parts, and the vectors of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from gentus.arrays import F32, I64, half
from gentus.features.evidence import BLOCKS, NAMES, WIDTHS, Evidence, normalize, unit_blocks
from gentus.features.extract import Features
from gentus.settings import SpaceSettings

TABLE = {"words": 0.3, "grams": 0.3, "tokens": 0.3, "profile": 0.1}  # weights of a table's blocks
IN_COLUMN = 0.2  # weight of every kind in a column's vector
NAME_IN_TABLE, NAME_IN_COLUMN = 0.5, 0.2  # those of names, times `Blocks.name_trust`
POSITIONS = 96  # of columns that are distinguished, from the left


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tables as blocks, and their columns as vectors."""

    blocks: F32  # (T, B) independent of the order of columns
    ordered: F32  # (T, d) means of columns with signs by position
    columns: F32  # (C, d)
    starts: I64  # (T + 1,) where each table's columns begin

    def vectors(self, order: float) -> F32:
        """(T, D) blocks, and `ordered` with the weight that column positions have in the lake."""
        return np.concatenate([self.blocks, order**0.5 * self.ordered], axis=1) if order else self.blocks


@dataclass(frozen=True, slots=True)
class Blocks:
    """Features in, blocks of tables and vectors of columns out."""

    evidence: Evidence
    basis: F32  # (WIDTH, d) from a column's evidence to its vector
    name_trust: float = 0.0  # how far names agree with cells, 0 to 1

    def encode(self, features: Features) -> Encoded:
        """Blocks and columns of some tables. One without columns has blocks of zeros."""
        starts = features.tables.astype(np.int64)
        filled = np.flatnonzero(np.diff(starts) > 0)
        raw = self.evidence.raw(features)
        blocks = np.zeros((len(features), self.width), np.float32)
        ordered = np.zeros((len(features), self.basis.shape[1]), np.float32)
        if not len(filled):
            return Encoded(blocks, ordered, ordered[:0], starts)
        sums = unit_blocks(np.add.reduceat(raw, starts[filled]))
        columns = normalize(products(unit_blocks(raw), self.basis, starts))
        parts = [weight * sums[:, BLOCKS[kind]] for kind, weight in self._weights().items()]
        parts.append(normalize(np.add.reduceat(columns, starts[filled])))
        blocks[filled] = np.concatenate(parts, axis=1)
        position = np.minimum(features.positions[:, 0], POSITIONS - 1)
        signed = columns * position_signs(self.basis.shape[1])[position]
        ordered[filled] = normalize(np.add.reduceat(signed, starts[filled]))
        return Encoded(blocks, ordered, columns, starts)

    @property
    def width(self) -> int:
        """B, the width of a table's blocks."""
        return sum(WIDTHS[kind] for kind in self._weights()) + int(self.basis.shape[1])

    def name_blocks(self) -> list[slice]:
        """The columns of a table's blocks (T, B) that are of names."""
        found, end = [], 0
        for kind in self._weights():
            part = slice(end, end := end + WIDTHS[kind])
            if kind in NAMES:
                found.append(part)
        return found

    def _weights(self) -> dict[str, float]:
        """Square roots of the weights of a table's blocks, which sum to one."""
        weights = dict(TABLE)
        if self.name_trust:
            weights |= dict.fromkeys(NAMES, NAME_IN_TABLE * self.name_trust)
        total = sum(weights.values())
        return {kind: (weight / total) ** 0.5 for kind, weight in weights.items()}


def products(rows: F32, matrix: F32, starts: I64) -> F32:
    """`rows @ matrix`, table by table.

    In a product of many tables, BLAS rounds a row differently by its position; but a table must have the same
    vectors alone and among others.
    """
    found = np.empty((len(rows), matrix.shape[1]), np.float32)
    for first, last in pairwise(starts.tolist()):
        np.matmul(rows[first:last], matrix, out=found[first:last])
    return found


@lru_cache(maxsize=4)
def position_signs(width: int) -> F32:
    """(POSITIONS, width) random signs: columns at the same position keep their product, others lose it."""
    random = np.random.Generator(np.random.PCG64(20_181))  # part of the format
    return np.where(random.random((POSITIONS, width)) < 0.5, -1, 1).astype(np.float32)


def learn_blocks(
    evidence: Evidence, features: Features, settings: SpaceSettings, most: int = 20_000
) -> Blocks:
    """Learn the basis of column vectors, partly whitened, and how far names count, from a sample."""
    raw = evidence.raw(features)
    name_trust = name_agreement(raw, features) if evidence.named else 0.0
    some = unit_blocks(raw[:: max(1, -(-len(raw) // most))].copy())
    scale = _column_scale(name_trust)
    some *= scale
    values, vectors = np.linalg.eigh(some.T.astype(np.float64) @ some / max(len(some), 1))
    width = min(settings.columns, len(values))
    values = np.maximum(values[::-1][:width], max(values[-1], 1e-12) * 1e-9)
    whitened = vectors[:, ::-1][:, :width] * (values / values[0]) ** (-settings.whitening / 2)
    return Blocks(evidence, half(whitened * scale[:, None]), name_trust)


def _column_scale(name_trust: float) -> F32:
    """(WIDTH,) the square root of the weight of every kind in a column's vector."""
    scale = np.empty(sum(WIDTHS.values()), np.float32)
    for kind, block in BLOCKS.items():
        scale[block] = (NAME_IN_COLUMN * name_trust if kind in NAMES else IN_COLUMN) ** 0.5
    return scale


def name_agreement(raw: F32, features: Features, tables: int = 2000, anchors: int = 400) -> float:
    """How far names agree with cells, 0 to 1, by the (C, WIDTH) raw evidence alone.

    It is the correlation of name and word similarity over a table's nearest tables, as a share of the
    correlation of token and word similarity.
    """
    starts = features.tables.astype(np.int64)
    filled = np.flatnonzero(np.diff(starts) > 0)[:tables]
    if len(filled) < 4:
        return 1.0
    sums = {
        kind: normalize(np.add.reduceat(raw[:, BLOCKS[kind]], starts[:-1][filled])[: len(filled)])
        for kind in ("words", "tokens", *NAMES)
    }
    some = np.unique(np.linspace(0, len(filled) - 1, anchors).astype(int))
    similar = {kind: vectors[some] @ vectors.T for kind, vectors in sums.items()}
    together = similar["words"] + similar["tokens"]
    together[np.arange(len(some)), some] = -np.inf
    count = min(100, len(filled) - 1)
    best = np.argpartition(-together, count - 1, axis=1)[:, :count]
    near = {kind: np.take_along_axis(values, best, 1) for kind, values in similar.items()}
    names = np.mean([_correlation(near[kind], near["words"]) for kind in NAMES])
    usual = _correlation(near["tokens"], near["words"])
    return round(float(np.clip(names / max(usual, 0.1), 0, 1)), 3)


def _correlation(left: F32, right: F32) -> float:
    """The mean correlation of the rows of two arrays."""
    left, right = left - left.mean(1, keepdims=True), right - right.mean(1, keepdims=True)
    lengths = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    return float(((left * right).sum(1) / np.maximum(lengths, 1e-9)).mean())
