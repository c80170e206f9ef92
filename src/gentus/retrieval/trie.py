"""The prefix tree of all identifiers: their codes, sorted, memory-mapped and never unpacked.

A node is a run of rows that share a prefix: its first row, and how many there are. Its children are the runs
of equal codes at the next level. Short runs are scanned; of long ones the child offsets are stored, the rows
at which children begin. So the tree costs little more than the identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64, U8
from gentus.files import replacing

SCANNED = 256  # rows up to which scanning a run is faster than looking up its child offsets


class Children(NamedTuple):
    """The n children of some nodes, in the order of the nodes and then of their symbols."""

    parent: I64  # (n,) position of the parent among the nodes that were expanded
    nodes: I64  # (n,)
    counts: I64  # (n,) descendant rows of each
    symbols: I64  # (n,) the code that leads to each; after the last code, the suffix


class Tree(Protocol):
    """What decoding needs of a prefix tree; nodes are given with the count of their descendant rows."""

    @property
    def root(self) -> int:
        """The root node."""
        ...

    @property
    def levels(self) -> int:
        """L, the number of codes of an identifier."""
        ...

    @property
    def highest_suffix(self) -> int:
        """The highest suffix in use, or an upper bound."""
        ...

    def __len__(self) -> int:
        """How many identifiers there are."""
        ...

    def expand(self, nodes: I64, counts: I64, level: int) -> Children:
        """All children of some nodes of one level; the only child of a single-row node is its row."""
        ...

    def descendants(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """(n,) the node each descendant comes from, by its position, and (n,) all descendant rows."""
        ...

    def row(self, nodes: I64) -> I64:
        """A descendant row of each node."""
        ...

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        ...

    def codes_of(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        ...

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where no other row has its codes."""
        ...

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        ...

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Trie:
    """N identifiers of L codes. A node is the first of its rows, so the root is 0."""

    codes: U8  # (N, L) sorted
    tables: NDArray[np.int32]  # (N,) the table of each row
    suffixes: NDArray[np.unsignedinteger]  # (N,) 0 where no other row has the codes
    offsets: NDArray[np.int32]  # (M,) child offsets of long runs, level by level
    symbols: U8  # (M,) the codes at these rows
    starts: NDArray[np.int64]  # (L + 1,) where the offsets of each level begin
    scanned: NDArray[np.int64]  # () rows up to which a run has no offsets

    def __len__(self) -> int:
        """How many identifiers there are."""
        return len(self.codes)

    @property
    def root(self) -> int:
        """The root node."""
        return 0

    @property
    def levels(self) -> int:
        """L, the number of codes of an identifier."""
        return int(self.codes.shape[1])

    @property
    def highest_suffix(self) -> int:
        """The highest suffix in use."""
        return int(self.suffixes.max(initial=0))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    def expand(self, nodes: I64, counts: I64, level: int) -> Children:
        """All children of some nodes of one level; the only child of a single-row node is its row."""
        if level >= self.levels:  # only suffixes are left: every row is a child
            parent, rows = ranges(nodes, counts)
            return Children(parent, rows, np.ones_like(rows), self.suffix(rows))
        long = counts > self.scanned
        if not long.any():
            return self._scan(nodes, counts, level)
        if long.all():
            return self._look_up(nodes, counts, level)
        parts = []
        for some, children in ((~long, self._scan), (long, self._look_up)):
            found = children(nodes[some], counts[some], level)
            parts.append(found._replace(parent=np.flatnonzero(some)[found.parent]))
        return in_order(parts)

    def _scan(self, nodes: I64, counts: I64, level: int) -> Children:
        parent, rows = ranges(nodes, counts)
        codes = self.code(rows, level)
        begins = np.empty(len(rows) + 1, bool)  # where a child begins, and at the end of all rows
        np.not_equal(codes[1:], codes[:-1], out=begins[1:-1])
        begins[np.cumsum(counts)] = begins[0] = True
        at = np.flatnonzero(begins)
        first = at[:-1]
        return Children(
            parent.take(first), rows.take(first), at[1:] - first, codes.take(first).astype(np.int64)
        )

    def _look_up(self, nodes: I64, counts: I64, level: int) -> Children:
        here = slice(*self.starts[level : level + 2])
        offsets, ends = self.offsets[here], nodes + counts
        first, last = np.searchsorted(offsets, np.stack([nodes, ends]).astype(np.int32))
        parent, at = ranges(first, last - first)
        rows = offsets.take(at).astype(np.int64)
        following = np.empty_like(rows)
        following[:-1] = rows[1:]
        following[np.cumsum(last - first) - 1] = ends
        return Children(parent, rows, following - rows, self.symbols[here].take(at).astype(np.int64))

    def descendants(self, nodes: I64, counts: I64) -> tuple[I64, I64]:
        """(n,) the node each descendant comes from, by its position, and (n,) all descendant rows."""
        return ranges(nodes, counts)

    def row(self, nodes: I64) -> I64:
        """The first descendant row of each node."""
        return nodes

    def code(self, rows: I64, level: int) -> NDArray[np.unsignedinteger[Any]]:
        """The code each row has at one level."""
        codes: NDArray[np.unsignedinteger[Any]] = self.codes.ravel().take(rows * self.levels + level)
        return codes

    def codes_of(self, rows: I64) -> NDArray[np.unsignedinteger[Any]]:
        """(n, L) all codes of each row."""
        codes: NDArray[np.unsignedinteger[Any]] = self.codes.take(rows, 0)
        return codes

    def suffix(self, rows: I64) -> I64:
        """The suffix of each row, 0 where no other row has its codes."""
        suffixes: I64 = self.suffixes[rows].astype(np.int64)
        return suffixes

    def table(self, rows: I64) -> I64:
        """The table of each row."""
        tables: I64 = self.tables[rows].astype(np.int64)
        return tables

    def find(self, codes: U8, suffixes: NDArray[np.integer]) -> I64:
        """(n,) the row of each identifier, -1 where there is none: binary search, all at once."""
        wanted = np.column_stack([codes, suffixes]).astype(np.int64)
        low, high = np.zeros(len(codes), np.int64), np.full(len(codes), len(self))
        while (open_ := low < high).any():
            middle = (low + high) // 2
            before = open_ & _before(self._identifiers(np.minimum(middle, len(self) - 1)), wanted)
            low, high = np.where(before, middle + 1, low), np.where(open_ & ~before, middle, high)
        there = low < len(self)
        there[there] = (self._identifiers(low[there]) == wanted[there]).all(1)
        return np.where(there, low, -1)

    def _identifiers(self, rows: I64) -> I64:
        """(n, L + 1) codes and suffix."""
        return np.column_stack([self.codes[rows].astype(np.int64), self.suffix(rows)])

    def save(self, folder: Path) -> None:
        """Write one `.npy` per array."""
        folder.mkdir(parents=True, exist_ok=True)
        for field in fields(self):
            with replacing(folder / f"{field.name}.npy") as file:
                np.save(file, getattr(self, field.name), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Trie:
        """Map the arrays from a folder; one that is damaged or does not fit raises `ValueError`."""
        trie = cls(*(_load(folder / f"{field.name}.npy") for field in fields(cls)))
        lengths: list[tuple[NDArray[Any], NDArray[Any]]] = [
            (trie.codes, trie.tables),
            (trie.codes, trie.suffixes),
            (trie.offsets, trie.symbols),
        ]
        fit = trie.codes.ndim == 2 and trie.codes.dtype.kind == "u" and len(trie.starts) == trie.levels + 1
        fit = fit and all(len(one) == len(other) for one, other in lengths)
        if not fit or trie.starts[0] != 0 or trie.starts[-1] != len(trie.offsets):
            raise ValueError(f"the arrays in {folder} do not fit each other")
        return trie


def _before(some: I64, others: I64) -> NDArray[np.bool_]:
    """(n,) whether each row of some (n, m) numbers sorts before that of others."""
    differs = some != others
    at = differs.argmax(1)[:, None]
    less: NDArray[np.bool_] = np.take_along_axis(some < others, at, 1)[:, 0]
    return less


def _load(path: Path) -> NDArray[Any]:
    try:
        with np.errstate(over="raise"):  # a wrong size in the header may overflow
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except (ValueError, EOFError, FloatingPointError) as error:
        raise ValueError(f"{path}: {error}") from error
    return array


def build_trie(
    codes: U8, suffixes: NDArray[np.integer], tables: NDArray[np.integer], scanned: int = SCANNED
) -> Trie:
    """The tree of (N, L) codes: rows sorted, and the child offsets of long runs, level by level."""
    count, levels = codes.shape
    order = np.lexsort((suffixes, *codes.T[::-1]))
    codes, suffixes, tables = np.ascontiguousarray(codes[order]), suffixes[order], tables[order]
    # (N,) the first level at which a row differs from the row before it; `levels`: only in the suffix.
    differs = np.full(count, levels, np.uint16)
    for level in reversed(range(levels)):
        differs[1:][codes[1:, level] != codes[:-1, level]] = level
    offsets: list[I64] = []
    runs = np.zeros(min(count, 1), np.int64)  # where the runs of the level begin
    for level in range(levels):
        long = np.diff(runs, append=count) > scanned
        if not long.any():
            break
        begins = differs <= level
        begins[0] = True
        runs, before = np.flatnonzero(begins), runs
        inside = long[np.searchsorted(before, runs, "right") - 1]
        offsets.append(runs[inside])
    widths = [len(some) for some in offsets] + [0] * (levels - len(offsets))
    return Trie(
        codes,
        tables.astype(np.int32),
        suffixes.astype(np.min_scalar_type(suffixes.max(initial=0))),
        np.concatenate([np.zeros(0, np.int32), *offsets]).astype(np.int32),
        np.concatenate([np.zeros(0, codes.dtype), *(codes[rows, at] for at, rows in enumerate(offsets))]),
        np.concatenate([[0], np.cumsum(widths, dtype=np.int64)]),
        np.array(scanned, np.int64),
    )


def in_order(parts: list[Children]) -> Children:
    """Children of disjoint sets of nodes, in the order of their parents."""
    together = Children(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(together.parent, kind="stable")
    return Children(*(column[order] for column in together))


def ranges(first: I64, count: I64) -> tuple[I64, I64]:
    """All numbers of the ranges [first, first + count), and before them the range each is of."""
    parent = np.repeat(np.arange(len(first)), count)
    return parent, np.arange(len(parent)) + np.repeat(first - np.cumsum(count) + count, count)
