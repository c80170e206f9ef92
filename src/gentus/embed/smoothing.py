"""Neighbour smoothing (database-side augmentation): a latent moves to the mean of its neighbours'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gentus.arrays import F32, half
from gentus.features.evidence import normalize

if TYPE_CHECKING:
    import scipy.sparse as sp


ANCHORS = 8192  # tables of the lake, at most, that new ones are smoothed with ...


NEAREST, POWER = 15, 4  # ... so many for each, counted by this power of their similarity


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
