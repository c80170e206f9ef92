"""What enters for a column, by a language model: the vector of MiniLM over the column's values.

The model stays frozen: tuning it as the originals tune theirs, on a GPU, would take days of a CPU. So what it
says of a text never changes, and views need to be read only once: a few pairs of them, of a sample of the
lake's tables, from which every training step draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import torch
from torch import nn

from gentus.arrays import F32, I64
from gentus_bench.baselines.columns import Columns
from gentus_bench.baselines.contrast import ContrastSettings, Keep, Lessons, TwoKeeps, View, choose
from gentus_bench.baselines.sentences import SentenceEncoder

HELD_BACK = 10  # columns at the origin that a lake's mean is taken with: few columns say little of a mean


class ModelReader:
    """MiniLM vectors of columns, from the mean column of the lake: what all share is no likeness."""

    def __init__(self) -> None:
        self._model = SentenceEncoder()
        self.centre: F32 = np.zeros(self._model.width, np.float32)

    @property
    def width(self) -> int:
        """As wide as the language model."""
        return self._model.width

    def fit(self, columns: Columns, two: TwoKeeps, settings: ContrastSettings, seed: int) -> Lessons:
        """Read the lake, and pairs of views of a sample of its tables."""
        random = np.random.default_rng(seed)
        vectors = self._model.encode([" ".join(values) for values in columns.values]).numpy()
        self.centre = vectors.sum(0) / (len(vectors) + HELD_BACK)
        vectors -= self.centre
        filled = np.flatnonzero(np.diff(columns.starts) > 0)
        tables = np.sort(random.choice(filled, min(settings.sample, len(filled)), replace=False))
        chosen = [choose(columns.of(table), settings.widest, random) for table in tables.tolist()]
        sampled = np.concatenate(chosen)  # (n,) in order
        texts = varied_texts(columns, chosen, two, settings.pairs, random)
        variants = self._model.encode([text for one in texts for text in one]).numpy() - self.centre
        variants = variants.reshape(2 * settings.pairs, len(sampled), self.width)

        def draw(random: np.random.Generator) -> tuple[View, View]:
            first = random.integers(len(variants), size=len(sampled))  # each column draws a pair of its own
            second = first ^ 1
            return _view(variants, sampled, first), _view(variants, sampled, second)

        return Lessons(lambda rows: torch.from_numpy(vectors[rows]), tables, chosen, draw)

    def read(self, values: list[list[str]]) -> View:
        """Read other columns."""
        vectors = self._model.encode([" ".join(column) for column in values]).numpy() - self.centre
        return lambda rows: torch.from_numpy(vectors[rows])

    def parameters(self) -> Iterable[nn.Parameter]:
        """Nothing: the model is frozen."""
        return ()


def _view(variants: F32, sampled: I64, which: I64) -> View:
    def view(columns: I64) -> torch.Tensor:
        rows = np.searchsorted(sampled, columns)
        return torch.from_numpy(variants[which[rows], rows])

    return view


def varied_texts(
    columns: Columns, chosen: list[I64], two: TwoKeeps, pairs: int, random: np.random.Generator
) -> list[list[str]]:
    """(2 * pairs, n) texts of each chosen column; variants 2i and 2i + 1 are a pair.

    `two` is drawn anew for every table, and a column of which nothing would stay stays whole.
    """
    begins = list(accumulate(map(len, columns.values), initial=0))  # the number of each column's first value
    texts: list[list[str]] = [[] for _ in range(2 * pairs)]
    for of_table in chosen:
        keeps = [keep for _ in range(pairs) for keep in two(random)]
        for column in of_table:
            values = columns.values[column]
            numbers = np.arange(begins[column], begins[column + 1])
            for variant, keep in zip(texts, keeps, strict=True):
                variant.append(" ".join(_kept(values, keep, numbers)))
    return texts


def _kept(values: list[str], keep: Keep, numbers: I64) -> list[str]:
    stays = keep(numbers)
    return [value for value, stay in zip(values, stays, strict=True) if stay] if stays.any() else values
