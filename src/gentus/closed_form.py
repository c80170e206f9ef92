"""The latent space of a lake without labels, in closed form: one eigenproblem instead of a training loop.

A table is a handful of blocks of length one: what its cells say over the whole table (words, grams, tokens,
profile, names), and the mean of its columns' vectors. With X the (T, D) blocks, centred, and A the symmetric,
normalised neighbour graph, the latent space has the directions W that

    maximise  tr(W' X' A X W)   subject to   W' (X'X + ridge * I) W = I

(linear graph embedding, also called locality preserving projection), scaled by the roots of their
eigenvalues. It is deterministic, and a new table is encoded like those it was learnt from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

# How much each block counts over the whole table, and in a column's vector. Names count as far as they agree
# with cells; see `Blocks.trust`.
TABLE = {"words": 0.3, "grams": 0.3, "tokens": 0.3, "profile": 0.1}
NAME_IN_TABLE, NAME_IN_COLUMN = 0.5, 0.2

ANCHORS = 8192  # tables of the lake, at most, that new ones are smoothed with ...
NEAREST, POWER = 15, 4  # ... so many for each, counted by this power of their similarity


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tables as blocks, and their columns as vectors."""

    blocks: F32  # (T, D)
    columns: F32  # (C, d)
    starts: I64  # (T + 1,) where each table's columns begin


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
        if not len(filled):
            return Encoded(blocks, np.zeros((0, self.basis.shape[1]), np.float32), starts)
        sums = unit_blocks(np.add.reduceat(raw, starts[filled]))
        columns = normalize(unit_blocks(raw) @ self.basis)
        parts = [weight * sums[:, BLOCKS[kind]] for kind, weight in self._weights().items()]
        parts.append(normalize(np.add.reduceat(columns, starts[filled])))
        blocks[filled] = np.concatenate(parts, axis=1)
        return Encoded(blocks, columns, starts)

    @property
    def width(self) -> int:
        """D."""
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
        return encoded.columns, self.latents(encoded.blocks)[0]

    def encode(self, features: Features) -> F32:
        """(T, latent) unit latents; a table without columns gets the zero vector."""
        return self.latents(self.maker.encode(features).blocks)

    def latents(self, blocks: F32) -> F32:
        """(T, latent) of tables by their blocks."""
        centred: F32 = blocks - self.centre
        for part in self.maker.name_blocks():  # a table without names is as usual, not unlike all others
            centred[~blocks[:, part].any(1), part] = 0
        centred[~blocks.any(1)] = 0
        return normalize(centred @ self.projection)

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
            "closed_form.centre": self.centre,
            "closed_form.projection": self.projection.astype(np.float16),
        }

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]]) -> ClosedForm:
        """What `arrays` stored, its shapes checked."""
        basis = stored["closed_form.basis"].astype(np.float32)
        trust = round(float(stored["closed_form.trust"][0]), 3)
        maker = Blocks(Evidence.restore(stored), basis, trust)
        centre, projection = stored["closed_form.centre"], stored["closed_form.projection"].astype(np.float32)
        if len(basis) != sum(WIDTHS.values()) or centre.shape != (maker.width,):
            raise ValueError("closed_form.basis and closed_form.centre do not fit each other")
        if len(projection) != maker.width:
            raise ValueError("closed_form.projection does not fit closed_form.centre")
        anchors = stored.get("closed_form.anchors")
        if anchors is not None and anchors.shape[1:] != projection.shape[1:]:
            raise ValueError("closed_form.anchors do not fit closed_form.projection")
        return cls(maker, centre, projection, None if anchors is None else anchors.astype(np.float32))


def learn_space(
    maker: Blocks, blocks: F32, graph: sp.csr_matrix | None, settings: SpaceSettings
) -> ClosedForm:
    """The latent space from (T, D) blocks and their neighbour graph. Without one, as they are."""
    if graph is None:
        directions = np.linalg.svd(blocks, full_matrices=False)[2].T  # (D, T) similarities stay as they are
        return ClosedForm(maker, np.zeros(blocks.shape[1], np.float32), half(directions))
    from scipy.linalg import eigh

    centre = blocks.mean(0, dtype=np.float64).astype(np.float32)
    centred = (blocks - centre).astype(np.float64)
    affinity = normalized_affinity(graph)
    near = centred.T @ (affinity @ centred)
    spread = centred.T @ centred
    spread[np.diag_indices(len(spread))] += settings.ridge * max(np.trace(spread) / len(spread), 1e-9)
    count, total = min(settings.latent, len(spread)), len(spread)
    with one_blas_thread():  # SciPy's own BLAS, which was perhaps loaded just now
        values, vectors = eigh((near + near.T) / 2, spread, subset_by_index=[total - count, total - 1])
    projection = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 1e-9))
    # Signs are free: the largest number of every direction is positive, whatever the library did.
    largest = np.abs(projection).argmax(0)
    projection *= np.sign(projection[largest, np.arange(count)])
    return ClosedForm(maker, centre, half(projection / np.abs(projection).max()))


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
