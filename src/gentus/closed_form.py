"""The latent space of a lake without labels, in closed form: one eigenproblem instead of a training loop.

A table is a handful of blocks of length one: what its cells say over the whole table (words, grams, tokens,
profile, names), the mean of its columns' vectors, and, as far as tables of the lake have their columns in the
same order, the mean of these vectors with signs by position. With X the (T, D) blocks, centred, and A the
symmetric, normalised neighbour graph, the latent space has the directions W that

    maximise  tr(W' X' A X W)   subject to   W' (X'X + ridge * I) W = I

(linear graph embedding, also called locality preserving projection), scaled by the roots of their
eigenvalues. It is deterministic, and a new table is encoded like those it was learnt from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gentus.evidence import BLOCKS, F32, I64, NAMES, WIDTHS, Evidence, normalize, unit_blocks
from gentus.features import Features, featurize
from gentus.settings import SpaceSettings
from gentus.table import Table
from gentus.threads import one_blas_thread

if TYPE_CHECKING:
    import scipy.sparse as sp

    from gentus.neighbours import Neighbours

F64 = NDArray[np.float64]

# How much each block counts over the whole table, and in a column's vector. Names count as far as they agree
# with cells; see `Blocks.trust`.
TABLE = {"words": 0.3, "grams": 0.3, "tokens": 0.3, "profile": 0.1}
NAME_IN_TABLE, NAME_IN_COLUMN = 0.5, 0.2
POSITIONS = 96  # that are distinguished, from the left
ANCHORS = 8192  # tables of the lake, at most, that new ones are smoothed with ...
NEAREST, POWER = 15, 4  # ... so many for each, counted by this power of their similarity


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tables as blocks, and their columns as vectors."""

    blocks: F32  # (T, B) what tables say, whatever the order of their columns
    ordered: F32  # (T, d) their columns by position
    columns: F32  # (C, d)
    starts: I64  # (T + 1,) where each table's columns begin

    def vectors(self, order: float) -> F32:
        """(T, D) blocks, and the ordered columns with the weight that `order` has in the lake."""
        return np.concatenate([self.blocks, order**0.5 * self.ordered], axis=1) if order else self.blocks


@dataclass(frozen=True, slots=True)
class Blocks:
    """Features in, blocks of tables and vectors of columns out."""

    evidence: Evidence
    basis: F32  # (WIDTH, d) from a column's evidence to its vector
    trust: float = 0.0  # how far names agree with cells, 0 to 1

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
        position = np.minimum(features.places[:, 0], POSITIONS - 1)
        signed = columns * position_signs(self.basis.shape[1])[position]
        ordered[filled] = normalize(np.add.reduceat(signed, starts[filled]))
        return Encoded(blocks, ordered, columns, starts)

    @property
    def width(self) -> int:
        """B."""
        return sum(WIDTHS[kind] for kind in self._weights()) + int(self.basis.shape[1])

    def name_blocks(self) -> list[slice]:
        """Where in a table's blocks those of names are."""
        places, end = [], 0
        for kind in self._weights():
            part = slice(end, end := end + WIDTHS[kind])
            if kind in NAMES:
                places.append(part)
        return places

    def _weights(self) -> dict[str, float]:
        """Roots of the weights of a table's blocks, which sum to one."""
        weights = dict(TABLE)
        if self.trust:
            weights |= dict.fromkeys(NAMES, NAME_IN_TABLE * self.trust)
        total = sum(weights.values())
        return {kind: (weight / total) ** 0.5 for kind, weight in weights.items()}


