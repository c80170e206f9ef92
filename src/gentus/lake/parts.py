"""Listing a folder of tables in parts, each on its own, so that several machines can do it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gentus.lake.base import Skipped, Source, failure_reason
from gentus.lake.folder import tables_at
from gentus.lake.listing import Listed, listing

DEEP = 2_000  # tables of its sub-folders that a part lists itself, so that small folders cost little
LEVEL = 20  # what a level counts for: folders may be deeper than calls of a function
WIDE = 20_000  # entries of one folder that are listed as one part


class Part(NamedTuple):
    """A folder of a lake, or some of its entries, yet to be listed."""

    folder: Path
    prefix: str = ""  # what the names of its tables begin with
    first: str = ""  # its entries from this key on ...
    last: str | None = None  # ... up to this one, which is the next part's


Found: TypeAlias = Source | Skipped | Part


def list_part(root: Path, part: Part, room: int = DEEP) -> list[Found]:
    """The tables of a part in the order of `scan`, and parts where there are more than it should list."""
    try:
        entries = _entries(part)
        some = list(islice(entries, WIDE + 1))
    except OSError as error:
        return [Skipped(part.prefix.rstrip("/"), part.folder, failure_reason(error))]
    if len(some) > WIDE:
        return list(_ranges(part, chain(some, entries)))
    found: list[Found] = []
    for entry in some:
        if entry.folder and not entry.link:
            inner = Part(part.folder / entry.file, f"{part.prefix}{entry.name}/")
            left = room - len(found) - LEVEL
            found += list_part(root, inner, left) if left > 0 else [inner]
        else:
            found += tables_at(entry, part.folder, part.prefix, root)
    return found


def _entries(part: Part) -> Iterator[Listed]:
    for entry in listing(part.folder):
        if part.last is not None and entry.key >= part.last:
            return
        if entry.key >= part.first:
            yield entry


def _ranges(part: Part, entries: Iterator[Listed]) -> Iterator[Part]:
    """The same entries as parts that are not too wide."""
    firsts = [entry.key for at, entry in enumerate(entries) if at % WIDE == 0]
    for first, last in zip(firsts, [*firsts[1:], part.last], strict=True):
        yield part._replace(first=first, last=last)
