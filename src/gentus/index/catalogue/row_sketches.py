"""The row sketches of the tables: hashes of their rows, by which tables with the same rows are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gentus.index.catalogue.database import Database
from gentus.index.catalogue.row_checksums import SKETCH_ROW, AlteredError, verified
from gentus.table import RowSketch


@dataclass(frozen=True, slots=True)
class RowSketchStore:
    """One row per table that has enough content. A row goes with its table."""

    _database: Database

    def put(self, sketches: Mapping[int, RowSketch | None]) -> None:
        """Store the sketches of tables by id; None deletes."""
        self._database.db.executemany(
            "INSERT OR REPLACE INTO row_sketches (id, rows, complete, digest, smallest)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                (table, one.rows, int(one.complete), one.digest, one.smallest)
                for table, one in sketches.items()
                if one is not None
            ),
        )
        self._database.db.executemany(
            "DELETE FROM row_sketches WHERE id = ?",
            ((table,) for table, one in sketches.items() if one is None),
        )

    def of(self, ids: Iterable[int]) -> dict[int, RowSketch]:
        """The sketches of some tables, by id; one with too little content has none."""
        found = self._database.select_in(f"SELECT {SKETCH_ROW} FROM row_sketches WHERE id IN", ids)
        return dict(map(_sketch, verified(found)))

    def count(self) -> int:
        """How many sketches there are, also of tables that cannot be found."""
        return int(self._database.db.execute("SELECT count(*) FROM row_sketches").fetchone()[0])

    def each(self) -> Iterator[tuple[int, RowSketch]]:
        """The ids and sketches of all tables that can be found, in the order of names."""
        found = self._database.db.execute(
            f"SELECT {SKETCH_ROW} FROM (SELECT row_sketches.*, name FROM tables"
            " JOIN row_sketches ON row_sketches.id = tables.id WHERE codes IS NOT NULL) ORDER BY name"
        )
        return map(_sketch, verified(found))


def _sketch(row: tuple[Any, ...]) -> tuple[int, RowSketch]:
    table, rows, complete, digest, smallest, _ = row
    blobs = isinstance(digest, bytes) and isinstance(smallest, bytes)
    if not blobs or len(digest) != 8 or not smallest or len(smallest) % 4 or not isinstance(rows, int):
        raise AlteredError(f"the row sketch of table {table} is none")
    return int(table), RowSketch(rows, bool(complete), digest, smallest)
