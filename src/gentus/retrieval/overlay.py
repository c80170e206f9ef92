"""The current prefix tree: a snapshot with a delta applied, by copy on write.

Only nodes on a path to an added or deleted identifier are copied, each with its own list of children; all
others are shared with the snapshot. So the cost of a change does not grow with the number of tables, and
readers of the tree before it see no change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64, U8
from gentus.retrieval.trie import Children, Tree, Trie, in_order, ranges


@dataclass(frozen=True, slots=True)
class Overlay:
    """A snapshot with a delta. Nodes are numbered: rows of `base`, rows of `added`, then V copied nodes."""

    base: Trie
    added: Trie
    deleted: int  # rows of the snapshot that are deleted
    first: I64  # (V + 1,) where the children of each copied node begin in `edges`
    edges: Children  # (E,) children of copied nodes; `parent` counts these from 0
    rows: I64  # (V,) a descendant row of each copied node

    @property
    def root(self) -> int:
        """The root node; it is the first copied one, as every change passes it."""
        return self._first_copy

    @property
    def levels(self) -> int:
        """L, the number of codes of an identifier."""
        return self.base.levels

    @property
    def highest_suffix(self) -> int:
        """The highest suffix that was in use at the snapshot or since."""
        return max(self.base.highest_suffix, self.added.highest_suffix)

    @property
    def _first_copy(self) -> int:
        return len(self.base) + len(self.added)

    def __len__(self) -> int:
        """How many identifiers there are."""
        return len(self.base) + len(self.added) - self.deleted

    def expand(self, nodes: I64, counts: I64, level: int) -> Children:
        """All children of some nodes of one level; the only child of a single-row node is its row."""
        old, new, copied = self._kinds(nodes)
        parts = []
        if len(old):
            found = self.base.expand(nodes[old], counts[old], level)
            parts.append(found._replace(parent=old[found.parent]))
        if len(new):
            found = self.added.expand(nodes[new] - len(self.base), counts[new], level)
            parts.append(found._replace(parent=new[found.parent], nodes=found.nodes + len(self.base)))
        if len(copied):
            found = self._expand_copied(nodes[copied])
            parts.append(found._replace(parent=copied[found.parent]))
        return parts[0] if len(parts) == 1 else in_order(parts)

    def _expand_copied(self, nodes: I64) -> Children:
        own = nodes - self._first_copy
        parent, edge = ranges(self.first[own], self.first[own + 1] - self.first[own])
        return Children(*(column[edge] for column in self.edges))._replace(parent=parent)

    def descendants(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """(n,) the node each descendant comes from, by its position, and (n,) all descendant rows."""
        origin = np.arange(len(nodes))
        while (copied := nodes >= self._first_copy).any():  # the descendants of all others are unchanged
            found = self._expand_copied(nodes[copied])
            origin = np.concatenate([origin[~copied], origin[copied][found.parent]])
            nodes = np.concatenate([nodes[~copied], found.nodes])
            counts = np.concatenate([counts[~copied], found.counts])
        parent, rows = ranges(nodes, counts)
        return origin[parent], rows

    def row(self, nodes: I64) -> I64:
        """A descendant row of each node."""
        rows = nodes.copy()
        copied = nodes >= self._first_copy
        rows[copied] = self.rows[nodes[copied] - self._first_copy]
        return rows

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        return self._of(rows, self.base.codes[:, level], self.added.codes[:, level])

    def codes_of(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        return self._of(rows, self.base.codes, self.added.codes)

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where no other row has its codes."""
        late = rows >= len(self.base)
        found = np.empty(len(rows), np.int64)
        found[~late] = self.base.suffix(rows[~late])
        found[late] = self.added.suffix(rows[late] - len(self.base))
        return found

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        return self._of(rows, self.base.tables, self.added.tables).astype(np.int64)

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none."""
        found = np.full(len(codes), self.root)  # the node on the path of each
        counts = np.full(len(codes), len(self))  # 0 once the path has ended
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
        """Positions of the nodes of the snapshot, of the added tree, and of the copied ones."""
        old = nodes < len(self.base)
        copied = nodes >= self._first_copy
        return np.flatnonzero(old), np.flatnonzero(~(old | copied)), np.flatnonzero(copied)

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


def apply_delta(base: Trie, added: Trie, deleted: Trie) -> Tree:
    """The snapshot `base` with the identifiers `added`, none of them in it, and without `deleted`, all in it.

    Descends the three trees together, level by level, along the prefixes that they share.
    """
    if not len(base) or len(deleted) == len(base):
        return added
    if not len(added) and not len(deleted):
        return base
    trees = (base, added, deleted)
    first_copy = len(base) + len(added)
    nodes = np.zeros((3, 1), np.int64)  # of each tree, on the same prefixes ...
    counts = np.array([[len(tree)] for tree in trees])  # ... and their descendant rows, 0 where absent
    copied = 0
    levels: list[Children] = []  # the children of copied nodes
    for level in range(base.levels + 1):
        found = [_children(*one, level) for one in zip(trees, nodes, counts, strict=True)]
        keys = [(one.parent << 32) + one.symbols for one in found]
        shared = np.unique(np.concatenate(keys))
        width, copied_before = len(nodes[0]), copied
        nodes, counts = np.zeros((3, len(shared)), np.int64), np.zeros((3, len(shared)), np.int64)
        for tree, (key, one) in enumerate(zip(keys, found, strict=True)):
            at = np.searchsorted(shared, key)
            nodes[tree, at], counts[tree, at] = one.nodes, one.counts
        remaining = counts[0] - counts[2]
        changed = (remaining > 0) & ((counts[1] > 0) | (counts[2] > 0))
        copied += width
        child = np.where(remaining > 0, nodes[0], nodes[1] + len(base))
        child[changed] = first_copy + copied + np.arange(changed.sum())
        total = remaining + counts[1]
        kept = total > 0
        parent = copied_before + (shared[kept] >> 32)
        levels.append(Children(parent, child[kept], total[kept], shared[kept] & 0xFFFFFFFF))
        nodes, counts = nodes[:, changed], counts[:, changed]
        if not changed.any():
            break
    edges = Children(*map(np.concatenate, zip(*levels, strict=True)))
    first = np.searchsorted(edges.parent, np.arange(copied + 1))
    return Overlay(base, added, len(deleted), first, edges, _rows(edges, first, first_copy))


def _children(tree: Trie, nodes: I64, counts: I64, level: int) -> Children:
    """Children of the nodes that have rows in this tree."""
    present = np.flatnonzero(counts)
    found = tree.expand(nodes[present], counts[present], level)
    return found._replace(parent=present[found.parent])


def _rows(edges: Children, first: I64, first_copy: int) -> I64:
    """(V,) a descendant row of each copied node: the first child's first child, until it is a row."""
    rows = edges.nodes[first[:-1]]
    while (copied := rows >= first_copy).any():
        rows[copied] = edges.nodes[first[rows[copied] - first_copy]]
    return rows
