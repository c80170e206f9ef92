"""The latent space of a lake without labels, in closed form: one eigenproblem instead of a training loop.

A table is a few blocks of length one: the evidence of all its cells (words, grams, tokens, profile, names),
the mean of its columns' vectors, and, as far as tables of the lake keep column positions, the mean of these
vectors with signs by position. Labels may say that positions count more, and the number of columns, too.
With X the (T, D) blocks, centred, and A the symmetric, normalised neighbour graph, the latent space has the
directions W that

    maximise  tr(W' X' A X W)   subject to   W' (X'X + ridge * I) W = I

(linear graph embedding, also called locality preserving projection), scaled by the roots of their
eigenvalues. It is deterministic, and a new table is encoded like those of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, F64, half
from gentus.embed.smoothing import smooth_new
from gentus.features.evidence import COUNTS, WIDTHS, Blocks, Evidence, normalize, products
from gentus.features.extract import Features
from gentus.settings import SpaceSettings
from gentus.sparse import SparseRows

if TYPE_CHECKING:
    from gentus.neighbours.graph import Neighbours


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The encoder without labels: tables in, unit latents out."""

    blocks: Blocks
    centre: F32  # (D,)
    projection: F32  # (D, latent)
    order: float = 0.0  # weight of column positions: how far the lake keeps them, or as labels say
    anchors: F32 | None = None  # (A, latent) smoothed latents of tables of the fit
    width: float = 0.0  # weight of the number of columns

    @property
    def evidence(self) -> Evidence:
        """Vocabularies and weights of evidence."""
        return self.blocks.evidence

    @property
    def name_trust(self) -> float | None:
        """How far names of columns count, 0 to 1; None where they are not read."""
        return self.blocks.name_trust if self.evidence.named else None

    def encode(self, features: Features) -> F32:
        """(T, latent) unit latents; a table without columns gets the zero vector."""
        return self.encode_raw(self.evidence.raw(features), features)

    def encode_raw(self, raw: F32, features: Features) -> F32:
        """The same, given the (C, WIDTH) evidence of their columns, which is scaled in place."""
        return self.latents(self.blocks.encode_raw(raw, features).vectors(self.order, self.width))

    def latents(self, vectors: F32) -> F32:
        """(T, latent) of tables with (T, D) vectors."""
        centred: F32 = vectors - self.centre
        for part in self.blocks.name_blocks():  # without names a table is at the mean, not far from all
            centred[~vectors[:, part].any(1), part] = 0
        centred[~vectors.any(1)] = 0
        return normalize(products(centred, self.projection, np.arange(len(centred) + 1)))

    def smooth(self, latents: F32) -> F32:
        """(T, latent) smoothed latents of new tables."""
        return latents if self.anchors is None else smooth_new(latents, self.anchors)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored of it."""
        anchors = {} if self.anchors is None else {"closed_form.anchors": self.anchors.astype(np.float16)}
        return {
            **self.evidence.arrays(),
            **anchors,
            "closed_form.basis": self.blocks.basis.astype(np.float16),
            "closed_form.trust": np.array([self.blocks.name_trust], np.float32),
            "closed_form.order": np.array([self.order], np.float32),
            "closed_form.width": np.array([self.width], np.float32),
            "closed_form.centre": self.centre,
            "closed_form.projection": self.projection.astype(np.float16),
        }

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]]) -> ClosedForm:
        """What `arrays` stored, its shapes checked."""
        basis = stored["closed_form.basis"].astype(np.float32)
        name_trust, order, counts = (
            round(float(stored[f"closed_form.{name}"][0]), 3) for name in ("trust", "order", "width")
        )
        blocks = Blocks(Evidence.restore(stored), basis, name_trust)
        centre, projection = stored["closed_form.centre"], stored["closed_form.projection"].astype(np.float32)
        width = blocks.width + basis.shape[1] * bool(order) + COUNTS * bool(counts)
        if len(basis) != sum(WIDTHS.values()) or centre.shape != (width,):
            raise ValueError("closed_form.basis and closed_form.centre do not fit each other")
        if len(projection) != width:
            raise ValueError("closed_form.projection does not fit closed_form.centre")
        anchors = stored.get("closed_form.anchors")
        if anchors is not None and anchors.shape[1:] != projection.shape[1:]:
            raise ValueError("closed_form.anchors do not fit closed_form.projection")
        anchors = None if anchors is None else anchors.astype(np.float32)
        return cls(blocks, centre, projection, order, anchors, width=counts)


def learn_space(
    blocks: Blocks, vectors: F32, graph: Neighbours | None, settings: SpaceSettings
) -> ClosedForm:
    """The latent space from (T, D) vectors of tables and their neighbours; without these, a rotation."""
    if graph is None:
        directions = np.linalg.svd(vectors, full_matrices=False)[2].T  # (D, T) keeps all similarities
        return ClosedForm(blocks, np.zeros(vectors.shape[1], np.float32), half(directions))
    centre = vectors.mean(0, dtype=np.float64).astype(np.float32)
    known, span = vectors - centre, None
    if len(known) < known.shape[1]:  # few tables: the problem in their span is smaller, and has all there is
        span, across = np.linalg.qr(known.T.astype(np.float64))  # (D, T), (T, T)
        known = across.T.astype(np.float32)
    near, spread = _moments(known, normalized_affinity(graph.weights))
    spread[np.diag_indices(len(spread))] += settings.ridge * max(np.trace(spread), 1e-9)
    count = min(settings.latent, len(spread))
    values, directions = _leading_directions(near, spread, count)
    projection = (directions if span is None else span @ directions) * np.sqrt(np.maximum(values, 1e-9))
    # Signs are arbitrary: the largest entry of every direction is made positive.
    largest = np.abs(projection).argmax(0)
    projection *= np.sign(projection[largest, np.arange(count)])
    return ClosedForm(
        blocks, centre, half(projection / np.abs(projection).max()), graph.order, width=graph.width
    )


def _leading_directions(near: F64, spread: F64, count: int) -> tuple[F64, F64]:
    """(count,) the largest eigenvalues of `near` by the metric `spread`, and (D, count) their vectors."""
    inverse = np.linalg.inv(np.linalg.cholesky(spread))
    reduced = inverse @ near @ inverse.T
    values, vectors = np.linalg.eigh((reduced + reduced.T) / 2)
    return values[::-1][:count], inverse.T @ vectors[:, ::-1][:, :count]


def _moments(centred: F32, affinity: SparseRows, block: int = 4096) -> tuple[F64, F64]:
    """(D, D) X'AX and X'X in double precision, by blocks of rows: X is large."""
    near, spread = np.zeros((2, centred.shape[1], centred.shape[1]))
    for begin in range(0, len(centred), block):
        some = centred[begin : begin + block].astype(np.float64)
        near += some.T @ (affinity.some(begin, begin + len(some)) @ centred)
        spread += some.T @ some
    return near, spread


def normalized_affinity(graph: SparseRows) -> SparseRows:
    """(T, T) symmetric affinity: rows of sum one, averaged with the transpose, over root degrees."""
    owners, columns = graph.owners(), graph.columns
    halves = graph.scaled(0.5 / np.maximum(graph.sums(), 1e-12)).values
    places = np.concatenate([owners, columns]), np.concatenate([columns, owners])
    both = SparseRows.of_entries(np.concatenate([halves, halves]), *places, (len(graph), graph.width))
    scale = 1 / np.sqrt(np.maximum(both.sums(), 1e-12))
    return replace(both, values=both.values * scale[both.owners()] * scale[both.columns])
