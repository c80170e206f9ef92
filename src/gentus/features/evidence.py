"""Evidence: vectors of columns whose products are similarities, and blocks, the vectors of tables.

A column's vector has a block for each kind of evidence: words, character grams and cell shapes as TF-IDF in
their leading singular directions (latent semantic analysis), the weighted mean of static token vectors,
random Fourier features of its profile, and, where names count, the words and grams of its name. Before it is
scaled to length one, a block is linear: a weighted sum of one row for each id of the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64, half
from gentus.features.extract import KINDS, PROFILE, TOKEN, Features
from gentus.features.vocabulary import (
    SVD_WIDTHS,
    Vocabulary,
    idf_bytes,
    idf_of,
    learn_vocabulary,
    restore_idf,
    table_counts,
)
from gentus.features.weights import TOKEN_WIDTH, TOKENS, load_vectors
from gentus.settings import SpaceSettings
from gentus.sparse import SparseRows

NAMES = ("name words", "name grams")
WIDTHS = {
    **{kind: SVD_WIDTHS[kind] for kind in ("words", "grams", "shapes")},
    **{"tokens": TOKEN_WIDTH, "profile": 64},
    **{kind: SVD_WIDTHS[kind] for kind in NAMES},
}
BLOCKS: dict[str, slice] = {  # the part of a column's vector that each kind has
    kind: slice(end - width, end)
    for (kind, width), end in zip(WIDTHS.items(), accumulate(WIDTHS.values()), strict=True)
}
WIDTH = sum(WIDTHS.values())
_WIDTHS = list(WIDTHS.values())
_BEGINS = [block.start for block in BLOCKS.values()]
FEWEST, MOST = 1 << 14, 1 << 16  # sizes of a vocabulary: for the smallest lakes, for the largest
TABLE = {"words": 0.3, "grams": 0.3, "tokens": 0.3, "profile": 0.1}  # weights of a table's blocks
IN_COLUMN = 0.2  # weight of every kind in a column's vector
NAME_IN_TABLE, NAME_IN_COLUMN = 0.5, 0.2  # those of names, times `Blocks.name_trust`
POSITIONS = 96  # of columns that are distinguished, from the left
COUNTS = 32  # numbers of columns that are distinguished; the last stands for all above


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The vocabularies of all kinds as one sorted array, so that one search finds all ids."""

    ids: NDArray[np.uint32]  # (V,) sorted, because the kind is in the upper bits
    weights: F32  # (V,) IDF, times the scale of the row
    kinds: dict[str, tuple[int, int, NDArray[Any]]]  # the range of a kind in `ids`, and its rows

    @classmethod
    def of(cls, vocabularies: Mapping[str, Vocabulary], token_idf: F32) -> Lexicon:
        """From vocabularies, and the static tokens."""
        tokens = np.arange(TOKEN, TOKEN + TOKENS, dtype=np.uint32)
        parts: dict[str, tuple[NDArray[np.uint32], F32, NDArray[Any]]] = {
            kind: (one.ids, one.idf * one.scales, one.rows) for kind, one in vocabularies.items()
        }
        parts["tokens"] = tokens, token_idf, load_vectors()
        present = [kind for kind in KINDS if kind in parts]
        ends = list(accumulate((len(parts[kind][0]) for kind in present), initial=0))
        return cls(
            np.concatenate([parts[kind][0] for kind in present]),
            np.concatenate([parts[kind][1] for kind in present]),
            {kind: (*span, parts[kind][2]) for kind, span in zip(present, pairwise(ends), strict=True)},
        )

    def find(self, ids: NDArray[np.uint32]) -> tuple[I64, NDArray[np.bool_]]:
        """(n,) positions of ids, and (n,) whether they are in the vocabularies."""
        at = np.searchsorted(self.ids, ids)
        np.minimum(at, len(self.ids) - 1, out=at)
        return at, self.ids[at] == ids

    def of_kind(self, kind: str, at: I64) -> NDArray[np.bool_]:
        """(n,) which of some positions are of a kind."""
        begin, end, _ = self.kinds[kind]
        return (at >= begin) & (at < end)


