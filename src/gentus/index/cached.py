"""Indexes of lakes in the cache folder of this user: built when they are first needed, then kept in step.

The folder is `GENTUS_CACHE`, or `gentus` in the cache folder of the system. Each lake has a subfolder of its
own, named after its real path or URL; nothing is ever written into a lake.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gentus.index.build import build, refit
from gentus.index.folder import IndexFolderError, IndexNotFoundError
from gentus.index.index import Index
from gentus.index.info import drift
from gentus.lake import LakeNotFoundError, Location, Remote, as_location, exists
from gentus.progress import Progress

log = logging.getLogger("gentus.index.cached")
_WAIT = 0.25  # seconds at a time for another process: SQLite's waiting does not hear Ctrl-C


def cache_folder() -> Path:
    """Where the indexes are: `GENTUS_CACHE`, or `gentus` in the cache folder of the system."""
    if given := os.environ.get("GENTUS_CACHE"):
        return Path(given).expanduser().absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gentus" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gentus"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "gentus"


def index_folder(lake: Location) -> Path:
    """The folder of the index of a lake; raises `ValueError` if it would lie in the lake."""
    root = lake.resolve()
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name)[:40].strip("-.") or "lake"
    folder = cache_folder() / f"{label}-{hashlib.sha256(os.fsencode(str(root))).hexdigest()[:16]}"
    if isinstance(root, Path) and folder.resolve().is_relative_to(root):
        raise ValueError(
            f"{folder} would lie in the lake {root}, and nothing is written there. "
            "Name a folder elsewhere in GENTUS_CACHE, or build an index: gentus.build(lake, index)"
        )
    return folder


def open_lake(lake: str | os.PathLike[str] | Remote, progress: Progress | None = None) -> Index:
    """The cached index of a lake, in step with its files."""
    location = as_location(lake)
    if not exists(location):
        raise LakeNotFoundError(
            f"There is no lake at {location}. Give a folder of tables, or a database file."
        )
    folder = index_folder(location)
    with _alone(folder):
        index = _opened(location, folder, progress)
        if reasons := drift(index.config, index.catalogue)["reasons"]:
            log.info("%s: learning its index anew, because %s", location, "; ".join(reasons))
            index.close()
            index = refit(folder, progress=progress)
    return index


def _opened(lake: Location, folder: Path, progress: Progress | None) -> Index:
    """The index, built or synced."""
    try:
        index = Index(folder)
    except IndexNotFoundError:  # or its build was stopped; then it goes on
        return _built(lake, folder, progress)
    except IndexFolderError as error:  # damaged, or of another version of gentus
        log.warning("%s: its cached index is built again: %s", lake, error)
        shutil.rmtree(folder)
        return _built(lake, folder, progress)
    try:
        changes = index.sync(lake, force=True, progress=progress)
    except BaseException:
        index.close()
        raise
    log.info("%s: %r, in the cached index %s", lake, changes, folder)
    return index


def _built(lake: Location, folder: Path, progress: Progress | None) -> Index:
    log.info("%s: building its index in %s", lake, folder)
    index = build(lake, folder, progress=progress)
    log.info("%s: %s tables were indexed", lake, f"{len(index):,}")
    return index


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process after the other build or sync an index; searches need not wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock_file = folder.with_name(f"{folder.name}.lock")
    with closing(sqlite3.connect(lock_file, timeout=_WAIT, isolation_level=None)) as lock:
        waiting = False
        while True:
            try:
                lock.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                if not waiting:
                    log.info("waiting for another process that updates %s", folder)
                waiting = True
        yield
