"""Evidence: vectors of columns whose products are similarities. NumPy and SciPy only.

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.features.extract import KINDS, PROFILE, TOKEN, Features
from gentus.features.weights import TOKEN_WIDTH, TOKENS, load_vectors

if TYPE_CHECKING:  # a search imports no SciPy, which takes a tenth of a second
    import scipy.sparse as sp


NAMES = ("name words", "name grams")
_SVD = {"words": 200, "grams": 150, "shapes": 128, "name words": 100, "name grams": 100}
WIDTHS = {
    "words": _SVD["words"],
    "grams": _SVD["grams"],
    "shapes": _SVD["shapes"],
    "tokens": TOKEN_WIDTH,
    "profile": 64,
    "name words": _SVD["name words"],
    "name grams": _SVD["name grams"],
}
BLOCKS: dict[str, slice] = {  # the part of a column's vector that each kind has
    kind: slice(end - width, end)
    for (kind, width), end in zip(WIDTHS.items(), accumulate(WIDTHS.values()), strict=True)
}
WIDTH = sum(WIDTHS.values())
_WIDTHS = list(WIDTHS.values())
_BEGINS = [block.start for block in BLOCKS.values()]
FEW = 8192  # ids up to which a loop over columns is faster than sparse products
FEWEST, MOST = 1 << 14, 1 << 16  # sizes of a vocabulary: for the smallest lakes, for the largest


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The ids of one kind: the IDF of each, and its row in the latent semantic space of the kind."""

    ids: NDArray[np.uint32]  # (V,) sorted
    idf: F32  # (V,)
    rows: NDArray[np.int8]  # (V, width)
    scales: F32  # (V,) a row of length about one is `rows * scales`


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
        kinds = [kind for kind in _SVD if names or kind not in NAMES]
        known = {kind: learn_vocabulary(features, kind, most, seed) for kind in kinds}
        counts = _table_counts(features, "tokens")
        idf = quantize_idf(_idf(counts.count(TOKENS, TOKEN), len(features)))
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
        # For one table a loop is faster than setting up sparse products.
        (add_few if len(at) < FEW else add_many)(vectors, lexicon, weights, at, starts)
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
            "evidence.token_idf": np.rint(self.token_idf * 16).astype(np.uint8),
            "evidence.centre": self.centre.astype(np.float16),
            "evidence.weights": self.weights,
        }
        for kind, vocabulary in self.vocabularies.items():
            stored[f"{kind}.ids"] = vocabulary.ids
            stored[f"{kind}.idf"] = np.rint(vocabulary.idf * 16).astype(np.uint8)
            stored[f"{kind}.rows"] = vocabulary.rows
            stored[f"{kind}.scales"] = vocabulary.scales.astype(np.float16)
        return stored

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]]) -> Evidence:
        """From stored arrays, whose shapes are checked."""
        kinds = [kind for kind in _SVD if f"{kind}.ids" in stored]
        known = {}
        for kind in kinds:
            count = len(stored[f"{kind}.ids"])
            shapes = {"idf": (count,), "rows": (count, WIDTHS[kind]), "scales": (count,)}
            for name, shape in shapes.items():
                if stored[f"{kind}.{name}"].shape != shape:
                    raise ValueError(f"{kind}.{name} is not of shape {shape}")
            known[kind] = Vocabulary(
                stored[f"{kind}.ids"],
                _restore_idf(stored[f"{kind}.idf"]),
                stored[f"{kind}.rows"],
                stored[f"{kind}.scales"].astype(np.float32),
            )
        if not {"words", "grams", "shapes"} <= set(known):
            raise ValueError("words, grams or shapes are missing")
        centre = stored["evidence.centre"].astype(np.float32)
        idf, weights = _restore_idf(stored["evidence.token_idf"]), stored["evidence.weights"]
        if idf.shape != (TOKENS,) or centre.shape != (TOKEN_WIDTH,) or weights.shape != (len(BLOCKS),):
            raise ValueError("token weights are not of the right shape")
        return cls(known, idf, centre, weights)


