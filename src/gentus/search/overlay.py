"""The prefix tree as it is now: a snapshot, with what came and went since laid over it.

Only nodes on the way to something new or gone are made anew, each with its own list of children; all others
are shared with the snapshot. So a change costs what it touches, however many tables there are, and readers
of the tree before it are not disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64, U8
from gentus.search.trie import Children, Tree, Trie, in_order, ranges


@dataclass(frozen=True, slots=True)
class Overlay:
    """Rows of the snapshot, then those of the tree of what was added: both are nodes; then V made anew."""

    base: Trie
    added: Trie
    gone: int  # rows of the snapshot that are not reached any more
    first: I64  # (V + 1,) where the children of each node made anew begin
    edges: Children  # (E,) all of these children; `parent` is the node made anew, counted from 0
    rows: I64  # (V,) a row below each node made anew

    @property
    def root(self) -> int:
        """The first node made anew: every change passes it."""
        return self._made

    @property
    def levels(self) -> int:
        """L, the codes of an identifier."""
        return self.base.levels

    @property
    def highest_suffix(self) -> int:
        """The highest suffix that was in use at the snapshot or since."""
        return max(self.base.highest_suffix, self.added.highest_suffix)

    @property
    def _made(self) -> int:
        return len(self.base) + len(self.added)

    def __len__(self) -> int:
        """How many identifiers there are."""
        return len(self.base) + len(self.added) - self.gone

    def expand(self, nodes: I64, counts: I64, level: int) -> Children:
        """All children of some nodes of one level; a node of one row leads to nothing but it."""
        old, new, made = self._kinds(nodes)
        parts = []
        if len(old):
            found = self.base.expand(nodes[old], counts[old], level)
            parts.append(found._replace(parent=old[found.parent]))
        if len(new):
            found = self.added.expand(nodes[new] - len(self.base), counts[new], level)
            parts.append(found._replace(parent=new[found.parent], nodes=found.nodes + len(self.base)))
        if len(made):
            found = self._made_anew(nodes[made])
            parts.append(found._replace(parent=made[found.parent]))
        return parts[0] if len(parts) == 1 else in_order(parts)

    def _made_anew(self, nodes: I64) -> Children:
        own = nodes - self._made
        parent, edge = ranges(self.first[own], self.first[own + 1] - self.first[own])
        return Children(*(column[edge] for column in self.edges))._replace(parent=parent)

    def descendants(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """All rows below some nodes, and the entry each comes from."""
        entry = np.arange(len(nodes))
        while (made := nodes >= self._made).any():  # below all other nodes nothing has changed
            found = self._made_anew(nodes[made])
            entry = np.concatenate([entry[~made], entry[made][found.parent]])
            nodes = np.concatenate([nodes[~made], found.nodes])
            counts = np.concatenate([counts[~made], found.counts])
        parent, rows = ranges(nodes, counts)
        return entry[parent], rows

    def row(self, nodes: I64) -> I64:
        """A row below each node."""
        rows = nodes.copy()
        made = nodes >= self._made
        rows[made] = self.rows[nodes[made] - self._made]
        return rows

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        return self._of(rows, self.base.codes[:, level], self.added.codes[:, level])

    def codes_of(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        return self._of(rows, self.base.codes, self.added.codes)

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where codes alone say which table."""
        late = rows >= len(self.base)
        found = np.empty(len(rows), np.int64)
        found[~late] = self.base.suffix(rows[~late])
        found[late] = self.added.suffix(rows[late] - len(self.base))
        return found

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        return self._of(rows, self.base.tables, self.added.tables).astype(np.int64)

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none, or none any more."""
        found = np.full(len(codes), self.root)  # the way down from the root
        counts = np.full(len(codes), len(self))  # 0 once it is lost
        for level in range(self.levels + 1):
            going = np.flatnonzero(counts)
            children = self.expand(found[going], counts[going], level)
            wanted = codes[:, level] if level < self.levels else suffixes
            right = children.symbols == wanted[going[children.parent]]
            counts[going] = 0
            owner = going[children.parent[right]]
            found[owner], counts[owner] = children.nodes[right], children.counts[right]
        return np.where(counts > 0, found, -1)

    def _kinds(self, nodes: I64) -> tuple[I64, I64, I64]:
        """Which of the nodes are of the snapshot, which of the tree of what was added, which made anew."""
        old = nodes < len(self.base)
        made = nodes >= self._made
        return np.flatnonzero(old), np.flatnonzero(~(old | made)), np.flatnonzero(made)

    def _of(self, rows: I64, old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        count = len(self.base)
        late = rows >= count
        if not late.any():
            found: NDArray[Any] = old[rows]
            return found
        found = np.empty((len(rows), *old.shape[1:]), np.promote_types(old.dtype, new.dtype))
        found[~late] = old[rows[~late]]
        found[late] = new[rows[late] - count]
        return found


def apply_delta(base: Trie, added: Trie, gone: Trie) -> Tree:
    """The snapshot `base` with identifiers `added`, none of which it has, and without `gone`, all of it.

    Goes down the three trees at once, level by level, along the prefixes that they share.
    """
    if not len(base) or len(gone) == len(base):
        return added
    if not len(added) and not len(gone):
        return base
    trees = (base, added, gone)
    offset = len(base) + len(added)  # of nodes made anew
    nodes = np.zeros((3, 1), np.int64)  # of each tree, on the same prefixes ...
    counts = np.array([[len(tree)] for tree in trees])  # ... and the rows below, 0 where there is none
    made = 0
    levels: list[Children] = []  # the children of nodes made anew
    for level in range(base.levels + 1):
        found = [_children(*one, level) for one in zip(trees, nodes, counts, strict=True)]
        keys = [(one.parent << 32) + one.symbols for one in found]
        shared = np.unique(np.concatenate(keys))
        width, at_level = len(nodes[0]), made
        nodes, counts = np.zeros((3, len(shared)), np.int64), np.zeros((3, len(shared)), np.int64)
        for tree, (key, one) in enumerate(zip(keys, found, strict=True)):
            place = np.searchsorted(shared, key)
            nodes[tree, place], counts[tree, place] = one.nodes, one.counts
        stays = counts[0] - counts[2]
        mixed = (stays > 0) & ((counts[1] > 0) | (counts[2] > 0))
        made += width
        child = np.where(stays > 0, nodes[0], nodes[1] + len(base))
        child[mixed] = offset + made + np.arange(mixed.sum())
        left = stays + counts[1]
        kept = left > 0
        parent = at_level + (shared[kept] >> 32)
        levels.append(Children(parent, child[kept], left[kept], shared[kept] & 0xFFFFFFFF))
        nodes, counts = nodes[:, mixed], counts[:, mixed]
        if not mixed.any():
            break
    edges = Children(*map(np.concatenate, zip(*levels, strict=True)))
    first = np.searchsorted(edges.parent, np.arange(made + 1))
    return Overlay(base, added, len(gone), first, edges, _rows(edges, first, offset))


def _children(tree: Trie, nodes: I64, counts: I64, level: int) -> Children:
    """Children of the nodes that are there."""
    there = np.flatnonzero(counts)
    found = tree.expand(nodes[there], counts[there], level)
    return found._replace(parent=there[found.parent])


def _rows(edges: Children, first: I64, offset: int) -> I64:
    """(V,) a row below each node made anew: follow the first child until it is one."""
    rows = edges.nodes[first[:-1]]
    while (made := rows >= offset).any():
        rows[made] = edges.nodes[first[rows[made] - offset]]
    return rows
