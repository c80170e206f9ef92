"""Verifying an index folder, and rebuilding what can be rebuilt of it. No torch here."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gentus.index.catalogue import Catalogue
from gentus.index.config import IndexConfig
from gentus.index.engine import LocalEngine
from gentus.index.folder import (
    IndexFolderError,
    Layout,
    read_config,
    refuse_foreign,
    superseded,
    verify,
    write_config,
)
from gentus.index.ingest import damaged_chunks, name_at, restore_features
from gentus.index.row_checksums import altered
from gentus.index.updater import GROWING, write_snapshot
from gentus.index.writer import writer
from gentus.lake import Location, as_location
from gentus.progress import Progress
from gentus.search.trie import Trie, build_trie


@dataclass(slots=True)
class Problem:
    """Something wrong with an index, and what helps."""

    file: str  # relative to the index
    what: str
    cure: str  # a command, or what `--repair` does
    mended: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def check(
    path: str | os.PathLike[str], repair: bool = False, progress: Progress | None = None
) -> list[Problem]:
    """Verify every file of an index; with `repair`, rebuild what can be. No problem: an empty list."""
    layout, progress = Layout(Path(path)), progress or Progress()
    refuse_foreign(layout)
    if not layout.root.is_dir() or not layout.catalogue.is_file():
        read_config(layout)  # which says what is wrong
        raise IndexFolderError(
            f"{layout.catalogue} is missing; nothing can be rebuilt without it. "
            f"Build the index again: gentus index LAKE -o {layout.root}"
        )
    problems = list(_problems(layout))
    if repair and any(problem.cure == _REPAIR for problem in problems):
        _repair(layout, problems, progress)
        left = {(problem.file, problem.what) for problem in _problems(layout)}
        for problem in problems:
            problem.mended = (problem.file, problem.what) not in left
    return problems


_REPAIR = "gentus check --repair"


def _problems(layout: Layout) -> Iterator[Problem]:
    again = f"delete {layout.root}, then gentus index LAKE -o {layout.root}"
    try:
        catalogue = Catalogue(layout.catalogue)
    except sqlite3.Error as error:
        yield Problem(layout.catalogue.name, f"it cannot be read: {error}", again)
        return
    try:
        for (said,) in catalogue.db.execute("PRAGMA integrity_check(5)"):
            if said != "ok":
                yield Problem(layout.catalogue.name, said, again)
        for said in altered(catalogue.db):
            yield Problem(layout.catalogue.name, said, again)
        config = catalogue.config()
        if config is None:
            yield Problem(layout.catalogue.name, "its build was not finished", again)
            return
        yield from _config_problems(layout, config)
        yield from _name_problems(layout, catalogue, as_location(config.lake))
        sound = True
        for name, told in config.files.items():
            wrong = verify(layout, name, told)
            if wrong:
                sound = sound and not name.startswith("trie")
                cure = _REPAIR if name.startswith("trie") else f"gentus refit {layout.root}"
                yield Problem(name, wrong, cure)
        if config.settings.identifiers in GROWING:
            yield from _tree_problems(layout, catalogue, config, sound)
        for chunk in damaged_chunks(layout, catalogue):
            if layout.chunk(chunk).exists():  # a cache may be deleted; what is there has to be right
                name = layout.chunk(chunk).relative_to(layout.root).as_posix()
                yield Problem(name, "its features cannot be read", _REPAIR)
        for path in superseded(layout, config.generation, config.snapshot):
            yield Problem(path.name, "a writer that was stopped left it behind", _REPAIR)
    except sqlite3.Error as error:
        yield Problem(layout.catalogue.name, f"it cannot be read: {error}", again)
    finally:
        catalogue.close()


def _config_problems(layout: Layout, config: IndexConfig) -> Iterator[Problem]:
    name = layout.config.name
    try:
        told = read_config(layout)
        if told.config_version != config.config_version:
            yield Problem(name, "it is not the same version as that of the catalogue", _REPAIR)
        elif told != config:  # it is sealed; the catalogue is not
            again = f"gentus index {told.lake} -o {layout.root}"
            yield Problem(layout.catalogue.name, f"its configuration is not that of {name}", again)
    except IndexFolderError as error:
        yield Problem(name, str(error).split(". ")[0], _REPAIR)


def _name_problems(layout: Layout, catalogue: Catalogue, lake: Location) -> Iterator[Problem]:
    """Rows whose name and path do not fit each other: SQLite does not notice a letter that was altered."""
    for entry in catalogue.each_entry():
        expected = name_at(as_location(entry.path), entry.part, lake, layout)
        if entry.name != expected:
            what = f"the table {entry.name} has the path {entry.path}, which is that of {expected}"
            yield Problem(layout.catalogue.name, what, f"gentus sync {layout.root}")


def _tree_problems(
    layout: Layout, catalogue: Catalogue, config: IndexConfig, sound: bool
) -> Iterator[Problem]:
    """Identifiers that are not unique, or a tree that does not hold what the catalogue says."""
    levels, since = config.levels, config.change_sequence
    everything = catalogue.identifiers(levels)
    listed = np.column_stack([everything.codes, everything.suffixes])
    if len(np.unique(listed, axis=0)) != len(listed):
        yield Problem(layout.catalogue.name, "two tables have one identifier", f"gentus refit {layout.root}")
    if not sound:
        return
    old = catalogue.identifiers(levels, until=since)
    gone = catalogue.gone(levels, since)
    expected = build_trie(
        np.concatenate([old.codes, gone.codes]),
        np.concatenate([old.suffixes, gone.suffixes]),
        np.concatenate([old.tables, gone.tables]),
    )
    found = Trie.load(layout.trie(config.snapshot))
    known = expected.tables >= 0
    alike = all(
        np.array_equal(getattr(found, field.name), getattr(expected, field.name))
        for field in fields(Trie)
        if field.name != "tables"
    )
    if not alike or not np.array_equal(found.tables[known], expected.tables[known]):
        folder = layout.trie(config.snapshot).name
        yield Problem(folder, "it does not hold the identifiers that the catalogue has", _REPAIR)


def _repair(layout: Layout, problems: list[Problem], progress: Progress) -> None:
    catalogue = Catalogue(layout.catalogue)
    config = catalogue.config()
    catalogue.close()
    assert config is not None  # else nothing would be for us to mend
    broken = {problem.file for problem in problems if problem.cure == _REPAIR}
    if layout.config.name in broken:
        write_config(layout, config)  # a writer opens an index by it
    with writer(layout) as catalogue:  # which clears away what others left behind
        config = catalogue.config() or config
        if any(name.startswith("trie") for name in broken):
            config = write_snapshot(layout, catalogue, config)
        if any(name.startswith(layout.cache.name) for name in broken):
            restore_features(layout, catalogue, config.settings.limits, LocalEngine(), progress)
