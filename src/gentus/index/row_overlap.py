"""How many rows tables have in common, estimated from row sketches, and what to say of hits of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F64, I64, U64
from gentus.lake.row_sketch import KEPT
from gentus.table import RowSketch

Kind: TypeAlias = Literal["exact", "near", "contained", "contains"]
KINDS: tuple[Kind, ...] = ("exact", "near", "contained", "contains")
EXACT, NEAR, CONTAINED, CONTAINS = range(4)
NONE = -1
MIN_SHARE = 0.8  # of the rows, for tables to be called near duplicates
KEYS = 32  # of a table's smallest hashes are looked up: near duplicates have most of them in common
FEWEST_COMPARED = 8  # rows, unless all are the same
NO_ROW = np.uint32(0xFFFFFFFF)  # fills a row of the matrix
_OWNER_BITS = np.uint64(24)


@dataclass(frozen=True, slots=True)
class SameRows:
    """What a hit of a search has in common with the query or with a hit before it."""

    kind: Kind  # "contained": its rows are in the other; "contains": the other's rows are in it
    share: float  # of its rows, or of the other's for "contains"; an estimate unless exact
    rank: int  # of the hit before it; 0: the query

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"words": str(self)}

    def __str__(self) -> str:
        """In words."""
        return rows_in_words(self.kind, self.share, f"#{self.rank}" if self.rank else "your table")


def rows_in_words(kind: Kind, share: float, other: str) -> str:
    """What one table has in common with another: "same rows as a.csv"."""
    percent = f"about {share:.0%}".replace("%", " %") if share < 0.995 else "nearly all"
    match kind:
        case "exact":
            return f"same rows as {other}"
        case "near":
            return f"shares {percent} of its rows with {other}"
        case "contained":
            return f"{percent} of its rows are in {other}, which has more"
    return f"has {percent} of the rows of {other}, and more"


@dataclass(frozen=True, slots=True)
class SketchMatrix:
    """Row sketches of n tables as arrays."""

    smallest: NDArray[np.uint32]  # (n, KEPT) ascending; unused places at the end
    last: NDArray[np.uint32]  # (n,) no row with a hash up to this is missing

    @classmethod
    def of(cls, sketches: Sequence[RowSketch]) -> SketchMatrix:
        """From sketches."""
        filled = b"".join(one.smallest[: 4 * KEPT].ljust(4 * KEPT, b"\xff") for one in sketches)
        smallest = np.frombuffer(filled, "<u4").reshape(-1, KEPT).astype(np.uint32, copy=False)
        more = np.array([one.rows * 4 > len(one.smallest) for one in sketches], bool)
        largest = np.where(smallest == NO_ROW, 0, smallest).max(1, initial=0)
        return cls(smallest, np.where(more, largest, NO_ROW - np.uint32(1)))

    def overlaps(self, ours: I64, others: I64) -> tuple[I64, I64, I64]:
        """(p,) rows in common, our rows and the others', of p pairs of tables, as far as sketches tell.

        Up to the smaller of the two last hashes both sketches have every row: a fair sample of both tables.
        """
        limit = np.minimum(self.last[ours], self.last[others])[:, None]
        mine, theirs = self.smallest[ours], self.smallest[others]  # (p, KEPT)
        both = np.sort(np.concatenate([mine, theirs], 1), 1)
        common = ((both[:, 1:] == both[:, :-1]) & (both[:, 1:] <= limit)).sum(1)
        return common, (mine <= limit).sum(1), (theirs <= limit).sum(1)

    def compare(self, ours: I64, others: I64, min_share: float) -> tuple[I64, F64]:
        """(p,) kinds, NONE where too little is in common, and shares, of p pairs of tables."""
        common, mine, theirs = self.overlaps(ours, others)
        inside, around = common / np.maximum(mine, 1), common / np.maximum(theirs, 1)
        kinds = np.full(len(ours), NONE, np.int64)
        kinds[around >= min_share] = CONTAINS
        kinds[inside >= min_share] = CONTAINED
        kinds[np.minimum(inside, around) >= min_share] = NEAR
        contains = kinds == CONTAINS
        kinds[np.where(contains, theirs, mine) < FEWEST_COMPARED] = NONE
        return kinds, np.where(contains, around, inside)


def tell_duplicates(
    query: RowSketch | None,
    ids: Sequence[int],
    sketches: Mapping[int, RowSketch],
    min_share: float = MIN_SHARE,
) -> list[SameRows | None]:
    """For every hit, in the order of ranks, whether it has the rows of the query or of a hit before it.

    A table without a sketch has too little content to tell.
    """
    told: list[SameRows | None] = [None] * len(ids)
    found = [(0, query)] if query is not None else []
    found += [(rank, sketches[table]) for rank, table in enumerate(ids, 1) if table in sketches]
    first: dict[bytes, int] = {}  # by digest, the place of the first table in `distinct`
    distinct: list[tuple[int, RowSketch]] = []
    for rank, sketch in found:
        at = first.setdefault(sketch.digest, len(distinct))
        if at < len(distinct):
            told[rank - 1] = SameRows("exact", 1.0, distinct[at][0])
        else:
            distinct.append((rank, sketch))
    matrix = SketchMatrix.of([sketch for _, sketch in distinct])
    ours, others = _candidates(matrix.smallest, query is not None, FEWEST_COMPARED * min_share / 2)
    if not len(ours):
        return told
    kinds, shares = matrix.compare(ours, others, min_share)
    for our, other, kind, share in zip(*(x.tolist() for x in (ours, others, kinds, shares)), strict=True):
        rank = distinct[our][0]
        if kind != NONE and told[rank - 1] is None:
            told[rank - 1] = SameRows(KINDS[kind], round(share, 2), distinct[other][0])
    return told


def _candidates(smallest: NDArray[np.uint32], query: bool, fewest: float) -> tuple[I64, I64]:
    """Pairs of tables with common hashes: each with the query, which is the first, and the best before it."""
    keys = smallest[:, :KEYS].astype(np.uint64).ravel()
    places = np.repeat(np.arange(len(smallest), dtype=np.uint64), KEYS)
    owners, values = shared_values(places[keys != NO_ROW], keys[keys != NO_ROW])
    none = np.zeros(0, np.int64)
    if not len(owners):
        return none, none
    runs = np.cumsum(np.append(False, values[1:] != values[:-1]))
    has = np.zeros((len(smallest), runs[-1] + 1), np.float32)
    has[owners, runs] = 1
    counts = np.tril(has @ has.T, -1)  # (n, n) common hashes with every table before
    best, enough = counts.argmax(1), counts.max(1) >= fewest
    like_query = np.flatnonzero(counts[:, 0] >= fewest) if query else none
    like_other = np.flatnonzero(enough & (best > 0) if query else enough)
    return np.append(like_query, like_other), np.append(np.zeros_like(like_query), best[like_other])


def shared_values(owners: U64, values: U64) -> tuple[I64, U64]:
    """(m,) owners and values of the hashes that several owners have, ordered by value and owner."""
    keys = (values << _OWNER_BITS) | owners
    keys.sort()
    values = keys >> _OWNER_BITS
    same = values[1:] == values[:-1]
    shared = np.append(same, False) | np.append(False, same) if len(keys) else np.zeros(0, bool)
    mask = (np.uint64(1) << _OWNER_BITS) - np.uint64(1)
    return (keys[shared] & mask).astype(np.int64), values[shared]
