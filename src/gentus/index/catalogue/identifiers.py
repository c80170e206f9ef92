"""The identifiers in the catalogue: codes and a suffix per table, and the change that assigned them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import U8
from gentus.index.catalogue.database import BATCH, Database
from gentus.index.catalogue.row_checksums import ID_ROW, REMOVED_ROW, AlteredError, verified


@dataclass(frozen=True, slots=True)
class Identified:
    """Identifiers, and the tables that have them."""

    codes: NDArray[np.unsignedinteger[Any]]  # (n, L)
    suffixes: NDArray[np.int64]  # (n,)
    tables: NDArray[np.int64]  # (n,) by id


_CODE_TYPES: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 4: np.uint32}  # by bytes of a code
_WITHDRAW = "UPDATE tables SET codes = NULL, suffix = NULL, assigned_in = NULL, error = NULL"
_ROWS = 10_000  # that are held as Python objects on their way into arrays


@dataclass(frozen=True, slots=True)
class IdentifierStore:
    """Identifiers are assigned and removed by changes; one that was removed is never assigned again."""

    _database: Database

    # --- reading ---------------------------------------------------------------------------------------

    def select(self, levels: int, since: int = -1, until: int | None = None) -> Identified:
        """All identifiers, or those assigned after one change and up to another."""
        last = self._database.change_sequence() if until is None else until
        condition = "assigned_in > ? AND assigned_in <= ? AND codes IS NOT NULL"
        return self._identified(condition, levels, since, last)

    def deleted(self, levels: int, since: int) -> Identified:
        """Identifiers that were there at a change and have been removed since."""
        found = self._database.db.execute(
            f"SELECT -1, {REMOVED_ROW} FROM removed WHERE removed_in > ?1 AND assigned_in <= ?1",
            (since,),
        )
        return _to_arrays(found, levels, begin=1)

    def by_name(self, levels: int) -> Identified:
        """All identifiers in the order of the names of their tables."""
        return self._identified("codes IS NOT NULL ORDER BY name", levels)

    def of_table(self, name: str, levels: int) -> tuple[NDArray[np.unsignedinteger[Any]], int] | None:
        """The codes and the suffix of one table that can be found."""
        found = self._identified("codes IS NOT NULL AND name = ?", levels, name)
        return (found.codes[0], int(found.suffixes[0])) if len(found.tables) else None

    def drift(self, fitted: int, usual: float | None) -> dict[str, Any]:
        """What was added and removed since the change `fitted`, and how many exceed a `usual` error."""
        count, error, beyond, shared, largest = self._database.db.execute(
            "SELECT count(*), avg(error), total(error > ?2), total(bucket > 1), max(bucket) FROM ("
            " SELECT error,"
            " (SELECT count(*) FROM tables AS others WHERE others.codes = tables.codes) AS bucket"
            " FROM tables WHERE assigned_in > ?1 AND codes IS NOT NULL)",
            (fitted, usual),
        ).fetchone()
        (removed,) = self._database.db.execute(
            "SELECT count(*) FROM removed WHERE assigned_in <= ?", (fitted,)
        ).fetchone()
        return {
            "added": count,
            "removed": removed,
            "error": error,
            "beyond_usual": beyond / count if count and usual is not None else None,
            "collision_rate": shared / count if count else None,
            "largest_bucket": largest,
        }

    def _identified(self, condition: str, levels: int, *values: Any) -> Identified:
        found = self._database.db.execute(f"SELECT {ID_ROW} FROM tables WHERE {condition}", values)
        return _to_arrays(found, levels)

    # --- writing ---------------------------------------------------------------------------------------

    def replace_all(
        self, ids: Iterable[int], codes: U8, suffixes: Iterable[int], errors: Iterable[float]
    ) -> int:
        """Begin a new generation of identifiers; tables not named have none. Returns the change's number."""
        change = self._database.next_change()
        self._database.db.execute("DELETE FROM removed")
        self._database.db.execute(f"{_WITHDRAW} WHERE codes IS NOT NULL")
        self._database.db.executemany(
            "UPDATE tables SET codes = ?, suffix = ?, assigned_in = ?, error = ?, pending = 0 WHERE id = ?",
            (
                (row.tobytes(), int(suffix), change, float(error), int(table))
                for table, row, suffix, error in zip(ids, codes, suffixes, errors, strict=True)
            ),
        )
        return change

    def assign(self, ids: Sequence[int], codes: U8, errors: Sequence[float]) -> None:
        """Assign identifiers of this generation; a table whose codes are what they were keeps its own."""
        change = self._database.next_change()
        before = {row[0]: row[1] for row in self._rows(ids)}
        for table, row, error in zip(ids, codes, errors, strict=True):
            code = row.tobytes()
            if before[table] == code:
                self._database.db.execute(
                    "UPDATE tables SET error = ?, pending = 0 WHERE id = ?", (float(error), table)
                )
                continue
            self._note_removed([table], change)
            self._database.db.execute(
                "UPDATE tables SET codes = ?1, suffix = (SELECT ifnull(max(suffix) + 1, 0) FROM ("
                " SELECT max(suffix) AS suffix FROM tables WHERE codes = ?1"
                " UNION ALL SELECT max(suffix) FROM removed WHERE codes = ?1)),"
                " assigned_in = ?2, error = ?3, pending = 0 WHERE id = ?4",
                (code, change, float(error), table),
            )

    def withdraw(self, names: Iterable[str]) -> None:
        """Remove the identifiers of tables that cannot be read any more."""
        found = self._database.select_in("SELECT id FROM tables WHERE codes IS NOT NULL AND name IN", names)
        change = None
        while ids := [table for (table,) in islice(found, BATCH)]:
            change = change or self._database.next_change()
            self._note_removed(ids, change)
            self._database.db.executemany(
                f"{_WITHDRAW} WHERE id = ?",
                ((table,) for table in ids),
            )

    def remove_tables(self, names: Iterable[str]) -> None:
        """Delete tables together with their identifiers."""
        change = self._database.next_change()
        found = self._database.select_in("SELECT id FROM tables WHERE name IN", names)
        while ids := [table for (table,) in islice(found, BATCH)]:
            self._note_removed(ids, change)
            self._database.db.executemany("DELETE FROM tables WHERE id = ?", ((table,) for table in ids))

    def _note_removed(self, ids: Sequence[int], change: int) -> None:
        """Note that identifiers are used up. The caller updates the tables' own rows."""
        self._database.db.executemany(
            "INSERT INTO removed (codes, suffix, assigned_in, removed_in) VALUES (?, ?, ?, ?)",
            ((*row[1:4], change) for row in self._rows(ids) if row[1] is not None),
        )

    def _rows(self, ids: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        return verified(self._database.select_in(f"SELECT {ID_ROW} FROM tables WHERE id IN", ids))


def _to_arrays(rows: Iterable[tuple[Any, ...]], levels: int, begin: int = 0) -> Identified:
    """Verified rows as arrays, some thousand at a time; checksums cover the columns from `begin` on."""
    if levels < 1:
        raise AlteredError(f"its identifiers have {levels} codes")
    left = verified(rows, begin)
    codes, numbers = [], [np.zeros((0, 2), np.int64)]
    try:
        while some := list(islice(left, _ROWS)):
            codes.append(b"".join(row[1] for row in some))
            numbers.append(np.array([(row[0], row[2]) for row in some], np.int64))
    except (TypeError, ValueError, OverflowError) as error:
        raise AlteredError(f"its identifiers are none: {error}") from error
    tables, suffixes = np.concatenate(numbers).T.copy()
    width, rest = divmod(sum(map(len, codes)), levels * len(tables)) if len(tables) else (1, 0)
    if rest or width not in _CODE_TYPES:
        raise AlteredError(f"its identifiers do not have {levels} codes")
    flat = np.frombuffer(b"".join(codes), _CODE_TYPES[width])
    return Identified(flat.reshape(-1, levels), suffixes, tables)
