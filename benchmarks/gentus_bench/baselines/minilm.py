"""A language-model baseline: the mean of MiniLM sentence vectors of a table's columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gentus.table import Table
from gentus_bench.baselines.base import VALUES, best, distinct, serving_mb
from gentus_bench.baselines.sentences import SentenceEncoder

if TYPE_CHECKING:
    import torch


class MiniLMColumns:
    """Cosine of table vectors: each the mean of its columns', each of those MiniLM over its values."""

    name = "MiniLM columns"

    def __init__(
        self,
        max_tokens: int = 64,
        values: int = VALUES,
        dtype: Literal["auto", "bfloat16", "float32"] = "auto",
    ) -> None:
        self.values = values
        self.names: list[str] = []
        self._encoder = SentenceEncoder(max_tokens, dtype)

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
            "serving_mb": serving_mb(self),
            "max_tokens": self._encoder.max_tokens,
            "dtype": self._encoder.precision,
        }

    def _texts(self, table: Table) -> list[str]:
        return [" ".join(distinct(column, self.values)) for column in table.columns if column.cells]

    def _tables(self, columns: Sequence[Sequence[str]]) -> torch.Tensor:
        """Encode tables given as the texts of their columns."""
        import torch
        from torch.nn.functional import normalize

        vectors = self._encoder.encode([text for texts in columns for text in texts])  # (columns, width)
        of_table = [number for number, texts in enumerate(columns) for _ in texts]
        sums = torch.zeros(len(columns), vectors.shape[1])
        sums.index_add_(0, torch.tensor(of_table, dtype=torch.long), vectors)
        return normalize(sums, dim=1)  # the mean's direction is the sum's
