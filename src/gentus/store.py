"""The index folder: which file is what, how features are cached, and how a new generation takes over.

Everything a search needs belongs to one generation, named in `config.json`. A build writes the files of
the next generation beside the old ones, then switches by one transaction of the catalogue; a reader sees
the old index or the new one, never a mixture.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gentus.features import Features

FORMAT = 1


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

    def chunk(self, number: int) -> Path:
        """Cached features of some hundred tables. The whole cache may be deleted; a build makes it anew."""
        return self.root / "cache" / f"features-{number:06d}.npz"


def write_chunk(path: Path, features: Features) -> None:
    """Write features so that they are there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        np.savez(
            file,
            tables=features.tables,
            starts=features.starts,
            ids=features.ids,
            counts=features.counts,
            profile=features.profile,
        )
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_chunk(path: Path) -> Features:
    """Features as they were written."""
    with np.load(path, allow_pickle=False) as arrays:
        return Features(
            arrays["tables"], arrays["starts"], arrays["ids"], arrays["counts"], arrays["profile"]
        )


def write_config(layout: Layout, config: dict[str, Any]) -> None:
    """Replace `config.json` in one step."""
    temporary = layout.config.with_name("config.json.part")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(layout.config)


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
    try:
        config: dict[str, Any] = json.loads(layout.config.read_text("utf-8"))
        version = config["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise IndexFolderError(
            f"{layout.config} is damaged ({error}). Build the index again: gentus index LAKE -o {layout.root}"
        ) from error
    if version != FORMAT:
        raise IndexFolderError(
            f"{layout.root} has index format {version}, this version of gentus reads {FORMAT}. "
            f"Build it again: gentus index LAKE -o {layout.root}"
        )
    return config


def remove_other_generations(layout: Layout, current: int) -> None:
    """Delete files of generations that no reader will open any more."""
    for path in layout.root.glob("model-*.safetensors"):
        if path != layout.model(current):
            path.unlink(missing_ok=True)
    for path in layout.root.glob("trie-*"):
        if path != layout.trie(current):
            shutil.rmtree(path, ignore_errors=True)
