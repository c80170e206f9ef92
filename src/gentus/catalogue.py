"""The catalogue: one row a table in SQLite, and where the features of each table lie in the cache."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gentus.codes import U8

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tables (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,      -- relative to the lake
    path TEXT NOT NULL,             -- the file
    part TEXT,                      -- the table or sheet inside the file
    size INTEGER, mtime_ns INTEGER, hash TEXT,
    rows INTEGER, columns INTEGER,  -- as sampled
    chunk INTEGER, slot INTEGER,    -- where its features lie in the cache
    codes BLOB, suffix INTEGER,     -- its identifier
    skipped TEXT                    -- why it could not be read
);
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue knows of a table that was read, or of one that could not be."""

    name: str
    path: str
    part: str | None = None
    size: int | None = None
    mtime_ns: int | None = None
    hash: str | None = None
    rows: int | None = None
    columns: int | None = None
    chunk: int | None = None
    slot: int | None = None
    skipped: str | None = None


_FIELDS = tuple(Entry.__dataclass_fields__)


class Catalogue:
    """Rows in, rows out; every change is a transaction."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        self.path = path
        mode = "rwc" if writable else "ro"
        self.db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, check_same_thread=False)
        if writable:
            self.db.execute("PRAGMA journal_mode = WAL")
            self.db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it, or nothing."""
        with self.db:
            yield

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert or replace tables by name; an identifier they had is gone, ids stay."""
        columns = ", ".join(_FIELDS)
        updates = ", ".join(f"{field} = excluded.{field}" for field in _FIELDS[1:])
        self.db.executemany(
            f"INSERT INTO tables ({columns}) VALUES ({', '.join('?' * len(_FIELDS))}) "
            f"ON CONFLICT (name) DO UPDATE SET {updates}, codes = NULL, suffix = NULL",
            ([getattr(entry, field) for field in _FIELDS] for entry in entries),
        )

    def entries(self) -> dict[str, Entry]:
        """Everything known, by name."""
        found = self.db.execute(f"SELECT {', '.join(_FIELDS)} FROM tables")
        return {row[0]: Entry(*row) for row in found}

    def remove(self, names: Iterable[str]) -> None:
        """Forget tables."""
        self.db.executemany("DELETE FROM tables WHERE name = ?", ((name,) for name in names))

    def featurized(self) -> list[tuple[int, int, int]]:
        """(id, chunk, slot) of every table that was read, in the order of names."""
        return self.db.execute(
            "SELECT id, chunk, slot FROM tables WHERE chunk IS NOT NULL ORDER BY name"
        ).fetchall()

    def ids(self) -> dict[str, int]:
        """The id of every table that was read, by name."""
        return dict(self.db.execute("SELECT name, id FROM tables WHERE chunk IS NOT NULL"))

    def next_chunk(self) -> int:
        """A chunk number not used yet."""
        (highest,) = self.db.execute("SELECT max(chunk) FROM tables").fetchone()
        return 0 if highest is None else highest + 1

    def put_sids(self, ids: Iterable[int], codes: U8, suffixes: Iterable[int]) -> None:
        """Store identifiers; tables not named keep none."""
        self.db.execute("UPDATE tables SET codes = NULL, suffix = NULL")
        self.db.executemany(
            "UPDATE tables SET codes = ?, suffix = ? WHERE id = ?",
            ((row.tobytes(), int(s), int(i)) for i, row, s in zip(ids, codes, suffixes, strict=True)),
        )

    def names(self, ids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """(name, path) of some tables by id."""
        wanted = list(ids)
        marks = ",".join("?" * len(wanted))
        found = self.db.execute(f"SELECT id, name, path FROM tables WHERE id IN ({marks})", wanted)
        return {i: (name, path) for i, name, path in found}

    def id_of(self, path: str, part: str | None) -> int | None:
        """The table read from this file, if the lake has it."""
        found = self.db.execute("SELECT id FROM tables WHERE path = ? AND part IS ?", (path, part)).fetchone()
        return None if found is None else int(found[0])

    def table_names(self) -> list[str]:
        """Names of all tables that can be found."""
        return [
            name
            for (name,) in self.db.execute("SELECT name FROM tables WHERE codes IS NOT NULL ORDER BY name")
        ]

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read."""
        return self.db.execute(
            "SELECT name, skipped FROM tables WHERE skipped IS NOT NULL ORDER BY name"
        ).fetchall()

    def get_meta(self, key: str) -> str | None:
        """A stored setting."""
        found = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def put_meta(self, key: str, value: str) -> None:
        """Store a setting."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
