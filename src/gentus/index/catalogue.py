"""The catalogue: one row a table in SQLite, and where the features of each table lie in the cache.

It is the truth about an index: which tables there are, what they are called, and which files of the folder
are current. Every change has a serial number, so that a reader can ask what is new since the one it knows.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import U8
from gentus.index.catalogue_file import connect, has_log, is_settled, stamp
from gentus.index.config import IndexConfig, from_document, to_document
from gentus.index.row_checksums import AlteredError, sealed, sound
from gentus.lake import Location, Source, as_location
from gentus.lake.location import identity, is_url


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


Places: TypeAlias = NDArray[np.int64]  # (n, 3) tables by id, and chunk and slot of their features


class Named(NamedTuple):
    """What a table is called, and where it was read."""

    name: str
    path: str
    real: str | bytes  # what tells whether two paths are one file
    part: str | None


@dataclass(frozen=True, slots=True)
class Identified:
    """Identifiers, and the tables that have them."""

    codes: NDArray[np.unsignedinteger[Any]]  # (n, L)
    suffixes: NDArray[np.int64]  # (n,)
    tables: NDArray[np.int64]  # (n,) by id


@dataclass(frozen=True, slots=True)
class Listed:
    """All tables that can be found, in the order of their names."""

    names: list[str]
    rows: list[int]  # as sampled
    columns: list[int]
    codes: NDArray[np.unsignedinteger[Any]]  # (n, L)
    suffixes: NDArray[np.int64]  # (n,)


T = TypeVar("T")
_NAMED, _PLACED = sealed("tables", "named"), sealed("tables", "placed")
_SOURCE = f"size, mtime_ns, {_NAMED}"
_FIELDS = tuple(Entry.__dataclass_fields__)
_rest = attrgetter(*_FIELDS[2:])
_AT_ONCE = 500  # values in one statement; older SQLites allow 999
_RETIRE = (
    "UPDATE tables SET size = NULL, mtime_ns = NULL, hash = NULL, chunk = NULL, slot = NULL, skipped = NULL"
)
_WIDTHS: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 4: np.uint32}  # bytes of a code
_ROWS = 10_000  # that are held as Python objects on their way into arrays


class Catalogue:
    """Rows in, rows out; every change is a transaction. One that cannot be read raises `sqlite3.Error`."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        self.path, self._writable = path, writable
        self._folder = os.path.join(os.path.realpath(path.parent), "")
        self._frozen: tuple[int, ...] | None = None  # what the files were when they were taken for unchanging
        self._opened = 0
        self.db = self._open()

    def _open(self) -> sqlite3.Connection:
        """Connect; where SQLite cannot have its files beside a catalogue, read it for as long as it stays."""
        self._opened += 1
        self._frozen = None
        try:
            if self._writable or not is_settled(self.path):
                return connect(self.path, "rwc" if self._writable else "ro")
        except sqlite3.OperationalError:  # such as on a full disk
            if self._writable or has_log(self.path):
                raise
        self._frozen = stamp(self.path)
        return connect(self.path, "ro&immutable=1")

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    def empty_log(self) -> None:
        """Move all changes from SQLite's log into the file itself, unless somebody is reading just now."""
        self.db.execute("PRAGMA busy_timeout = 0")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def transaction(self, read: bool = False) -> Iterator[None]:
        """All of it, or nothing; for a reader, everything as of one moment."""
        with self.db:
            if read:
                self.db.execute("BEGIN")
            yield

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert or replace tables by name; ids stay, and identifiers until others are given."""
        columns = (*_FIELDS, "real")
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
        updates += ", pending = pending OR chunk IS NOT excluded.chunk OR slot IS NOT excluded.slot"
        real = self._reals()
        self.db.executemany(
            f"INSERT INTO tables ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT (name) DO UPDATE SET {updates}",
            ((entry.name, self._stored(entry.path), *_rest(entry), real(entry.path)) for entry in entries),
        )

    def touch(self, sources: Iterable[Source]) -> None:
        """Note that tables have another date, or lie elsewhere, with the same content."""
        real = self._reals()
        self.db.executemany(
            "UPDATE tables SET path = ?, real = ?, mtime_ns = ? WHERE name = ?",
            ((self._stored(str(one.path)), real(str(one.path)), one.mtime_ns, one.name) for one in sources),
        )

    def count(self) -> int:
        """How many tables are known, readable or not."""
        return int(self.db.execute("SELECT count(*) FROM tables").fetchone()[0])

    def last_id(self) -> int:
        """The highest id of any table; ids only ever grow."""
        return int(self.db.execute("SELECT ifnull(max(id), 0) FROM tables").fetchone()[0])

    def entries(self, names: Iterable[str] | None = None) -> dict[str, Entry]:
        """What is known of some tables, or of all, by name."""
        if names is None:
            return {entry.name: entry for entry in self.each_entry()}
        return {name: entry for name, (_, entry) in self.known(names).items()}

    def each_entry(self) -> Iterator[Entry]:
        """What is known of every table, one after the other."""
        return map(self._entry, self.db.execute(f"SELECT {', '.join(_FIELDS)} FROM tables"))

    def known(self, names: Iterable[str]) -> dict[str, tuple[int, Entry]]:
        """The ids of some tables and what is known of them, by name."""
        found = self._among(f"SELECT id, {', '.join(_FIELDS)} FROM tables WHERE name IN", names)
        return {row[1]: (row[0], self._entry(row[1:])) for row in found}

    def unseen(self, seen: Sequence[int]) -> Iterator[tuple[str, str | None]]:
        """Names of the tables whose id has a 0 in a list, and why they were skipped, if they were."""
        found = self.db.execute("SELECT id, name, skipped FROM tables WHERE id < ?", (len(seen),))
        return ((name, skipped) for table, name, skipped in found if not seen[table])

    def _entry(self, row: Sequence[Any]) -> Entry:
        return Entry(row[0], self._whole(row[1]), *row[2:])

    def _among(self, statement: str, values: Iterable[Any]) -> Iterator[Any]:
        """The rows of a statement that ends in `IN`, for any number of values."""
        wanted = iter(values)
        while some := list(islice(wanted, _AT_ONCE)):
            yield from self.db.execute(f"{statement} ({','.join('?' * len(some))})", some).fetchall()

    def retire(self, names: Iterable[str]) -> None:
        """Leave tables out of the next generation; until then the current one can still name them."""
        self.db.executemany(f"{_RETIRE} WHERE name = ?", ((name,) for name in names))

    def retire_all(self) -> None:
        """Leave all tables out of the next generation that are not read again."""
        self.db.execute(_RETIRE)

    def purge(self) -> None:
        """Forget retired tables."""
        self.db.execute("DELETE FROM tables WHERE chunk IS NULL AND skipped IS NULL")

    def chunks(self) -> set[int]:
        """The chunks that hold features of some table."""
        return {
            chunk for (chunk,) in self.db.execute("SELECT DISTINCT chunk FROM tables WHERE chunk IS NOT NULL")
        }

    def featurized(self) -> Places:
        """Every table that was read, in the order of names."""
        return _places(self.db.execute(f"SELECT {_PLACED} FROM tables WHERE chunk IS NOT NULL ORDER BY name"))

    def widths(self) -> NDArray[np.int64]:
        """How many columns each of these has."""
        found = self.db.execute("SELECT columns FROM tables WHERE chunk IS NOT NULL ORDER BY name")
        return np.fromiter((width or 0 for (width,) in found), np.int64)

    def ids(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """The id of every table that was read, or of some, by name."""
        chosen = "SELECT name, id FROM tables WHERE chunk IS NOT NULL"
        return dict(self.db.execute(chosen) if names is None else self._among(f"{chosen} AND name IN", names))

    def next_chunk(self) -> int:
        """A chunk number not used yet."""
        (highest,) = self.db.execute("SELECT max(chunk) FROM tables").fetchone()
        return 0 if highest is None else highest + 1

    # --- identifiers -----------------------------------------------------------------------------------

    def serial(self) -> int:
        """The number of the last change."""
        value = self._told("serial")
        if not isinstance(value, int):
            raise AlteredError("it does not say how often it was changed")
        return value

    def _change(self) -> int:
        self.db.execute("UPDATE meta SET value = value + 1 WHERE key = 'serial'")
        return self.serial()

    def put_sids(
        self, ids: Iterable[int], codes: U8, suffixes: Iterable[int], errors: Iterable[float]
    ) -> int:
        """Begin a new generation of identifiers; tables not named have none. Returns the change's number."""
        serial = self._change()
        self.db.execute("DELETE FROM removed")
        self.db.execute(
            "UPDATE tables SET codes = NULL, suffix = NULL, serial = NULL, error = NULL"
            " WHERE codes IS NOT NULL"
        )
        self.db.executemany(
            "UPDATE tables SET codes = ?, suffix = ?, serial = ?, error = ?, pending = 0 WHERE id = ?",
            (
                (row.tobytes(), int(suffix), serial, float(error), int(table))
                for table, row, suffix, error in zip(ids, codes, suffixes, errors, strict=True)
            ),
        )
        return serial

    def identify(self, ids: Sequence[int], codes: U8, errors: Sequence[float]) -> None:
        """Give tables identifiers of this generation; one whose codes are what they were keeps its own."""
        serial = self._change()
        before = {row[0]: row[1] for row in self._placed(ids)}
        for table, row, error in zip(ids, codes, errors, strict=True):
            code = row.tobytes()
            if before[table] == code:
                self.db.execute(
                    "UPDATE tables SET error = ?, pending = 0 WHERE id = ?", (float(error), table)
                )
                continue
            self._take_back([table], serial)
            self.db.execute(
                "UPDATE tables SET codes = ?1, suffix = (SELECT ifnull(max(suffix) + 1, 0) FROM ("
                " SELECT max(suffix) AS suffix FROM tables WHERE codes = ?1"
                " UNION ALL SELECT max(suffix) FROM removed WHERE codes = ?1)),"
                " serial = ?2, error = ?3, pending = 0 WHERE id = ?4",
                (code, serial, float(error), table),
            )

    def _take_back(self, ids: Sequence[int], serial: int) -> None:
        """Remember identifiers as used up. The tables' own rows are for the caller to mend."""
        self.db.executemany(
            "INSERT INTO removed (codes, suffix, born, serial) VALUES (?, ?, ?, ?)",
            ((*row[1:4], serial) for row in self._placed(ids) if row[1] is not None),
        )

    def _placed(self, ids: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        return sound(self._among(f"SELECT {_PLACED} FROM tables WHERE id IN", ids))

    def unidentify(self, names: Iterable[str]) -> None:
        """Take their identifiers from tables that cannot be read any more."""
        found = self._among("SELECT id FROM tables WHERE codes IS NOT NULL AND name IN", names)
        serial = None
        while ids := [table for (table,) in islice(found, _AT_ONCE)]:
            serial = serial or self._change()
            self._take_back(ids, serial)
            self.db.executemany(
                "UPDATE tables SET codes = NULL, suffix = NULL, serial = NULL, error = NULL WHERE id = ?",
                ((table,) for table in ids),
            )

    def remove(self, names: Iterable[str]) -> None:
        """Forget tables; what they were called is never given to another."""
        serial = self._change()
        found = self._among("SELECT id FROM tables WHERE name IN", names)
        while ids := [table for (table,) in islice(found, _AT_ONCE)]:
            self._take_back(ids, serial)
            self.db.executemany("DELETE FROM tables WHERE id = ?", ((table,) for table in ids))

    def identifiers(self, levels: int, since: int = -1, until: int | None = None) -> Identified:
        """All identifiers, or those given after one change and up to another."""
        return _identified(
            self.db.execute(
                f"SELECT {_PLACED} FROM tables WHERE serial > ? AND serial <= ? AND codes IS NOT NULL",
                (since, self.serial() if until is None else until),
            ),
            levels,
        )

    def gone(self, levels: int, since: int) -> Identified:
        """Identifiers that were there at a change and are not any more."""
        found = self.db.execute(
            f"SELECT -1, {sealed('removed')} FROM removed WHERE serial > ?1 AND born <= ?1", (since,)
        )
        return _identified(found, levels, begin=1)

    def pending(self) -> Places:
        """Tables whose features are newer than their identifier."""
        chosen = f"SELECT {_PLACED} FROM tables WHERE pending AND chunk IS NOT NULL ORDER BY name"
        return _places(self.db.execute(chosen))

    def drift(self, fitted: int, usual: float | None) -> dict[str, Any]:
        """What came and went since the change `fitted`, and how many exceed a `usual` error."""
        count, error, beyond, shared, largest = self.db.execute(
            "SELECT count(*), avg(error), total(error > ?2), total(bucket > 1), max(bucket) FROM ("
            " SELECT error,"
            " (SELECT count(*) FROM tables AS others WHERE others.codes = tables.codes) AS bucket"
            " FROM tables WHERE serial > ?1 AND codes IS NOT NULL)",
            (fitted, usual),
        ).fetchone()
        (left,) = self.db.execute("SELECT count(*) FROM removed WHERE born <= ?", (fitted,)).fetchone()
        return {
            "added": count,
            "removed": left,
            "error": error,
            "beyond_usual": beyond / count if count and usual is not None else None,
            "collision_rate": shared / count if count else None,
            "largest_bucket": largest,
        }

    def small_chunks(self, few: int) -> list[tuple[int, int, int]]:
        """(id, chunk, slot) of tables in chunks that hold fewer than so many."""
        found = self.db.execute(
            f"SELECT {_PLACED} FROM tables WHERE chunk IN"
            " (SELECT chunk FROM tables WHERE chunk IS NOT NULL GROUP BY chunk HAVING count(*) < ?)"
            " ORDER BY chunk, slot",
            (few,),
        )
        return [(row[0], row[4], row[5]) for row in sound(found)]

    def put_chunk(self, number: int, crc: int) -> None:
        """Note what a chunk of features holds."""
        self.db.execute("INSERT OR REPLACE INTO chunks (number, crc) VALUES (?, ?)", (number, crc))

    def chunk_crc(self, number: int) -> int | None:
        """What a chunk of features has to hold; None if a gentus wrote it that did not note it."""
        found = self.db.execute(f"SELECT {sealed('chunks')} FROM chunks WHERE number = ?", (number,))
        return next((crc for _, crc, _ in sound(found)), None)

    def forget_chunks(self) -> None:
        """Drop what is noted of chunks that hold nobody's features any more."""
        self.db.execute(
            "DELETE FROM chunks WHERE number NOT IN (SELECT chunk FROM tables WHERE chunk IS NOT NULL)"
        )

    def move_features(self, places: Iterable[tuple[int, int, int]]) -> None:
        """Note that the features of tables (id, chunk, slot) lie elsewhere now."""
        self.db.executemany(
            "UPDATE tables SET chunk = ?2, slot = ?3 WHERE id = ?1",
            places,
        )

    def put_labels(self, truth: dict[str, list[str]]) -> None:
        """Keep the annotated pairs, to learn from them again."""
        self.db.execute("DELETE FROM labels")
        self.db.executemany(
            "INSERT INTO labels (query, candidate) VALUES (?, ?)",
            ((query, candidate) for query, found in truth.items() for candidate in found),
        )

    def labels(self) -> dict[str, list[str]]:
        """The annotated pairs that were given."""
        truth: dict[str, list[str]] = {}
        found = self.db.execute(f"SELECT {sealed('labels')} FROM labels ORDER BY rowid")
        for query, candidate, _ in sound(found):
            truth.setdefault(query, []).append(candidate)
        return truth

    # --- names and places ------------------------------------------------------------------------------

    def names(self, ids: Iterable[int]) -> dict[int, Named]:
        """What some tables are called, by id."""
        found = sound(self._among(f"SELECT {_NAMED} FROM tables WHERE id IN", ids))
        return {row[0]: Named(_text(row[1]), self._whole(row[2]), row[3], row[4]) for row in found}

    def ids_at(self, real: str | bytes, part: str | None = None) -> set[int]:
        """The tables read from this file, by whatever name; with `part`, only that one of them."""
        found = self.db.execute(
            f"SELECT {_NAMED} FROM tables WHERE real = ?1 AND (?2 IS NULL OR part = ?2)", (real, part)
        )
        return {int(row[0]) for row in sound(found)}

    def read_sources(self, ids: Iterable[int]) -> dict[int, Source]:
        """Where the tables with these ids can be read, with or without an identifier yet."""
        wanted = set(ids)
        found = self.db.execute(f"SELECT {_SOURCE} FROM tables WHERE chunk IS NOT NULL")
        return {row[2]: self._source(*row) for row in sound(found, 2) if row[2] in wanted}

    def sources(self) -> dict[str, Source]:
        """Where every table that can be found was read from, by name."""
        found = self.db.execute(f"SELECT {_SOURCE} FROM tables WHERE codes IS NOT NULL ORDER BY name")
        return {source.name: source for source in (self._source(*row) for row in sound(found, 2))}

    def sources_in(self, chunk: int) -> list[Source]:
        """Where the tables were read from whose features lie in a chunk."""
        found = self.db.execute(f"SELECT {_SOURCE} FROM tables WHERE chunk = ? ORDER BY slot", (chunk,))
        return [self._source(*row) for row in sound(found, 2)]

    def source(self, name: str) -> Source | None:
        """Where one table that can be found was read from."""
        found = self.db.execute(f"SELECT {_SOURCE} FROM tables WHERE codes IS NOT NULL AND name = ?", (name,))
        return next((self._source(*row) for row in sound(found, 2)), None)

    def table_names(self) -> list[str]:
        """Names of all tables that can be found."""
        found = self.db.execute(f"SELECT {_NAMED} FROM tables WHERE codes IS NOT NULL ORDER BY name")
        return self._complete([_text(row[1]) for row in sound(found)])

    def identifier(self, name: str, levels: int) -> tuple[NDArray[np.unsignedinteger[Any]], int] | None:
        """The codes and the suffix of one table that can be found."""
        found = _identified(
            self.db.execute(f"SELECT {_PLACED} FROM tables WHERE codes IS NOT NULL AND name = ?", (name,)),
            levels,
        )
        return (found.codes[0], int(found.suffixes[0])) if len(found.tables) else None

    def listed(self, levels: int) -> Listed:
        """All tables that can be found, with their identifiers."""
        chosen = "FROM tables WHERE codes IS NOT NULL ORDER BY name"
        with self.transaction(read=True):
            found = list(sound(self.db.execute(f"SELECT {_NAMED} {chosen}")))
            identified = _identified(self.db.execute(f"SELECT {_PLACED} {chosen}"), levels)
            self._complete(found)
        return Listed(
            [_text(row[1]) for row in found],
            [row[5] or 0 for row in found],
            [row[6] or 0 for row in found],
            identified.codes,
            identified.suffixes,
        )

    def identified(self) -> int:
        """How many tables have an identifier, as every change has counted it."""
        return int(self._told("identified") or 0)

    def _complete(self, found: list[T]) -> list[T]:
        """All tables that can be found; rows that SQLite does not find any more would not be missed."""
        if len(found) != self.identified():
            raise AlteredError(f"it lists {len(found):,} tables, and {self.identified():,} were written")
        return found

    def _source(self, size: int | None, mtime_ns: int | None, *row: Any) -> Source:
        _, name, path, _, part, *_ = row
        return Source(_text(name), as_location(self._whole(path)), part, size or 0, mtime_ns or 0)

    def _whole(self, stored: str | bytes) -> str:
        """A path as others know it."""
        if not isinstance(stored, str | bytes):
            raise AlteredError(f"{stored!r} is no path")
        path = os.fsdecode(stored)
        return path if is_url(path) else os.path.join(self._folder, path)

    def real(self, path: Location | str) -> str | bytes:
        """What tells whether two paths are one file."""
        return self._stored(identity(path))

    def _reals(self) -> Callable[[str], str | bytes]:
        """The same for many paths in a row: links to their folders are followed once."""
        folder_of = lru_cache(maxsize=64)(os.path.realpath)

        def real(path: str) -> str | bytes:
            if is_url(path) or os.path.islink(path):
                return self.real(path)
            folder, name = os.path.split(path)
            return self._stored(os.path.join(folder_of(folder), name))

        return real

    def _stored(self, path: str) -> str | bytes:
        """A path as SQLite takes it: as text, or as bytes if they are no Unicode; in the folder, relative."""
        encoded = os.fsencode(path.removeprefix(self._folder))
        try:
            return encoded.decode("utf-8")
        except UnicodeDecodeError:
            return encoded

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read."""
        found = self.db.execute(f"SELECT {_NAMED} FROM tables WHERE skipped IS NOT NULL ORDER BY name")
        return [(_text(row[1]), _text(row[7])) for row in sound(found)]

    def get_meta(self, key: str) -> str | None:
        """A stored setting."""
        value = self._told(key)
        return None if value is None else str(value)

    def _told(self, key: str) -> Any:
        found = self.db.execute(f"SELECT {sealed('meta')} FROM meta WHERE key = ?", (key,))
        return next((value for _, value, _ in sound(found)), None)

    def put_meta(self, key: str, value: str) -> None:
        """Store a setting."""
        self.db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))

    def config(self) -> IndexConfig | None:
        """Which files are current and how they were made; None while the first build is not finished."""
        text = self.get_meta("config")
        if text is None:
            return None
        try:
            return from_document(json.loads(text))
        except ValueError as error:
            raise AlteredError(f"its configuration cannot be used: {error}") from error

    def put_config(self, config: IndexConfig) -> None:
        """Switch over to other files."""
        self.put_meta("config", json.dumps(to_document(config)))

    def version(self) -> tuple[int, int]:
        """Changes whenever another connection has changed something; costs next to nothing."""
        if self._frozen is not None and self._frozen != stamp(self.path):
            self.db = self._open()  # whoever is reading by the old connection still has it
        (value,) = self.db.execute("PRAGMA data_version").fetchone()
        return self._opened, int(value)


def _places(found: Iterable[tuple[Any, ...]]) -> Places:
    """As an array, which takes a sixth of what tuples take."""
    there = ((row[0], row[4], row[5]) for row in sound(found))
    return np.fromiter(chain.from_iterable(there), np.int64).reshape(-1, 3)


def _identified(rows: Iterable[tuple[Any, ...]], levels: int, begin: int = 0) -> Identified:
    """Tables, codes and suffixes, sealed from `begin` on, as arrays; some thousand rows at a time."""
    left = sound(rows, begin)
    codes, numbers = [], [np.zeros((0, 2), np.int64)]
    try:
        while some := list(islice(left, _ROWS)):
            codes.append(b"".join(row[1] for row in some))
            numbers.append(np.array([(row[0], row[2]) for row in some], np.int64))
    except (TypeError, ValueError, OverflowError) as error:
        raise AlteredError(f"its identifiers are none: {error}") from error
    tables, suffixes = np.concatenate(numbers).T.copy()
    width, rest = divmod(sum(map(len, codes)), levels * len(tables)) if len(tables) else (1, 0)
    if rest or width not in _WIDTHS:
        raise AlteredError(f"its identifiers do not have {levels} codes")
    flat = np.frombuffer(b"".join(codes), _WIDTHS[width])
    return Identified(flat.reshape(-1, levels), suffixes, tables)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise AlteredError(f"{value!r:.80} is no text")
    return value
