"""Listing a lake in tasks that are independent of each other, so that several machines can share them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gentus.lake.base import Skipped, Source, Unlisted, failure_reason
from gentus.lake.exclude import Exclude
from gentus.lake.folder import FolderEntry, listing, tables_at

DEEP = 2_000  # tables of sub-folders that one task lists itself, so that small folders cost little
LEVEL = 20  # tables that a level of folders counts for: folders may be deeper than calls of a function
WIDE = 20_000  # entries of one folder that are listed as one task


class ListingTask(NamedTuple):
    """A folder of a lake, or a range of its entries, yet to be listed."""

    folder: Path
    prefix: str = ""  # what the names of its tables begin with
    first: str = ""  # its entries from this key on ...
    last: str | None = None  # ... up to this one, which belongs to the next task


ListingResult: TypeAlias = Source | Skipped | ListingTask


def run_listing(root: Path, exclude: Exclude, task: ListingTask, room: int = DEEP) -> list[ListingResult]:
    """The tables of a task in the order of `scan`, and further tasks in place of more than it should list."""
    try:
        entries = _entries(task, exclude)
        some = list(islice(entries, WIDE + 1))
    except OSError as error:
        return [Unlisted(task.prefix.rstrip("/"), task.folder, failure_reason(error), whole=not task.prefix)]
    if len(some) > WIDE:
        return list(_ranges(task, chain(some, entries)))
    found: list[ListingResult] = []
    for entry in some:
        path, name = task.folder / entry.file, task.prefix + entry.name
        if entry.link or not entry.folder:
            found += tables_at(entry, task.folder, task.prefix, root, exclude)
        elif left_out := exclude.excluded(name, path, folder=True):
            found.append(left_out)
        else:
            inner = ListingTask(path, f"{name}/")
            left = room - len(found) - LEVEL
            found += run_listing(root, exclude, inner, left) if left > 0 else [inner]
    return found


def _entries(task: ListingTask, exclude: Exclude) -> Iterator[FolderEntry]:
    for entry in listing(task.folder, task.prefix, exclude):
        if task.last is not None and entry.key >= task.last:
            return
        if entry.key >= task.first:
            yield entry


def _ranges(task: ListingTask, entries: Iterator[FolderEntry]) -> Iterator[ListingTask]:
    """The same entries as tasks that are not too wide."""
    firsts = [entry.key for at, entry in enumerate(entries) if at % WIDE == 0]
    for first, last in zip(firsts, [*firsts[1:], task.last], strict=True):
        yield task._replace(first=first, last=last)
