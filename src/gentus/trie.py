"""The prefix tree of all identifiers, as flat arrays that are memory-mapped and never unpacked.

Identifiers are sorted; a node is a run of rows that share a prefix. Only runs of two or more rows need
children: once a prefix belongs to one table, its remaining codes are read off its row. So the tree holds
about one node a table, however long identifiers are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gentus.codes import U8
from gentus.store import replacing

I64 = NDArray[np.int64]


class Tree(Protocol):
    """What decoding needs of a prefix tree: nodes lead to children, single nodes to rows, rows to tables."""

    @property
    def root(self) -> int:
        """The node where every identifier begins."""
        ...

    @property
    def levels(self) -> int:
        """L, the codes of an identifier."""
        ...

    @property
    def highest_suffix(self) -> int:
        """The highest suffix in use, or a bound of it."""
        ...

    def __len__(self) -> int:
        """How many identifiers there are."""
        ...

    def single(self, nodes: I64) -> NDArray[np.bool_]:
        """Whether each node is one row, whose remaining codes need no tree."""
        ...

    def expand(self, nodes: I64) -> tuple[I64, I64]:
        """All children of some nodes, and the entry each comes from; a single row is its own child."""
        ...

    def row(self, nodes: I64) -> I64:
        """A row below each node; of a single node, the row that it is."""
        ...

    def count(self, nodes: I64) -> I64:
        """(n,) how many rows there are below each node."""
        ...

    def split(self, parent: I64, nodes: I64, counts: I64) -> I64:
        """(n,) rows below what `expand` has led to, from the `counts` of rows below what it was led by."""
        ...

    def below(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """All rows below some nodes, so many below each, and the entry each comes from."""
        ...

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        ...

    def written(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        ...

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where codes alone say which table."""
        ...

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        ...

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Trie:
    """N identifiers of L codes in M nodes, numbered level by level; node 0 is the root."""

    codes: U8  # (N, L) sorted
    suffixes: NDArray[np.unsignedinteger]  # (N,) 0 where the codes alone say which table
    tables: NDArray[np.int32]  # (N,) the table of each row
    rows: NDArray[np.int32]  # (M,) the first row of each node
    children: NDArray[np.int32]  # (M + 1,) where each node's children begin; none: a single row

    def __len__(self) -> int:
        """How many identifiers there are."""
        return len(self.codes)

    @property
    def root(self) -> int:
        """The node where every identifier begins."""
        return 0

    @property
    def levels(self) -> int:
        """L, the codes of an identifier."""
        return int(self.codes.shape[1])

    @property
    def highest_suffix(self) -> int:
        """The highest suffix in use."""
        return int(self.suffixes.max(initial=0))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    def single(self, nodes: I64) -> NDArray[np.bool_]:
        """Whether each node is one row, whose remaining codes need no tree."""
        alone: NDArray[np.bool_] = self.children[nodes] == self.children[nodes + 1]
        return alone

    def expand(self, nodes: I64) -> tuple[I64, I64]:
        """All children of some nodes, and the entry each comes from; a single row is its own child."""
        first = self.children[nodes].astype(np.int64)
        count = self.children[nodes + 1] - first
        alone = count == 0
        first = np.where(alone, nodes, first)
        count = np.where(alone, 1, count)
        return ranges(first, count)

    def row(self, nodes: I64) -> I64:
        """The first row below each node."""
        first: I64 = self.rows[nodes].astype(np.int64)
        return first

    def count(self, nodes: I64) -> I64:
        """(n,) how many rows there are below each node: up to the last row of its last child's last child."""
        last = nodes
        while True:
            end = self.children[last + 1]
            inner = end > self.children[last]
            if not inner.any():
                return self.row(last) + 1 - self.row(nodes)
            last = np.where(inner, end - 1, last)

    def split(self, parent: I64, nodes: I64, counts: I64) -> I64:
        """(n,) rows below what `expand` has led to: up to its next sibling, or to where their parent ends."""
        rows = self.row(nodes)
        first = np.flatnonzero(np.diff(parent, prepend=-1))  # every node leads somewhere
        ends = np.append(rows[1:], 0)
        ends[np.append(first[1:], len(rows)) - 1] = rows[first] + counts
        return ends - rows

    def below(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """All rows below some nodes, so many below each, and the entry each comes from."""
        return ranges(self.row(nodes), counts)

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        codes: NDArray[np.unsignedinteger[Any]] = self.codes[rows, level]
        return codes

    def written(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        codes: NDArray[np.unsignedinteger[Any]] = self.codes[rows]
        return codes

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where codes alone say which table."""
        suffixes: I64 = self.suffixes[rows].astype(np.int64)
        return suffixes

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        tables: I64 = self.tables[rows].astype(np.int64)
        return tables

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none."""
        if not len(self) or not len(codes):
            return np.full(len(codes), -1, np.int64)
        known, wanted = _keys(self.codes, self.suffixes), _keys(codes.astype(self.codes.dtype), suffixes)
        rows = np.minimum(np.searchsorted(known, wanted), len(self) - 1)
        return np.where(known[rows] == wanted, rows, -1)

    def save(self, folder: Path) -> None:
        """Write one `.npy` an array."""
        folder.mkdir(parents=True, exist_ok=True)
        for field in fields(self):
            with replacing(folder / f"{field.name}.npy") as file:
                np.save(file, getattr(self, field.name), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Trie:
        """Map the arrays from a folder; one that is damaged or does not fit raises `ValueError`."""
        trie = cls(*(_load(folder / f"{field.name}.npy") for field in fields(cls)))
        count, nodes = len(trie.codes), len(trie.rows)
        sizes = (len(trie.suffixes), len(trie.tables), len(trie.children))
        if trie.codes.ndim != 2 or trie.codes.dtype.kind != "u" or sizes != (count, count, nodes + 1):
            raise ValueError(f"the arrays in {folder} do not fit each other")
        return trie


def _keys(codes: U8, suffixes: NDArray[np.integer]) -> NDArray[np.void]:
    """(n,) identifiers as strings of bytes, which sort as the rows of a tree do."""
    # Big-endian: bytes in order of value.
    head = np.ascontiguousarray(codes.astype(codes.dtype.newbyteorder(">"))).view(np.uint8)
    tail = suffixes.astype(">u4").view(np.uint8).reshape(-1, 4)
    keys = np.ascontiguousarray(np.concatenate([head.reshape(len(codes), -1), tail], axis=1))
    return keys.view(f"V{keys.shape[1]}")[:, 0]


def _load(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: {error}") from error
    return array


def build_trie(codes: U8, suffixes: NDArray[np.integer], tables: NDArray[np.integer]) -> Trie:
    """Sort identifiers and lay out their tree, level by level without a loop over nodes."""
    count, levels = codes.shape
    order = np.lexsort((suffixes, *codes.T[::-1]))
    codes, suffixes, tables = codes[order], suffixes[order], tables[order]
    # The level at which a row parts from the row before it; `levels` where only the suffix differs.
    parts = np.full(count, levels, np.int64)
    differs = codes[1:] != codes[:-1]
    parts[1:] = np.where(differs.any(1), differs.argmax(1), levels)
    rows = [np.zeros(1, np.int64)]
    widths = []  # children of the nodes of each level
    begins, ends = np.zeros(1, np.int64), np.array([count])
    for level in range(levels + 1):
        # Children of the nodes [begins, ends) that have more than one row.
        inner = ends - begins > 1
        inside = np.zeros(count + 1, np.int64)
        np.add.at(inside, begins[inner], 1)
        np.add.at(inside, ends[inner], -1)
        first = np.zeros(count, bool)
        first[begins[inner]] = True
        first |= parts == level
        starts = np.flatnonzero(first & (np.cumsum(inside[:-1]) > 0))
        low = np.searchsorted(starts, begins)
        width = np.where(inner, np.searchsorted(starts, ends) - low, 0)
        widths.append(width)
        owner_end = np.repeat(ends[inner], width[inner])
        following = np.append(starts[1:], count)
        begins, ends = starts, np.minimum(following, owner_end)
        rows.append(starts)
        if not len(starts):
            break
    widths.append(np.zeros(len(begins), np.int64))
    all_rows = np.concatenate(rows)
    # A level's children lie behind the level itself, so offsets are a running sum that begins at node 1.
    children = np.concatenate([[1], 1 + np.cumsum(np.concatenate(widths))])[: len(all_rows) + 1]
    return Trie(
        np.ascontiguousarray(codes),
        suffixes.astype(np.uint16 if suffixes.max(initial=0) <= 0xFFFF else np.uint32),
        tables.astype(np.int32),
        all_rows.astype(np.int32),
        children.astype(np.int32),
    )


def ranges(first: I64, count: I64) -> tuple[I64, I64]:
    """`first, first + 1, ..` of `count` numbers each, in one row, and the entry each comes from."""
    entry = np.repeat(np.arange(len(first)), count)
    return entry, np.arange(len(entry)) + np.repeat(first - np.cumsum(count) + count, count)
