"""What enters for a column, without a language model: the weighted mean of static vectors of its pieces."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding_bag

from gentus.arrays import I64
from gentus_bench.baselines.columns import Columns
from gentus_bench.baselines.contrast import ContrastSettings, Keep, Lessons, TwoKeeps, View
from gentus_bench.baselines.tokens import Tokens, projected_vectors, rarity, tokenize
from gentus_bench.baselines.word_pieces import load_tokenizer


class StaticReader(nn.Module):
    """Static vectors in the main directions of the lake, with one learned weight a word piece.

    Reading is fast, so every step sees views of its own, of all tables.
    """

    vectors: torch.Tensor

    @property
    def width(self) -> int:
        """As wide as the settings said."""
        return self.vectors.shape[1]

    def fit(self, columns: Columns, two: TwoKeeps, settings: ContrastSettings, seed: int) -> Lessons:
        """Find out which pieces are rare and in which directions columns differ."""
        self._tokenizer = load_tokenizer()  # what `tokenize` reads with, here to be counted as held
        tokens = tokenize(columns.values)
        weights = rarity(tokens)
        vectors = projected_vectors(tokens, weights, settings.width, np.random.default_rng(seed))
        self.register_buffer("vectors", torch.from_numpy(vectors))
        self.weights = nn.Parameter(torch.from_numpy(weights).log())
        tables = np.flatnonzero(np.diff(columns.starts) > 0)

        def draw(random: np.random.Generator) -> tuple[View, View]:
            first, second = two(random)
            return self._view(tokens, first), self._view(tokens, second)

        return Lessons(self._view(tokens), tables, [columns.of(table) for table in tables.tolist()], draw)

    def read(self, values: list[list[str]]) -> View:
        """Read other columns."""
        return self._view(tokenize(values))

    def _view(self, tokens: Tokens, keep: Keep | None = None) -> View:
        def view(columns: I64) -> torch.Tensor:
            numbers, value, begins = tokens.take(columns)
            pieces = torch.from_numpy(numbers)
            weight = self.weights[pieces].exp()
            if keep is not None:
                weight = weight * torch.from_numpy(keep(value))
            bags: torch.Tensor = embedding_bag(
                pieces, self.vectors, torch.from_numpy(begins), mode="sum", per_sample_weights=weight
            )
            return bags  # (n, width)

        return view
