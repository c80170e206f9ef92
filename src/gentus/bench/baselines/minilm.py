"""A language-model baseline: the mean of MiniLM sentence vectors of a table's columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gentus.bench.baselines.base import VALUES, best, distinct
from gentus.static import weights_file
from gentus.table import Table

if TYPE_CHECKING:
    import torch

BATCH_TOKENS = 1024  # measured: larger batches fall out of the cache of a core, smaller ones wait on Python


class MiniLMColumns:
    """Cosine of table vectors: each the mean of its columns', each of those MiniLM over its values."""

    name = "MiniLM columns"

    def __init__(
        self,
        max_tokens: int = 64,
        values: int = VALUES,
        dtype: Literal["auto", "bfloat16", "float32"] = "auto",
    ) -> None:
        self.max_tokens = max_tokens
        self.values = values
        self.dtype = dtype
        self.names: list[str] = []
        self._model: Any = None

    def fit(self, tables: Iterable[Table]) -> None:
        """Encode every table of the lake; a column text that occurs twice is encoded once."""
        self.names = []
        columns: list[list[str]] = []
        for table in tables:
            self.names.append(table.name)
            columns.append(self._texts(table))
        self._vectors = self._tables(columns).numpy()  # (tables, width)

    def search(self, table: Table, k: int) -> list[str]:
        """Rank by cosine."""
        scores = self._vectors @ self._tables([self._texts(table)]).numpy()[0]  # (tables,)
        return [self.names[place] for place in best(scores, k)]

    def facts(self) -> dict[str, Any]:
        """Return how large the index is, and how the model was run."""
        return {
            "bytes_per_table": self._vectors.nbytes / len(self.names),
            "max_tokens": self.max_tokens,
            "dtype": "bfloat16" if self._bfloat16 else "float32",
        }

    def _texts(self, table: Table) -> list[str]:
        return [" ".join(distinct(column, self.values)) for column in table.columns if column.cells]

    def _load(self) -> None:
        if self._model is not None:
            return
        import torch

        try:
            from transformers import AutoModel, AutoTokenizer
            from transformers.utils import logging

            from gentus.bert import fast_bfloat16
        except ImportError as error:
            raise ImportError("the MiniLM baseline needs transformers: pip install transformers") from error
        folder = weights_file().parent
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
        # Measured on a CPU that has these instructions: 1.7 to 1.9 times the speed, vectors 0.99998 alike.
        fast = self.dtype == "auto" and fast_bfloat16(torch.device("cpu"))
        self._bfloat16 = self.dtype == "bfloat16" or fast

    def _tables(self, columns: Sequence[Sequence[str]]) -> torch.Tensor:
        """Encode tables given as the texts of their columns."""
        import torch
        from torch.nn.functional import normalize

        self._load()
        place: dict[str, int] = {}
        of_column = [place.setdefault(text, len(place)) for texts in columns for text in texts]
        of_table = [number for number, texts in enumerate(columns) for _ in texts]
        vectors = self._encode(list(place))  # (distinct texts, width)
        sums = torch.zeros(len(columns), vectors.shape[1])
        sums.index_add_(0, torch.tensor(of_table, dtype=torch.long), vectors[of_column])
        return normalize(sums, dim=1)  # the mean's direction is the sum's

    def _encode(self, texts: list[str]) -> torch.Tensor:
        """Mean-pooled, normalised sentence vectors."""
        import torch
        from torch.nn.functional import normalize

        width: int = self._model.config.hidden_size
        if not texts:
            return torch.zeros(0, width)
        tokens = self._tokenizer(texts, truncation=True, max_length=self.max_tokens)["input_ids"]
        place: dict[tuple[int, ...], int] = {}  # texts may differ only beyond the tokens that are read
        of_text = [place.setdefault(tuple(ids), len(place)) for ids in tokens]
        vectors = torch.zeros(len(place), width)

        distinct_tokens = list(place)

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
        return vectors[of_text]


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