def equal_weights() -> F32:
    """(kinds,) the same weight for every kind."""
    return np.full(len(BLOCKS), 1 / len(BLOCKS), np.float32)


# --- latent semantic analysis ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of ids of one kind, per table."""

    tables: I64  # (n,)
    ids: NDArray[np.int64]  # (n,)
    weights: F32  # (n,) 1 + log of the count

    def count(self, size: int, first: int) -> I64:
        """(size,) the number of tables that have each id."""
        return np.bincount(self.ids - first, minlength=size)


def _table_counts(features: Features, kind: str) -> _Counts:
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
    return _Counts(unique >> 32, unique & 0xFFFFFFFF, weights)


def learn_vocabulary(features: Features, kind: str, most: int, seed: int) -> Vocabulary:
    """The `most` ids of a kind with the highest table frequency, and their TF-IDF's singular directions."""
    import scipy.sparse as sp

    counts = _table_counts(features, kind)
    ids, at, frequency = np.unique(counts.ids, return_inverse=True, return_counts=True)
    common = np.flatnonzero(frequency > 1)  # ids of one table say nothing about others ...
    width = WIDTHS[kind]
    if len(common) < 2 * width:
        common = np.arange(len(ids))  # ... but in a small lake there are too few others
    kept = np.sort(common[np.argsort(-frequency[common], kind="stable")[:most]])
    idf = quantize_idf(_idf(frequency[kept], len(features)))
    number = np.full(len(ids), -1)
    number[kept] = np.arange(len(kept))
    known = number[at] >= 0
    at, tables = number[at[known]], counts.tables[known]
    matrix = sp.csr_matrix((counts.weights[known] * idf[at], (tables, at)), (len(features), len(kept)))
    rows = np.zeros((len(kept), width), np.float32)
    found = singular_directions(_unit_rows(matrix), width, seed)
    rows[:, : found.shape[1]] = found
    scales = (np.abs(rows).max(1, initial=0) / 127).astype(np.float16).astype(np.float32)
    whole = np.rint(rows / np.maximum(scales, 1e-9)[:, None])
    return Vocabulary(ids[kept].astype(np.uint32), idf, np.clip(whole, -127, 127).astype(np.int8), scales)


def singular_directions(matrix: sp.csr_matrix, width: int, seed: int, rounds: int = 1) -> F32:
    """(V, width) leading right singular vectors of a sparse matrix, by randomised subspace iteration."""
    width = min(width, min(matrix.shape))
    if not width or not matrix.nnz:
        return np.zeros((matrix.shape[1], 0), np.float32)
    random = np.random.default_rng(seed)
    some = min(width + 20, matrix.shape[0])
    sketch = _orthonormal(matrix @ random.standard_normal((matrix.shape[1], some), dtype=np.float32))
    across = matrix.T.tocsr()
    for _ in range(rounds):
        sketch = _orthonormal(matrix @ _orthonormal(across @ sketch))
    small = np.asarray(across @ sketch, np.float64)  # (V, some)
    values, vectors = np.linalg.eigh(small.T @ small)
    leading = vectors[:, ::-1][:, :width] / np.sqrt(np.maximum(values[::-1][:width], 1e-12))
    return np.asarray(small @ leading, np.float32)


def _orthonormal(vectors: F32) -> F32:
    """An orthonormal basis of the columns of a tall matrix, by its small Gram matrix."""
    gram = vectors.T.astype(np.float64) @ vectors
    values, directions = np.linalg.eigh(gram)
    scale = 1 / np.sqrt(np.maximum(values, values[-1] * 1e-12 + 1e-300))
    return np.asarray(vectors @ (directions * scale).astype(np.float32), np.float32)


def _idf(frequency: I64, tables: int) -> F32:
    return (np.log((1 + tables) / (1 + frequency)) + 1).astype(np.float32)


