"""MiniLM's word pieces and their static vectors."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gentus.features.weights import MINILM, map_tensors, open_tokenizer

TENSOR = "embeddings.word_embeddings.weight"
PIECES, WIDTH = 30_522, 384  # the BERT family's uncased WordPiece


@lru_cache(maxsize=1)
def load_tokenizer() -> Tokenizer:
    """MiniLM's uncased WordPiece tokenizer, without padding or truncation."""
    return open_tokenizer(MINILM.file("model/tokenizer.json"))


@lru_cache(maxsize=1)
def load_vectors() -> NDArray[np.float32]:
    """The (PIECES, WIDTH) embedding matrix, memory-mapped after its file's hash was checked."""
    return map_tensors(MINILM.file("model/model.safetensors"))[TENSOR]
