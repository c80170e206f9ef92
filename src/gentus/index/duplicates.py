"""Duplicates in a lake: tables with the same rows, or nearly, found by row sketches. No file is opened.

Tables with equal digests are exact copies. Of one of each, those that share one of their smallest hashes are
compared, each with a few of similar length, so that time grows with the tables and not with their pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64, U64
from gentus.index.catalogue import Catalogue, TableShape
from gentus.index.row_overlap import (
    CONTAINS,
    KEYS,
    KINDS,
    MIN_SHARE,
    NO_ROW,
    NONE,
    Kind,
    SketchMatrix,
    rows_in_words,
    shared_values,
)
from gentus.lake.row_sketch import KEPT

_NEAREST = 8  # tables with the same hash that a table is compared with
_AT_ONCE = 4096  # pairs compared together
_SLICE = 1 << 22  # hashes sorted together


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A table whose rows are those of another."""

    table: str
    kind: Kind  # exact, near, or contained: the other has more rows
    share: float  # of its rows that the other has; an estimate unless exact
    of: str  # the other table
    rows: int  # as sampled
    columns: int
    complete: bool  # all of its rows were compared; else its first ones

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """In words."""
        told = rows_in_words(self.kind, self.share, self.of)
        if not self.complete:
            told += " (the first rows were compared)"
        match self.kind:
            case "exact":
                return f"{self.table} has the {told}"
            case "near":
                return f"{self.table} {told}"
        return f"{self.table}: {told}"


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """A table, and those whose rows are in it or in each other."""

    table: str
    rows: int  # as sampled
    columns: int
    duplicates: list[Duplicate]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Duplicates:
    """All duplicates of a lake."""

    tables: int  # that have enough content to be compared
    groups: list[DuplicateGroup]  # in the order of names
    exact_bytes: int  # that the files of exact copies take, the first of each not counted

    def count(self, kind: Kind) -> int:
        """How many tables are duplicates of a kind."""
        return sum(one.kind == kind for group in self.groups for one in group.duplicates)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Link:
    """A table and the one whose rows it has, by their places."""

    other: int
    kind: Kind
    share: float


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The row sketches of n tables, in the order of names."""

    ids: I64  # (n,)
    rows: I64  # (n,) distinct ones
    complete: NDArray[np.bool_]  # (n,)
    first: I64  # (n,) the first table with the same digest
    matrix: SketchMatrix


def find_duplicates(catalogue: Catalogue, min_share: float = MIN_SHARE) -> Duplicates:
    """Exact and near duplicates; near ones have at least this share of their rows in another table."""
    if not 0.5 <= min_share <= 1:
        raise ValueError(f"the least share is {min_share:g}; give one from 0.5 to 1")
    with catalogue.transaction(read=True):
        loaded = _load(catalogue)
        copies = np.flatnonzero(loaded.first != np.arange(len(loaded.ids)))
        links = {at: _Link(int(loaded.first[at]), "exact", 1.0) for at in copies.tolist()}
        links |= _near(loaded, min_share)
        places = sorted({*links, *(link.other for link in links.values())})
        ids = dict(zip(places, loaded.ids[places].tolist(), strict=True))
        found = catalogue.tables.shapes(ids.values())
    shapes = {place: found[table] for place, table in ids.items()}
    taken = _bytes(copies.tolist(), links, shapes)
    return Duplicates(len(loaded.ids), _groups(links, shapes, loaded.complete), taken)


def _load(catalogue: Catalogue) -> _Loaded:
    count = catalogue.row_sketches.count()
    numbers = np.zeros((count, 3), np.int64)  # id, rows, complete
    digests = np.zeros(count, np.uint64)
    smallest, last = np.zeros((count, KEPT), np.uint32), np.zeros(count, np.uint32)
    left, end = catalogue.row_sketches.each(), 0
    while some := list(islice(left, _AT_ONCE)):
        begin, end = end, end + len(some)
        numbers[begin:end] = [(table, one.rows, one.complete) for table, one in some]
        digests[begin:end] = np.frombuffer(b"".join(one.digest for _, one in some), "<u8")
        part = SketchMatrix.of([one for _, one in some])
        smallest[begin:end], last[begin:end] = part.smallest, part.last
    ids, rows, complete = numbers[:end].T
    _, firsts, of = np.unique(digests[:end], return_index=True, return_inverse=True)
    matrix = SketchMatrix(smallest[:end], last[:end])
    return _Loaded(ids, rows, complete.astype(bool), firsts[of], matrix)


def _near(loaded: _Loaded, min_share: float) -> dict[int, _Link]:
    """For every distinct table the longer one, or the one before it, that has most of its rows."""
    distinct = np.unique(loaded.first)
    distinct = distinct[np.argsort(-loaded.rows[distinct], kind="stable")]  # the longest first
    best = np.zeros(len(loaded.ids))
    links: dict[int, _Link] = {}
    for ours, others in _candidates(loaded.matrix, distinct):
        kinds, shares = loaded.matrix.compare(ours, others, min_share)
        better = (kinds != NONE) & (kinds != CONTAINS) & (shares > best[ours])
        for our, other, kind, share in zip(
            *(some[better].tolist() for some in (ours, others, kinds, shares)), strict=True
        ):
            if share > best[our]:
                best[our] = share
                links[our] = _Link(other, KINDS[kind], round(share, 2))
    return links


def _candidates(matrix: SketchMatrix, distinct: I64) -> Iterator[tuple[I64, I64]]:
    """Pairs of tables with a common hash, the later one of the list first, some thousand at a time."""
    slices = 1 + len(distinct) * KEYS // _SLICE
    for number in range(slices):
        owners, values = shared_values(*_keys(matrix, distinct, slices, number))
        pairs = [np.zeros(0, np.int64)]
        for step in range(1, _NEAREST + 1):
            same = np.flatnonzero(values[step:] == values[:-step])
            pairs.append(owners[same + step] * len(distinct) + owners[same])
        found = np.unique(np.concatenate(pairs))
        for begin in range(0, len(found), _AT_ONCE):
            ours, others = np.divmod(found[begin : begin + _AT_ONCE], len(distinct))
            yield distinct[ours], distinct[others]


def _keys(matrix: SketchMatrix, distinct: I64, slices: int, number: int) -> tuple[U64, U64]:
    """(m,) owners and hashes of one slice of all smallest hashes; the last bits tell the slice."""
    owners, values = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for begin in range(0, len(distinct), _AT_ONCE):
        some = matrix.smallest[distinct[begin : begin + _AT_ONCE], :KEYS]
        at, place = np.nonzero((some % slices == number) & (some != NO_ROW))
        owners.append((at + begin).astype(np.uint64))
        values.append(some[at, place].astype(np.uint64))
    return np.concatenate(owners), np.concatenate(values)


def _groups(
    links: dict[int, _Link], shapes: dict[int, TableShape], complete: NDArray[np.bool_]
) -> list[DuplicateGroup]:
    members: dict[int, list[Duplicate]] = {}
    for table, link in links.items():
        top = table
        while top in links:  # a link leads to a longer table, or to one before
            top = links[top].other
        shape, whole = shapes[table], bool(complete[table] and complete[link.other])
        told = (link.kind, link.share, shapes[link.other].name, shape.rows, shape.columns, whole)
        members.setdefault(top, []).append(Duplicate(shape.name, *told))
    groups = [
        DuplicateGroup(shapes[top].name, shapes[top].rows, shapes[top].columns, sorted(some, key=_order))
        for top, some in members.items()
    ]
    return sorted(groups, key=lambda group: group.table)


def _order(one: Duplicate) -> tuple[int, str]:
    return KINDS.index(one.kind), one.table


def _bytes(copies: list[int], links: dict[int, _Link], shapes: dict[int, TableShape]) -> int:
    """What exact copies take: whole files only, each once."""
    sizes = {shapes[table].real_path: shapes[table].size for table in copies if shapes[table].part is None}
    for table in copies:  # another name of the same file takes nothing
        sizes.pop(shapes[links[table].other].real_path, None)
    return sum(sizes.values())
