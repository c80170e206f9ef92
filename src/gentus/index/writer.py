"""Writing to an index: one writer at a time, and the switch to other files in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from gentus.errors import GentusError, system_reason
from gentus.index.catalogue import Catalogue
from gentus.index.config import IndexConfig
from gentus.index.folder import (
    IndexFolderError,
    Layout,
    digests,
    read_config,
    remove_superseded,
    superseded,
    write_config,
    write_lock,
)

LOCK_TIMEOUT = 5.0  # seconds to wait for another writer before giving up


@contextmanager
def writer(layout: Layout, create: bool = False) -> Iterator[Catalogue]:
    """The catalogue, for this process alone to write.

    Committed changes survive a crash; the error for a full disk or a read-only folder says so.
    """
    if not create:
        read_config(layout)  # which says what is wrong
    opened = False
    try:
        with _folder(layout.root, create), write_lock(layout, LOCK_TIMEOUT), _opened(layout) as catalogue:
            opened = True
            _recover(layout, catalogue)
            yield catalogue
    except GentusError:  # some of them are errors of the system, too
        raise
    except sqlite3.OperationalError as error:
        if "user-defined function" in str(error):  # ours cannot fail: this is how SQLite reports Ctrl-C in it
            raise KeyboardInterrupt from error
        raise IndexFolderError(_refused(layout, opened, system_reason(error))) from error
    except sqlite3.DatabaseError as error:
        raise IndexFolderError(
            f"{layout.catalogue} is damaged ({error}). Delete {layout.root} and index the lake again."
        ) from error
    except OSError as error:
        if opened and error.filename and not str(error.filename).startswith(str(layout.root)):
            raise  # it concerns some other file
        raise IndexFolderError(_refused(layout, opened, system_reason(error))) from error


@contextmanager
def _folder(root: Path, create: bool) -> Iterator[None]:
    """Make the folder of an index; it is removed if it stays empty."""
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    if create:
        root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # it has files now
            for folder in made:
                folder.rmdir()


@contextmanager
def _opened(layout: Layout) -> Iterator[Catalogue]:
    """The catalogue; a failure before anything is stored in a new one removes it."""
    unused = not layout.catalogue.exists()
    try:
        with closing(Catalogue(layout.catalogue, writable=True)) as catalogue:
            try:
                yield catalogue
            except BaseException:
                unused = unused and not catalogue.tables.count()
                raise
    except BaseException:
        if unused:
            with suppress(OSError):  # Windows deletes no file that is locked
                layout.catalogue.unlink(missing_ok=True)
                layout.lock.unlink()
        raise


def _recover(layout: Layout, catalogue: Catalogue) -> None:
    """Finish what a killed writer had to do after its switch, and delete files that it never used."""
    config = catalogue.config()
    if config is None:
        return
    try:
        current = read_config(layout).config_version == config.config_version
    except IndexFolderError:
        current = False
    if not current or superseded(layout, config.generation, config.tree):
        finalise(layout, config)


def _refused(layout: Layout, opened: bool, reason: str) -> str:
    if not (opened or layout.config.is_file()):
        return f"Cannot write the index to {layout.root}: {reason}"
    return (
        f"Cannot write to {layout.root}: {reason}. The index is as it was, with all that had been stored; "
        "make room or give permission, and run the same command again."
    )


def publish(layout: Layout, catalogue: Catalogue, config: IndexConfig) -> IndexConfig:
    """The next version of the configuration, with checksums; call it in the transaction that switches."""
    before = catalogue.config()
    version = 1 + (before.config_version if before else 0)
    files = digests(layout, config.generation, config.tree)
    config = replace(config, config_version=version, files=files)
    catalogue.put_config(config)
    return config


def finalise(layout: Layout, config: IndexConfig) -> None:
    """After the switch: write `config.json`, and delete what was replaced."""
    write_config(layout, config)
    remove_superseded(layout, config.generation, config.tree)
