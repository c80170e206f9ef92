"""The catalogue's file: its schema, how it is opened, and what is refused."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from gentus.index.config import FORMAT
from gentus.index.row_checksums import write_seals

_SCHEMA = """
CREATE TABLE tables (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: readers of the last generation know it
    name TEXT NOT NULL UNIQUE,      -- relative to the lake
    path TEXT NOT NULL,             -- the file; bytes where its name is not Unicode; relative: in this folder
    real TEXT NOT NULL,             -- the same, links followed: what tells whether two names are one file
    part TEXT,                      -- the table or sheet inside the file
    size INTEGER, mtime_ns INTEGER, hash TEXT,
    rows INTEGER, columns INTEGER,  -- as sampled
    chunk INTEGER, slot INTEGER,    -- where its features lie in the cache
    pending INTEGER DEFAULT 1,      -- its features are newer than its identifier
    codes BLOB, suffix INTEGER,     -- its identifier in the current generation
    serial INTEGER, error REAL,     -- the change that gave it, and how far its codewords are from its latent
    skipped TEXT,                   -- why it could not be read; neither this nor a chunk: it is gone
    named INTEGER, placed INTEGER   -- seals
);
CREATE INDEX tables_real ON tables (real);
CREATE INDEX tables_chunk ON tables (chunk);
CREATE INDEX tables_codes ON tables (codes);
CREATE INDEX tables_serial ON tables (serial);
CREATE TABLE removed (  -- identifiers of this generation that are never given again
    codes BLOB NOT NULL, suffix INTEGER NOT NULL,
    born INTEGER NOT NULL, serial INTEGER NOT NULL,  -- the changes that gave it and took it
    seal INTEGER
);
CREATE INDEX removed_codes ON removed (codes);
CREATE INDEX removed_serial ON removed (serial);
CREATE TABLE chunks (number INTEGER PRIMARY KEY, crc INTEGER NOT NULL, seal INTEGER);  -- files
CREATE TABLE labels (query TEXT NOT NULL, candidate TEXT NOT NULL, seal INTEGER);  -- for a refit
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL, seal INTEGER);
"""
_STATEMENTS = tuple(re.sub(r"\s+", " ", one).strip() for one in re.sub("--.*", "", _SCHEMA).split(";")[:-1])
_TABLES = ("tables", "removed", "chunks", "labels", "meta")
_NO_MEMORY = (
    "its file system has no memory that processes can share, as those over a network have none: "
    "keep the index on a disk of this machine"
)
_CACHE_KB = 16_384  # of pages: names are looked up all over the file


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a catalogue; to be written (mode `rwc`), it is made if need be. Raises `sqlite3.Error`."""
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, check_same_thread=False)
    try:
        db.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA fullfsync = ON")  # macOS only: there, fsync leaves data in the memory of the drive
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if mode == "rwc":
            _write_to_log(db)
        if mode == "rwc" and version != FORMAT:
            _make(db, version)
        elif version != FORMAT:
            raise sqlite3.DatabaseError("it is not of this version of gentus")
        elif _schema(db) != _expected():
            raise sqlite3.DatabaseError("its tables are not those that gentus makes")
        elif mode == "rwc":
            write_seals(db)
    except sqlite3.OperationalError as error:
        db.close()
        if "unable to open" in str(error) and mode == "rwc":  # SQLite does not say whether it is a permission
            raise sqlite3.OperationalError(f"{error}, or {_NO_MEMORY}") from error
        raise
    except BaseException:
        db.close()
        raise
    return db


def _write_to_log(db: sqlite3.Connection) -> None:
    """Let SQLite write to its log first, so that readers and a writer do not wait for each other."""
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(_NO_MEMORY)


def _make(db: sqlite3.Connection, version: int) -> None:
    """Make the tables of a new catalogue; what one of another version of gentus knew is read again."""
    if version == 0 and _schema(db):
        raise sqlite3.DatabaseError("it is the database of another program")
    with db:
        db.execute("BEGIN IMMEDIATE")
        for name in _TABLES:
            db.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _STATEMENTS:
            db.execute(statement)
        write_seals(db)
        db.execute("INSERT INTO meta (key, value) VALUES ('serial', 0), ('identified', 0)")
        db.execute(f"PRAGMA user_version = {FORMAT}")


def _schema(db: sqlite3.Connection) -> set[tuple[str, str]]:
    """What was made in a database, and how; not what SQLite adds by itself."""
    return set(db.execute("SELECT name, sql FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'"))


@cache
def _expected() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in _STATEMENTS:
            db.execute(statement)
        return _schema(db)


def is_settled(path: Path) -> bool:
    """Whether the file is all there is and nobody here can write it: then SQLite needs no files beside it."""
    return not os.access(path.parent, os.W_OK) and not has_log(path)


def has_log(path: Path) -> bool:
    """Whether there are changes that lie in SQLite's log yet."""
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
