"""Decoding: beam search over the prefix tree by residual distance. NumPy only.

Writing a code leaves a residual; the squared length of what is left at the end is the distance between
the query and the table, because the levels telescope. A beam is therefore ordered by what is left so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.codes import Codebooks
from gentus.evidence import F32
from gentus.trie import I64, Tree, codes_of

FIRST = 2  # tables that a query is drawn towards
FIRST_BEAM = 50  # to find them


class Decoder:
    """Codebooks and tree, ready to answer."""

    def __init__(self, trie: Tree, codebooks: Codebooks) -> None:
        self.trie, self.codebooks = trie, codebooks
        self.squares = (codebooks.words**2).sum(2)  # (L, K)

    def search(self, latent: F32, beam: int) -> tuple[I64, F32]:
        """Rows of the nearest identifiers and their squared distances, nearest first."""
        trie = self.trie
        if not len(trie):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        nodes = np.array([trie.root])
        rest = latent[None]  # (B, d) what the codes written so far leave over
        left = (rest**2).sum(1)  # (B,)
        for level, book in enumerate(self.codebooks.words):
            parent, nodes = trie.expand(nodes)
            code = trie.code(trie.row(nodes), level)
            left = left[parent] - 2 * pair_products(rest, parent, book, code) + self.squares[level, code]
            if len(nodes) > beam:
                best = np.argpartition(left, beam)[:beam]
                parent, nodes, code, left = parent[best], nodes[best], code[best], left[best]
            rest = rest[parent] - book[code]
        parent, nodes = trie.expand(nodes)  # tables that only a suffix tells apart
        rows, left = trie.row(nodes), left[parent]
        order = np.lexsort((rows, left))
        return rows[order], left[order]

    def search_drawn(self, latent: F32, beam: int, weight: float) -> tuple[I64, F32]:
        """The same for the latent drawn towards the first tables it finds: what they share, the query meant.

        Tables of the query's own codes, such as copies of it, say nothing new: nothing is drawn towards them,
        and they stay first.
        """
        if not weight:
            return self.search(latent, beam)
        near, left = self.search(latent, FIRST_BEAM)
        near, left = near[: 4 * FIRST], left[: 4 * FIRST]
        codes = codes_of(self.trie, near).astype(np.uint8)
        copies = (codes == self.codebooks.encode(latent[None])).all(1)
        first = codes[~copies][:FIRST]
        if not len(first):
            return self.search(latent, beam)
        towards = latent + weight * self.codebooks.decode(first).mean(0)
        rows, distance = self.search(towards / np.linalg.norm(towards), beam)
        others = ~np.isin(rows, near[copies])
        nearest = np.minimum(left[copies], distance.min())
        return np.concatenate([near[copies], rows[others]]), np.concatenate([nearest, distance[others]])


def pair_products(rest: F32, parent: I64, book: F32, codes: NDArray[np.integer[Any]]) -> F32:
    """(n,) rest[parent] · book[codes], of the pairs asked for only.

    A product of whole matrices wakes BLAS threads, and on busy cores waits for them many times as long.
    """
    products: F32 = np.einsum("nd,nd->n", rest[parent], book[codes])
    return products
