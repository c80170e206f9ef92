"""Verifying an index folder, and rebuilding what can be rebuilt of it. No torch here."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gentus.index.catalogue import Catalogue
from gentus.index.catalogue.row_checksums import altered_rows
from gentus.index.compactor import write_tree
from gentus.index.config import IndexConfig
from gentus.index.engine import LocalEngine
from gentus.index.feature_cache import damaged_chunks
from gentus.index.folder import (
    IndexFolderError,
    IndexLockedError,
    Layout,
    read_config,
    refuse_foreign,
    refuse_other_format,
    superseded,
    verify,
    write_config,
    write_lock,
)
from gentus.index.ingest import Ingest, name_at
from gentus.index.writer import LOCK_TIMEOUT, writer
from gentus.lake import Location, as_location
from gentus.progress import Progress
from gentus.retrieval.trie import Trie, build_trie
from gentus.shell import command, quoted

_LEFT_BEHIND = "a writer that was stopped left it behind"


@dataclass(slots=True)
class Problem:
    """Something wrong with an index, and what helps."""

    file: str  # relative to the index
    what: str
    cure: str  # a command, or what `--repair` does
    repaired: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def check(
    path: str | os.PathLike[str], repair: bool = False, progress: Progress | None = None
) -> list[Problem]:
    """Verify every file of an index; with `repair`, rebuild what can be. No problem: an empty list."""
    layout, progress = Layout(Path(path)), progress or Progress()
    if not layout.catalogue.is_file():
        read_config(layout)  # which says what is wrong
        raise IndexFolderError(
            f"{layout.catalogue} is missing; nothing can be rebuilt without it. "
            f"Build the index again: {command('index', 'LAKE', '-o', layout.root)}"
        )
    refuse_foreign(layout)
    problems = _lasting_problems(layout)
    if repair and any(problem.cure == _repairing(layout) for problem in problems):
        _repair(layout, problems, progress)
        remaining = {(problem.file, problem.what) for problem in _problems(layout)}
        for problem in problems:
            problem.repaired = (problem.file, problem.what) not in remaining
    return problems


def _lasting_problems(layout: Layout) -> list[Problem]:
    """Problems that are none of a writer at work: it may switch files between two looks at them."""
    problems = list(_problems(layout))
    if not problems:
        return []
    try:
        with write_lock(layout, LOCK_TIMEOUT):
            return list(_problems(layout))
    except IndexLockedError:
        again = list(_problems(layout))
        return [one for one in problems if one in again and one.what != _LEFT_BEHIND]
    except sqlite3.Error:  # nobody can write here
        return problems


def _repairing(layout: Layout) -> str:
    return command("check", layout.root, "--repair")


def _problems(layout: Layout) -> Iterator[Problem]:
    rebuild = f"delete {quoted(layout.root)}, then {command('index', 'LAKE', '-o', layout.root)}"
    try:
        with closing(Catalogue(layout.catalogue)) as catalogue, catalogue.transaction(read=True):
            for (message,) in catalogue.db.execute("PRAGMA integrity_check(5)"):
                if message != "ok":
                    yield Problem(layout.catalogue.name, message, rebuild)
            for message in altered_rows(catalogue.db):
                yield Problem(layout.catalogue.name, message, rebuild)
            config = catalogue.config()
            if config is None:
                yield Problem(layout.catalogue.name, "its build was not finished", rebuild)
                return
            yield from _config_problems(layout, config)
            yield from _name_problems(layout, catalogue, as_location(config.lake))
            damaged = list(_file_problems(layout, config))
            yield from damaged
            verified = not any(problem.file.startswith("trie") for problem in damaged)
            yield from _tree_problems(layout, catalogue, config, verified)
            for chunk in damaged_chunks(layout, catalogue):
                if layout.chunk(chunk).exists():  # a cache may be deleted; what is there has to be right
                    name = layout.chunk(chunk).relative_to(layout.root).as_posix()
                    yield Problem(name, "its features cannot be read", _repairing(layout))
            for path in superseded(layout, config.generation, config.tree):
                yield Problem(path.name, _LEFT_BEHIND, _repairing(layout))
    except sqlite3.Error as error:
        refuse_other_format(layout)
        yield Problem(layout.catalogue.name, f"it cannot be read: {error}", rebuild)


def _file_problems(layout: Layout, config: IndexConfig) -> Iterator[Problem]:
    """Files that are not what was written."""
    for name, expected in config.files.items():
        reason = verify(layout, name, expected)
        if reason:
            yield Problem(
                name, reason, _repairing(layout) if name.startswith("trie") else command("refit", layout.root)
            )


def _config_problems(layout: Layout, config: IndexConfig) -> Iterator[Problem]:
    name = layout.config.name
    try:
        written = read_config(layout)
        if written.config_version != config.config_version:
            yield Problem(name, "it is not the same version as that of the catalogue", _repairing(layout))
        elif written != config:  # it has a checksum of its own
            rebuild = command("index", written.lake, "-o", layout.root)
            yield Problem(layout.catalogue.name, f"its configuration is not that of {name}", rebuild)
    except IndexFolderError as error:
        yield Problem(name, str(error).split(". ")[0], _repairing(layout))


def _name_problems(layout: Layout, catalogue: Catalogue, lake: Location) -> Iterator[Problem]:
    """Rows whose name and path do not fit each other: SQLite does not notice a letter that was altered."""
    for entry in catalogue.tables.each_entry():
        expected = name_at(as_location(entry.path), entry.part, lake, layout)
        if entry.name != expected:
            what = f"the table {entry.name} has the path {entry.path}, which is that of {expected}"
            yield Problem(layout.catalogue.name, what, command("sync", layout.root))


def _tree_problems(
    layout: Layout, catalogue: Catalogue, config: IndexConfig, verified: bool
) -> Iterator[Problem]:
    """Identifiers that are not unique, or a tree that does not hold what the catalogue says."""
    levels, since = config.levels, config.change_sequence
    found = catalogue.identifiers.select(levels)
    listed = np.column_stack([found.codes, found.suffixes])
    if len(np.unique(listed, axis=0)) != len(listed):
        yield Problem(layout.catalogue.name, "two tables have one identifier", command("refit", layout.root))
    if not verified:
        return
    old = catalogue.identifiers.select(levels, until=since)
    deleted = catalogue.identifiers.deleted(levels, since)
    expected = build_trie(
        np.concatenate([old.codes, deleted.codes]),
        np.concatenate([old.suffixes, deleted.suffixes]),
        np.concatenate([old.tables, deleted.tables]),
    )
    tree = Trie.load(layout.trie(config.tree))
    known = expected.tables >= 0
    alike = all(
        np.array_equal(getattr(tree, field.name), getattr(expected, field.name))
        for field in fields(Trie)
        if field.name != "tables"
    )
    if not alike or not np.array_equal(tree.tables[known], expected.tables[known]):
        folder = layout.trie(config.tree).name
        yield Problem(folder, "it does not hold the identifiers that the catalogue has", _repairing(layout))


def _repair(layout: Layout, problems: list[Problem], progress: Progress) -> None:
    with closing(Catalogue(layout.catalogue)) as catalogue:
        config = catalogue.config()
    assert config is not None  # else there would be nothing to repair
    broken = {problem.file for problem in problems if problem.cure == _repairing(layout)}
    if layout.config.name in broken:
        write_config(layout, config)  # a writer opens an index by it
    with writer(layout) as catalogue:  # which deletes what others left behind
        config = catalogue.config() or config
        if any(name.startswith("trie") for name in broken):
            config = write_tree(layout, catalogue, config)
        if any(name.startswith(layout.cache.name) for name in broken):
            Ingest(layout, catalogue, config.settings.limits, LocalEngine(), progress).restore_features()