def products(rows: F32, matrix: F32, starts: I64) -> F32:
    """`rows @ matrix`, table by table.

    In a product of many tables BLAS rounds a row by where it stands; but a table must have the same vectors
    alone, among others and in two copies.
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
    """How columns and tables become vectors, learnt from a sample of tables."""
    raw = evidence.raw(features)
    trust = agreement(raw, features) if evidence.named else 0.0
    some = unit_blocks(raw[:: max(1, -(-len(raw) // most))].copy())
    scale = _column_scale(trust)
    some *= scale
    values, vectors = np.linalg.eigh(some.T.astype(np.float64) @ some / max(len(some), 1))
    width = min(settings.columns, len(values))
    values = np.maximum(values[::-1][:width], max(values[-1], 1e-12) * 1e-9)
    whitened = vectors[:, ::-1][:, :width] * (values / values[0]) ** (-settings.whitening / 2)
    return Blocks(evidence, half(whitened * scale[:, None]), trust)


def _column_scale(trust: float) -> F32:
    """(WIDTH,) the root of the weight of every kind in a column's vector."""
    scale = np.empty(sum(WIDTHS.values()), np.float32)
    for kind, block in BLOCKS.items():
        scale[block] = (NAME_IN_COLUMN * trust if kind in NAMES else 0.2) ** 0.5
    return scale


