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

from gentus.codes import U8
from gentus.trie import I64, Tree, Trie, ranges

_ABSENT = -1


@dataclass(frozen=True, slots=True)
class Overlay:
    """Nodes of the snapshot, then those of the tree of what was added, then V made anew; rows likewise."""

    base: Trie
    added: Trie
    gone: int  # rows of the snapshot that are not reached any more
    first: I64  # (V + 1,) where the children of each node made anew begin
    edges: I64  # their children; the list has no gaps, but its nodes lie anywhere
    rows: I64  # (V,) a row of the snapshot that shares the node's prefix
    counts: I64  # (V,) how many rows there are below it

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
        return len(self.base.rows) + len(self.added.rows)

    def __len__(self) -> int:
        """How many identifiers there are."""
        return len(self.base) + len(self.added) - self.gone

    def single(self, nodes: I64) -> NDArray[np.bool_]:
        """Whether each node is one row, whose remaining codes need no tree."""
        old, new, _ = self._kinds(nodes)
        alone = np.zeros(len(nodes), bool)
        alone[old] = self.base.single(nodes[old])
        alone[new] = self.added.single(nodes[new] - len(self.base.rows))
        return alone

    def expand(self, nodes: I64) -> tuple[I64, I64]:
        """All children of some nodes, and the entry each comes from; a single row is its own child."""
        old, new, made = self._kinds(nodes)
        parents, children = [], []
        if len(old):
            parent, child = self.base.expand(nodes[old])
            parents.append(old[parent])
            children.append(child)
        if len(new):
            offset = len(self.base.rows)
            parent, child = self.added.expand(nodes[new] - offset)
            parents.append(new[parent])
            children.append(child + offset)
        if len(made):
            own = nodes[made] - self._made
            parent, edge = ranges(self.first[own], self.first[own + 1] - self.first[own])
            parents.append(made[parent])
            children.append(self.edges[edge])
        parent, child = np.concatenate(parents), np.concatenate(children)
        order = np.argsort(parent, kind="stable")
        return parent[order], child[order]

    def row(self, nodes: I64) -> I64:
        """A row below each node; of a single node, the row that it is."""
        old, new, made = self._kinds(nodes)
        rows = np.empty(len(nodes), np.int64)
        rows[old] = self.base.rows[nodes[old]]
        rows[new] = self.added.rows[nodes[new] - len(self.base.rows)] + np.int64(len(self.base))
        rows[made] = self.rows[nodes[made] - self._made]
        return rows

    def count(self, nodes: I64) -> I64:
        """(n,) how many rows there are below each node."""
        old, new, made = self._kinds(nodes)
        counts = np.empty(len(nodes), np.int64)
        counts[old] = self.base.count(nodes[old])
        counts[new] = self.added.count(nodes[new] - len(self.base.rows))
        counts[made] = self.counts[nodes[made] - self._made]
        return counts

    def split(self, parent: I64, nodes: I64, counts: I64) -> I64:
        """(n,) rows below what `expand` has led to; they lie anywhere, so each is counted."""
        return self.count(nodes)

    def below(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """All rows below some nodes, so many below each, and the entry each comes from."""
        entry = np.arange(len(nodes))
        while (nodes >= self._made).any():  # below all other nodes nothing has changed
            parent, nodes = self.expand(nodes)
            entry = entry[parent]
        old, new, _ = self._kinds(nodes)
        base, added = nodes[old], nodes[new] - len(self.base.rows)
        first, rows = self.base.below(base, self.base.count(base))
        then, late = self.added.below(added, self.added.count(added))
        return entry[np.concatenate([old[first], new[then]])], np.concatenate([rows, late + len(self.base)])

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        return self._of(rows, self.base.codes[:, level], self.added.codes[:, level])

    def written(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        return self._of(rows, self.base.codes, self.added.codes)

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where codes alone say which table."""
        return self._of(rows, self.base.suffixes, self.added.suffixes).astype(np.int64)

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        return self._of(rows, self.base.tables, self.added.tables).astype(np.int64)

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none, or none any more."""
        found = np.full(len(codes), self.root)  # the way down from the root, -1 once it is lost
        for level in range(self.levels + 1):
            going = np.flatnonzero(found >= 0)
            parent, child = self.expand(found[going])
            rows = self.row(child)
            symbol = self.code(rows, level) if level < self.levels else self.suffix(rows)
            wanted = codes[:, level] if level < self.levels else suffixes
            right = symbol == wanted[going[parent]]
            found[going] = _ABSENT
            found[going[parent[right]]] = child[right]
        found[found >= 0] = self.row(found[found >= 0])
        return found

    def _kinds(self, nodes: I64) -> tuple[I64, I64, I64]:
        """Which of the nodes are of the snapshot, which of the tree of what was added, which made anew."""
        old = nodes < len(self.base.rows)
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


def lay_over(base: Trie, added: Trie, gone: Trie) -> Tree:
    """The snapshot `base` with identifiers `added`, none of which it has, and without `gone`, all of it.

    Goes down the three trees at once, level by level, along the prefixes that they share.
    """
    if not len(base) or len(gone) == len(base):
        return added
    if not len(added) and not len(gone):
        return base
    trees = (base, added, gone)
    offset = len(base.rows) + len(added.rows)  # of nodes made anew
    front = [np.array([0 if len(tree) else _ABSENT]) for tree in trees]  # nodes of each on the same prefix
    made = 0
    rows, counts, owners, children = [], [], [], []  # a list a level
    for level in range(base.levels + 1):
        rows.append(base.row(front[0]))
        has, gets, loses = (_count(tree, nodes) for tree, nodes in zip(trees, front, strict=True))
        counts.append(has + gets - loses)
        found = [_children(tree, nodes, level) for tree, nodes in zip(trees, front, strict=True)]
        shared = np.unique(np.concatenate([key for key, _ in found]))
        old, new, dead = (np.full(len(shared), _ABSENT, np.int64) for _ in trees)
        for column, (key, child) in zip((old, new, dead), found, strict=True):
            column[np.searchsorted(shared, key)] = child
        # All that is gone was in the snapshot: a single row there, with one gone on its way, is that one.
        lost = (old >= 0) & (dead >= 0) & base.single(np.maximum(old, 0))
        old[lost] = dead[lost] = _ABSENT
        both = (old >= 0) & ((new >= 0) | (dead >= 0))
        child = np.where(new >= 0, new + len(base.rows), old)
        child[both] = offset + made + len(front[0]) + np.arange(both.sum())
        left = child >= 0
        owners.append(offset + made + (shared[left] >> 32))
        children.append(child[left])
        made += len(front[0])
        front = [column[both] for column in (old, new, dead)]
        if not both.any():
            break
    owner, edges = _without_empty(owners, children, offset)
    first = np.searchsorted(owner, offset + np.arange(made + 1))
    return Overlay(base, added, len(gone), first, edges, np.concatenate(rows), np.concatenate(counts))


def _count(tree: Trie, nodes: I64) -> I64:
    """(n,) rows below each node, 0 where there is none."""
    counts = np.zeros(len(nodes), np.int64)
    there = nodes >= 0
    counts[there] = tree.count(nodes[there])
    return counts


def _children(tree: Trie, nodes: I64, level: int) -> tuple[I64, I64]:
    """(key, node) of all children of the nodes that are there; a key is which node, and the symbol."""
    there = np.flatnonzero(nodes >= 0)
    parent, child = tree.expand(nodes[there])
    rows = tree.row(child)
    symbol = tree.code(rows, level) if level < tree.levels else tree.suffix(rows)
    return (there[parent] << 32) + symbol.astype(np.int64), child


def _without_empty(owners: list[I64], children: list[I64], offset: int) -> tuple[I64, I64]:
    """Edges of all levels, without those to nodes made anew below which nothing is left."""
    kept: list[tuple[I64, I64]] = []
    alive = np.zeros(0, np.int64)  # nodes made anew, of the level below, that have children
    for owner, child in zip(reversed(owners), reversed(children), strict=True):
        leads = (child < offset) | np.isin(child, alive)
        kept.append((owner[leads], child[leads]))
        alive = np.unique(owner[leads])
    kept.reverse()
    return np.concatenate([owner for owner, _ in kept]), np.concatenate([child for _, child in kept])
