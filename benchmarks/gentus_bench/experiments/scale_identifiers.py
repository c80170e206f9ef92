"""Made-up identifiers, as many as are wanted, as unevenly spread as those of a real lake.

A made-up table is a real one moved a little, the way its neighbours differ from each other; the index's own
codebooks then write its identifier. How far it is moved is fitted: a made-up lake as large as the real one
is to have as many different beginnings of identifiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gentus.arrays import F32, I64, U8
from gentus.features.evidence import normalize
from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval.trie import Tree
from gentus.table import evenly_spaced

NEIGHBOURS = 8  # whose differences a table is moved by
MOST_TABLES = 40_000  # of the real lake: finding neighbours compares all with all
CHUNK = 8192  # tables made at once; each chunk has its own seed, so that a small lake begins a large one
MOVES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)  # tried, in units of how far neighbours lie apart
FITTED_TO = 4  # codes of the beginnings that are counted
SHOWN = (1, 2, 3, 4, 6)  # lengths of prefixes that are counted
_TABLES, _QUERIES, _TRIAL = range(3)  # what is drawn


@dataclass(frozen=True, slots=True)
class LakeModel:
    """Real tables, their neighbours, and how far made-up tables lie from them."""

    codebooks: Codebooks
    latents: F32  # (n, d) of real tables, as their identifiers have them
    near: I64  # (n, NEIGHBOURS)
    move: float
    seed: int

    def tables(self, count: int) -> Iterator[U8]:
        """(count, L) codes of made-up tables, chunk by chunk."""
        for chunk, begin in enumerate(range(0, count, CHUNK)):
            some = self._draw(_TABLES, chunk, CHUNK)[: count - begin]
            yield self.codebooks.encode(some)

    def queries(self, count: int) -> F32:
        """(count, d) latents of other tables of the same lake, which have no identifier."""
        return self._draw(_QUERIES, 0, count)

    def trial(self) -> U8:
        """(n, L) codes of a lake as large as the real one, to compare the two."""
        return self.codebooks.encode(self._draw(_TRIAL, 0, len(self.latents)))

    def _draw(self, kind: int, chunk: int, count: int) -> F32:
        chance = np.random.default_rng((self.seed, kind, chunk))
        drawn = []
        for begin in range(0, count, CHUNK):  # a bound on memory
            chosen = chance.integers(len(self.latents), size=min(CHUNK, count - begin))
            around = self.latents[self.near[chosen]]  # (m, NEIGHBOURS, d)
            around -= around.mean(1, keepdims=True)
            # Normal weights give the neighbours' own covariance; copies of one table stay copies.
            weights = chance.standard_normal((len(chosen), NEIGHBOURS), np.float32)
            weights *= self.move / np.sqrt(NEIGHBOURS - 1)
            drawn.append(self.latents[chosen] + np.einsum("mn,mnd->md", weights, around))
        return normalize(np.concatenate(drawn))


def fit_model(tree: Tree, codebooks: Codebooks, seed: int = 0) -> LakeModel:
    """The model of a real lake, given by its tree."""
    if len(tree) <= NEIGHBOURS:
        raise ValueError(f"the index has {len(tree)} tables; a lake is made up from more than {NEIGHBOURS}")
    codes = real_codes(tree)
    latents = codebooks.decode(codes)
    near = _neighbours(latents)
    models = [LakeModel(codebooks, latents, near, move, seed) for move in MOVES]
    wanted = _beginnings(codes)
    return min(models, key=lambda model: abs(_beginnings(model.trial()) - wanted))


def real_codes(tree: Tree) -> U8:
    """(n, L) codes of the lake's tables; of a large lake some, spread over all."""
    _, rows = tree.descendants(np.array([tree.root]), np.array([len(tree)]))
    return tree.codes_of(rows[evenly_spaced(len(rows), MOST_TABLES)]).astype(np.uint8, copy=False)


def _neighbours(latents: F32) -> I64:
    """(n, NEIGHBOURS) the nearest other tables of each."""
    squares = np.einsum("nd,nd->n", latents, latents)
    near = np.empty((len(latents), NEIGHBOURS), np.int64)
    for begin in range(0, len(latents), 1024):
        block = latents[begin : begin + 1024]
        distance = squares - 2 * block @ latents.T
        own = np.arange(len(block))
        distance[own, begin + own] = np.inf
        near[begin : begin + 1024] = np.argpartition(distance, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
    return near


def _beginnings(codes: U8) -> int:
    head = np.ascontiguousarray(codes[:, :FITTED_TO])
    return len(np.unique(head.view(f"V{head.shape[1]}")))


def skew(codes: U8, size: int) -> dict[str, Any]:
    """How unevenly identifiers use their code space of `size` codes per level. Sorts a copy of them."""
    count, levels = codes.shape
    codes = codes[np.lexsort(codes.T[::-1])]
    parts = parting(codes)
    prefixes, largest = {}, {}
    for length in (length for length in SHOWN if length <= levels):
        starts = np.flatnonzero(parts < length)
        prefixes[str(length)] = len(starts)
        largest[str(length)] = int(np.diff(starts, append=count).max())
    starts = np.flatnonzero(parts < levels)
    buckets = np.diff(starts, append=count)
    # A table is alone behind the first code that neither the row before nor the one after it shares.
    alone = np.minimum(np.maximum(parts, np.append(parts[1:], -1)) + 1, levels)
    return {
        "tables": count,
        "perplexity": [_perplexity(codes[:, level], size) for level in range(levels)],
        "prefixes": prefixes,
        "largest": largest,
        "collisions": float(buckets[buckets > 1].sum() / count),
        "most_alike": int(buckets.max()),
        "codes_until_alone": float(alone.mean()),
    }


def parting(codes: U8) -> I64:
    """(n,) the level at which each row of sorted codes parts from the one before; L where they are equal."""
    count, levels = codes.shape
    parts = np.full(count, levels, np.int64)
    parts[:1] = -1  # the first row begins every prefix
    for level in reversed(range(levels)):  # by column: no (n, L) array of truths
        parts[1:][codes[1:, level] != codes[:-1, level]] = level
    return parts


def _perplexity(codes: U8, size: int) -> float:
    share = np.bincount(codes, minlength=size) / len(codes)
    share = share[share > 0]
    return round(float(np.exp(-(share * np.log(share)).sum())), 2)
