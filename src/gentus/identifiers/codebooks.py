"""Residual codebooks, the codes they give to latents, and suffixes where codes collide. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, U8

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


def assign_suffixes(codes: U8, distance: F32) -> NDArray[np.int32]:
    """(N,) suffix of every table: 0 where no other table has its codes, else 1, 2, .. within the group.

    Suffixes follow the quantization error (N,): the table nearest to the sum of its codewords comes first.
    """
    order = np.lexsort((np.arange(len(codes)), distance, *codes.T[::-1]))
    ordered = codes[order]
    new = np.ones(len(codes), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(1)
    group = np.cumsum(new) - 1
    size = np.bincount(group, minlength=1)
    rank = np.arange(len(codes)) - np.flatnonzero(new)[group] if len(codes) else np.zeros(0, np.int64)
    suffixes = np.zeros(len(codes), np.int32)
    suffixes[order] = np.where(size[group] > 1, rank + 1, 0)
    return suffixes


def format_sid(codes: U8, suffix: int) -> str:
    """An identifier as text: `17-203-4-91`, with `+2` where it has a suffix."""
    return format_sids(codes[None], np.array([suffix]))[0]


def format_sids(codes: NDArray[np.unsignedinteger[Any]], suffixes: NDArray[np.integer[Any]]) -> list[str]:
    """The same for (N, L) codes; one `str` of all codes is faster than one per identifier."""
    texts = str(codes.tolist())[2:-2].replace(", ", "-").split("]-[") if len(codes) else []
    return [
        f"{sid}+{suffix}" if suffix else sid for sid, suffix in zip(texts, suffixes.tolist(), strict=True)
    ]


def short_sid(sid: str, shown: int = 6) -> str:
    """The first codes of an identifier, which say most about a table; `--json` has all of them."""
    codes = sid.split("-")
    return sid if len(codes) <= shown else "-".join(codes[:shown]) + "-…"


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
