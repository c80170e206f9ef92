"""Where the features of each table are in the cache: the number of a chunk, and a slot in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gentus.index.catalogue.database import Database
from gentus.index.catalogue.row_checksums import CHUNK_ROW, ID_ROW, verified

FeatureSlots: TypeAlias = NDArray[np.int64]  # (n, 3) table id, chunk, slot


@dataclass(frozen=True, slots=True)
class ChunkStore:
    """Chunks of features, each a file of the cache with a CRC."""

    _database: Database

    def numbers(self) -> set[int]:
        """The chunks that hold features of some table."""
        found = self._database.db.execute("SELECT DISTINCT chunk FROM tables WHERE chunk IS NOT NULL")
        return {chunk for (chunk,) in found}

    def next_number(self) -> int:
        """A chunk number not used yet."""
        (highest,) = self._database.db.execute("SELECT max(chunk) FROM tables").fetchone()
        return 0 if highest is None else highest + 1

    def slots(self) -> FeatureSlots:
        """Every table that was read, in the order of names."""
        return self._slots("chunk IS NOT NULL ORDER BY name")

    def pending(self) -> FeatureSlots:
        """Tables whose features are newer than their identifier."""
        return self._slots("pending AND chunk IS NOT NULL ORDER BY name")

    def small(self, few: int) -> FeatureSlots:
        """Tables in chunks that hold fewer than so many."""
        return self._slots(
            "chunk IN (SELECT chunk FROM tables WHERE chunk IS NOT NULL GROUP BY chunk HAVING count(*) < ?)"
            " ORDER BY chunk, slot",
            few,
        )

    def widths(self) -> NDArray[np.int64]:
        """How many columns each table has that was read, in the order of names."""
        found = self._database.db.execute("SELECT columns FROM tables WHERE chunk IS NOT NULL ORDER BY name")
        return np.fromiter((width or 0 for (width,) in found), np.int64)

    def crc(self, number: int) -> int | None:
        """The CRC of a chunk; None if there is none."""
        found = self._database.db.execute(f"SELECT {CHUNK_ROW} FROM chunks WHERE number = ?", (number,))
        return next((crc for _, crc, _ in verified(found)), None)

    def put(self, number: int, crc: int) -> None:
        """Note the CRC of a chunk."""
        self._database.db.execute("INSERT OR REPLACE INTO chunks (number, crc) VALUES (?, ?)", (number, crc))

    def move(self, slots: Iterable[tuple[int, int, int]]) -> None:
        """Note that the features of tables (id, chunk, slot) are elsewhere now."""
        self._database.db.executemany("UPDATE tables SET chunk = ?2, slot = ?3 WHERE id = ?1", slots)

    def delete_unused(self) -> None:
        """Delete the CRCs of chunks that hold features of no table."""
        self._database.db.execute(
            "DELETE FROM chunks WHERE number NOT IN (SELECT chunk FROM tables WHERE chunk IS NOT NULL)"
        )

    def _slots(self, condition: str, *values: Any) -> FeatureSlots:
        """As an array, which takes a sixth of the memory of tuples."""
        found = verified(self._database.db.execute(f"SELECT {ID_ROW} FROM tables WHERE {condition}", values))
        slots = ((row[0], row[4], row[5]) for row in found)
        return np.fromiter(chain.from_iterable(slots), np.int64).reshape(-1, 3)
