"""The index folder: which file is what, how features are cached, and how a new generation takes over.

Everything a search needs belongs to one generation, named in `config.json`. A build writes the files of
the next generation beside the old ones, then switches by one transaction of the catalogue; a reader sees
the old index or the new one, never a mixture.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gentus.features import Features

FORMAT = 3
_FEATURES = tuple(field.name for field in fields(Features))
_NEEDED = (
    "generation",
    "version",
    "lake",
    "settings",
    "levels",
    "codes",
    "labels",
    "generator",
    "evidence_weights",
    "health",
)


class IndexFolderError(RuntimeError):
    """An index folder that cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths inside an index folder."""

    root: Path

    @property
    def config(self) -> Path:
        """Settings, and which generation is current."""
        return self.root / "config.json"

    @property
    def catalogue(self) -> Path:
        """The SQLite catalogue."""
        return self.root / "catalogue.sqlite"

    def model(self, generation: int) -> Path:
        """Encoder weights and codebooks."""
        return self.root / f"model-{generation}.safetensors"

    def trie(self, generation: int) -> Path:
        """Folder of the prefix tree's arrays."""
        return self.root / f"trie-{generation}"

    def generator(self, generation: int) -> Path:
        """Folder of the generator, where one is shipped."""
        return self.root / f"generator-{generation}"

    @property
    def cache(self) -> Path:
        """Features of all tables. It may be deleted; a build makes it anew."""
        return self.root / "cache"

    def chunk(self, number: int) -> Path:
        """Cached features of some hundred tables."""
        return self.cache / f"features-{number:06d}.npz"

    def is_index(self) -> bool:
        """Whether this is an index, finished or not."""
        return self.catalogue.is_file() and (self.config.is_file() or self.cache.is_dir())


@contextmanager
def build_lock(layout: Layout) -> Iterator[None]:
    """Keep other builds out. SQLite's locks work on every system and end with the process."""
    with closing(sqlite3.connect(layout.root / "build.lock", timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise IndexFolderError(
                f"{layout.root} is being built by another process. Wait for it, or stop it."
            ) from error
        yield


def write_file(path: Path, data: bytes) -> None:
    """Replace a file in one step, once its bytes are on the disk."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_chunk(path: Path, features: Features) -> None:
    """Write features so that they are there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(features, name) for name in _FEATURES})
    write_file(path, buffer.getvalue())


def read_chunk(path: Path) -> Features:
    """Features as they were written."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return Features(*(arrays[name] for name in _FEATURES))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise IndexFolderError(
            f"{path} is damaged ({error}). Delete it and run the same command again; "
            "only its tables are then read once more."
        ) from error


def write_config(layout: Layout, config: dict[str, Any]) -> None:
    """Replace `config.json` in one step."""
    write_file(layout.config, (json.dumps(config, indent=2) + "\n").encode())


def read_config(layout: Layout) -> dict[str, Any]:
    """Read `config.json`, or say what is wrong with it."""
    if not layout.root.is_dir():
        raise IndexFolderError(
            f"There is no index at {layout.root}. Make one: gentus index LAKE -o {layout.root}"
        )
    if not layout.config.is_file():
        hint = "Its build was not finished; run" if layout.catalogue.is_file() else "Make an index with"
        raise IndexFolderError(
            f"{layout.root} is not a finished index. {hint}: gentus index LAKE -o {layout.root}"
        )
    again = f"Build the index again: gentus index LAKE -o {layout.root}"
    try:
        config: dict[str, Any] = json.loads(layout.config.read_text("utf-8"))
        version = config["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexFolderError(f"{layout.config} is damaged ({_reason(error)}). {again}") from error
    if version != FORMAT:
        raise IndexFolderError(
            f"{layout.root} has index format {version}, this version of gentus reads {FORMAT}. {again}"
        )
    missing = [key for key in _NEEDED if key not in config]
    if missing:
        raise IndexFolderError(f"{layout.config} is damaged (it lacks {', '.join(missing)}). {again}")
    return config


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def next_generation(layout: Layout) -> int:
    """A number that no file carries yet, finished or not: a file that is in use is never written again."""
    found = [
        int(number)
        for path in layout.root.glob("*-*")
        if (number := path.name.split("-")[1].split(".")[0]).isdecimal()
    ]
    return max(found, default=0) + 1


def remove_other_generations(layout: Layout, current: int) -> None:
    """Delete files of generations that no reader will open any more."""
    for path in layout.root.glob("model-*"):
        if path != layout.model(current):
            path.unlink(missing_ok=True)
    for path in (*layout.root.glob("trie-*"), *layout.root.glob("generator-*")):
        if path not in (layout.trie(current), layout.generator(current)):
            shutil.rmtree(path, ignore_errors=True)


def remove_other_chunks(layout: Layout, used: set[int]) -> None:
    """Delete cached features that no table points to any more."""
    keep = {layout.chunk(number).stem for number in used}
    for path in layout.cache.glob("features-*"):
        if path.name.split(".")[0] not in keep:  # states of a language model are named after their chunk
            path.unlink(missing_ok=True)