def agreement(raw: F32, features: Features, tables: int = 2000, anchors: int = 400) -> float:
    """How far names may be trusted, 0 to 1, judged from the lake alone.

    Names that mean something agree with the words in cells: over a table's likeliest partners, similarity of
    names and of words rise and fall together, at least as much as similarity of tokens and of words do.
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


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The encoder without labels: tables in, unit latents out."""

    maker: Blocks
    centre: F32  # (D,)
    projection: F32  # (D, latent)
    order: float = 0.0  # how far columns keep their positions, 0 to 1
    anchors: F32 | None = None  # (A, latent) where tables that it was learnt from are placed
    states: None = None  # no language model reads columns

    @property
    def evidence(self) -> Evidence:
        """What it knows of words and the like."""
        return self.maker.evidence

    @property
    def name_trust(self) -> float | None:
        """How far names of columns count, 0 to 1; None where they are not looked at."""
        return self.maker.trust if self.evidence.named else None

    def read(self, table: Table) -> tuple[F32, F32]:
        """The (C, d) columns of a table as vectors, and its latent (latent,)."""
        encoded = self.maker.encode(featurize(table))
        return encoded.columns, self.latents(encoded.vectors(self.order))[0]

    def encode(self, features: Features) -> F32:
        """(T, latent) unit latents; a table without columns gets the zero vector."""
        return self.latents(self.maker.encode(features).vectors(self.order))

    def latents(self, vectors: F32) -> F32:
        """(T, latent) of tables with (T, D) vectors."""
        centred: F32 = vectors - self.centre
        for part in self.maker.name_blocks():  # a table without names is as usual, not unlike all others
            centred[~vectors[:, part].any(1), part] = 0
        centred[~vectors.any(1)] = 0
        return normalize(products(centred, self.projection, np.arange(len(centred) + 1)))

    def place(self, latents: F32) -> F32:
        """(T, latent) where tables that come later are placed by their latents."""
        return latents if self.anchors is None else smooth_new(latents, self.anchors)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored of it."""
        anchors = {} if self.anchors is None else {"closed_form.anchors": self.anchors.astype(np.float16)}
        return {
            **self.evidence.arrays(),
            **anchors,
            "closed_form.basis": self.maker.basis.astype(np.float16),
            "closed_form.trust": np.array([self.maker.trust], np.float32),
            "closed_form.order": np.array([self.order], np.float32),
            "closed_form.centre": self.centre,
            "closed_form.projection": self.projection.astype(np.float16),
        }

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]]) -> ClosedForm:
        """What `arrays` stored, its shapes checked."""
        basis = stored["closed_form.basis"].astype(np.float32)
        trust, order = (round(float(stored[f"closed_form.{name}"][0]), 3) for name in ("trust", "order"))
        maker = Blocks(Evidence.restore(stored), basis, trust)
        centre, projection = stored["closed_form.centre"], stored["closed_form.projection"].astype(np.float32)
        width = maker.width + basis.shape[1] * bool(order)
        if len(basis) != sum(WIDTHS.values()) or centre.shape != (width,):
            raise ValueError("closed_form.basis and closed_form.centre do not fit each other")
        if len(projection) != width:
            raise ValueError("closed_form.projection does not fit closed_form.centre")
        anchors = stored.get("closed_form.anchors")
        if anchors is not None and anchors.shape[1:] != projection.shape[1:]:
            raise ValueError("closed_form.anchors do not fit closed_form.projection")
        return cls(maker, centre, projection, order, None if anchors is None else anchors.astype(np.float32))


def learn_space(maker: Blocks, vectors: F32, graph: Neighbours | None, settings: SpaceSettings) -> ClosedForm:
    """The latent space from (T, D) vectors of tables and their neighbours. Without these, as they are."""
    if graph is None:
        directions = np.linalg.svd(vectors, full_matrices=False)[2].T  # (D, T) similarities stay as they are
        return ClosedForm(maker, np.zeros(vectors.shape[1], np.float32), half(directions))
    from scipy.linalg import eigh

    centre = vectors.mean(0, dtype=np.float64).astype(np.float32)
    near, spread = _moments(vectors - centre, normalized_affinity(graph.weights))
    spread[np.diag_indices(len(spread))] += settings.ridge * max(np.trace(spread), 1e-9)
    count, total = min(settings.latent, len(spread)), len(spread)
    with one_blas_thread():  # SciPy's own BLAS, which was perhaps loaded just now
        values, directions = eigh((near + near.T) / 2, spread, subset_by_index=[total - count, total - 1])
    projection = directions[:, ::-1] * np.sqrt(np.maximum(values[::-1], 1e-9))
    # Signs are free: the largest number of every direction is positive, whatever the library did.
    largest = np.abs(projection).argmax(0)
    projection *= np.sign(projection[largest, np.arange(count)])
    return ClosedForm(maker, centre, half(projection / np.abs(projection).max()), graph.order)


def _moments(centred: F32, affinity: sp.csr_matrix, block: int = 4096) -> tuple[F64, F64]:
    """(D, D) X'AX and X'X in double precision, some rows at a time: X is large."""
    near, spread = np.zeros((2, centred.shape[1], centred.shape[1]))
    for begin in range(0, len(centred), block):
        some = centred[begin : begin + block].astype(np.float64)
        near += some.T @ (affinity[begin : begin + block] @ centred)
        spread += some.T @ some
    return near, spread


def normalized_affinity(graph: sp.csr_matrix) -> sp.csr_matrix:
    """(T, T) symmetric affinities: rows of sum one, averaged both ways, over root degrees."""
    import scipy.sparse as sp

    rows = sp.diags(1 / np.maximum(np.asarray(graph.sum(1), np.float64).ravel(), 1e-12)) @ graph
    both = (rows + rows.T) / 2
    scale = sp.diags(1 / np.sqrt(np.maximum(np.asarray(both.sum(1)).ravel(), 1e-12)))
    return sp.csr_matrix(scale @ both @ scale)


def smooth(latents: F32, neighbours: sp.csr_matrix, weight: float) -> F32:
    """(T, d) unit latents moved to the mean of their mutual neighbours (database-side augmentation)."""
    return normalize(latents + weight * np.asarray(neighbours @ latents, np.float32))


def choose_anchors(placed: F32) -> F32:
    """(A, d) of the tables a space was learnt from, some that new tables are smoothed with."""
    return half(placed[:: max(1, -(-len(placed) // ANCHORS))])


def place_new(latents: F32, placed: F32) -> F32:
    """(T, d) where new tables go, by their latents and where those of the lake are."""
    return smooth_new(latents, choose_anchors(placed))


def smooth_new(latents: F32, anchors: F32) -> F32:
    """(T, d) unit latents of new tables moved to the mean of their nearest anchors.

    Which neighbours are mutual is not known of a new table; so each counts by how similar it is.
    """
    similarity = latents @ anchors.T  # (T, A)
    count = min(NEAREST, len(anchors))
    best = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    weights = np.maximum(np.take_along_axis(similarity, best, 1), 0) ** POWER / count
    return normalize(latents + np.einsum("tn,tnd->td", weights, anchors[best]))


def half(values: NDArray[np.floating[Any]]) -> F32:
    """Values as half precision stores them."""
    return values.astype(np.float16).astype(np.float32)
