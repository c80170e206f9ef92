"""The column signatures of the tables: what search aligns a query with, without opening a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gentus.align.signatures import SIGNATURE, Signatures
from gentus.index.catalogue.database import Database
from gentus.index.catalogue.row_checksums import SIGNATURE_ROW, AlteredError, verified


class SignedColumns(NamedTuple):
    """The columns of a table that have cells."""

    signatures: Signatures
    written: str  # names as JSON: most are never needed

    @classmethod
    def of(cls, names: list[str], signatures: Signatures) -> SignedColumns:
        """Columns that are not stored yet."""
        return cls(signatures, json.dumps(names, separators=(",", ":")))

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        names: list[str] = json.loads(self.written)
        if len(names) != len(self.signatures):
            raise AlteredError(f"{len(self.signatures)} columns have {len(names)} names")
        return names


@dataclass(frozen=True, slots=True)
class SignatureStore:
    """One row per table. A row goes with its table."""

    _database: Database

    def put(self, columns: Mapping[int, SignedColumns]) -> None:
        """Store the columns of tables by id."""
        self._database.db.executemany(
            "INSERT OR REPLACE INTO signatures (id, names, columns) VALUES (?, ?, ?)",
            ((table, one.written, one.signatures.tobytes()) for table, one in columns.items()),
        )

    def of(self, ids: Iterable[int]) -> dict[int, SignedColumns]:
        """The columns of some tables, by id; one that was removed has none."""
        found = self._database.select_in(f"SELECT {SIGNATURE_ROW} FROM signatures WHERE id IN", ids)
        return dict(map(_columns, verified(found)))

    def bytes(self) -> tuple[int, int]:
        """(columns, bytes) that all rows have."""
        columns, size = self._database.db.execute(
            "SELECT sum(length(columns)), sum(length(columns) + length(CAST(names AS BLOB))) FROM signatures"
        ).fetchone()
        return (columns or 0) // SIGNATURE.itemsize, size or 0


def _columns(row: tuple[Any, ...]) -> tuple[int, SignedColumns]:
    table, written, packed, _ = row
    if not isinstance(written, str) or not isinstance(packed, bytes) or len(packed) % SIGNATURE.itemsize:
        raise AlteredError(f"the columns of table {table} are not what was written")
    return int(table), SignedColumns(np.frombuffer(packed, SIGNATURE), written)
