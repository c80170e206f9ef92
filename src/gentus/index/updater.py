"""A living index: add, remove and follow a lake, with encoder and codes as they were learnt. No torch here.

A table is stored by one transaction of the catalogue. From then on it can be found, whatever happens next;
before, it is not there at all. All other identifiers stay as they are.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.extract import Features
from gentus.identifiers.codebooks import Codebooks
from gentus.index.catalogue import Catalogue, Entry
from gentus.index.chunks import write_chunk
from gentus.index.config import IndexConfig
from gentus.index.diff import GONE, Plan, What, compare
from gentus.index.engine import LocalEngine
from gentus.index.folder import IndexFolderError, Layout, next_generation, remove_other_chunks
from gentus.index.id_assigner import IdAssigner
from gentus.index.ingest import CHUNK, read_sources, refusals, stream_features, tables_of
from gentus.index.writer import publish, settle, writer
from gentus.lake import Location, Remote, Skipped, Source, exists, locate
from gentus.progress import Progress
from gentus.search.trie import build_trie

GROWING = ("semantic", "ordinary")  # identifiers that a new table can be given
NAMED = 10_000  # tables of each kind of change that are told by name; memory does not grow with the others
Kind = Literal["added", "replaced", "removed", "unreadable"]
_KINDS: tuple[tuple[Kind, What], ...] = (
    ("added", What.NEW),
    ("replaced", What.CHANGED),
    ("removed", What.VANISHED),
    ("unreadable", What.UNREADABLE),
)


@dataclass(slots=True)
class Changes:
    """What an update did, or would do; tables by name."""

    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # and why
    unchanged: int = 0
    unnamed: dict[Kind, int] = field(default_factory=dict)  # how many more there are, where the list is cut

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def count(self, kind: Kind) -> int:
        """How many tables were added, and so on, named or not."""
        return len(getattr(self, kind)) + self.unnamed.get(kind, 0)

    def __len__(self) -> int:
        """How many tables are not as they were."""
        return sum(self.count(kind) for kind in ("added", "replaced", "removed"))


@dataclass(slots=True)
class Updater:
    """An index folder that is to change, with the model that names its tables."""

    layout: Layout
    config: IndexConfig
    encoder: ClosedForm | Encoder
    codebooks: Codebooks
    progress: Progress = field(default_factory=Progress)

    def add(self, paths: Iterable[str | os.PathLike[str] | Remote]) -> Changes:
        """Add files, or whole folders of them; one that is there already and has changed is replaced."""
        lake = self.config.lake
        return self.add_tables(item for path in paths for item in locate(path, lake))

    def add_tables(self, found: Iterable[Source | Skipped]) -> Changes:
        """Add tables that were found somewhere, by the names they have."""
        with writer(self.layout) as catalogue:
            config = self._current(catalogue)
            with compare(found, catalogue, self.layout, progress=self.progress) as plan:
                self._apply(plan, catalogue, config)
                return _told(plan)

    def remove(self, names: Sequence[str]) -> Changes:
        """Remove tables by name: all of them, or none if one is not there."""
        with writer(self.layout) as catalogue:
            known = catalogue.entries(names)
            missing = [name for name in names if name not in known]
            if missing:
                raise ValueError(_unknown(missing, catalogue))
            with catalogue.transaction():
                catalogue.remove(known)
        return Changes(removed=list(known))

    def sync(self, lake: Location, dry_run: bool = False, force: bool = False) -> Changes:
        """Follow a lake: add what is new, replace what has changed, remove what has vanished."""
        if not exists(lake):
            raise FileNotFoundError(f"There is no lake at {lake}. Is it mounted?")
        if dry_run:
            catalogue = Catalogue(self.layout.catalogue)
            try:
                with self._compared(lake, catalogue) as plan:
                    return _told(plan)
            finally:
                catalogue.close()
        with writer(self.layout) as catalogue:
            config = self._current(catalogue)
            with self._compared(lake, catalogue) as plan:
                lost, known = plan.count(*GONE), catalogue.count()
                if lost > max(10, known // 2) and not force:
                    raise ValueError(
                        f"{lost:,} of {known:,} tables are not in {lake.resolve()} any more. Is it the right "
                        "folder, and mounted? See what would go with --dry-run; remove them with --force. "
                        "Nothing was changed."
                    )
                with catalogue.transaction():
                    catalogue.put(refusals(plan.unreadable()))
                    catalogue.unidentify(plan.names(What.UNREADABLE))
                self._apply(plan, catalogue, config)
                if lost:
                    with catalogue.transaction():
                        catalogue.remove(plan.names(*GONE))
                changes = _told(plan)
            if str(lake.resolve()) != config.lake:
                with catalogue.transaction():
                    config = publish(self.layout, catalogue, replace(config, lake=str(lake.resolve())))
                settle(self.layout, config)
        return changes

    def _compared(self, lake: Location, catalogue: Catalogue) -> Plan:
        return compare(tables_of(lake, self.layout), catalogue, self.layout, True, self.progress)

    def _current(self, catalogue: Catalogue) -> IndexConfig:
        """The configuration, if new tables can be given identifiers by it."""
        config = catalogue.config()
        if config is None or config.generation != self.config.generation:
            raise IndexFolderError(
                f"{self.layout.root} was learnt anew meanwhile; run the same command again."
            )
        kind = config.settings.identifiers
        if kind not in GROWING:
            raise ValueError(f"{kind} identifiers are for ablations and cannot be given to new tables.")
        return config

    def _apply(self, plan: Plan, catalogue: Catalogue, config: IndexConfig) -> None:
        """Read what is new or changed, and give it its identifiers."""
        assigner, limits = IdAssigner(self.encoder, self.codebooks), config.settings.limits
        states = None
        if config.settings.bert is not None:
            from gentus.index.column_states import LakeStates

            states = LakeStates(config.settings.bert, self.layout, catalogue, limits, download=False)

        def stored(entries: list[Entry], features: Features) -> None:
            read = [entry for entry in entries if entry.chunk is not None]
            ids = catalogue.ids(entry.name for entry in read)
            tables = [(ids[entry.name], entry.chunk or 0, entry.slot or 0) for entry in read]
            assigner.add(tables, features, catalogue, states)
            catalogue.unidentify(entry.name for entry in entries if entry.skipped)
            for entry in entries:
                if entry.skipped is not None:
                    plan.refuse(entry.name, entry.skipped)

        with catalogue.transaction():
            catalogue.touch(plan.touched())
        engine, work = LocalEngine(), plan.work()
        read_sources(plan.to_read(), work, self.layout, catalogue, limits, engine, self.progress, stored)
        # A build read these and was stopped before it could name them.
        waiting = catalogue.pending()
        there = [chunk for chunk in np.unique(waiting[:, 1]) if self.layout.chunk(chunk).is_file()]
        waiting = waiting[np.isin(waiting[:, 1], there)]
        for begin, features in zip(
            range(0, len(waiting), CHUNK), stream_features(waiting, self.layout), strict=True
        ):
            with catalogue.transaction():
                assigner.add(waiting[begin : begin + CHUNK].tolist(), features, catalogue, states)

    def compact(self) -> bool:
        """Write all identifiers as one new snapshot of the tree, and tidy the cache. False: nothing to do."""
        with writer(self.layout) as catalogue:
            config = catalogue.config()
            assert config is not None
            if config.settings.identifiers not in GROWING:
                return False
            tidied = tidy_cache(self.layout, catalogue)
            if catalogue.serial() == config.change_sequence:
                return tidied
            write_snapshot(self.layout, catalogue, config)
            return True


def write_snapshot(layout: Layout, catalogue: Catalogue, config: IndexConfig) -> IndexConfig:
    """All identifiers as a new tree, switched to in one step; returns the configuration that names it."""
    serial = catalogue.serial()
    everything = catalogue.identifiers(config.levels)
    snapshot = next_generation(layout)
    build_trie(everything.codes, everything.suffixes, everything.tables).save(layout.trie(snapshot))
    with catalogue.transaction():
        config = publish(layout, catalogue, replace(config, snapshot=snapshot, change_sequence=serial))
    settle(layout, config)
    return config


def tidy_cache(layout: Layout, catalogue: Catalogue) -> bool:
    """Join small chunks of features into larger ones, and drop those of tables that are gone."""
    small = catalogue.small_chunks(CHUNK // 4)
    moved = [entry for entry in small if layout.chunk(entry[1]).is_file()]
    several = len({chunk for _, chunk, _ in moved}) > 1
    if several:
        number = catalogue.next_chunk()
        written = [
            write_chunk(layout.chunk(number + at), features)
            for at, features in enumerate(stream_features(moved, layout))
        ]
        with catalogue.transaction():
            for at, crc in enumerate(written):
                catalogue.put_chunk(number + at, crc)
            catalogue.move_features(
                (table, number + at // CHUNK, at % CHUNK) for at, (table, _, _) in enumerate(moved)
            )
            catalogue.forget_chunks()
    remove_other_chunks(layout, catalogue.chunks())
    return several


def _told(plan: Plan) -> Changes:
    changes = Changes(
        list(plan.names(What.NEW, most=NAMED)),
        list(plan.names(What.CHANGED, most=NAMED)),
        list(plan.names(What.VANISHED, most=NAMED)),
        {item.name: item.reason for item in plan.unreadable(NAMED)},
        plan.unchanged,
    )
    for kind, what in _KINDS:
        if more := plan.count(what) - changes.count(kind):
            changes.unnamed[kind] = more
    return changes


def _unknown(missing: list[str], catalogue: Catalogue) -> str:
    known = catalogue.table_names()
    told = []
    for name in missing[:5]:
        close = difflib.get_close_matches(name, known, n=1)
        told.append(f"{name} (did you mean {close[0]}?)" if close else name)
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    return f"Not in the index: {', '.join(told)}{more}. Nothing was removed."
