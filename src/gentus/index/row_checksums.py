"""Seals: check values in every row of the catalogue, so that a row that was altered is not believed.

SQLite notices neither a letter nor a number that has changed on the disk, and the file as a whole changes
too often for one checksum. So each row carries a CRC of what answers are made of. Triggers write it; they
belong to the writing connection, not to the file. Whoever reads a row for an answer looks at it.

This is against damage, not against forgers: whoever may write an index may make it say anything. What a
forged catalogue cannot do is to run something: a schema that is not exactly ours is refused.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

# A wrong size, mtime_ns or hash only makes a table be read again; `error` only gives advice on a refit.
NAMED = ("id", "name", "path", "real", "part", "rows", "columns", "skipped")
PLACED = ("id", "codes", "suffix", "serial", "chunk", "slot", "pending")
_SEALS: dict[str, dict[str, tuple[str, ...]]] = {  # by table and seal, what it is made of
    "tables": {"named": NAMED, "placed": PLACED},
    "removed": {"seal": ("codes", "suffix", "born", "serial")},
    "chunks": {"seal": ("number", "crc")},
    "labels": {"seal": ("query", "candidate")},
    "meta": {"seal": ("key", "value")},
}


class AlteredError(sqlite3.DatabaseError):
    """A row that is not what was written."""


def seal(*values: Any) -> int:
    """The check value of some values. The same on every machine and in every version of Python."""
    return zlib.crc32(ascii(values).encode())


def sealed(table: str, name: str = "seal") -> str:
    """The columns to select for `sound`: those of a seal, and the seal itself."""
    return ", ".join((*_SEALS[table][name], name))


def sound(rows: Iterable[tuple[Any, ...]], begin: int = 0) -> Iterator[tuple[Any, ...]]:
    """The same rows, each looked at: from `begin` on, what is sealed, and last the seal."""
    for row in rows:
        if zlib.crc32(ascii(row[begin:-1]).encode()) != row[-1]:
            raise AlteredError(_altered(row[begin:-1]))
        yield row


def altered(db: sqlite3.Connection) -> Iterator[str]:
    """What is not as it was written, in words."""
    for table, seals in _SEALS.items():
        for name in seals:
            for row in db.execute(f"SELECT {sealed(table, name)} FROM {table}"):
                if seal(*row[:-1]) != row[-1]:
                    yield f"in {table}, {_altered(row[:-1])}"
    (found,) = db.execute("SELECT count(*) FROM tables WHERE codes IS NOT NULL").fetchone()
    ((told,),) = db.execute("SELECT value FROM meta WHERE key = 'identified'").fetchall() or [(None,)]
    if found != told:
        yield f"{found} tables have an identifier, and {told} were written"


def _altered(values: tuple[Any, ...]) -> str:
    return f"the row of {', '.join(repr(value)[:80] for value in values[:2])} is not what was written"


def write_seals(db: sqlite3.Connection) -> None:
    """From now on, rows that this connection writes are sealed, and tables with an identifier counted."""
    db.create_function("seal", -1, seal, deterministic=True)
    db.execute("PRAGMA temp_store = MEMORY")  # where triggers of a connection lie
    for table, seals in _SEALS.items():
        written = {name: _written(name, of) for name, of in seals.items()}
        _trigger(db, f"{table}_new", f"INSERT ON main.{table}", table, ", ".join(written.values()))
        for name, of in seals.items():
            _trigger(
                db, f"{table}_{name}", f"UPDATE OF {', '.join(of)} ON main.{table}", table, written[name]
            )
    count = "UPDATE meta SET value = value + {} WHERE key = 'identified'"
    db.execute(
        "CREATE TEMP TRIGGER tables_counted AFTER UPDATE OF codes ON main.tables"
        " WHEN (old.codes IS NULL) <> (new.codes IS NULL)"
        f" BEGIN {count.format('(old.codes IS NULL) - (new.codes IS NULL)')}; END"
    )
    db.execute(
        "CREATE TEMP TRIGGER tables_uncounted AFTER DELETE ON main.tables WHEN old.codes IS NOT NULL"
        f" BEGIN {count.format(-1)}; END"
    )


def _written(name: str, of: tuple[str, ...]) -> str:
    return f"{name} = seal({', '.join(f'new.{column}' for column in of)})"


def _trigger(db: sqlite3.Connection, name: str, when: str, table: str, written: str) -> None:
    body = f"UPDATE {table} SET {written} WHERE rowid = new.rowid"
    db.execute(f"CREATE TEMP TRIGGER {name} AFTER {when} BEGIN {body}; END")