@dataclass(slots=True)
class Evidence:
    """Turns features into vectors, by vocabularies and weights learnt from a lake."""

    vocabularies: dict[str, Vocabulary]  # those of words, grams, shapes and, where they count, names
    token_idf: F32  # (TOKENS,)
    centre: F32  # (TOKEN_WIDTH,) the mean token vector, which is subtracted
    weights: F32 = field(default_factory=lambda: equal_weights())  # (kinds,) for the network, with labels
    _lexicon: Lexicon | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """State for another process, without the lexicon, which is quickly made there."""
        return None, {one.name: getattr(self, one.name) for one in fields(self)} | {"_lexicon": None}

    @property
    def named(self) -> bool:
        """Whether names of columns count."""
        return NAMES[0] in self.vocabularies

    @classmethod
    def fit(cls, features: Features, tables: int, names: bool = True, seed: int = 0) -> Evidence:
        """Learn from a sample of a lake of `tables` tables."""
        most = int(np.clip(1 << (2 * tables - 1).bit_length(), FEWEST, MOST))
        kinds = [kind for kind in SVD_WIDTHS if names or kind not in NAMES]
        known = {kind: learn_vocabulary(features, kind, most, seed) for kind in kinds}
        counts = table_counts(features, "tokens")
        idf = idf_of(counts.count(TOKENS, TOKEN), len(features))
        # In double precision, so that the order of the sum does not matter.
        mass = np.bincount(counts.ids - TOKEN, counts.weights * idf[counts.ids - TOKEN], TOKENS)
        centre = mass / max(mass.sum(), 1e-9) @ load_vectors().astype(np.float64)
        return cls(known, idf, centre.astype(np.float16).astype(np.float32))

    def report(self) -> dict[str, Any]:
        """Sizes of the vocabularies."""
        return {kind: len(vocabulary.ids) for kind, vocabulary in self.vocabularies.items()}

    def columns(self, features: Features) -> F32:
        """(C, WIDTH) weighted evidence of every column, the input of the network."""
        return rescale(unit_blocks(self.raw(features)), self.weights)

    def raw(self, features: Features) -> F32:
        """(C, WIDTH) evidence of every column before scaling; sums over columns are evidence of tables."""
        lexicon = self.lexicon()
        at, known = lexicon.find(features.ids)
        at, counts = at[known], features.counts[known]
        weights = (1 + _LOGARITHMS[counts]) * lexicon.weights[at]
        starts = np.concatenate([[0], np.cumsum(known)])[features.starts]
        vectors = np.zeros((len(starts) - 1, WIDTH), np.float32)
        add_rows(vectors, lexicon, weights, at, starts)
        tokens = np.flatnonzero(lexicon.of_kind("tokens", at))
        owners = np.searchsorted(starts, tokens, "right") - 1
        mass = np.bincount(owners, weights[tokens], len(vectors)).astype(np.float32)
        vectors[:, BLOCKS["tokens"]] -= mass[:, None] * self.centre
        vectors[:, BLOCKS["profile"]] = profiles(features.profile)
        return vectors

    def lexicon(self) -> Lexicon:
        """The vocabularies of all kinds as one, made once."""
        if self._lexicon is None:
            self._lexicon = Lexicon.of(self.vocabularies, self.token_idf)
        return self._lexicon

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are stored."""
        stored: dict[str, NDArray[Any]] = {
            "evidence.token_idf": idf_bytes(self.token_idf),
            "evidence.centre": self.centre.astype(np.float16),
            "evidence.weights": self.weights,
        }
        for kind, vocabulary in self.vocabularies.items():
            stored |= {f"{kind}.{name}": array for name, array in vocabulary.arrays().items()}
        return stored

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]]) -> Evidence:
        """From stored arrays, whose shapes are checked."""
        known = {kind: Vocabulary.restore(stored, kind) for kind in SVD_WIDTHS if f"{kind}.ids" in stored}
        if not {"words", "grams", "shapes"} <= set(known):
            raise ValueError("words, grams or shapes are missing")
        centre = stored["evidence.centre"].astype(np.float32)
        idf, weights = restore_idf(stored["evidence.token_idf"]), stored["evidence.weights"]
        if idf.shape != (TOKENS,) or centre.shape != (TOKEN_WIDTH,) or weights.shape != (len(BLOCKS),):
            raise ValueError("token weights are not of the right shape")
        return cls(known, idf, centre, weights)


def equal_weights() -> F32:
    """(kinds,) the same weight for every kind."""
    return np.full(len(BLOCKS), 1 / len(BLOCKS), np.float32)


# --- blocks of tables --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tables as blocks, and their columns as vectors."""

    blocks: F32  # (T, B) independent of the order of columns
    ordered: F32  # (T, d) means of columns with signs by position
    columns: F32  # (C, d)
    starts: I64  # (T + 1,) where each table's columns begin
    widths: I64  # (T,) columns, those without cells too; 0 where none has any

    def vectors(self, order: float, width: float = 0.0) -> F32:
        """(T, D) blocks, and, weighted, `ordered` for column positions, and the number of columns."""
        parts = [self.blocks]
        if order:
            parts.append(order**0.5 * self.ordered)
        if width:
            counts = np.minimum(self.widths, COUNTS)
            same = counts[:, None] == np.arange(1, COUNTS + 1)
            parts.append((width**0.5 * same).astype(np.float32))
        return np.concatenate(parts, axis=1) if len(parts) > 1 else self.blocks


