"""The catalogue: one row a table in SQLite, and where the features of each table lie in the cache."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from gentus.codes import U8
from gentus.lake import Source
from gentus.store import FORMAT

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tables (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: readers of the last generation know it
    name TEXT NOT NULL UNIQUE,      -- relative to the lake
    path TEXT NOT NULL,             -- the file; bytes where its name is not Unicode
    real TEXT NOT NULL,             -- the same, links followed: what tells whether two names are one file
    part TEXT,                      -- the table or sheet inside the file
    size INTEGER, mtime_ns INTEGER, hash TEXT,
    rows INTEGER, columns INTEGER,  -- as sampled
    chunk INTEGER, slot INTEGER,    -- where its features lie in the cache
    codes BLOB, suffix INTEGER,     -- its identifier in the current generation
    skipped TEXT                    -- why it could not be read; neither this nor a chunk: it is gone
);
CREATE INDEX IF NOT EXISTS tables_real ON tables (real);
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
_AT_ONCE = 500  # values in one statement; older SQLites allow 999


class Catalogue:
    """Rows in, rows out; every change is a transaction. One that cannot be read raises `sqlite3.Error`."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        self.path = path
        uri = f"{path.resolve().as_uri()}?mode={'rwc' if writable else 'ro'}"
        if not writable and _settled(path):
            uri += "&immutable=1"
        self.db = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            (found,) = self.db.execute("PRAGMA user_version").fetchone()
            if writable:
                self.db.execute("PRAGMA journal_mode = WAL")
                if found != FORMAT:  # of another version of gentus: what it knew is read again
                    self.db.executescript("DROP TABLE IF EXISTS tables; DROP TABLE IF EXISTS meta;")
                self.db.executescript(f"{_SCHEMA} PRAGMA user_version = {FORMAT};")
            elif found != FORMAT:
                raise sqlite3.DatabaseError("it is not of this version of gentus")
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it, or nothing."""
        with self.db:
            yield

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert or replace tables by name; ids stay, and identifiers until `put_sids` replaces them all."""
        columns = (*_FIELDS, "real")
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
        self.db.executemany(
            f"INSERT INTO tables ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT (name) DO UPDATE SET {updates}",
            (
                (entry.name, _stored(entry.path), *astuple(entry)[2:], _stored(os.path.realpath(entry.path)))
                for entry in entries
            ),
        )

    def entries(self) -> dict[str, Entry]:
        """Everything known, by name."""
        found = self.db.execute(f"SELECT {', '.join(_FIELDS)} FROM tables")
        return {row[0]: Entry(row[0], os.fsdecode(row[1]), *row[2:]) for row in found}

    def retire(self, names: Iterable[str]) -> None:
        """Leave tables out of the next generation; until then the current one can still name them."""
        self.db.executemany(
            "UPDATE tables SET size = NULL, mtime_ns = NULL, hash = NULL, chunk = NULL, slot = NULL,"
            " skipped = NULL WHERE name = ?",
            ((name,) for name in names),
        )

    def purge(self) -> None:
        """Forget retired tables."""
        self.db.execute("DELETE FROM tables WHERE chunk IS NULL AND skipped IS NULL")

    def chunks(self) -> set[int]:
        """The chunks that hold features of some table."""
        return {
            chunk for (chunk,) in self.db.execute("SELECT DISTINCT chunk FROM tables WHERE chunk IS NOT NULL")
        }

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
        found: dict[int, tuple[str, str]] = {}
        for begin in range(0, len(wanted), _AT_ONCE):
            some = wanted[begin : begin + _AT_ONCE]
            marks = ",".join("?" * len(some))
            for i, name, path in self.db.execute(
                f"SELECT id, name, path FROM tables WHERE id IN ({marks})", some
            ):
                found[i] = name, os.fsdecode(path)
        return found

    def ids_at(self, path: str | os.PathLike[str], part: str | None = None) -> set[int]:
        """The tables read from this file, by whatever name; with `part`, only that one of them."""
        found = self.db.execute(
            "SELECT id FROM tables WHERE real = ?1 AND (?2 IS NULL OR part = ?2)",
            (_stored(os.path.realpath(path)), part),
        )
        return {int(i) for (i,) in found}

    def read_sources(self, ids: Iterable[int]) -> dict[int, Source]:
        """Where the tables with these ids can be read, with or without an identifier yet."""
        wanted = set(ids)
        found = self.db.execute(
            "SELECT id, name, path, part, size, mtime_ns FROM tables WHERE chunk IS NOT NULL"
        )
        return {table: _source(*row) for table, *row in found if table in wanted}

    def sources(self) -> dict[str, Source]:
        """Where every table that can be found was read from, by name."""
        found = self.db.execute(
            "SELECT name, path, part, size, mtime_ns FROM tables WHERE codes IS NOT NULL ORDER BY name"
        )
        return {row[0]: _source(*row) for row in found}

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


def _source(name: str, path: str, part: str | None, size: int | None, mtime_ns: int | None) -> Source:
    return Source(name, Path(os.fsdecode(path)), part, size or 0, mtime_ns or 0)


def _settled(path: Path) -> bool:
    """Whether the file is all there is and nobody here can write it: then SQLite needs no files beside it."""
    log = path.with_name(path.name + "-wal")
    return not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)


def _stored(path: str) -> str | bytes:
    """A path as SQLite takes it: as text, or as bytes if they are no Unicode."""
    encoded = os.fsencode(path)
    try:
        return encoded.decode("utf-8")
    except UnicodeDecodeError:
        return encoded