def quantize_idf(idf: F32) -> F32:
    """IDF rounded to a sixteenth, so that a stored byte restores it exactly."""
    return np.asarray(np.minimum(np.rint(idf * 16), 255) / 16, np.float32)


def _restore_idf(stored: NDArray[np.uint8]) -> F32:
    return np.asarray(stored / 16, np.float32)


# --- sums and lengths --------------------------------------------------------------------------------


_LOGARITHMS = np.log(np.maximum(np.arange(256), 1)).astype(np.float32)  # of counts, which are bytes


def add_few(vectors: F32, lexicon: Lexicon, weights: F32, at: I64, starts: I64) -> None:
    """Set every column's blocks (C, WIDTH) to the weighted sums of the rows of its ids, in a loop."""
    borders = [begin for begin, _, _ in lexicon.kinds.values()] + [len(lexicon.ids)]
    for column, (begin, end) in enumerate(pairwise(starts.tolist())):
        # Ids are sorted, so those of a kind are together in every column.
        ends = pairwise((begin + np.searchsorted(at[begin:end], borders)).tolist())
        for (kind, (first, _, rows)), (low, high) in zip(lexicon.kinds.items(), ends, strict=True):
            if low < high:
                some = rows.take(at[low:high] - first, axis=0)
                vectors[column, BLOCKS[kind]] = np.einsum("n,nd->d", weights[low:high], some)


def add_many(vectors: F32, lexicon: Lexicon, weights: F32, at: I64, starts: I64) -> None:
    """The same for many columns, by one sparse product per kind."""
    import scipy.sparse as sp

    for kind, (first, last, rows) in lexicon.kinds.items():
        some = np.flatnonzero(lexicon.of_kind(kind, at))
        present = np.zeros(last - first, bool)
        present[at[some] - first] = True
        used = (np.cumsum(present) - 1)[at[some] - first]
        entries = weights[some], used, np.searchsorted(some, starts)
        matrix = sp.csr_matrix(entries, (len(vectors), int(present.sum())))
        vectors[:, BLOCKS[kind]] = matrix @ rows[np.flatnonzero(present)].astype(np.float32)


def _unit_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    import scipy.sparse as sp

    squares = np.asarray(matrix.multiply(matrix).sum(1), np.float64).ravel()
    scale = (1 / np.sqrt(np.maximum(squares, 1e-18))).astype(np.float32)
    return sp.csr_matrix(sp.diags(scale) @ matrix, dtype=np.float32)


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


def block_weights(vectors: F32) -> F32:
    """(kinds,) the weight of each kind: the squared length of its block, the same in all rows."""
    return np.array([(vectors[:4096, block] ** 2).sum(1).max() for block in BLOCKS.values()], np.float32)


def normalize(vectors: F32) -> F32:
    """Scale rows to length one, in place; zero rows stay."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    np.divide(vectors, length, out=vectors, where=length > 1e-9)
    return vectors


def profiles(profile: F32) -> F32:
    """(C, 64) random Fourier features of profiles, of length one."""
    frequencies, phases = _fourier()
    # Not by BLAS, which rounds a row differently by its position: see `blocks.products`.
    return normalize(np.cos(np.einsum("cp,pd->cd", profile, frequencies) + phases))


@lru_cache(maxsize=1)
def _fourier() -> tuple[F32, F32]:
    """Frequencies and phases for a Gaussian kernel on profiles; the seed is part of the format."""
    random = np.random.Generator(np.random.PCG64(20_180))
    uniform = random.random((3, PROFILE, WIDTHS["profile"]))
    gaussian = np.sqrt(-2 * np.log(1 - uniform[0])) * np.cos(2 * np.pi * uniform[1])  # Box-Muller
    phases = 2 * np.pi * uniform[2, 0]
    return (np.sqrt(2) * gaussian).astype(np.float32), phases.astype(np.float32)
