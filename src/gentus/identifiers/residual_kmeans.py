"""Residual k-means: codebooks fitted level by level to the residuals of the levels before. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp

from gentus.arrays import F32, I64, half
from gentus.identifiers.codebooks import Codebooks
from gentus.progress import Tick

SAMPLE = 128  # tables per codeword in the fit; more change nothing
ENOUGH = 50  # tables needed to estimate the error of new ones


def learn_codebooks(
    latents: F32, shape: tuple[int, int], rounds: int, seed: int, tick: Tick = lambda n: None
) -> Codebooks:
    """Codebooks of (levels, size) for latents, rounded as they will be stored."""
    levels, size = shape
    random = np.random.default_rng(seed)
    if len(latents) > SAMPLE * size:
        latents = latents[np.sort(random.choice(len(latents), SAMPLE * size, replace=False))]
    books = residual_kmeans(latents, [None] * levels, size, rounds, tick)
    return Codebooks(half(books))


def residual_kmeans(
    latents: F32, books: Iterable[F32 | None], size: int, rounds: int, tick: Tick = lambda n: None
) -> F32:
    """(L, K, d) codebooks; a level starts from its entry in `books`, or from some of the residuals."""
    residual = latents.copy()
    fitted = []
    for book in books:
        start = residual[:: max(len(residual) // size, 1)][:size] if book is None else book
        centres = kmeans(residual, start, rounds)
        residual -= centres[assign(residual, centres)[0]]
        fitted.append(centres)
        tick(1)
    return np.stack(fitted)


def kmeans(points: F32, centres: F32, rounds: int) -> F32:
    """(K, d) centres after some rounds; a dead centre is reset to the point farthest from its own."""
    centres = centres.copy()
    for _ in range(rounds):
        nearest, distance = assign(points, centres)
        counts = np.bincount(nearest, minlength=len(centres))
        ones = np.ones(len(points), np.float32)
        member = sp.csr_matrix((ones, (nearest, np.arange(len(points)))), (len(centres), len(points)))
        centres = np.asarray(member @ points / np.maximum(counts, 1)[:, None], np.float32)
        dead = np.flatnonzero(counts == 0)
        if len(dead):
            farthest = np.argsort(-distance, kind="stable")[: len(dead)]
            centres[dead[: len(farthest)]] = points[farthest]
    return centres


def assign(points: F32, centres: F32) -> tuple[I64, F32]:
    """(N,) the nearest centre of every point, and (N,) the squared distance to it."""
    squared = (centres**2).sum(1) - 2 * points @ centres.T
    nearest = squared.argmin(1)
    least = squared[np.arange(len(points)), nearest] + np.einsum("nd,nd->n", points, points)
    return nearest, least


def held_out_error(
    latents: F32,
    placed: F32,
    shape: tuple[int, int],
    seed: int,
    place: Callable[[F32, F32], F32] | None = None,
) -> tuple[float, float] | None:
    """Quantization error of tables that the codebooks were not fitted to: the mean, and the 95th percentile.

    The error of tables in the fit is too low an estimate for new ones. So codebooks are fitted to nine tenths
    of the tables, where smoothing `placed` them, and measured on the others; `place` smooths these, from
    their latents and those of the fit.
    """
    if len(latents) < ENOUGH:
        return None
    order = np.random.default_rng(seed).permutation(len(latents))
    left_out, fitted = order[: len(order) // 10], order[len(order) // 10 :]
    levels, size = shape
    books = learn_codebooks(placed[fitted], (levels, min(size, len(fitted))), 4, seed)
    new = latents[left_out] if place is None else place(latents[left_out], placed[fitted])
    errors = books.error(new, books.encode(new))
    return float(errors.mean()), float(np.quantile(errors, 0.95))