@dataclass(frozen=True, slots=True)
class Blocks:
    """Features in, blocks of tables and vectors of columns out."""

    evidence: Evidence
    basis: F32  # (WIDTH, d) from a column's evidence to its vector
    name_trust: float = 0.0  # how far names agree with cells, 0 to 1

    def encode(self, features: Features) -> Encoded:
        """Blocks and columns of some tables. One without columns has blocks of zeros."""
        return self.encode_raw(self.evidence.raw(features), features)

    def encode_raw(self, raw: F32, features: Features) -> Encoded:
        """The same, given the (C, WIDTH) evidence of their columns, which is scaled in place."""
        starts = features.tables.astype(np.int64)
        filled = np.flatnonzero(np.diff(starts) > 0)
        blocks = np.zeros((len(starts) - 1, self.width), np.float32)
        ordered = np.zeros((len(blocks), self.basis.shape[1]), np.float32)
        widths = np.zeros(len(blocks), np.int64)
        if not len(filled):
            return Encoded(blocks, ordered, ordered[:0], starts, widths)
        widths[filled] = features.positions[starts[filled]].sum(1, dtype=np.int64) + 1
        sums = unit_blocks(np.add.reduceat(raw, starts[filled]))
        columns = normalize(products(unit_blocks(raw), self.basis, starts))
        parts = [weight * sums[:, BLOCKS[kind]] for kind, weight in self._weights().items()]
        parts.append(normalize(np.add.reduceat(columns, starts[filled])))
        blocks[filled] = np.concatenate(parts, axis=1)
        position = np.minimum(features.positions[:, 0], POSITIONS - 1)
        signed = columns * position_signs(self.basis.shape[1])[position]
        ordered[filled] = normalize(np.add.reduceat(signed, starts[filled]))
        return Encoded(blocks, ordered, columns, starts, widths)

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


# --- sums and lengths --------------------------------------------------------------------------------


_LOGARITHMS = np.log(np.maximum(np.arange(256), 1)).astype(np.float32)  # of counts, which are bytes


def add_rows(vectors: F32, lexicon: Lexicon, weights: F32, at: I64, starts: I64) -> None:
    """Set every column's blocks (C, WIDTH) to the weighted sums of the rows of its ids."""
    for kind, (first, last, rows) in lexicon.kinds.items():
        some = np.flatnonzero(lexicon.of_kind(kind, at))
        entries = SparseRows(weights[some], at[some] - first, np.searchsorted(some, starts), last - first)
        vectors[:, BLOCKS[kind]] = entries @ rows


def unit_blocks(vectors: F32) -> F32:
    """Scale every block of every row to length one, in place; zero blocks stay."""
    squares = np.add.reduceat(vectors * vectors, _BEGINS, axis=1)  # (C, kinds)
    scale = 1 / np.sqrt(np.maximum(squares, 1e-18))
    vectors *= scale.repeat(_WIDTHS, axis=1)
    return vectors


def rescale(vectors: F32, factors: F32) -> F32:
    """Multiply the weight of every kind of evidence by (kinds,) factors, in place."""
    for scale, block in zip(np.sqrt(factors), BLOCKS.values(), strict=True):
        vectors[:, block] *= scale
    return vectors


def normalize(vectors: F32) -> F32:
    """Scale rows to length one, in place; zero rows stay."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    np.divide(vectors, length, out=vectors, where=length > 1e-9)
    return vectors


def profiles(profile: F32) -> F32:
    """(C, 64) random Fourier features of profiles, of length one."""
    frequencies, phases = _fourier()
    # Not by BLAS, which rounds a row differently by its position: see `products`.
    return normalize(np.cos(np.einsum("cp,pd->cd", profile, frequencies) + phases))


@lru_cache(maxsize=1)
def _fourier() -> tuple[F32, F32]:
    """Frequencies and phases for a Gaussian kernel on profiles; the seed is part of the format."""
    random = np.random.Generator(np.random.PCG64(20_180))
    uniform = random.random((3, PROFILE, WIDTHS["profile"]))
    gaussian = np.sqrt(-2 * np.log(1 - uniform[0])) * np.cos(2 * np.pi * uniform[1])  # Box-Muller
    phases = 2 * np.pi * uniform[2, 0]
    return (np.sqrt(2) * gaussian).astype(np.float32), phases.astype(np.float32)
