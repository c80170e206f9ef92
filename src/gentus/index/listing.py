"""The list of all tables of an index: names, shapes and identifiers, and which names contain some words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.identifiers.semantic_ids import format_sids
from gentus.index.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table, as a list shows it."""

    name: str
    rows: int  # as sampled
    more_rows: bool  # the sample was full, so there may be more
    columns: int
    sid: str  # its identifier

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TableList:
    """N tables, sorted by name."""

    names: list[str]
    folded: list[str]  # case-folded names
    rows: list[int]  # as sampled
    columns: list[int]
    codes: NDArray[np.unsignedinteger[Any]]  # (N, L)
    suffixes: NDArray[np.int64]  # (N,)
    sample_rows: int  # a sample of so many rows is full

    @classmethod
    def load(cls, catalogue: Catalogue, sample_rows: int) -> TableList:
        """Read the catalogue."""
        found = catalogue.listed()
        folded = [name.casefold() for name in found.names]
        return cls(found.names, folded, found.rows, found.columns, found.codes, found.suffixes, sample_rows)

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self.names)

    def matching(self, words: str) -> Sequence[int]:
        """The positions of the tables whose names contain all words, in any case."""
        wanted = words.casefold().split()
        if not wanted:
            return range(len(self))
        return [at for at, name in enumerate(self.folded) if all(word in name for word in wanted)]

    def position(self, name: str) -> int | None:
        """The position of a table by its name."""
        at = bisect_left(self.names, name)
        return at if at < len(self) and self.names[at] == name else None

    def entries(self, positions: Sequence[int]) -> list[TableEntry]:
        """Some of the tables."""
        at = np.asarray(positions, np.int64)
        sids = format_sids(self.codes[at], self.suffixes[at])
        return [
            TableEntry(
                self.names[one], self.rows[one], self.rows[one] >= self.sample_rows, self.columns[one], sid
            )
            for one, sid in zip(positions, sids, strict=True)
        ]
