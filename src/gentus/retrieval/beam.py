"""Decoding: beam search over the prefix tree by residual distance. NumPy only.

The residual of a latent after a prefix of codes is the latent less the sum of their codewords. After the last
code its squared norm is the distance of query and table; so beams are ordered by the squared norm so far.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval.trie import Tree

FEEDBACK = 2  # tables that pseudo-relevance feedback comes from
FLAT_ROWS = 16  # per beam: once so few descendant rows are left, they are ranked without the tree ...
FLAT_LEVELS = 4  # ... by so many more codes, before the exact distance ranks those that remain


class _SecondLevel(NamedTuple):
    """All M nodes after two codes. Every search starts from these, so they are kept."""

    pairs: I64  # (M,) first code * K + second code
    nodes: I64  # (M,)
    counts: I64  # (M,) descendant rows of each
    squares: F32  # (M,) squared norms of the sums of the two codewords


class Decoder:
    """Beam search with some codebooks over a tree."""

    def __init__(self, trie: Tree, codebooks: Codebooks) -> None:
        self.trie, self.codebooks = trie, codebooks
        self._second: _SecondLevel | None = None

    def search(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of the nearest identifiers and their squared distances, nearest first."""
        rows, residuals = self._find(latent, beam)
        return _in_order(rows, _squared(residuals))

    def search_with_feedback(
        self, latent: F32, beam: int, weight: float, self_ids: Collection[int] = ()
    ) -> tuple[I64, F32]:
        """The same with pseudo-relevance feedback: ranked for the latent moved towards the first tables.

        Tables that are the query itself (`self_ids`) give no feedback.
        """
        rows, residuals = self._find(latent, beam)
        distance = _squared(residuals)
        near = np.lexsort((rows, distance))[: FEEDBACK + len(self_ids)]
        tables = self.trie.table(rows[near]).tolist()
        first = [at for at, id_ in zip(near.tolist(), tables, strict=True) if id_ not in self_ids][:FEEDBACK]
        if not weight or not first:
            return _in_order(rows, distance)
        moved = latent + weight * (latent - residuals[first].mean(0))
        return _in_order(rows, _squared(residuals + (moved / np.linalg.norm(moved) - latent)))

    def _find(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """(n,) rows of identifiers near the latent, and (n, d) its residuals after all of their codes."""
        trie, levels = self.trie, self.codebooks.levels
        if not len(trie):
            return np.zeros(0, np.int64), np.zeros((0, len(latent)), np.float32)
        nodes, counts, prefix, norm = self._start(latent, beam)
        level = prefix.shape[1]
        while level < levels and counts.sum() > FLAT_ROWS * beam:
            parent, nodes, counts, code = trie.expand(nodes, counts, level)
            norm = self._residual_norm(latent, norm, prefix, parent, code)
            if len(nodes) > beam:
                best = _least(norm, beam)
                parent, nodes, counts = parent[best], nodes[best], counts[best]
                code, norm = code[best], norm[best]
            prefix = np.concatenate([prefix[parent], code[:, None]], axis=1)
            level += 1
        parent, rows = trie.descendants(nodes, counts)
        codes = trie.codes_of(rows)  # (n, L)
        norm = norm[parent]
        for ahead in range(level, min(level + FLAT_LEVELS, levels)):
            if len(rows) <= beam:
                break
            prefix = codes[:, : ahead + 1].astype(np.int64)
            norm = self._residual_norm(latent, norm, prefix[:, :-1], np.arange(len(rows)), prefix[:, -1])
            best = _least(norm, max(beam, len(rows) // 2) if ahead < level + FLAT_LEVELS - 1 else beam)
            rows, codes, norm = rows[best], codes[best], norm[best]
        return rows, latent - self.codebooks.decode(codes)

    def _start(self, latent: F32, beam: int) -> tuple[I64, I64, I64, F32]:
        """The best B nodes after two codes: (B,) nodes and counts, (B, 2) prefixes, (B,) residual norms."""
        codewords, squared = self.codebooks.codewords, latent @ latent
        if len(codewords) < 2:
            root, count = np.array([self.trie.root]), np.array([len(self.trie)])
            return root, count, np.zeros((1, 0), np.int64), np.array([squared])
        if self._second is None:
            self._second = _second_level(self.trie, self.codebooks)
        pairs, nodes, counts, squares = self._second
        first, second = codewords[:2] @ latent  # (K,) each
        norm = squared + squares - 2 * (first[:, None] + second).ravel().take(pairs)
        best = _least(norm, beam)
        return nodes[best], counts[best], np.stack(np.divmod(pairs[best], len(first)), axis=1), norm[best]

    def _residual_norm(self, latent: F32, norm: F32, prefix: I64, parent: I64, code: I64) -> F32:
        """(n,) squared residual norms after one more `code` (n,), from `norm` (B,) after `prefix` (B, l).

        Products with the residual are products with the latent, less those of the Gram matrices.
        """
        books, level = self.codebooks, prefix.shape[1]
        book, squares = books.codewords[level], books.squares[level]
        if level >= len(books.gram):
            products = pair_products(latent - books.decode(prefix), parent, book, code)
        else:
            products = (book @ latent).take(code)
            for before, gram in zip(prefix.T, books.gram[level], strict=True):
                products -= gram.ravel().take(before.take(parent) * len(book) + code)
        after: F32 = norm.take(parent) + squares.take(code) - 2 * products
        return after


def _second_level(trie: Tree, codebooks: Codebooks) -> _SecondLevel:
    root = trie.expand(np.array([trie.root]), np.array([len(trie)]), 0)
    parent, nodes, counts, second = trie.expand(root.nodes, root.counts, 1)
    first = root.symbols[parent]
    squares = codebooks.squares[0, first] + codebooks.squares[1, second]
    squares += 2 * codebooks.gram[1][0][first, second]
    return _SecondLevel(first * codebooks.size + second, nodes, counts, squares)


def _least(values: F32, count: int) -> I64:
    """Positions of the `count` least values, in any order."""
    if len(values) <= count:
        return np.arange(len(values))
    step = len(values) // (8 * count)
    if step > 1:  # a value above the least of a sample is not among the least of all
        near = np.flatnonzero(values <= np.partition(values[::step], count)[count])
        return near[np.argpartition(values[near], count)[:count]]
    return np.argpartition(values, count)[:count]


def _in_order(rows: I64, distance: F32) -> tuple[I64, F32]:
    """Nearest first; of equals the lower row."""
    order = np.lexsort((rows, distance))
    return rows[order], distance[order]


def _squared(vectors: F32) -> F32:
    """(n,) squared norms."""
    norms: F32 = np.einsum("nd,nd->n", vectors, vectors)
    return norms


def pair_products(residuals: F32, parent: I64, book: F32, codes: NDArray[np.integer[Any]]) -> F32:
    """(n,) residuals[parent] · book[codes], of these pairs only.

    A product of whole matrices starts BLAS threads, which on a loaded machine take many times as long.
    """
    products: F32 = np.einsum("nd,nd->n", residuals[parent], book[codes])
    return products
