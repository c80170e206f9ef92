"""Reading a lake into the catalogue and the cache of features; what is unchanged is not read again.

Nothing here imports torch, because every reading process imports this module.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeAlias

from gentus.features.extract import VERSION as FEATURES
from gentus.features.extract import Features, concatenate, featurize_all
from gentus.index.catalogue import Catalogue, Entry, Places
from gentus.index.chunks import read_chunk, write_chunk
from gentus.index.diff import GONE, Work, compare, effort
from gentus.index.engine import Engine
from gentus.index.folder import IndexFolderError, Layout
from gentus.lake import Limits, Location, Remote, Skipped, Source, Unreadable, fingerprint, scan, table_name
from gentus.lake.formats.detect import look_up
from gentus.progress import Progress
from gentus.table import Table

CHUNK = 256  # tables whose features are written together ...
SECONDS = 10.0  # ... or those read in this time: what a kill can cost

Scan = Callable[[Location], Iterator[Source | Skipped]]
Stored = Callable[[list[Entry], Features], None]  # called in the transaction that stores what was read


@dataclass(frozen=True, slots=True)
class Examined:
    """What the index keeps of a table."""

    features: Features
    rows: int  # sampled
    columns: int
    hash: str | None  # of the file; None if it has changed meanwhile, so that it is read again next time


_Result: TypeAlias = tuple[Source, Examined | Skipped]


def read_lake(
    root: Location,
    layout: Layout,
    catalogue: Catalogue,
    limits: Limits,
    engine: Engine,
    progress: Progress,
) -> None:
    """Bring catalogue and cache up to date with the lake; what is unchanged is not read again."""
    _check_cache(catalogue, limits)
    with compare(tables_of(root, layout, engine.scan), catalogue, layout, True, progress) as plan:
        with catalogue.transaction():
            catalogue.put(refusals(plan.unreadable()))
            catalogue.touch(plan.touched())
            catalogue.retire(plan.names(*GONE))
        read_sources(plan.to_read(), plan.work(), layout, catalogue, limits, engine, progress)


def read_sources(
    sources: Iterable[Source],
    work: Work,
    layout: Layout,
    catalogue: Catalogue,
    limits: Limits,
    engine: Engine,
    progress: Progress,
    stored: Stored = lambda entries, features: None,
) -> None:
    """Read tables into catalogue and cache, some hundred at a time."""
    if not work.tables:
        return
    number = catalogue.next_chunk()
    batch: list[_Result] = []
    last = time.monotonic()
    with progress.stage("Reading tables", work.tables, effort=work.effort) as tick:
        try:
            for result in engine.each(sources, examine, limits):
                batch.append(result)
                if len(batch) >= CHUNK or time.monotonic() - last > SECONDS:
                    some, batch = batch, []
                    _store(some, layout, catalogue, number, stored)
                    number, last = number + 1, time.monotonic()
                tick(1, effort(result[0].size))
        finally:  # stopped or not: what was read is kept
            if batch:
                _store(batch, layout, catalogue, number, stored)


def restore_features(
    layout: Layout,
    catalogue: Catalogue,
    limits: Limits,
    engine: Engine,
    progress: Progress,
) -> int:
    """Read again what the cache has lost; what cannot be read any more is noted as such. Returns how many."""
    lost = list(damaged_chunks(layout, catalogue))
    sources = (source for chunk in lost for source in catalogue.sources_in(chunk))
    work = Work.of(source.size for chunk in lost for source in catalogue.sources_in(chunk))
    read_sources(sources, work, layout, catalogue, limits, engine, progress)
    return work.tables


def damaged_chunks(layout: Layout, catalogue: Catalogue) -> Iterator[int]:
    """Chunks of the cache that are missing or cannot be read whole."""
    for number in sorted(catalogue.chunks()):
        try:
            read_chunk(layout.chunk(number), catalogue.chunk_crc(number))
        except IndexFolderError:
            yield number


def stream_features(tables: Iterable[Sequence[int]] | Places, layout: Layout) -> Iterator[Features]:
    """Features of tables (id, chunk, slot) in their order, some hundred at a time and few chunks at once."""
    recent: dict[int, Features] = {}
    iterator = iter(tables)
    while batch := list(islice(iterator, CHUNK)):
        parts = []
        for _, chunk, slot in batch:
            if chunk not in recent:
                if len(recent) >= 8:
                    recent.pop(next(iter(recent)))
                recent[chunk] = read_chunk(layout.chunk(chunk))
            parts.append(recent[chunk].one(slot))
        yield concatenate(parts)


def _check_cache(catalogue: Catalogue, limits: Limits) -> None:
    """Forget features that were made in another way than they would be now."""
    made = json.dumps([asdict(limits), FEATURES])
    if catalogue.get_meta("features") != made:
        with catalogue.transaction():
            catalogue.retire_all()
            catalogue.put_meta("features", made)


def tables_of(root: Location, layout: Layout, scan: Scan = scan) -> Iterator[Source | Skipped]:
    """What is in the lake, and what was sent to be added.

    An index that lies in the lake, this one or another, is no part of it.
    """
    own, top = layout.root.resolve(), root.resolve()

    @lru_cache(maxsize=4096)
    def is_index(folder: Path) -> bool:
        return folder == own or Layout(folder).is_index()

    @lru_cache(maxsize=64)  # tables of one folder follow one another
    def in_index(folder: Path) -> bool:
        inside = folder.is_relative_to(str(top)) and folder != top
        folders = takewhile(lambda above: above != top, (folder, *folder.parents))
        return inside and any(map(is_index, folders))

    for item in scan(root):
        if isinstance(item.path, Remote) or not in_index(item.path.parent):
            yield item
    yield from added_tables(layout)


def added_tables(layout: Layout) -> Iterator[Source | Skipped]:
    """Tables that were sent to a server; they are kept in the index itself, and called `added/..`."""
    if layout.added.is_dir():
        for item in scan(layout.added):
            yield replace(item, name=f"{layout.added.name}/{item.name}")


def name_at(path: Location, part: str | None, lake: Location, layout: Layout) -> str:
    """What a table is called that lies there."""
    added = layout.added.resolve()
    if path.is_relative_to(added):
        return f"{added.name}/{table_name(path, part, added)}"
    return table_name(path, part, lake)


def refusals(skipped: Iterable[Skipped]) -> Iterator[Entry]:
    """What the catalogue notes of tables that cannot be read."""
    return (Entry(item.name, str(item.path), skipped=item.reason) for item in skipped)


def examine(found: Sequence[tuple[Source, Table]]) -> list[Examined]:
    """Run where the tables were read, as all that costs time is."""
    features = featurize_all([table for _, table in found])
    return [
        Examined(features.one(at), table.rows, len(table.columns), _hash_or_none(source))
        for at, (source, table) in enumerate(found)
    ]


def _store(batch: list[_Result], layout: Layout, catalogue: Catalogue, number: int, stored: Stored) -> None:
    """Features first, then the rows that point to them: a kill between the two only repeats work."""
    entries: list[Entry] = []
    features: list[Features] = []
    for source, result in batch:
        entry = Entry(source.name, str(source.path), source.part, source.size, source.mtime_ns)
        if isinstance(result, Skipped):
            entries.append(replace(entry, skipped=result.reason))
        else:
            known = replace(entry, hash=result.hash, rows=result.rows, columns=result.columns)
            entries.append(replace(known, chunk=number, slot=len(features)))
            features.append(result.features)
    together = concatenate(features)
    crc = write_chunk(layout.chunk(number), together) if features else None
    with catalogue.transaction():
        if crc is not None:
            catalogue.put_chunk(number, crc)
        catalogue.put(entries)
        stored(entries, together)


def _hash_or_none(source: Source) -> str | None:
    """The hash of what was read, unless it has changed since."""
    try:
        digest = fingerprint(source)
        return digest if look_up(source.location)[1].mtime_ns == source.mtime_ns else None
    except (OSError, Unreadable):
        return None
