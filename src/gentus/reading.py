"""Reading a lake into the catalogue and the cache of features; what is unchanged is not read again.

Nothing here imports torch, because every reading process imports this module.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from gentus.catalogue import Catalogue, Entry
from gentus.features import VERSION as FEATURES
from gentus.features import Features, concatenate, featurize
from gentus.lake import Limits, Skipped, Source, Unreadable, each, fingerprint, scan
from gentus.progress import Progress
from gentus.store import Layout, write_chunk
from gentus.table import Table

CHUNK = 256  # tables whose features are written together ...
SECONDS = 10.0  # ... or those read in this time: what a kill can cost

_Result: TypeAlias = tuple[Source, tuple[Features, int, int] | Skipped]


def read_lake(
    root: Path,
    layout: Layout,
    catalogue: Catalogue,
    limits: Limits,
    workers: int,
    progress: Progress,
) -> None:
    """Bring catalogue and cache up to date with the lake; what is unchanged is not read again."""
    _check_cache(catalogue, limits)
    known = catalogue.entries()
    found: set[str] = set()
    sources: list[Source] = []
    changes: list[Entry] = []
    for item in _tables_of(root, layout):
        found.add(item.name)
        entry = known.get(item.name)
        if isinstance(item, Skipped):
            changes.append(Entry(item.name, str(item.path), skipped=item.reason))
        elif entry is None or not _unchanged(item, entry, layout):
            sources.append(item)
        elif entry.mtime_ns != item.mtime_ns:  # touched, not changed: next time the date will do
            changes.append(replace(entry, mtime_ns=item.mtime_ns))
    with catalogue.transaction():
        catalogue.put(changes)
        catalogue.retire(known.keys() - found)
    if not sources:
        return
    # A worker takes a second to start; few tables are read sooner without.
    workers = min(workers, 1 + len(sources) // 200)
    number = catalogue.next_chunk()
    batch: list[_Result] = []
    stored = time.monotonic()
    with progress.stage("Reading tables", len(sources)) as tick:
        try:
            for result in each(sources, examine, workers, limits):
                batch.append(result)
                if len(batch) >= CHUNK or time.monotonic() - stored > SECONDS:
                    _store(batch, layout, catalogue, number)
                    number, batch, stored = number + 1, [], time.monotonic()
                tick(1)
        finally:  # stopped or not: what was read is kept
            if batch:
                _store(batch, layout, catalogue, number)


def _check_cache(catalogue: Catalogue, limits: Limits) -> None:
    """Forget features that were made in another way than they would be now."""
    made = json.dumps([asdict(limits), FEATURES])
    if catalogue.get_meta("features") != made:
        with catalogue.transaction():
            catalogue.retire(list(catalogue.entries()))
            catalogue.put_meta("features", made)


def _tables_of(root: Path, layout: Layout) -> Iterator[Source | Skipped]:
    """What is in the lake; an index that lies in it, this one or another, is no part of it."""
    own, top = layout.root.resolve(), root.resolve()

    @lru_cache(maxsize=4096)
    def is_index(folder: Path) -> bool:
        return folder == own or Layout(folder).is_index()

    for item in scan(root):
        folders = takewhile(lambda folder: folder != top, item.path.parents)
        if not (top in item.path.parents and any(map(is_index, folders))):
            yield item


def examine(table: Table) -> tuple[Features, int, int]:
    """What the index keeps of a table: its features, and how many rows and columns were sampled."""
    return featurize(table), table.rows, len(table.columns)


def _unchanged(source: Source, entry: Entry, layout: Layout) -> bool:
    if entry.size != source.size or entry.part != source.part:
        return False
    if entry.chunk is None:
        return False  # it could not be read; whatever was in the way may be gone
    if not layout.chunk(entry.chunk).is_file():
        return False  # somebody emptied the cache
    if entry.mtime_ns == source.mtime_ns:
        return True
    try:
        return entry.hash == fingerprint(source)
    except Unreadable:
        return False


def _store(
    batch: list[_Result],
    layout: Layout,
    catalogue: Catalogue,
    number: int,
) -> None:
    """Features first, then the rows that point to them: a kill between the two only repeats work."""
    entries: list[Entry] = []
    features: list[Features] = []
    for source, result in batch:
        entry = Entry(
            source.name,
            str(source.path),
            source.part,
            source.size,
            source.mtime_ns,
            _hash_or_none(source),
        )
        if isinstance(result, Skipped):
            entries.append(replace(entry, skipped=result.reason))
        else:
            evidence, rows, columns = result
            entries.append(replace(entry, rows=rows, columns=columns, chunk=number, slot=len(features)))
            features.append(evidence)
    if features:
        write_chunk(layout.chunk(number), concatenate(features))
    with catalogue.transaction():
        catalogue.put(entries)


def _hash_or_none(source: Source) -> str | None:
    """The hash of what was read; None if it has changed since, so that it is read again next time."""
    try:
        digest = fingerprint(source)
        return digest if os.stat(source.path).st_mtime_ns == source.mtime_ns else None
    except (OSError, Unreadable):
        return None
