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
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from gentus.arrays import F32, U8
from gentus.features.extract import Features
from gentus.index.catalogue import Catalogue, Entry
from gentus.index.config import IndexConfig
from gentus.index.diff import DELETED, NOT_READABLE, LakeDiff, Status, compare
from gentus.index.engine import LocalEngine
from gentus.index.feature_cache import CHUNK, stream_features
from gentus.index.folder import IndexFolderError, Layout
from gentus.index.ingest import Ingest, lake_tables, skipped_entries
from gentus.index.snapshot import Snapshot
from gentus.index.writer import finalise, publish, writer
from gentus.lake import (
    LakeNotFoundError,
    Location,
    Remote,
    Skipped,
    Source,
    TableNotFoundError,
    as_location,
    exists,
    is_outside_lake,
    locate,
    read_named,
)
from gentus.lake.exclude import Exclude, keeping, latest
from gentus.lake.rules import LakeRules, excluded_name, is_delimited, load_rules
from gentus.progress import Progress
from gentus.settings import BuildSettings
from gentus.table import TextOptions, text_choices

MOST_NAMES = 10_000  # of tables in the report, for each kind of change; the others are only counted
Kind = Literal["added", "replaced", "reread", "removed", "unreadable"]
_KINDS: dict[Kind, tuple[Status, ...]] = {
    "added": (Status.NEW, Status.RETRIED),
    "replaced": (Status.CHANGED,),
    "reread": (Status.REREAD,),
    "removed": (Status.DELETED, Status.WITHDRAWN),
    "unreadable": NOT_READABLE,
}
_KNOWN_UNREADABLE = (Status.STILL_UNREADABLE, Status.RETRIED)
# Whether a table can be read now that could not be before, only reading shows.
_DRY_KINDS = _KINDS | {"added": (Status.NEW,), "unreadable": (*NOT_READABLE, Status.RETRIED)}


@dataclass(slots=True, repr=False)
class Changes:
    """What an update did, or would do; tables by name.

    A table that was in the index and can no longer be read is both removed and unreadable.
    """

    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    reread: list[str] = field(default_factory=list)  # with another header or encoding
    removed: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # and why; new ones first
    still_unreadable: int = 0  # of these, how many could not be read before for the same reason
    unchanged: int = 0
    excluded: int = 0  # files and whole folders that are not read because a person excluded them
    others: dict[str, int] = field(default_factory=dict)  # files of other kinds, by their endings
    taken_back: list[str] = field(default_factory=list)  # excluded, and added by name: kept from now on
    doubts: dict[str, str] = field(default_factory=dict)  # tables read whose header looks like data, and why
    unnamed: dict[Kind, int] = field(default_factory=dict)  # how many more there are, where the list is cut
    returning: list[str] = field(default_factory=list)  # removed by name; the next sync adds them again
    needs_force: bool = False  # so many would be removed that a sync refuses it without `force`

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def count(self, kind: Kind) -> int:
        """How many tables were added, and so on, named or not."""
        return len(getattr(self, kind)) + self.unnamed.get(kind, 0)

    def __len__(self) -> int:
        """How many tables are not as they were."""
        return sum(self.count(kind) for kind in ("added", "replaced", "reread", "removed"))

    def __repr__(self) -> str:
        """The counts, in one line."""
        counts = {kind: self.count(kind) for kind in _KINDS} | {"unchanged": self.unchanged}
        told = [f"{count:,} {kind}" for kind, count in counts.items() if count]
        return f"<Changes: {', '.join(told) or 'none'}>"


