"""Neighbour smoothing (database-side augmentation): a latent moves towards the mean of its neighbours."""

from __future__ import annotations

import numpy as np

from gentus.arrays import F32, half
from gentus.features.evidence import normalize
from gentus.sparse import SparseRows

ANCHORS = 8192  # at most so many tables of the fit are kept to smooth new ones ...
NEAREST, POWER = 15, 4  # ... with the nearest of them, weighted by a power of their similarity


def smooth(latents: F32, neighbours: SparseRows, weight: float) -> F32:
    """(T, d) unit latents moved towards the mean of their k-reciprocal neighbours (T, T)."""
    return normalize(latents + weight * np.asarray(neighbours @ latents, np.float32))


def choose_anchors(smoothed: F32) -> F32:
    """(A, d) some of the smoothed latents of the fit, evenly spaced, as they are stored."""
    return half(smoothed[:: max(1, -(-len(smoothed) // ANCHORS))])


def smooth_by_fit(latents: F32, smoothed: F32) -> F32:
    """(T, d) smoothed latents of new tables, by those of the fit."""
    return smooth_new(latents, choose_anchors(smoothed))


def smooth_new(latents: F32, anchors: F32) -> F32:
    """(T, d) unit latents of new tables moved towards the mean of their nearest anchors (A, d).

    Reciprocal neighbours of a new table are not known; so each anchor is weighted by its similarity.
    """
    similarity = latents @ anchors.T  # (T, A)
    count = min(NEAREST, len(anchors))
    best = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    weights = np.maximum(np.take_along_axis(similarity, best, 1), 0) ** POWER / count
    return normalize(latents + np.einsum("tn,tnd->td", weights, anchors[best]))
