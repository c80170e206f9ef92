"""Residual codebooks: fitted to latents by k-means level by level, and the codes they give. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64, U8, half
from gentus.progress import Tick
from gentus.sparse import SparseRows

SAMPLE = 128  # tables per codeword in the fit; more change nothing
ENOUGH = 50  # tables needed to estimate the error of new ones
_BLOCK = 8192
_GRAM_LEVELS = 6  # levels whose codeword Gram matrices are kept: 256 KB per pair of levels


@dataclass(slots=True)
class Codebooks:
    """L residual codebooks of K codewords (the paper's C^1 .. C^L)."""

    codewords: F32  # (L, K, d)
    squares: F32 = field(init=False, repr=False)  # (L, K) their squared lengths
    _gram: list[list[F32]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the squared lengths, which every search needs."""
        self.squares = np.einsum("lkd,lkd->lk", self.codewords, self.codewords)

    @property
    def levels(self) -> int:
        """L."""
        return len(self.codewords)

    @property
    def size(self) -> int:
        """K."""
        return int(self.codewords.shape[1])

    @property
    def gram(self) -> list[list[F32]]:
        """Codeword Gram matrices: `gram[l][m]` (K, K) is of level m < l with level l; first levels only."""
        if self._gram is None:
            some = self.codewords[:_GRAM_LEVELS]
            self._gram = [[before @ book.T for before in some[:level]] for level, book in enumerate(some)]
        return self._gram

    def encode(self, latents: F32) -> U8:
        """(N, L) codes: at each level the codeword nearest to the residual of the levels before."""
        codes = np.empty((len(latents), self.levels), np.uint8)
        for begin in range(0, len(latents), _BLOCK):
            residual = latents[begin : begin + _BLOCK].copy()  # (n, d)
            for level, book in enumerate(self.codewords):
                nearest = np.argmin(self.squares[level] - 2 * residual @ book.T, axis=1)
                codes[begin : begin + _BLOCK, level] = nearest
                residual -= book[nearest]
        return codes

    def decode(self, codes: NDArray[np.integer]) -> F32:
        """(N, d) sums of the codewords of (N, l) codes, l <= L."""
        total = np.zeros((len(codes), self.codewords.shape[2]), np.float32)
        for code, book in zip(codes.T, self.codewords, strict=False):
            total += book.take(code, axis=0)
        return total

    def error(self, latents: F32, codes: U8) -> F32:
        """(N,) quantization errors: squared norms of the residuals after the last level."""
        residual = latents - self.decode(codes)
        return np.asarray(np.einsum("nd,nd->n", residual, residual), np.float32)


# --- residual k-means --------------------------------------------------------------------------------


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
        order, starts = np.argsort(nearest, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
        sums = SparseRows(ones, order, starts, len(points)) @ points
        centres = np.asarray(sums / np.maximum(counts, 1)[:, None], np.float32)
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
    smoothed: F32,
    shape: tuple[int, int],
    seed: int,
    smooth: Callable[[F32, F32], F32] | None = None,
) -> tuple[float, float] | None:
    """Quantization error of tables that the codebooks were not fitted to: the mean, and the 95th percentile.

    The error of tables in the fit is too low an estimate for new ones. So codebooks are fitted to nine tenths
    of the `smoothed` latents, and measured on the others; `smooth` gives these their smoothed latents, by
    those of the fit.
    """
    if len(latents) < ENOUGH:
        return None
    order = np.random.default_rng(seed).permutation(len(latents))
    left_out, fitted = order[: len(order) // 10], order[len(order) // 10 :]
    levels, size = shape
    books = learn_codebooks(smoothed[fitted], (levels, min(size, len(fitted))), 4, seed)
    new = latents[left_out] if smooth is None else smooth(latents[left_out], smoothed[fitted])
    errors = books.error(new, books.encode(new))
    return float(errors.mean()), float(np.quantile(errors, 0.95))


@dataclass(frozen=True, slots=True)
class CodebookStatistics:
    """How well identifiers use the code space."""

    used: list[float]  # (L,) share of the codewords in use
    perplexity: list[float]  # (L,) effective number of codewords in use
    collision_rate: float  # share of the tables that share their codes with another
    largest_bucket: int  # tables on the most crowded code
    error: float  # mean quantization error (latents have length one)


def codebook_statistics(codes: U8, size: int, distance: F32) -> CodebookStatistics:
    """Statistics of (N, L) codes with quantization errors `distance` (N,)."""
    used, perplexity = [], []
    for level in range(codes.shape[1]):
        share = np.bincount(codes[:, level], minlength=size) / max(len(codes), 1)
        some = share[share > 0]
        used.append(round(len(some) / size, 4))
        perplexity.append(round(float(np.exp(-(some * np.log(some)).sum())), 2))
    _, buckets = np.unique(codes, axis=0, return_counts=True)
    collided = int(buckets[buckets > 1].sum())
    return CodebookStatistics(
        used,
        perplexity,
        round(collided / max(len(codes), 1), 6),
        int(buckets.max(initial=0)),
        round(float(distance.mean()) if len(distance) else 0.0, 6),
    )
