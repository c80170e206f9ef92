"""Row checksums: a CRC in every row of the catalogue, so that an altered row is refused.

SQLite does not notice a letter or a number that has changed on the disk, and the file as a whole changes too
often for one checksum. Triggers of the writing connection compute the CRC; they are not stored in the file.
Every row that is read for an answer is verified.

This protects against damage, not against forgery: who may write an index can make it say anything. A forged
catalogue cannot run code: a schema that differs from ours is refused.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

# A wrong size, mtime_ns or hash only makes a table be read again; `error` only gives advice on a refit.
NAME_COLUMNS = (
    *("id", "name", "path", "real_path", "part", "rows", "columns", "skipped"),
    *("header", "doubt", "pinned", "reading", "encoding"),
)
ID_COLUMNS = ("id", "codes", "suffix", "assigned_in", "chunk", "slot", "pending")
_CHECKED: dict[str, dict[str, tuple[str, ...]]] = {  # by table and checksum, the columns it covers
    "tables": {"name_checksum": NAME_COLUMNS, "id_checksum": ID_COLUMNS},
    "removed": {"checksum": ("codes", "suffix", "assigned_in", "removed_in")},
    "chunks": {"checksum": ("number", "crc")},
    "row_sketches": {"checksum": ("id", "rows", "complete", "digest", "smallest")},
    "signatures": {"checksum": ("id", "names", "columns")},
    "labels": {"checksum": ("query", "candidate")},
    "meta": {"checksum": ("key", "value")},
}

_LONG = 64  # bytes

# By table or checksum, the columns to select for `verified`: those that a checksum covers, then the checksum.
NAME_ROW = ", ".join((*NAME_COLUMNS, "name_checksum"))
ID_ROW = ", ".join((*ID_COLUMNS, "id_checksum"))
REMOVED_ROW, CHUNK_ROW, SKETCH_ROW, SIGNATURE_ROW, LABEL_ROW, META_ROW = (
    ", ".join((*_CHECKED[table]["checksum"], "checksum"))
    for table in ("removed", "chunks", "row_sketches", "signatures", "labels", "meta")
)


class AlteredError(sqlite3.DatabaseError):
    """A row that is not what was written."""


def row_checksum(*values: Any) -> int:
    """The CRC of some values. The same on every machine and in every version of Python."""
    return zlib.crc32(ascii(_shortened(values)).encode())


def _shortened(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Long bytes as their CRC: written out they would take longer to check than to read."""
    return tuple(
        [zlib.crc32(value) if isinstance(value, bytes) and len(value) > _LONG else value for value in values]
    )


def verified(rows: Iterable[tuple[Any, ...]], begin: int = 0) -> Iterator[tuple[Any, ...]]:
    """The same rows, each compared with its checksum: the last column, of the columns from `begin` on."""
    for row in rows:
        if zlib.crc32(ascii(_shortened(row[begin:-1])).encode()) != row[-1]:
            raise AlteredError(_altered(row[begin:-1]))
        yield row


def altered_rows(db: sqlite3.Connection) -> Iterator[str]:
    """Everything in a catalogue that is not as it was written, in words."""
    for table, checksums in _CHECKED.items():
        for name, columns in checksums.items():
            for row in db.execute(f"SELECT {', '.join(columns)}, {name} FROM {table}"):
                if row_checksum(*row[:-1]) != row[-1]:
                    yield f"in {table}, {_altered(row[:-1])}"
    (found,) = db.execute("SELECT count(*) FROM tables WHERE codes IS NOT NULL").fetchone()
    ((count,),) = db.execute("SELECT value FROM meta WHERE key = 'identifier_count'").fetchall() or [(None,)]
    if found != count:
        yield f"{found} tables have an identifier, and {count} were written"
    unsigned = "SELECT id FROM tables WHERE codes IS NOT NULL AND id NOT IN (SELECT id FROM signatures)"
    for (table,) in db.execute(unsigned):
        yield f"it lacks the columns of table {table}"


def _altered(values: tuple[Any, ...]) -> str:
    return f"the row of {', '.join(repr(value)[:80] for value in values[:2])} is not what was written"


def add_checksum_triggers(db: sqlite3.Connection) -> None:
    """Make this connection write the checksum of every row, and count the tables with an identifier.

    What is kept of a table in other rows goes with it.
    """
    db.create_function("row_checksum", -1, row_checksum, deterministic=True)
    db.execute("PRAGMA temp_store = MEMORY")  # where triggers of a connection are kept
    for table, checksums in _CHECKED.items():
        set_all = ", ".join(_assignment(name, columns) for name, columns in checksums.items())
        _add_trigger(db, f"{table}_new", f"INSERT ON main.{table}", table, set_all)
        for name, columns in checksums.items():
            event = f"UPDATE OF {', '.join(columns)} ON main.{table}"
            _add_trigger(db, f"{table}_{name}", event, table, _assignment(name, columns))
    count = "UPDATE meta SET value = value + {} WHERE key = 'identifier_count'"
    db.execute(
        "CREATE TEMP TRIGGER tables_counted AFTER UPDATE OF codes ON main.tables"
        " WHEN (old.codes IS NULL) <> (new.codes IS NULL)"
        f" BEGIN {count.format('(old.codes IS NULL) - (new.codes IS NULL)')}; END"
    )
    db.execute(
        "CREATE TEMP TRIGGER tables_uncounted AFTER DELETE ON main.tables WHEN old.codes IS NOT NULL"
        f" BEGIN {count.format(-1)}; END"
    )
    db.execute(
        "CREATE TEMP TRIGGER tables_forgotten AFTER DELETE ON main.tables"
        " BEGIN DELETE FROM row_sketches WHERE id = old.id; DELETE FROM signatures WHERE id = old.id; END"
    )


def _assignment(name: str, columns: tuple[str, ...]) -> str:
    return f"{name} = row_checksum({', '.join(f'new.{column}' for column in columns)})"


def _add_trigger(db: sqlite3.Connection, name: str, event: str, table: str, assignments: str) -> None:
    body = f"UPDATE {table} SET {assignments} WHERE rowid = new.rowid"
    db.execute(f"CREATE TEMP TRIGGER {name} AFTER {event} BEGIN {body}; END")
