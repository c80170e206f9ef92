"""Static token vectors: those of `wordllama`, of which only the two data files are read.

The vectors are memory-mapped, so only the rows that a table touches are read, and nothing of torch is
imported.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gentus.weights import Package, map_tensors

VECTORS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
PACKAGE = Package(
    "wordllama",
    "wordllama",
    {
        VECTORS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    },
)
TENSOR = "embedding.weight"
TOKENS, WIDTH = 32_000, 256


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """Llama 2's byte-pair tokenizer, without padding or truncation."""
    return open_tokenizer(PACKAGE.file(TOKENIZER))


def open_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer for whole texts."""
    # A pool of threads inside each of our worker processes would only compete with the others.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@lru_cache(maxsize=1)
def load_vectors() -> NDArray[np.float16]:
    """The (TOKENS, WIDTH) embedding matrix, memory-mapped after its file's hash was checked."""
    return map_tensors(PACKAGE.file(VECTORS))[TENSOR]
