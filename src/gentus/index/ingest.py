"""Reading a lake into the catalogue and the feature cache; unchanged tables are not read again.

Nothing here imports torch, because every reading process imports this module.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from gentus.align.signatures import hash_values, names_of, sign_tables
from gentus.features.extract import VERSION as FEATURES
from gentus.features.extract import Features, concatenate, featurize_all
from gentus.features.wide import searched_columns
from gentus.index.catalogue import Catalogue, Entry, SignedColumns
from gentus.index.diff import DELETED, Workload, compare, effort
from gentus.index.engine import Engine
from gentus.index.feature_cache import CHUNK, damaged_chunks, write_chunk
from gentus.index.folder import Layout
from gentus.lake import Limits, Location, Remote, Skipped, Source, Unreadable, fingerprint, scan, table_name
from gentus.lake.exclude import Exclude
from gentus.lake.formats.detect import look_up
from gentus.lake.rules import LakeRules
from gentus.progress import Progress
from gentus.table import RowSketch, Table

SECONDS = 10.0  # after which features are written even if they are few: what a crash can cost

Scan = Callable[[Location, Exclude], Iterator[Source | Skipped]]
OnStored = Callable[[list[Entry], Features], None]  # called in the transaction that stores what was read


@dataclass(frozen=True, slots=True)
class Examined:
    """What the index keeps of a table."""

    features: Features
    rows: int  # sampled
    columns: int
    row_sketch: RowSketch | None  # None: it has too little content
    signed: SignedColumns
    hash: str | None  # of the file; None if it has changed meanwhile, so that it is read again next time
    doubt: str  # why its first row looks like data; empty: it does not
    reading: str  # what is not usual in how it is read; empty: nothing


_Result: TypeAlias = tuple[Source, Examined | Skipped]


@dataclass(frozen=True, slots=True)
class Ingest:
    """Reads tables into the catalogue and the feature cache of an index."""

    layout: Layout
    catalogue: Catalogue
    limits: Limits
    engine: Engine
    progress: Progress

    def read_lake(self, root: Location, rules: LakeRules) -> None:
        """Bring catalogue and cache up to date with the lake; unchanged tables are not read again."""
        self._check_cache()
        found = lake_tables(root, self.layout, rules, self.engine.scan)
        with compare(found, self.catalogue, self.layout, True, self.progress) as diff:
            skipped, touched, deleted = diff.unreadable(), diff.touched(), diff.names(*DELETED)
            with self.catalogue.transaction():
                self.catalogue.tables.put(skipped_entries(skipped))
                self.catalogue.tables.touch(touched)
                self.catalogue.tables.retire(deleted)
                self.catalogue.put_left_out(diff.excluded, diff.others)
            self.read_sources(diff.to_read(), diff.workload())

    def read_sources(
        self,
        sources: Iterable[Source],
        workload: Workload,
        on_stored: OnStored = lambda entries, features: None,
    ) -> None:
        """Read tables into catalogue and cache, some hundred at a time."""
        if not workload.tables:
            return
        number = self.catalogue.chunks.next_number()
        batch: list[_Result] = []
        last = time.monotonic()
        with self.progress.stage("Reading tables", workload.tables, effort=workload.effort) as tick:
            try:
                for result in self.engine.each(sources, examine, self.limits):
                    batch.append(result)
                    if len(batch) >= CHUNK or time.monotonic() - last > SECONDS:
                        some, batch = batch, []
                        self._store(some, number, on_stored)
                        number, last = number + 1, time.monotonic()
                    tick(1, effort(result[0].size))
            finally:  # stopped or not: what was read is kept
                if batch:
                    self._store(batch, number, on_stored)

    def restore_features(self) -> int:
        """Read again what the cache has lost; what cannot be read is noted as such. Returns how many."""
        lost = list(damaged_chunks(self.layout, self.catalogue))
        sources = (source for chunk in lost for source in self.catalogue.tables.sources_in(chunk))
        sizes = (source.size for chunk in lost for source in self.catalogue.tables.sources_in(chunk))
        workload = Workload.of(sizes)
        self.read_sources(sources, workload)
        return workload.tables

    def _check_cache(self) -> None:
        """Discard features that were made in another way than they would be now."""
        key = json.dumps([asdict(self.limits), FEATURES])
        if self.catalogue.features_key() != key:
            with self.catalogue.transaction():
                self.catalogue.tables.retire_all()
                self.catalogue.put_features_key(key)

    def _store(self, batch: list[_Result], number: int, on_stored: OnStored) -> None:
        """Features first, then the rows that point to them: a crash between the two only repeats work."""
        entries: list[Entry] = []
        features: list[Features] = []
        read: dict[str, Examined] = {}
        for source, result in batch:
            entry = Entry(
                source.name,
                str(source.path),
                source.part,
                source.size,
                source.mtime_ns,
                header=source.header,
                pinned=source.pinned,
                encoding=source.encoding,
            )
            if isinstance(result, Skipped):
                entries.append(replace(entry, skipped=result.reason))
            else:
                known = replace(entry, hash=result.hash, rows=result.rows, columns=result.columns)
                known = replace(known, chunk=number, slot=len(features), doubt=result.doubt)
                known = replace(known, reading=result.reading)
                entries.append(known)
                features.append(result.features)
                read[source.name] = result
        together = concatenate(features)
        crc = write_chunk(self.layout.chunk(number), together) if features else None
        with self.catalogue.transaction():
            if crc is not None:
                self.catalogue.chunks.put(number, crc)
            self.catalogue.tables.put(entries)
            ids = self.catalogue.tables.ids(read)
            self.catalogue.row_sketches.put({ids[name]: one.row_sketch for name, one in read.items()})
            self.catalogue.signatures.put({ids[name]: one.signed for name, one in read.items()})
            on_stored(entries, together)


def examine(found: Sequence[tuple[Source, Table]]) -> list[Examined]:
    """What the index keeps of some tables. It runs in the process that has read them."""
    searched = [searched_columns(table) for _, table in found]
    features = featurize_all(searched)
    signatures = sign_tables(searched, features, list(map(hash_values, searched)))
    return [
        Examined(
            features.one(at),
            table.rows,
            len(table.columns),
            table.row_sketch,
            SignedColumns.of(names_of(searched[at]), signatures[at]),
            _hash_or_none(source),
            table.doubt,
            table.reading,
        )
        for at, (source, table) in enumerate(found)
    ]


def _hash_or_none(source: Source) -> str | None:
    """The hash of what was read, unless it has changed since."""
    try:
        digest = fingerprint(source)
        state = look_up(source.path, source.part)[1]
        return digest if (state.size, state.mtime_ns) == (source.size, source.mtime_ns) else None
    except (OSError, Unreadable):
        return None


def lake_tables(
    root: Location, layout: Layout, rules: LakeRules, scan: Scan = scan
) -> Iterator[Source | Skipped]:
    """The tables of the lake as its rules have them read, and those that were uploaded.

    An index in the folder of the lake, this one or another, is not part of it.
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

    for item in scan(root, rules.exclude):
        if isinstance(item.path, Remote) or not in_index(item.path.parent):
            yield rules.applied(item)
    yield from _uploaded_tables(layout)


def _uploaded_tables(layout: Layout) -> Iterator[Source | Skipped]:
    if layout.added.is_dir():
        for item in scan(layout.added):
            yield replace(item, name=f"{layout.added.name}/{item.name}")


def name_at(path: Location, part: str | None, lake: Location, layout: Layout) -> str:
    """The name of a table at a path; one that was uploaded is in the index itself and called `added/..`."""
    added = layout.added.resolve()
    if path.is_relative_to(added):
        return f"{added.name}/{table_name(path, part, added)}"
    return table_name(path, part, lake)


def skipped_entries(skipped: Iterable[Skipped]) -> Iterator[Entry]:
    """Catalogue entries of tables that cannot be read."""
    return (Entry(item.name, str(item.path), skipped=item.reason) for item in skipped)
