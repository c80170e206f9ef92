"""Texts as vectors by a frozen language model, MiniLM: the one whose weights can be had offline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gentus.extras import install_extra
from gentus.features.weights import minilm_folder
from gentus_bench.baselines.word_pieces import WIDTH

if TYPE_CHECKING:
    import torch

BATCH_TOKENS = 1024  # measured: larger batches fall out of the cache of a core, smaller ones wait on Python


class SentenceEncoder:
    """MiniLM over texts, mean-pooled; the model is loaded when the first text comes."""

    width = WIDTH

    def __init__(self, max_tokens: int = 64, dtype: Literal["auto", "bfloat16", "float32"] = "auto") -> None:
        self.max_tokens = max_tokens
        self.dtype = dtype
        self._model: Any = None

    @property
    def precision(self) -> str:
        """What matrices are multiplied in; vectors are float32 always."""
        self._load()
        return "bfloat16" if self._bfloat16 else "float32"

    def encode(self, texts: Sequence[str]) -> torch.Tensor:
        """(texts, width) vectors of length one; a text that occurs twice is encoded once."""
        import torch
        from torch.nn.functional import normalize

        if not texts:
            return torch.zeros(0, self.width)
        self._load()
        text_place: dict[str, int] = {}
        of_row = [text_place.setdefault(text, len(text_place)) for text in texts]
        tokens = self._tokenizer(list(text_place), truncation=True, max_length=self.max_tokens)["input_ids"]
        place: dict[tuple[int, ...], int] = {}  # texts may differ only beyond the tokens that are read
        of_text = [place.setdefault(tuple(ids), len(place)) for ids in tokens]
        distinct_tokens = list(place)
        vectors = torch.zeros(len(place), self.width)

        def encode(rows: list[int]) -> None:
            ids, mask = _padded([distinct_tokens[row] for row in rows])
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self._bfloat16):
                hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, T, width)
                kept = mask.unsqueeze(-1)
                mean = (hidden.float() * kept).sum(dim=1) / kept.sum(dim=1)
                vectors[rows] = normalize(mean, dim=1)

        # A thread a batch, not threads inside each operation: those wait for one another after every one of
        # them, and on a machine that has other work to do this waiting takes most of the time.
        threads = torch.get_num_threads()
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(encode, _batches(distinct_tokens, threads)):
                pass
        torch.set_num_threads(threads)
        return vectors[[of_text[row] for row in of_row]]

    def _load(self) -> None:
        if self._model is None:
            self._tokenizer, self._model = _load_minilm()
            # Measured on a CPU that has these instructions: 1.7 to 1.9 times as fast, vectors 0.99998 alike.
            fast = self.dtype == "auto" and _multiplies_bfloat16()
            self._bfloat16 = self.dtype == "bfloat16" or fast


def _multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for it."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


@lru_cache(maxsize=1)
def _load_minilm() -> tuple[Any, Any]:
    """Tokenizer and model, one of each per process; they are never changed."""
    import torch

    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise ImportError(f"the MiniLM baselines need transformers: {install_extra('train')}") from error
    folder = minilm_folder()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
    )
    return tokenizer, model.eval()


def _batches(tokens: Sequence[Sequence[int]], share: int) -> Iterator[list[int]]:
    """Yield batches of rows of like length, longest first; at least `share` of them, given enough rows."""
    size = min(BATCH_TOKENS, 1 + sum(map(len, tokens)) // share)
    order = sorted(range(len(tokens)), key=lambda row: -len(tokens[row]))
    start = 0
    while start < len(order):
        rows = order[start : start + max(1, size // len(tokens[order[start]]))]
        start += len(rows)
        yield rows


def _padded(tokens: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and mask of a batch, (B, T) each."""
    import torch

    lengths = np.array([len(ids) for ids in tokens])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate(tokens)
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))
