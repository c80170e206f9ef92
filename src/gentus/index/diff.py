"""How a lake differs from what the catalogue knows of it: decided table by table, and kept on the disk.

Memory is flat: tables are looked up some hundred at a time, in whatever order they come, and the decisions
are in a private file. Only which tables were seen is held in memory, in a byte each.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Any

from gentus.index.catalogue import Catalogue, Entry
from gentus.index.folder import Layout
from gentus.lake import (
    Excluded,
    OtherKinds,
    Skipped,
    Source,
    Unlisted,
    Unreadable,
    as_location,
    fingerprint,
    is_outside_lake,
)
from gentus.progress import Progress
from gentus.scratch import Scratch

_BATCH = 500  # tables looked up together


class Status(IntEnum):
    """How a table differs from what the catalogue knows of it."""

    NEW = 0
    CHANGED = 1
    TOUCHED = 2  # another date on the same content
    UNREADABLE = 3  # and is not in the index
    DELETED = 4
    DELETED_UNREADABLE = 5  # deleted, and could not be read when it was there
    RETRIED = 6  # could not be read before, and is read again
    WITHDRAWN = 7  # in the index until now, and unreadable
    REREAD = 8  # the same content, to be read with another header or encoding
    STILL_UNREADABLE = 9  # as before, for the same reason


_SOURCE_FIELDS = ("part", "size", "mtime_ns", "version", "header", "pinned", "encoding")
DELETED = (Status.DELETED, Status.DELETED_UNREADABLE)
NOT_READABLE = (Status.UNREADABLE, Status.WITHDRAWN, Status.STILL_UNREADABLE)
_TO_READ = (Status.NEW, Status.CHANGED, Status.RETRIED, Status.REREAD)


@dataclass(frozen=True, slots=True)
class Workload:
    """How much there is to read."""

    tables: int
    effort: float  # in all

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Workload:
        """The workload of files of these sizes."""
        tables, total = 0, 0.0
        for size in sizes:
            tables += 1
            total += effort(size)
        return cls(tables, total)


def effort(size: int) -> float:
    """The cost of reading a table of so many bytes: about milliseconds, measured on delimited text.

    The first bytes cost most: of longer columns only some values become features, and of files beyond a limit
    only parts are read. Only the estimate of the time left depends on it.
    """
    return 0.25 + 0.35 * min(size, 1_000) / 1_000 + min(size, 512 << 10) / 25_000


class LakeDiff:
    """The tables that differ, in the order of names; unchanged tables are only counted."""

    def __init__(self) -> None:
        self.unchanged = 0  # in content
        self.excluded = 0  # files, or whole folders
        self.others = Counter[str]()  # files of other kinds, by their endings
        self.doubts: dict[str, str] = {}  # of tables that were read: why their header looks like data
        columns = ("name", "status", "path", *_SOURCE_FIELDS, "reason")
        self._rows = Scratch(*columns, key="name")

    def __enter__(self) -> LakeDiff:
        """Close it after use."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the room on the disk."""
        self._rows.close()

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows as `_row` makes them; of two tables of one name the first stays."""
        self._rows.extend(rows)

    def count(self, *statuses: Status) -> int:
        """How many tables have one of these statuses."""
        ((count,),) = self._rows.run(f"SELECT count(*) FROM rows WHERE {_is_among(statuses)}")
        return int(count)

    def names(self, *statuses: Status, most: int = -1) -> Iterator[str]:
        """Names of these tables; `most` of them, or all."""
        chosen = f"SELECT name FROM rows WHERE {_is_among(statuses)} ORDER BY name LIMIT ?"
        return (name for (name,) in self._rows.run(chosen, most))

    def touched(self) -> Iterator[Source]:
        """Tables whose date or path is another, and nothing else."""
        return self._sources(Status.TOUCHED)

    def unreadable(self, *statuses: Status, most: int = -1) -> Iterator[Skipped]:
        """Tables that cannot be read, and why; or those of other statuses that have a reason."""
        condition = _is_among(statuses or NOT_READABLE)
        found = self._rows.run(
            f"SELECT name, path, reason FROM rows WHERE {condition} ORDER BY name LIMIT ?", most
        )
        return (Skipped(name, as_location(os.fsdecode(path)), reason) for name, path, reason in found)

    def to_read(self) -> Iterator[Source]:
        """New and changed tables, and those that could not be read before."""
        return self._sources(*_TO_READ)

    def workload(self) -> Workload:
        """How much there is to read."""
        found = self._rows.run(f"SELECT size FROM rows WHERE {_is_among(_TO_READ)}")
        return Workload.of(size for (size,) in found)

    def mark_unreadable(self, name: str, reason: str) -> None:
        """Note that a table could not be read; one that was in the index is no longer."""
        known = f"status = {int(Status.RETRIED)} AND reason = ?1 THEN {int(Status.STILL_UNREADABLE)}"
        gone = f"status = {int(Status.CHANGED)} THEN {int(Status.WITHDRAWN)}"
        status = f"CASE WHEN {known} WHEN {gone} ELSE {int(Status.UNREADABLE)} END"
        tuple(self._rows.run(f"UPDATE rows SET status = {status}, reason = ?1 WHERE name = ?2", reason, name))

    def _sources(self, *statuses: Status) -> Iterator[Source]:
        condition = _is_among(statuses)
        found = self._rows.run(
            f"SELECT name, path, {', '.join(_SOURCE_FIELDS)} FROM rows WHERE {condition} ORDER BY name"
        )
        return (
            Source(
                name, as_location(os.fsdecode(path)), part, size, time, version, header, bool(pinned), code
            )
            for name, path, part, size, time, version, header, pinned, code in found
        )


def _is_among(statuses: Iterable[Status]) -> str:
    return f"status IN ({', '.join(str(int(one)) for one in statuses)})"


def compare(
    found: Iterable[Source | Skipped],
    catalogue: Catalogue,
    layout: Layout,
    whole: bool = False,
    progress: Progress | None = None,
) -> LakeDiff:
    """What is new, changed or deleted. Of a `whole` lake, what is not found is deleted.

    Tables of a file or folder that cannot be listed stay as they were.
    Tables from outside the lake are named by their full path; they are never taken for deleted.
    """
    diff = LakeDiff()
    seen = bytearray(catalogue.tables.last_id() + 1)
    cached = lru_cache(maxsize=1024)(lambda chunk: layout.chunk(chunk).is_file())
    items, unlisted = iter(found), list[str]()
    with (progress or Progress()).stage("Scanning the lake", None) as tick:
        while some := list(islice(items, _BATCH)):
            read = [item for item in some if not isinstance(item, Excluded | OtherKinds)]
            diff.excluded += sum(isinstance(item, Excluded) for item in some)
            for item in some:
                diff.others.update(item.endings if isinstance(item, OtherKinds) else ())
            unlisted += [item.beginning for item in read if isinstance(item, Unlisted)]
            known = catalogue.tables.known(item.name for item in read)
            rows = []
            for item in read:
                number, entry = known.get(item.name, (0, None))  # no table has the id 0
                if not seen[number]:
                    seen[number] = number > 0
                    if entry is not None:
                        item = _as_pinned(item, entry)
                    status = _decide(item, entry, cached)
                    if status is Status.WITHDRAWN and not whole:
                        status = Status.UNREADABLE  # only a lake that is followed takes tables away
                    diff.unchanged += status in (None, Status.TOUCHED)
                    if status is not None:
                        rows.append(_row(item, status, entry))
            diff.add(rows)
            tick(len(some))
    if whole:
        diff.add(_deleted(diff, catalogue.tables.unseen(seen), tuple(unlisted)))
    return diff


def _deleted(
    diff: LakeDiff, unseen: Iterable[tuple[str, str | None]], unlisted: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    """Rows of tables that were not found, but for those that are where nothing could be listed."""
    for name, reason in unseen:
        if is_outside_lake(name):
            continue
        if name.startswith(unlisted):
            diff.unchanged += reason is None
            continue
        status = Status.DELETED if reason is None else Status.DELETED_UNREADABLE
        yield name, status, *(None,) * (1 + len(_SOURCE_FIELDS)), reason


def _row(item: Source | Skipped, status: Status, entry: Entry | None) -> tuple[Any, ...]:
    path = os.fsencode(str(item.path))
    if isinstance(item, Skipped):
        return item.name, status, path, *(None for _ in _SOURCE_FIELDS), item.reason
    before = entry.skipped if entry is not None else None
    return item.name, status, path, *(getattr(item, field) for field in _SOURCE_FIELDS), before


def _as_pinned(item: Source | Skipped, entry: Entry) -> Source | Skipped:
    """A table as a person chose to read it, unless that is chosen anew."""
    if isinstance(item, Skipped) or item.pinned or not entry.pinned:
        return item
    return replace(item, header=entry.header, encoding=entry.encoding, pinned=True)


def _decide(item: Source | Skipped, entry: Entry | None, cached: Callable[[int], bool]) -> Status | None:
    """How a table differs from its entry; None: it does not."""
    if isinstance(item, Skipped):
        if entry is not None and entry.skipped is None:
            return Status.WITHDRAWN
        known = entry is not None and entry.skipped == item.reason
        return Status.STILL_UNREADABLE if known else Status.UNREADABLE
    if entry is None:
        return Status.NEW
    if entry.skipped is not None:
        return Status.RETRIED  # the cause may be gone
    if not _same_content(item, entry, cached):
        return Status.CHANGED
    if (entry.header, entry.encoding) != (item.header, item.encoding):
        return Status.REREAD
    return None if (entry.mtime_ns, entry.path) == (item.mtime_ns, str(item.path)) else Status.TOUCHED


def _same_content(source: Source, entry: Entry, cached: Callable[[int], bool]) -> bool:
    if entry.size != source.size or entry.part != source.part:
        return False
    if entry.chunk is None or not cached(entry.chunk):
        return False  # a build was stopped, or the cache was deleted
    if entry.mtime_ns == source.mtime_ns != 0 and not source.version:  # which says more than a date
        return True
    try:
        return entry.hash == fingerprint(source)
    except Unreadable:
        return False
