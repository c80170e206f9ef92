"""The tables in the catalogue: their names, where they were read, and what is known of their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from gentus.index.catalogue.database import Database
from gentus.index.catalogue.row_checksums import NAME_ROW, AlteredError, verified
from gentus.lake import Location, Source, as_location
from gentus.lake.location import identity, is_url
from gentus.table import Header


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
    header: Header = "auto"
    pinned: bool = False
    encoding: str = ""
    doubt: str = ""
    reading: str = ""


class TableName(NamedTuple):
    """What a table is called, and where it was read."""

    name: str
    path: str
    real_path: str | bytes  # tells whether two paths are one file
    part: str | None


class TableShape(NamedTuple):
    """How large a table is, and its file."""

    name: str
    rows: int  # as sampled
    columns: int
    size: int  # bytes of the file
    real_path: str | bytes  # tells whether two tables are in one file
    part: str | None


_SOURCE_ROW = f"size, mtime_ns, {NAME_ROW}"
_FIELDS = tuple(Entry.__dataclass_fields__)
_after_path = attrgetter(*_FIELDS[2:])
_RETIRE = (
    "UPDATE tables SET size = NULL, mtime_ns = NULL, hash = NULL, chunk = NULL, slot = NULL, skipped = NULL"
)


@dataclass(frozen=True, slots=True)
class TableStore:
    """One row a table, by name and by id; ids only ever grow."""

    _database: Database

    # --- writing ---------------------------------------------------------------------------------------

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert or replace tables by name; ids stay, and identifiers until others are assigned."""
        columns = (*_FIELDS, "real_path")
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
        # What cannot be read now keeps the header and encoding that were chosen for it.
        for column in ("header", "pinned", "encoding"):
            kept = f"CASE WHEN excluded.chunk IS NULL THEN {column} ELSE excluded.{column} END"
            updates = updates.replace(f"{column} = excluded.{column}", f"{column} = {kept}")
        updates += ", pending = pending OR chunk IS NOT excluded.chunk OR slot IS NOT excluded.slot"
        real_path = self._real_paths()
        self._database.db.executemany(
            f"INSERT INTO tables ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT (name) DO UPDATE SET {updates}",
            (
                (entry.name, self._stored(entry.path), *_after_path(entry), real_path(entry.path))
                for entry in entries
            ),
        )

    def touch(self, sources: Iterable[Source]) -> None:
        """Note that tables have another date, or another path, with the same content."""
        real_path = self._real_paths()
        self._database.db.executemany(
            "UPDATE tables SET path = ?, real_path = ?, mtime_ns = ? WHERE name = ?",
            (
                (self._stored(path), real_path(path), source.mtime_ns, source.name)
                for source in sources
                for path in (str(source.path),)
            ),
        )

    def move(self, lake: Location, to: Location) -> None:
        """Note that all tables of a lake are elsewhere, under the same names; those in the index stay."""
        real_path = self._real_paths()

        def moved() -> Iterator[tuple[str, str]]:
            for entry in list(self.each_entry()):
                inside = _path_inside(entry.path, lake)
                if inside is not None and not entry.path.startswith(self._database.folder):
                    yield str(to / inside if inside else to), entry.name

        self._database.db.executemany(
            "UPDATE tables SET path = ?, real_path = ? WHERE name = ?",
            ((self._stored(path), real_path(path), name) for path, name in moved()),
        )

    def retire(self, names: Iterable[str]) -> None:
        """Leave tables out of the next generation; until then the current one can still name them."""
        self._database.db.executemany(f"{_RETIRE} WHERE name = ?", ((name,) for name in names))

    def retire_all(self) -> None:
        """Leave all tables out of the next generation that are not read again."""
        self._database.db.execute(_RETIRE)

    def purge(self) -> None:
        """Delete retired tables."""
        self._database.db.execute("DELETE FROM tables WHERE chunk IS NULL AND skipped IS NULL")

    # --- what is known ---------------------------------------------------------------------------------

    def count(self) -> int:
        """How many tables are known, readable or not."""
        return int(self._database.db.execute("SELECT count(*) FROM tables").fetchone()[0])

    def last_id(self) -> int:
        """The highest id of any table."""
        return int(self._database.db.execute("SELECT ifnull(max(id), 0) FROM tables").fetchone()[0])

    def entries(self, names: Iterable[str] | None = None) -> dict[str, Entry]:
        """What is known of some tables, or of all, by name."""
        if names is None:
            return {entry.name: entry for entry in self.each_entry()}
        return {name: entry for name, (_, entry) in self.known(names).items()}

    def each_entry(self) -> Iterator[Entry]:
        """What is known of every table, one after the other."""
        return map(self._entry, self._database.db.execute(f"SELECT {', '.join(_FIELDS)} FROM tables"))

    def known(self, names: Iterable[str]) -> dict[str, tuple[int, Entry]]:
        """The ids of some tables and what is known of them, by name."""
        found = self._database.select_in(f"SELECT id, {', '.join(_FIELDS)} FROM tables WHERE name IN", names)
        return {row[1]: (row[0], self._entry(row[1:])) for row in found}

    def unseen(self, seen: Sequence[int]) -> Iterator[tuple[str, str | None]]:
        """Names of the tables whose id has a 0 in a list, and why they were skipped, if they were."""
        found = self._database.db.execute("SELECT id, name, skipped FROM tables WHERE id < ?", (len(seen),))
        return ((name, skipped) for table, name, skipped in found if not seen[table])

    def ids(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """The id of every table that was read, or of some, by name."""
        chosen = "SELECT name, id FROM tables WHERE chunk IS NOT NULL"
        if names is None:
            return dict(self._database.db.execute(chosen))
        return dict(self._database.select_in(f"{chosen} AND name IN", names))

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read."""
        found = self._names("skipped IS NOT NULL ORDER BY name")
        return [(_text(row[1]), _text(row[7])) for row in found]

    def doubtful(self) -> list[tuple[str, str]]:
        """(name, why) of tables that can be found and whose header looks like data."""
        found = self._names("codes IS NOT NULL AND doubt <> '' ORDER BY name")
        return [(_text(row[1]), _text(row[9])) for row in found]

    def unusual(self) -> list[tuple[str, str]]:
        """(name, how) of tables that can be found and are not read in the usual way."""
        found = self._names("codes IS NOT NULL AND reading <> '' ORDER BY name")
        return [(_text(row[1]), _text(row[11])) for row in found]

    # --- names and sources -----------------------------------------------------------------------------

    def names(self, ids: Iterable[int]) -> dict[int, TableName]:
        """What some tables are called, by id."""
        found = verified(self._database.select_in(f"SELECT {NAME_ROW} FROM tables WHERE id IN", ids))
        return {row[0]: TableName(_text(row[1]), self._absolute(row[2]), row[3], row[4]) for row in found}

    def shapes(self, ids: Iterable[int]) -> dict[int, TableShape]:
        """How large some tables are, by id."""
        found = self._database.select_in(f"SELECT size, {NAME_ROW} FROM tables WHERE id IN", ids)
        return {
            table: TableShape(_text(name), rows or 0, columns or 0, size or 0, real_path, part)
            for size, table, name, _, real_path, part, rows, columns, *_ in verified(found, begin=1)
        }

    def names_and_shapes(self) -> list[tuple[str, int, int]]:
        """(name, sampled rows, columns) of all tables that can be found, in the order of their names."""
        with self._database.transaction(read=True):
            written = self._database.identifier_count()
            found = [
                (_text(row[1]), row[5] or 0, row[6] or 0)
                for row in self._names("codes IS NOT NULL ORDER BY name")
            ]
        if len(found) != written:  # rows that SQLite lost would not be missed
            raise AlteredError(f"it lists {len(found):,} tables, and {written:,} were written")
        return found

    def ids_at(self, real_path: str | bytes, part: str | None = None) -> set[int]:
        """The tables read from this file, by whatever name; with `part`, only that one of them."""
        found = self._names("real_path = ?1 AND (?2 IS NULL OR part = ?2)", real_path, part)
        return {int(row[0]) for row in found}

    def source(self, name: str) -> Source | None:
        """Where one table that can be found was read from."""
        found = self._sources("codes IS NOT NULL AND name = ?", name)
        return next((source for _, source in found), None)

    def source_at(self, real_path: str | bytes, part: str | None) -> Source | None:
        """How a file that is a table of the index was read."""
        found = self._sources("codes IS NOT NULL AND real_path = ? AND part IS ?", real_path, part)
        return next((source for _, source in found), None)

    def sources(self) -> dict[str, Source]:
        """Where every table that can be found was read from, by name."""
        return {source.name: source for _, source in self._sources("codes IS NOT NULL ORDER BY name")}

    def sources_of(self, ids: Iterable[int]) -> dict[int, Source]:
        """Where the tables with these ids were read from, with or without an identifier yet."""
        wanted = set(ids)
        return {table: source for table, source in self._sources("chunk IS NOT NULL") if table in wanted}

    def sources_in(self, chunk: int) -> list[Source]:
        """Where the tables were read from whose features are in a chunk."""
        return [source for _, source in self._sources("chunk = ? ORDER BY slot", chunk)]

    def _names(self, condition: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        return verified(self._database.db.execute(f"SELECT {NAME_ROW} FROM tables WHERE {condition}", values))

    def _sources(self, condition: str, *values: Any) -> Iterator[tuple[int, Source]]:
        """The ids and sources of tables that meet a condition."""
        found = self._database.db.execute(f"SELECT {_SOURCE_ROW} FROM tables WHERE {condition}", values)
        for size, mtime_ns, table, name, path, _, part, *rest in verified(found, begin=2):
            place, (header, _, pinned, _, encoding, *_) = as_location(self._absolute(path)), rest[3:]
            yield (
                table,
                Source(
                    _text(name), place, part, size or 0, mtime_ns or 0, "", header, bool(pinned), encoding
                ),
            )

    # --- paths -----------------------------------------------------------------------------------------

    def real_path(self, path: Location | str, lake: str = "") -> str | bytes:
        """What tells whether two paths are one file.

        Files of a lake that has been replaced by a link are known by their paths of before.
        """
        real, root = identity(path), identity(lake) if lake else ""
        if root != lake and f"{real}{os.sep}".startswith(f"{root}{os.sep}"):
            before = self._stored(lake + real.removeprefix(root))
            if self.ids_at(before):
                return before
        return self._stored(real)

    def _real_paths(self) -> Callable[[str], str | bytes]:
        """The same for many paths in a row: links to their folders are followed once."""
        folder_of = lru_cache(maxsize=64)(os.path.realpath)

        def real_path(path: str) -> str | bytes:
            if is_url(path) or os.path.islink(path):
                return self.real_path(path)
            folder, name = os.path.split(path)
            return self._stored(os.path.join(folder_of(folder), name))

        return real_path

    def _stored(self, path: str) -> str | bytes:
        """A path as SQLite takes it: as text, or as bytes if they are no Unicode; in the folder, relative."""
        encoded = os.fsencode(path.removeprefix(self._database.folder))
        try:
            return encoded.decode("utf-8")
        except UnicodeDecodeError:
            return encoded

    def _absolute(self, stored: str | bytes) -> str:
        """The path that was stored."""
        if not isinstance(stored, str | bytes):
            raise AlteredError(f"{stored!r} is no path")
        path = os.fsdecode(stored)
        return path if is_url(path) else os.path.join(self._database.folder, path)

    def _entry(self, row: Sequence[Any]) -> Entry:
        return Entry(row[0], self._absolute(row[1]), *row[2:])


def _path_inside(path: str, lake: Location) -> str | None:
    """The path of a file in a lake, relative to it; empty for a lake that is a file, None for others."""
    if str(lake) == path:
        return ""
    end = "" if str(lake).endswith(("/", os.sep)) else "/" if is_url(path) else os.sep
    return path.removeprefix(f"{lake}{end}") if path.startswith(f"{lake}{end}") else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise AlteredError(f"{value!r:.80} is no text")
    return value
