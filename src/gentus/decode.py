"""Decoding: beam search over the prefix tree by residual distance. NumPy only.

Writing a code leaves a residual; the squared length of what is left at the end is the distance between
the query and the table, because the levels telescope. A beam is therefore ordered by what is left so far.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.codes import Codebooks
from gentus.evidence import F32, normalize
from gentus.trie import I64, Tree

FIRST = 2  # tables that a query is drawn towards
NEAR = 20  # tables that one leans towards which comes later ...
SHARPLY = 0.05  # ... those most that are nearest: a temperature of cosines
AT_ONCE = 4  # so many rows a beam are not worth going down to code by code ...
ROUGHLY = 4  # ... and after so many more codes it shows which of them the beam would hold


class Decoder:
    """Codebooks and tree, ready to answer."""

    def __init__(self, trie: Tree, codebooks: Codebooks) -> None:
        self.trie, self.codebooks = trie, codebooks

    def search(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of the nearest identifiers and their squared distances, nearest first."""
        rows, rest = self._find(latent, beam)
        return _in_order(rows, _squared(rest))

    def search_drawn(
        self, latent: F32, beam: int, weight: float, itself: Collection[int] = ()
    ) -> tuple[I64, F32]:
        """The same, ordered for the latent drawn towards the first tables: what they share, the query meant.

        Tables that are the query `itself` say nothing new; nothing is drawn towards them.
        """
        rows, rest = self._find(latent, beam)
        distance = _squared(rest)
        near = np.lexsort((rows, distance))[: FIRST + len(itself)]
        first = near[~np.isin(self.trie.table(rows[near]), list(itself))][:FIRST]
        if not weight or not len(first):
            return _in_order(rows, distance)
        towards = latent + weight * (latent - rest[first].mean(0))
        return _in_order(rows, _squared(rest + (towards / np.linalg.norm(towards) - latent)))

    def leaning(self, latents: F32, weight: float, last: int | None = None) -> F32:
        """(n, d) unit latents drawn towards the tables near them, as tables lean that no teacher has seen.

        Those that it has seen lean towards its neighbours; upright beside them, a table would be found less.
        Only tables up to the number `last` draw others: leaning on those that lean already leads astray.
        """
        if not weight or not len(self.trie):
            return latents
        drawn = latents.copy()
        for own, latent in zip(drawn, latents, strict=True):
            rows, rest = self._find(latent, 4 * NEAR)
            if last is not None:
                rest = rest[self.trie.table(rows) <= last]
            if not len(rest):
                continue
            distance = _squared(rest)
            nearest = np.argsort(distance, kind="stable")[:NEAR]
            share = np.exp((distance[nearest[0]] - distance[nearest]) / (2 * SHARPLY))
            own += weight * (latent - share / share.sum() @ rest[nearest])
        return normalize(drawn)

    def _find(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of identifiers near the latent, and the (n, d) rest that each leaves of it."""
        trie, words = self.trie, self.codebooks.words
        rest = latent[None]  # (B, d) what the codes written so far leave over
        if not len(trie):
            return np.zeros(0, np.int64), rest[:0]
        nodes, counts = np.array([trie.root]), np.array([len(trie)])  # (B,) and the rows below each
        left = _squared(rest)  # (B,)
        written = 0
        while written < len(words) and counts.sum() > AT_ONCE * beam:
            parent, nodes = trie.expand(nodes)
            counts = trie.split(parent, nodes, counts)
            code = trie.code(trie.row(nodes), written)
            left = left[parent] - 2 * _products(rest, parent, words[written], code)
            left += self.codebooks.squares[written, code]
            if len(nodes) > beam:
                best = np.argpartition(left, beam)[:beam]
                parent, nodes, counts = parent[best], nodes[best], counts[best]
                code, left = code[best], left[best]
            rest = rest[parent] - words[written][code]
            written += 1
        parent, rows = trie.below(nodes, counts)  # few are left: no choice any more, so no beam
        rest = rest[parent]
        codes = trie.written(rows).astype(np.int64)  # (n, L)
        for level in range(written, len(words)):
            if level == written + ROUGHLY and len(rows) > beam:
                best = np.argpartition(_squared(rest), beam)[:beam]
                rows, rest, codes = rows[best], rest[best], codes[best]
            rest -= words[level].take(codes[:, level], axis=0)
        return rows, rest


def _in_order(rows: I64, distance: F32) -> tuple[I64, F32]:
    """Nearest first; of equals the lower row."""
    order = np.lexsort((rows, distance))
    return rows[order], distance[order]


def _squared(vectors: F32) -> F32:
    """(n,) squared lengths."""
    lengths: F32 = np.einsum("nd,nd->n", vectors, vectors)
    return lengths


def _products(rest: F32, parent: I64, book: F32, codes: NDArray[np.integer[Any]]) -> F32:
    """(n,) rest[parent] · book[codes]: all pairs where many are asked for, else those only."""
    if 8 * len(parent) > len(rest) * len(book):
        products: F32 = (rest @ book.T)[parent, codes]
        return products
    return pair_products(rest, parent, book, codes)


def pair_products(rest: F32, parent: I64, book: F32, codes: NDArray[np.integer[Any]]) -> F32:
    """(n,) rest[parent] · book[codes], of the pairs asked for only.

    A product of whole matrices wakes BLAS threads, and on busy cores waits for them many times as long.
    """
    products: F32 = np.einsum("nd,nd->n", rest[parent], book[codes])
    return products
