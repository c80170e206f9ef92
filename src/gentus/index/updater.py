"""Updating an index: add and remove tables, or follow a lake, with the model of the last fit. No torch here.

A table is stored by one transaction of the catalogue: from then on it can be found, before it cannot. All
other identifiers stay as they are.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gentus.features.extract import Features
from gentus.index.catalogue import Catalogue, Entry
from gentus.index.compactor import EXTENSIBLE
from gentus.index.config import IndexConfig
from gentus.index.diff import DELETED, LakeDiff, Status, compare
from gentus.index.engine import LocalEngine
from gentus.index.feature_cache import CHUNK, stream_features
from gentus.index.folder import IndexFolderError, Layout
from gentus.index.id_assigner import IdAssigner
from gentus.index.ingest import Ingest, lake_tables, skipped_entries
from gentus.index.snapshot import Snapshot
from gentus.index.writer import finalise, publish, writer
from gentus.lake import Location, Remote, Skipped, Source, exists, locate
from gentus.progress import Progress

MOST_NAMES = 10_000  # of tables in the report, for each kind of change; the others are only counted
Kind = Literal["added", "replaced", "removed", "unreadable"]
_KINDS: tuple[tuple[Kind, Status], ...] = (
    ("added", Status.NEW),
    ("replaced", Status.CHANGED),
    ("removed", Status.DELETED),
    ("unreadable", Status.UNREADABLE),
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
    """An index folder that is to change, and the snapshot whose model assigns identifiers."""

    layout: Layout
    snapshot: Snapshot
    progress: Progress = field(default_factory=Progress)

    def add(self, paths: Iterable[str | os.PathLike[str] | Remote]) -> Changes:
        """Add files, or whole folders of them; one that is there already and has changed is replaced."""
        lake = self.snapshot.config.lake
        return self.add_tables(item for path in paths for item in locate(path, lake))

    def add_tables(self, found: Iterable[Source | Skipped]) -> Changes:
        """Add tables that were found somewhere, by the names they have."""
        with writer(self.layout) as catalogue:
            config = self._current_config(catalogue)
            with compare(found, catalogue, self.layout, progress=self.progress) as diff:
                self._apply(diff, catalogue, config)
                return _summary(diff)

    def remove(self, names: Sequence[str]) -> Changes:
        """Remove tables by name: all of them, or none if one is not there."""
        with writer(self.layout) as catalogue:
            known = catalogue.tables.entries(names)
            missing = [name for name in names if name not in known]
            if missing:
                raise ValueError(_unknown(missing, catalogue))
            with catalogue.transaction():
                catalogue.identifiers.remove_tables(known)
        return Changes(removed=list(known))

    def sync(self, lake: Location, dry_run: bool = False, force: bool = False) -> Changes:
        """Follow a lake: add what is new, replace what has changed, remove what was deleted."""
        if not exists(lake):
            raise FileNotFoundError(f"There is no lake at {lake}. Is it mounted?")
        if dry_run:
            with (
                closing(Catalogue(self.layout.catalogue)) as catalogue,
                self._compared(lake, catalogue) as diff,
            ):
                return _summary(diff)
        with writer(self.layout) as catalogue:
            config = self._current_config(catalogue)
            with self._compared(lake, catalogue) as diff:
                deleted, known = diff.count(*DELETED), catalogue.tables.count()
                if deleted > max(10, known // 2) and not force:
                    raise ValueError(
                        f"{deleted:,} of {known:,} tables are not in {lake.resolve()} any more. Is it the "
                        "right folder, and mounted? See what would go with --dry-run; remove them with "
                        "--force. Nothing was changed."
                    )
                with catalogue.transaction():
                    catalogue.tables.put(skipped_entries(diff.unreadable()))
                    catalogue.identifiers.withdraw(diff.names(Status.UNREADABLE))
                self._apply(diff, catalogue, config)
                if deleted:
                    with catalogue.transaction():
                        catalogue.identifiers.remove_tables(diff.names(*DELETED))
                changes = _summary(diff)
            if str(lake.resolve()) != config.lake:
                with catalogue.transaction():
                    config = publish(self.layout, catalogue, replace(config, lake=str(lake.resolve())))
                finalise(self.layout, config)
        return changes

    def _compared(self, lake: Location, catalogue: Catalogue) -> LakeDiff:
        return compare(lake_tables(lake, self.layout), catalogue, self.layout, True, self.progress)

    def _current_config(self, catalogue: Catalogue) -> IndexConfig:
        """The configuration, if the snapshot's model can assign identifiers by it."""
        config = catalogue.config()
        if config is None or config.generation != self.snapshot.config.generation:
            raise IndexFolderError(f"{self.layout.root} was refitted meanwhile; run the same command again.")
        kind = config.settings.identifiers
        if kind not in EXTENSIBLE:
            raise ValueError(f"{kind} identifiers are for ablations and cannot be given to new tables.")
        return config

    def _apply(self, diff: LakeDiff, catalogue: Catalogue, config: IndexConfig) -> None:
        """Read what is new or changed, and assign identifiers."""
        assigner = IdAssigner(self.snapshot.encoder, self.snapshot.decoder.codebooks)
        limits, states = config.settings.limits, None
        if config.settings.bert is not None:
            from gentus.index.column_states import LakeStates

            states = LakeStates(config.settings.bert, self.layout, catalogue, limits, download=False)

        def on_stored(entries: list[Entry], features: Features) -> None:
            read = [entry for entry in entries if entry.chunk is not None]
            ids = catalogue.tables.ids(entry.name for entry in read)
            tables = [(ids[entry.name], entry.chunk or 0, entry.slot or 0) for entry in read]
            assigner.add(tables, features, catalogue, states)
            catalogue.identifiers.withdraw(entry.name for entry in entries if entry.skipped)
            for entry in entries:
                if entry.skipped is not None:
                    diff.mark_unreadable(entry.name, entry.skipped)

        with catalogue.transaction():
            catalogue.tables.touch(diff.touched())
        ingest = Ingest(self.layout, catalogue, limits, LocalEngine(), self.progress)
        ingest.read_sources(diff.to_read(), diff.workload(), on_stored)
        # A build read these and was stopped before it could assign identifiers.
        pending = catalogue.chunks.pending()
        cached = [chunk for chunk in np.unique(pending[:, 1]) if self.layout.chunk(chunk).is_file()]
        pending = pending[np.isin(pending[:, 1], cached)]
        for begin, features in zip(
            range(0, len(pending), CHUNK), stream_features(pending, self.layout), strict=True
        ):
            with catalogue.transaction():
                assigner.add(pending[begin : begin + CHUNK].tolist(), features, catalogue, states)


def _summary(diff: LakeDiff) -> Changes:
    changes = Changes(
        list(diff.names(Status.NEW, most=MOST_NAMES)),
        list(diff.names(Status.CHANGED, most=MOST_NAMES)),
        list(diff.names(Status.DELETED, most=MOST_NAMES)),
        {item.name: item.reason for item in diff.unreadable(MOST_NAMES)},
        diff.unchanged,
    )
    for kind, status in _KINDS:
        if more := diff.count(status) - changes.count(kind):
            changes.unnamed[kind] = more
    return changes


def _unknown(missing: list[str], catalogue: Catalogue) -> str:
    known = [name for name, _, _ in catalogue.tables.names_and_shapes()]
    described = []
    for name in missing[:5]:
        close = difflib.get_close_matches(name, known, n=1)
        described.append(f"{name} (did you mean {close[0]}?)" if close else name)
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    return f"Not in the index: {', '.join(described)}{more}. Nothing was removed."