@dataclass(slots=True)
class Updater:
    """An index folder that is to change, and the snapshot whose model assigns identifiers."""

    layout: Layout
    snapshot: Snapshot
    progress: Progress = field(default_factory=Progress)

    def add(self, paths: Iterable[str | os.PathLike[str] | Remote], text: TextOptions) -> Changes:
        """Add files, or whole folders of them; one that is there already and has changed is replaced.

        What is said of text counts for these tables alone; else files of the lake are read by its rules. A
        file or folder that is named is added even if it is excluded, and not excluded any more.
        """
        config, given = self.snapshot.config, list(paths)
        lake, said = as_location(config.lake), text_choices(text)
        rules = load_rules(lake, *self._choices({}, ()))
        named = [name for path in given if (name := excluded_name(path, lake, rules.exclude))]
        exclude = Exclude((*rules.exclude.patterns, *map(keeping, named)))

        def chosen(item: Source | Skipped) -> Source | Skipped:
            inside = not is_outside_lake(item.name)
            if inside and (left_out := exclude.excluded(item.name, item.path)):
                return left_out
            item = rules.applied(item) if inside else item
            if not said or isinstance(item, Skipped) or not is_delimited(item):
                return item
            return replace(item, **said, pinned=True)

        changes = self.add_tables(chosen(item) for path in given for item in locate(path, config.lake))
        if named:
            changes.taken_back = named
            with writer(self.layout) as catalogue:
                config = self._current_config(catalogue)
                kept = latest(config.settings.exclude, (keeping(name).text for name in named))
                self._publish(catalogue, config, replace(config.settings, exclude=kept))
        return changes

    def add_tables(self, found: Iterable[Source | Skipped]) -> Changes:
        """Add tables that were found somewhere, by the names they have."""
        with writer(self.layout) as catalogue:
            config = self._current_config(catalogue)
            with compare(found, catalogue, self.layout, progress=self.progress) as diff:
                self._apply(diff, catalogue, config)
                return _summary(diff)

    def _publish(self, catalogue: Catalogue, config: IndexConfig, settings: BuildSettings) -> None:
        """Switch over to other settings, if they are others."""
        changed = replace(config, settings=settings)
        if changed != config:
            with catalogue.transaction():
                changed = publish(self.layout, catalogue, changed)
            finalise(self.layout, changed)

    def remove(self, names: Sequence[str]) -> Changes:
        """Remove tables by name: all of them, or none if one is not there.

        One that could not be read is not in the index; it is no longer listed as skipped.
        """
        with writer(self.layout) as catalogue:
            known = catalogue.tables.entries(names)
            missing = [name for name in names if name not in known]
            if missing:
                raise TableNotFoundError(_unknown(missing, catalogue), missing[0])
            with catalogue.transaction():
                catalogue.identifiers.remove_tables(known)
        removed = [entry for entry in known.values() if entry.skipped is None]
        config = self.snapshot.config
        exclude = load_rules(as_location(config.lake), exclude=config.settings.exclude).exclude
        return Changes(
            removed=[entry.name for entry in removed],
            unreadable={name: entry.skipped for name, entry in known.items() if entry.skipped is not None},
            returning=[
                entry.name for entry in removed if not exclude.by(entry.name) and self._returns(entry)
            ],
        )

    def _returns(self, entry: Entry) -> bool:
        """Whether a sync would find this table."""
        if is_outside_lake(entry.name):
            return False
        path = as_location(entry.path)
        if entry.part is None or path.is_relative_to(self.layout.added.resolve()):
            return exists(path)
        return any(item.name == entry.name for item in locate(path, self.snapshot.config.lake))

    def foresee(self, lake: Location, text: TextOptions, exclude: Iterable[str] = ()) -> Changes:
        """What `sync` would do, as far as it can be told before new and changed files are read."""
        rules = load_rules(_existing(lake), *self._choices(text, exclude))
        with (
            closing(Catalogue(self.layout.catalogue)) as catalogue,
            self._compared(lake, rules, catalogue) as diff,
        ):
            return _summary(diff, _DRY_KINDS, needs_force=_removes_most(diff, catalogue))

    def sync(
        self,
        lake: Location,
        text: TextOptions,
        exclude: Iterable[str] = (),
        force: bool = False,
    ) -> Changes:
        """Follow a lake: add what is new, replace what has changed, remove what was deleted.

        What is said of text counts for all that no rule names, from now on; patterns to exclude are added to
        those of before.
        """
        chosen, patterns = self._choices(text, exclude)
        rules = load_rules(_existing(lake), chosen, patterns)
        with writer(self.layout) as catalogue:
            config = self._current_config(catalogue)
            with self._compared(lake, rules, catalogue) as diff:
                if _removes_most(diff, catalogue) and not force:
                    gone, known = diff.count(Status.DELETED), catalogue.identifier_count()
                    raise ValueError(
                        f"{gone:,} of {known:,} tables are not in {lake.resolve()} any more. Is it the "
                        "right folder, and mounted? See what would go with --dry-run; remove them with "
                        "--force. Nothing was changed."
                    )
                config = self._moved(catalogue, config, lake)
                with catalogue.transaction():
                    catalogue.tables.put(skipped_entries(diff.unreadable()))
                    catalogue.identifiers.withdraw(diff.names(*NOT_READABLE))
                    catalogue.put_left_out(diff.excluded, diff.others)
                self._apply(diff, catalogue, config)
                if diff.count(*DELETED):
                    with catalogue.transaction():
                        catalogue.identifiers.remove_tables(diff.names(*DELETED))
                changes = _summary(diff)
            settings = replace(config.settings, **chosen, exclude=patterns)
            self._publish(catalogue, config, settings)
        return changes

    def _moved(self, catalogue: Catalogue, config: IndexConfig, lake: Location) -> IndexConfig:
        """Switch over to another lake before its tables are read: a sync that is stopped leaves one lake."""
        changed = replace(config, lake=str(lake.resolve()))
        if changed == config:
            return config
        with catalogue.transaction():
            catalogue.tables.move(as_location(config.lake), as_location(changed.lake))
            changed = publish(self.layout, catalogue, changed)
        finalise(self.layout, changed)
        return changed

    def _choices(self, text: TextOptions, exclude: Iterable[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """How text is read, as known unless it is said, and all patterns."""
        settings = self.snapshot.config.settings
        known = {"header": settings.header, "encoding": settings.encoding}
        return known | text_choices(text), latest(settings.exclude, exclude)

    def _compared(self, lake: Location, rules: LakeRules, catalogue: Catalogue) -> LakeDiff:
        return compare(lake_tables(lake, self.layout, rules), catalogue, self.layout, True, self.progress)

    def _current_config(self, catalogue: Catalogue) -> IndexConfig:
        """The configuration, if the snapshot's model can assign identifiers by it."""
        config = catalogue.config()
        if config is None or config.generation != self.snapshot.config.generation:
            raise IndexFolderError(f"{self.layout.root} was refitted meanwhile; run the same command again.")
        return config

    def _apply(self, diff: LakeDiff, catalogue: Catalogue, config: IndexConfig) -> None:
        """Read what is new or changed, and assign identifiers."""

        def assign(tables: Sequence[Sequence[int]], features: Features) -> None:
            """Give tables (id, chunk, slot) that were just stored identifiers, in the same transaction."""
            if tables:
                ids = [table for table, _, _ in tables]
                codes, distances = self._codes(catalogue, ids, features)
                catalogue.identifiers.assign(ids, codes, distances.tolist())

        def on_stored(entries: list[Entry], features: Features) -> None:
            read = [entry for entry in entries if entry.chunk is not None]
            ids = catalogue.tables.ids(entry.name for entry in read)
            tables = [(ids[entry.name], entry.chunk or 0, entry.slot or 0) for entry in read]
            assign(tables, features)
            catalogue.identifiers.withdraw(entry.name for entry in entries if entry.skipped)
            for entry in entries:
                if entry.skipped is not None:
                    diff.mark_unreadable(entry.name, entry.skipped)
                elif entry.doubt:
                    diff.doubts[entry.name] = entry.doubt

        with catalogue.transaction():
            catalogue.tables.touch(diff.touched())
        ingest = Ingest(self.layout, catalogue, config.settings.limits, LocalEngine(), self.progress)
        ingest.read_sources(diff.to_read(), diff.workload(), on_stored)
        # A build read these and was stopped before it could assign identifiers.
        pending = catalogue.chunks.pending()
        cached = [chunk for chunk in np.unique(pending[:, 1]) if self.layout.chunk(chunk).is_file()]
        pending = pending[np.isin(pending[:, 1], cached)]
        for begin, features in zip(
            range(0, len(pending), CHUNK), stream_features(pending, self.layout), strict=True
        ):
            with catalogue.transaction():
                assign(pending[begin : begin + CHUNK].tolist(), features)

    def _codes(self, catalogue: Catalogue, ids: Sequence[int], features: Features) -> tuple[U8, F32]:
        """Codes of tables that were just stored; their cells are read again where codes come from these."""
        retriever, tables = self.snapshot.retriever, []
        if retriever.reads_cells:
            sources = catalogue.tables.sources_of(ids)
            tables = [read_named(sources[table], self.snapshot.config.settings.limits) for table in ids]
        return retriever.codes(tables, features)


def _existing(lake: Location) -> Location:
    if not exists(lake):
        raise LakeNotFoundError(f"There is no lake at {lake}. Is it mounted?")
    return lake


def _removes_most(diff: LakeDiff, catalogue: Catalogue) -> bool:
    """Whether so much is missing from the lake that it may not be mounted."""
    return diff.count(Status.DELETED) > max(10, catalogue.identifier_count() // 2)


def _summary(
    diff: LakeDiff, kinds: dict[Kind, tuple[Status, ...]] = _KINDS, needs_force: bool = False
) -> Changes:
    still = [status for status in kinds["unreadable"] if status in _KNOWN_UNREADABLE]
    new = [status for status in kinds["unreadable"] if status not in _KNOWN_UNREADABLE]
    unreadable = chain(diff.unreadable(*new, most=MOST_NAMES), diff.unreadable(*still, most=MOST_NAMES))
    changes = Changes(
        list(diff.names(*kinds["added"], most=MOST_NAMES)),
        list(diff.names(*kinds["replaced"], most=MOST_NAMES)),
        list(diff.names(*kinds["reread"], most=MOST_NAMES)),
        list(diff.names(*kinds["removed"], most=MOST_NAMES)),
        {item.name: item.reason for item in islice(unreadable, MOST_NAMES)},
        diff.count(*still),
        diff.unchanged,
        excluded=diff.excluded,
        others=dict(diff.others.most_common()),
        doubts=dict(islice(diff.doubts.items(), MOST_NAMES)),
        needs_force=needs_force,
    )
    for kind, statuses in kinds.items():
        if more := diff.count(*statuses) - changes.count(kind):
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
