"""The SQLite file of the catalogue: its schema, how it is opened, transactions and meta values."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from gentus.index.catalogue.row_checksums import (
    META_ROW,
    AlteredError,
    add_checksum_triggers,
    verified,
)
from gentus.index.config import FORMAT

_SCHEMA = """
CREATE TABLE tables (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: readers of the last generation know it
    name TEXT NOT NULL UNIQUE,      -- relative to the lake
    path TEXT NOT NULL,             -- the file; bytes where its name is not Unicode; relative: in this folder
    real_path TEXT NOT NULL,        -- the same, links followed: tells whether two names are one file
    part TEXT,                      -- the table or sheet inside the file
    size INTEGER, mtime_ns INTEGER, hash TEXT,
    rows INTEGER, columns INTEGER,  -- as sampled
    header TEXT NOT NULL,           -- of delimited text: auto, yes or no ...
    pinned INTEGER NOT NULL,        -- ... chosen for this table alone, not by the rules of the lake
    encoding TEXT NOT NULL,         -- of delimited text, chosen in the same way; empty: it is found out
    doubt TEXT NOT NULL,            -- why its first row looks like data; empty: it does not
    reading TEXT NOT NULL,          -- what is not usual in how it is read; empty: nothing
    chunk INTEGER, slot INTEGER,    -- where its features are in the cache
    pending INTEGER DEFAULT 1,      -- its features are newer than its identifier
    codes BLOB, suffix INTEGER,     -- its identifier in the current generation
    assigned_in INTEGER,            -- the change that assigned it
    error REAL,                     -- the squared distance of its latent to its codewords
    skipped TEXT,                   -- why it could not be read; neither this nor a chunk: it is deleted
    name_checksum INTEGER, id_checksum INTEGER
);
CREATE INDEX tables_real_path ON tables (real_path);
CREATE INDEX tables_chunk ON tables (chunk);
CREATE INDEX tables_codes ON tables (codes);
CREATE INDEX tables_assigned_in ON tables (assigned_in);
CREATE TABLE removed (  -- identifiers of this generation that are never assigned again
    codes BLOB NOT NULL, suffix INTEGER NOT NULL,
    assigned_in INTEGER NOT NULL, removed_in INTEGER NOT NULL,  -- changes
    checksum INTEGER
);
CREATE INDEX removed_codes ON removed (codes);
CREATE INDEX removed_removed_in ON removed (removed_in);
CREATE TABLE chunks (number INTEGER PRIMARY KEY, crc INTEGER NOT NULL, checksum INTEGER);  -- files
CREATE TABLE row_sketches (  -- hashes of the rows of a table, unless it has too little content
    id INTEGER PRIMARY KEY,         -- of the table
    rows INTEGER NOT NULL, complete INTEGER NOT NULL, digest BLOB NOT NULL, smallest BLOB NOT NULL,
    checksum INTEGER
);
CREATE TABLE signatures (  -- of the columns of a table that have cells
    id INTEGER PRIMARY KEY,         -- of the table
    names TEXT NOT NULL,            -- a JSON list
    columns BLOB NOT NULL,          -- one signature after the other
    checksum INTEGER
);
CREATE TABLE labels (query TEXT NOT NULL, candidate TEXT NOT NULL, checksum INTEGER);  -- for a refit
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL, checksum INTEGER);
"""
_STATEMENTS = tuple(re.sub(r"\s+", " ", one).strip() for one in re.sub("--.*", "", _SCHEMA).split(";")[:-1])
_TABLES = ("tables", "removed", "chunks", "row_sketches", "signatures", "labels", "meta")
_NO_SHARED_MEMORY = (
    "its file system has no memory that processes can share, as those over a network have none: "
    "keep the index on a disk of this machine"
)
_CACHE_KB = 16_384  # of pages: names are looked up all over the file
BATCH = 500  # values in one statement; older SQLites allow 999


class Database:
    """A connection to a catalogue; one that cannot be read raises `sqlite3.Error`."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        self.path, self._writable = path, writable
        self.folder = os.path.join(os.path.realpath(path.parent), "")  # of the index
        self._unchanging: tuple[int, ...] | None = None  # stamp of files that were opened as immutable
        self._opened = 0
        self._lock = threading.RLock()  # threads share the connection, and so its transactions
        self.db = self._open()

    def _open(self) -> sqlite3.Connection:
        """Connect; where SQLite cannot have its files beside a catalogue, read it for as long as it stays."""
        self._opened += 1
        self._unchanging = None
        try:
            if self._writable or not is_finalised(self.path):
                return connect(self.path, "rwc" if self._writable else "ro")
        except sqlite3.OperationalError:  # such as on a full disk
            if self._writable or has_log(self.path):
                raise
        self._unchanging = stamp(self.path)
        return connect(self.path, "ro&immutable=1")

    def version(self) -> tuple[int, int]:
        """Changes whenever another connection has changed something; costs next to nothing."""
        if self._unchanging is not None and self._unchanging != stamp(self.path):
            with self._lock:
                self.db = self._open()  # who is reading by the old connection still has it
        (value,) = self.db.execute("PRAGMA data_version").fetchone()
        return self._opened, int(value)

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def empty_log(self) -> None:
        """Move all changes from SQLite's log into the file itself, unless another connection is reading."""
        self.db.execute("PRAGMA busy_timeout = 0")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def transaction(self, read: bool = False) -> Iterator[None]:
        """All of it, or nothing; for a reader, everything as of one change, also inside another transaction.

        What is compared with each other has to be read in one.
        """
        with self._lock:
            if read and self.db.in_transaction:
                yield
                return
            with self.db:
                if read:
                    self.db.execute("BEGIN")
                yield

    def select_in(self, statement: str, values: Iterable[Any]) -> Iterator[Any]:
        """The rows of a statement that ends in `IN`, for any number of values."""
        wanted = iter(values)
        while some := list(islice(wanted, BATCH)):
            yield from self.db.execute(f"{statement} ({','.join('?' * len(some))})", some).fetchall()

    def meta(self, key: str) -> Any:
        """A meta value, None if there is none."""
        found = self.db.execute(f"SELECT {META_ROW} FROM meta WHERE key = ?", (key,))
        return next((value for _, value, _ in verified(found)), None)

    def put_meta(self, key: str, value: str) -> None:
        """Store a meta value."""
        self.db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))

    def change_sequence(self) -> int:
        """The number of the last change."""
        value = self.meta("change_sequence")
        if not isinstance(value, int):
            raise AlteredError("it does not say how often it was changed")
        return value

    def next_change(self) -> int:
        """Begin a change; returns its number."""
        self.db.execute("UPDATE meta SET value = value + 1 WHERE key = 'change_sequence'")
        return self.change_sequence()

    def identifier_count(self) -> int:
        """How many tables have an identifier, as every change has counted it."""
        return int(self.meta("identifier_count") or 0)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a catalogue; to be written (mode `rwc`), it is made if need be. Raises `sqlite3.Error`."""
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, check_same_thread=False)
    try:
        db.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA fullfsync = ON")  # macOS only: there, fsync leaves data in the memory of the drive
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if mode == "rwc":
            _use_log(db)
        if mode == "rwc" and version != FORMAT:
            _create(db, version)
        elif version != FORMAT:
            raise sqlite3.DatabaseError("it is not of this version of gentus")
        elif _schema(db) != _expected_schema():
            raise sqlite3.DatabaseError("its tables are not those that gentus makes")
        elif mode == "rwc":
            add_checksum_triggers(db)
    except sqlite3.OperationalError as error:
        db.close()
        if "unable to open" in str(error) and mode == "rwc":  # SQLite does not say whether it is a permission
            raise sqlite3.OperationalError(f"{error}, or {_NO_SHARED_MEMORY}") from error
        raise
    except BaseException:
        db.close()
        raise
    return db


def _use_log(db: sqlite3.Connection) -> None:
    """Let SQLite write to its log first, so that readers and a writer do not wait for each other."""
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(_NO_SHARED_MEMORY)


def _create(db: sqlite3.Connection, version: int) -> None:
    """Create the tables; what a catalogue of another version of gentus knew is read again."""
    if version == 0 and _schema(db):
        raise sqlite3.DatabaseError("it is the database of another program")
    with db:
        db.execute("BEGIN IMMEDIATE")
        for name in _TABLES:
            db.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _STATEMENTS:
            db.execute(statement)
        add_checksum_triggers(db)
        db.execute("INSERT INTO meta (key, value) VALUES ('change_sequence', 0), ('identifier_count', 0)")
        db.execute(f"PRAGMA user_version = {FORMAT}")


def _schema(db: sqlite3.Connection) -> set[tuple[str, str]]:
    """Names and statements of everything that was created in a database; not what SQLite adds by itself."""
    return set(db.execute("SELECT name, sql FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'"))


@cache
def _expected_schema() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in _STATEMENTS:
            db.execute(statement)
        return _schema(db)


def is_finalised(path: Path) -> bool:
    """Whether the file has all changes and cannot be written here: then SQLite needs no files beside it."""
    return not os.access(path.parent, os.W_OK) and not has_log(path)


def has_log(path: Path) -> bool:
    """Whether there are changes that are only in SQLite's log yet."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def stamp(path: Path) -> tuple[int, ...]:
    """What changes with the files of a catalogue."""
    stamp: list[int] = []
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(FileNotFoundError):
            found = file.stat()
            stamp += (found.st_ino, found.st_size, found.st_mtime_ns)
    return tuple(stamp)
