"""How a lake differs from what the catalogue knows of it: decided table by table, and kept on the disk.

Memory is flat: tables are looked up some hundred at a time, in whatever order they come, and what was decided
lies in a private file. Only which tables were seen is held in memory, in a byte each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Any

from gentus.index.catalogue import Catalogue, Entry
from gentus.index.folder import Layout
from gentus.lake import Skipped, Source, Unreadable, as_location, fingerprint, is_outside_lake
from gentus.progress import Progress
from gentus.scratch import Scratch

_AT_ONCE = 500  # tables looked up together


class What(IntEnum):
    """What is to be done about a table."""

    NEW = 0
    CHANGED = 1
    TOUCHED = 2  # another date on the same content
    UNREADABLE = 3
    VANISHED = 4
    FORGOTTEN = 5  # vanished as well, and could not be read when it was there


GONE = (What.VANISHED, What.FORGOTTEN)


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is to read."""

    tables: int
    effort: float  # in all

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Work:
        """The work that files of these sizes are."""
        tables, total = 0, 0.0
        for size in sizes:
            tables += 1
            total += effort(size)
        return cls(tables, total)


def effort(size: int) -> float:
    """What reading a table costs, about in milliseconds where this was measured, on delimited text.

    The first bytes cost most, as of longer columns only some values are looked at closely; of files beyond a
    limit only parts are read. All that hangs on it is the estimate of time left.
    """
    return 0.25 + 0.35 * min(size, 1_000) / 1_000 + min(size, 512 << 10) / 25_000


_READ = (What.NEW, What.CHANGED)


def _among(what: Iterable[What]) -> str:
    return f"what IN ({', '.join(str(int(one)) for one in what)})"


class Plan:
    """What is to be done about a lake, in the order of names; unchanged tables are only counted."""

    def __init__(self) -> None:
        self.unchanged = 0  # in content
        self._rows = Scratch("name", "what", "path", "part", "size", "mtime_ns", "version", "why", key="name")

    def __enter__(self) -> Plan:
        """Close it after use."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the disk its room back."""
        self._rows.close()

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Note what was decided, as `_row` puts it; of two tables of one name the first stays."""
        self._rows.extend(rows)

    def count(self, *what: What) -> int:
        """How many tables there are of some kinds."""
        ((count,),) = self._rows.run(f"SELECT count(*) FROM rows WHERE {_among(what)}")
        return int(count)

    def names(self, *what: What, most: int = -1) -> Iterator[str]:
        """What they are called; `most` names, or all."""
        chosen = f"SELECT name FROM rows WHERE {_among(what)} ORDER BY name LIMIT ?"
        return (name for (name,) in self._rows.run(chosen, most))

    def touched(self) -> Iterator[Source]:
        """Tables whose date or place is another, and nothing else."""
        return self._sources(What.TOUCHED)

    def unreadable(self, most: int = -1) -> Iterator[Skipped]:
        """Tables that cannot be read, and why."""
        chosen = f"SELECT name, path, why FROM rows WHERE {_among((What.UNREADABLE,))} ORDER BY name LIMIT ?"
        found = self._rows.run(chosen, most)
        return (Skipped(name, as_location(os.fsdecode(path)), why) for name, path, why in found)

    def to_read(self) -> Iterator[Source]:
        """What is new or changed."""
        return self._sources(*_READ)

    def work(self) -> Work:
        """How much there is to read."""
        return Work.of(size for (size,) in self._rows.run(f"SELECT size FROM rows WHERE {_among(_READ)}"))

    def refuse(self, name: str, why: str) -> None:
        """Note that a table could not be read."""
        tuple(self._rows.run("UPDATE rows SET what = ?, why = ? WHERE name = ?", What.UNREADABLE, why, name))

    def _sources(self, *what: What) -> Iterator[Source]:
        found = self._rows.run(
            f"SELECT name, path, part, size, mtime_ns, version FROM rows WHERE {_among(what)} ORDER BY name"
        )
        return (Source(name, as_location(os.fsdecode(path)), *rest) for name, path, *rest in found)


def compare(
    found: Iterable[Source | Skipped],
    catalogue: Catalogue,
    layout: Layout,
    whole: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """What is new, changed or gone. Of a `whole` lake, what is not found has vanished.

    Tables from outside the lake are named by their full path; they are nobody's to miss.
    """
    plan = Plan()
    seen = bytearray(catalogue.last_id() + 1)
    cached = lru_cache(maxsize=1024)(lambda chunk: layout.chunk(chunk).is_file())
    items = iter(found)
    with (progress or Progress()).stage("Looking through the lake", None) as tick:
        while some := list(islice(items, _AT_ONCE)):
            known = catalogue.known(item.name for item in some)
            rows = []
            for item in some:
                number, entry = known.get(item.name, (0, None))  # no table has the number 0
                if not seen[number]:
                    seen[number] = number > 0
                    what = _decide(item, entry, cached)
                    plan.unchanged += what in (None, What.TOUCHED)
                    if what is not None:
                        rows.append(_row(item, what))
            plan.add(rows)
            tick(len(some))
    if whole:
        plan.add(
            (name, What.VANISHED if why is None else What.FORGOTTEN, None, None, None, None, None, why)
            for name, why in catalogue.unseen(seen)
            if not is_outside_lake(name)
        )
    return plan


def _row(item: Source | Skipped, what: What) -> tuple[Any, ...]:
    path = os.fsencode(str(item.path))
    if isinstance(item, Skipped):
        return item.name, what, path, None, None, None, None, item.reason
    return item.name, what, path, item.part, item.size, item.mtime_ns, item.version, None


def _decide(item: Source | Skipped, entry: Entry | None, cached: Callable[[int], bool]) -> What | None:
    """What is to be done about a table of which this is known; None: nothing."""
    if isinstance(item, Skipped):
        return What.UNREADABLE
    if entry is None or (entry.chunk is None and entry.skipped is None):
        return What.NEW
    if not _same_content(item, entry, cached):
        return What.CHANGED
    return None if (entry.mtime_ns, entry.path) == (item.mtime_ns, str(item.path)) else What.TOUCHED


def _same_content(source: Source, entry: Entry, cached: Callable[[int], bool]) -> bool:
    if entry.size != source.size or entry.part != source.part:
        return False
    if entry.chunk is None:
        return False  # it could not be read; whatever was in the way may be gone
    if not cached(entry.chunk):
        return False  # somebody emptied the cache
    if entry.mtime_ns == source.mtime_ns != 0 and not source.version:  # which says more than a date
        return True
    try:
        return entry.hash == fingerprint(source)
    except Unreadable:
        return False
