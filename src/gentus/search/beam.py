"""Decoding: beam search over the prefix tree by residual distance. NumPy only.

Writing a code leaves a residual; the squared length of what is left at the end is the distance between
the query and the table, because the levels telescope. A beam is therefore ordered by what is left so far.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.identifiers.codebooks import Codebooks
from gentus.search.trie import Tree

FIRST = 2  # tables that a query takes feedback from
AT_ONCE = 16  # so many rows a beam are not worth going down to node by node ...
ROUGHLY = 4  # ... and after so many more codes it shows which of them the beam would hold


class _Entrance(NamedTuple):
    """All M nodes behind the first two codes. Every search begins here, so what it needs is kept."""

    pairs: I64  # (M,) first code * K + second code
    nodes: I64  # (M,)
    counts: I64  # (M,) rows below each
    squares: F32  # (M,) squared lengths of the sums of the two codewords


class Decoder:
    """Codebooks and tree, ready to answer."""

    def __init__(self, trie: Tree, codebooks: Codebooks) -> None:
        self.trie, self.codebooks = trie, codebooks
        self._entrance: _Entrance | None = None

    def search(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of the nearest identifiers and their squared distances, nearest first."""
        rows, rest = self._find(latent, beam)
        return _in_order(rows, _squared(rest))

    def search_with_feedback(
        self, latent: F32, beam: int, weight: float, self_ids: Collection[int] = ()
    ) -> tuple[I64, F32]:
        """The same with pseudo-relevance feedback: ordered for the latent moved to the first tables.

        Tables that are the query itself (`self_ids`) say nothing new and are left out of the feedback.
        """
        rows, rest = self._find(latent, beam)
        distance = _squared(rest)
        near = np.lexsort((rows, distance))[: FIRST + len(self_ids)]
        owners = self.trie.table(rows[near]).tolist()
        first = [at for at, own in zip(near.tolist(), owners, strict=True) if own not in self_ids][:FIRST]
        if not weight or not first:
            return _in_order(rows, distance)
        moved = latent + weight * (latent - rest[first].mean(0))
        return _in_order(rows, _squared(rest + (moved / np.linalg.norm(moved) - latent)))

    def _find(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of identifiers near the latent, and the (n, d) rest that each leaves of it."""
        trie, levels = self.trie, self.codebooks.levels
        if not len(trie):
            return np.zeros(0, np.int64), np.zeros((0, len(latent)), np.float32)
        nodes, counts, said, left = self._enter(latent, beam)
        level = said.shape[1]
        while level < levels and counts.sum() > AT_ONCE * beam:
            parent, nodes, counts, code = trie.expand(nodes, counts, level)
            left = self._left(latent, left, said, parent, code)
            if len(nodes) > beam:
                best = _least(left, beam)
                parent, nodes, counts = parent[best], nodes[best], counts[best]
                code, left = code[best], left[best]
            said = np.concatenate([said[parent], code[:, None]], axis=1)
            level += 1
        parent, rows = trie.descendants(nodes, counts)  # few are left: no choice any more, so no beam
        codes = trie.codes_of(rows)  # (n, L)
        left = left[parent]
        for ahead in range(level, min(level + ROUGHLY, levels)):
            if len(rows) <= beam:
                break
            said = codes[:, : ahead + 1].astype(np.int64)
            left = self._left(latent, left, said[:, :-1], np.arange(len(rows)), said[:, -1])
            best = _least(left, max(beam, len(rows) // 2) if ahead < level + ROUGHLY - 1 else beam)
            rows, codes, left = rows[best], codes[best], left[best]
        return rows, latent - self.codebooks.decode(codes)

    def _enter(self, latent: F32, beam: int) -> tuple[I64, I64, I64, F32]:
        """The best nodes behind two codes: (B,) nodes, rows below, (B, 2) the codes, (B,) what is left."""
        words, squared = self.codebooks.codewords, latent @ latent
        if len(words) < 2:
            root, count = np.array([self.trie.root]), np.array([len(self.trie)])
            return root, count, np.zeros((1, 0), np.int64), np.array([squared])
        if self._entrance is None:
            self._entrance = _entrance(self.trie, self.codebooks)
        pairs, nodes, counts, squares = self._entrance
        first, second = words[:2] @ latent  # (K,) each
        left = squared + squares - 2 * (first[:, None] + second).ravel().take(pairs)
        best = _least(left, beam)
        return nodes[best], counts[best], np.stack(np.divmod(pairs[best], len(first)), axis=1), left[best]

    def _left(self, latent: F32, left: F32, said: I64, parent: I64, code: I64) -> F32:
        """(n,) the squared length of what one more code each leaves, behind those `said` (B, l) before it.

        Products with a rest are products with the latent, less those with codewords: the latter are known.
        """
        books, level = self.codebooks, said.shape[1]
        book, squares = books.codewords[level], books.squares[level]
        if level >= len(books.crossed):
            products = pair_products(latent - books.decode(said), parent, book, code)
        else:
            products = (book @ latent).take(code)
            for before, crossed in zip(said.T, books.crossed[level], strict=True):
                products -= crossed.ravel().take(before.take(parent) * len(book) + code)
        after: F32 = left.take(parent) + squares.take(code) - 2 * products
        return after


def _entrance(trie: Tree, codebooks: Codebooks) -> _Entrance:
    root = trie.expand(np.array([trie.root]), np.array([len(trie)]), 0)
    parent, nodes, counts, second = trie.expand(root.nodes, root.counts, 1)
    first = root.symbols[parent]
    squares = codebooks.squares[0, first] + codebooks.squares[1, second]
    squares += 2 * codebooks.crossed[1][0][first, second]
    return _Entrance(first * codebooks.size + second, nodes, counts, squares)


def _least(values: F32, count: int) -> I64:
    """Where the `count` least of some values are, in any order."""
    if len(values) <= count:
        return np.arange(len(values))
    step = len(values) // (8 * count)
    if step > 1:  # what is above the least of a part is not among the least of all
        near = np.flatnonzero(values <= np.partition(values[::step], count)[count])
        return near[np.argpartition(values[near], count)[:count]]
    return np.argpartition(values, count)[:count]


def _in_order(rows: I64, distance: F32) -> tuple[I64, F32]:
    """Nearest first; of equals the lower row."""
    order = np.lexsort((rows, distance))
    return rows[order], distance[order]


def _squared(vectors: F32) -> F32:
    """(n,) squared lengths."""
    lengths: F32 = np.einsum("nd,nd->n", vectors, vectors)
    return lengths


def pair_products(rest: F32, parent: I64, book: F32, codes: NDArray[np.integer[Any]]) -> F32:
    """(n,) rest[parent] · book[codes], of the pairs asked for only.

    A product of whole matrices wakes BLAS threads, and on busy cores waits for them many times as long.
    """
    products: F32 = np.einsum("nd,nd->n", rest[parent], book[codes])
    return products
