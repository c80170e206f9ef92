"""Decoding: beam search over the prefix tree by residual distance. NumPy only.

Writing a code leaves a residual; the squared length of what is left at the end is the distance between
the query and the table, because the levels telescope. A beam is therefore ordered by what is left so far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gentus.codes import Codebooks
from gentus.evidence import F32
from gentus.trie import Trie

I64 = NDArray[np.int64]


class Decoder:
    """Codebooks and tree, ready to answer."""

    def __init__(self, trie: Trie, codebooks: Codebooks) -> None:
        self.trie, self.codebooks = trie, codebooks
        self.squares = (codebooks.words**2).sum(2)  # (L, K)

    def search(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of the nearest identifiers and their squared distances, nearest first."""
        trie = self.trie
        nodes = np.zeros(1, np.int64)
        rest = latent[None]  # (B, d) what the codes written so far leave over
        left = (rest**2).sum(1)  # (B,)
        for level, book in enumerate(self.codebooks.words):
            parent, nodes = self._expand(nodes)
            code = trie.codes[trie.rows[nodes], level]
            products = rest @ book.T  # (B, K)
            left = left[parent] - 2 * products[parent, code] + self.squares[level, code]
            if len(nodes) > beam:
                best = np.argpartition(left, beam)[:beam]
                parent, nodes, code, left = parent[best], nodes[best], code[best], left[best]
            rest = rest[parent] - book[code]
        parent, nodes = self._expand(nodes)  # tables that only a suffix tells apart
        rows, left = trie.rows[nodes].astype(np.int64), left[parent]
        order = np.lexsort((rows, left))
        return rows[order], left[order]

    def _expand(self, nodes: I64) -> tuple[I64, I64]:
        """All children of the beam and the beam entry each comes from; a single row is its own child."""
        first = self.trie.children[nodes].astype(np.int64)
        count = self.trie.children[nodes + 1] - first
        single = count == 0
        first = np.where(single, nodes, first)
        count = np.where(single, 1, count)
        parent = np.repeat(np.arange(len(nodes)), count)
        offset = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)
        return parent, first[parent] + offset
