"""Duplicates in a lake: tables with the same rows, or nearly, found by row sketches. No file is opened.

Tables with equal digests are exact copies. Of one of each, those that share one of their smallest hashes are
compared, each with a few of similar length, so that time grows with the tables and not with their pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gentus.arrays import I64
from gentus.index.catalogue import Catalogue, TableShape
from gentus.index.row_overlap import (
    CONTAINS,
    KINDS,
    MIN_SHARE,
    NONE,
    Kind,
    SketchMatrix,
    rows_in_words,
    shared_values,
)
from gentus.table import RowSketch

_KEYS = 32  # of a table's smallest hashes: near duplicates have most of them in common
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
        verb = "" if self.kind != "exact" else "has the "
        told = rows_in_words(self.kind, self.share, self.of)
        if self.kind == "contained":
            return f"{self.table}: {told}"
        return f"{self.table} {verb}{told}"


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
    """A table and the one whose rows it has."""

    other: int
    kind: Kind
    share: float


def find_duplicates(catalogue: Catalogue, min_share: float = MIN_SHARE) -> Duplicates:
    """Exact and near duplicates; near ones have at least this share of their rows in another table."""
    if not 0.5 <= min_share <= 1:
        raise ValueError(f"the least share is {min_share:g}; give one from 0.5 to 1")
    with catalogue.transaction(read=True):
        loaded = _load(catalogue)
        links = loaded.copies | _near(loaded, min_share)
        shapes = catalogue.tables.shapes({*links, *(link.other for link in links.values())})
    copies = [table for table, link in links.items() if link.kind == "exact"]
    return Duplicates(loaded.tables, _groups(links, shapes, loaded.partial), _bytes(copies, links, shapes))


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The sketches of a lake: exact copies, and one table of each."""

    tables: int
    ids: I64  # (n,) of distinct tables, those with most rows first
    matrix: SketchMatrix  # of the same
    copies: dict[int, _Link]
    partial: set[int]  # ids of tables of which only the first rows were compared


def _load(catalogue: Catalogue) -> _Loaded:
    first: dict[bytes, int] = {}  # by digest
    copies: dict[int, _Link] = {}
    partial: set[int] = set()
    ids: list[int] = []
    rows: list[int] = []
    parts: list[SketchMatrix] = []
    waiting: list[RowSketch] = []
    count = 0
    for table, sketch in catalogue.row_sketches.each():
        count += 1
        if not sketch.complete:
            partial.add(table)
        if (original := first.setdefault(sketch.digest, table)) != table:
            copies[table] = _Link(original, "exact", 1.0)
            continue
        ids.append(table)
        rows.append(sketch.rows)
        waiting.append(sketch)
        if len(waiting) == _AT_ONCE:
            parts.append(SketchMatrix.of(waiting))
            waiting = []
    parts.append(SketchMatrix.of(waiting))
    order = np.argsort(-np.array(rows, np.int64), kind="stable")
    smallest = np.concatenate([part.smallest for part in parts])[order]
    last = np.concatenate([part.last for part in parts])[order]
    return _Loaded(count, np.array(ids, np.int64)[order], SketchMatrix(smallest, last), copies, partial)


def _near(loaded: _Loaded, min_share: float) -> dict[int, _Link]:
    """For every distinct table the longer one, or the one before it, that has most of its rows."""
    best = np.zeros(len(loaded.ids))
    links: dict[int, _Link] = {}
    for ours, others in _candidates(loaded.matrix):
        kinds, shares = loaded.matrix.compare(ours, others, min_share)
        for at in np.flatnonzero((kinds != NONE) & (kinds != CONTAINS) & (shares > best[ours])):
            our, share = ours[at], float(shares[at])
            if share > best[our]:
                best[our] = share
                other = int(loaded.ids[others[at]])
                links[int(loaded.ids[our])] = _Link(other, KINDS[kinds[at]], round(share, 2))
    return links


def _candidates(matrix: SketchMatrix) -> Iterator[tuple[I64, I64]]:
    """Pairs of tables with a common hash, the longer table second, some thousand at a time."""
    keys = matrix.smallest[:, :_KEYS]
    slices = 1 + keys.size // _SLICE
    for number in range(slices):
        # Hashes are small numbers here, so their last bits tell the slices.
        some = keys if slices == 1 else np.where(keys % slices == number, keys, keys.dtype.type(0xFFFFFFFF))
        owners, values = shared_values(some, np.arange(len(keys), dtype=np.uint64))
        pairs = [np.zeros(0, np.int64)]
        for step in range(1, _NEAREST + 1):
            same = np.flatnonzero(values[step:] == values[:-step])
            pairs.append(owners[same + step] * len(keys) + owners[same])
        found = np.unique(np.concatenate(pairs))
        for begin in range(0, len(found), _AT_ONCE):
            yield np.divmod(found[begin : begin + _AT_ONCE], len(keys))


def _groups(
    links: dict[int, _Link], shapes: dict[int, TableShape], partial: set[int]
) -> list[DuplicateGroup]:
    members: dict[int, list[Duplicate]] = {}
    for table, link in links.items():
        top = table
        while top in links:  # a link leads to a longer table, or to one before
            top = links[top].other
        shape, complete = shapes[table], not {table, link.other} & partial
        told = (link.kind, link.share, shapes[link.other].name, shape.rows, shape.columns, complete)
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
