"""A baseline of the Starmie type: contextual column vectors from contrastive learning, verified by matching.

As in Fan et al. (VLDB 2023): a pre-trained language model reads columns at build and at query time, attention
sees all columns of a table together; two views of every table (columns and cells dropped) make positive pairs
of the columns that both hold, all other columns of the batch are negatives (SimCLR); column vectors lie in an
HNSW graph; the tables of the columns found are verified by maximum-weight bipartite matching over edges above
a threshold, with bounds that spare most of them; the score is the weight that is matched. Replaced: RoBERTa,
whose weights cannot be had here and which is tuned on a GPU, by MiniLM, frozen, over each column alone; the
context of the table comes from an attention layer on top, which is what is tuned, for minutes of CPU. Columns
enter without their places, so an order of columns, which Starmie's further views shuffle, is not there to be
shuffled. `StarmieStatic` has static token vectors in the place of the language model, and is the faster.
"""

from __future__ import annotations

import numpy as np
import torch

from gentus.arrays import F32
from gentus_bench.baselines.columns import Columns
from gentus_bench.baselines.contrast import (
    ColumnEncoder,
    ContrastSettings,
    Keep,
    Lessons,
    Reader,
    TwoKeeps,
    choose,
    drop_columns,
    encode,
    info_nce,
    make_encoder,
    tune,
)
from gentus_bench.baselines.matching import CANDIDATES, MatchedColumns, weight_alone
from gentus_bench.baselines.model_reader import ModelReader
from gentus_bench.baselines.static_reader import StaticReader
from gentus_bench.baselines.tokens import chance


class Starmie(MatchedColumns):
    """Contextual column vectors, an HNSW graph of them, bipartite matching."""

    name = "Starmie-type"
    note = "MiniLM, frozen, under an attention layer tuned on the lake stands for RoBERTa tuned on it"
    needs_features = False
    score = staticmethod(weight_alone)

    def __init__(
        self,
        seed: int = 0,
        candidates: int = CANDIDATES,
        threshold: float = 0.5,
        settings: ContrastSettings | None = None,
    ) -> None:
        super().__init__(seed, candidates)
        self.threshold = threshold
        self.settings = settings or ContrastSettings()

    def _learn(self, columns: Columns) -> F32:
        self._reader = self._make_reader()
        lessons = self._reader.fit(columns, dropping(self.settings.drop_cells), self.settings, self.seed)
        self._encoder = make_encoder(self._reader.width, self.settings, self.seed)
        train(self._encoder, self._reader, lessons, self.settings, self.seed)
        return encode(self._encoder, lessons.plain, columns.starts)[0]

    def _encode(self, columns: Columns) -> F32:
        return encode(self._encoder, self._reader.read(columns.values), columns.starts)[0]

    def _make_reader(self) -> Reader:
        return ModelReader()

    def _outside(self) -> tuple[object, ...]:
        return ()


class StarmieStatic(Starmie):
    """The same with static token vectors in the place of a language model."""

    name = "Starmie-type, static vectors"
    note = "an attention layer over static token vectors, tuned on the lake, stands for RoBERTa"

    def _make_reader(self) -> Reader:
        return StaticReader()


def train(
    encoder: ColumnEncoder, reader: Reader, lessons: Lessons, settings: ContrastSettings, seed: int
) -> list[float]:
    """Tune the encoder so that a column is found again in another view of its table; return the losses."""
    random = np.random.default_rng(seed)

    def loss_of_batch() -> torch.Tensor | None:
        batch = random.choice(len(lessons.tables), min(settings.tables, len(lessons.tables)), replace=False)
        chosen = [choose(lessons.columns[table], settings.widest, random) for table in batch]
        vectors, held = [], []
        for view in lessons.draw(random):
            parts = [drop_columns(part, settings.drop_columns, random) for part in chosen]
            found, there = encoder.see(view, parts)
            vectors.append(found[there])  # (columns of the view, width)
            held.append(np.concatenate(parts))
        _, first, second = np.intersect1d(held[0], held[1], return_indices=True)
        if len(first) < 2:
            return None
        return info_nce(vectors[0][first], vectors[1][second], settings.temperature)

    parameters = [*encoder.parameters(), *reader.parameters()]
    return tune(parameters, len(lessons.tables), settings, loss_of_batch)


def dropping(most: float) -> TwoKeeps:
    """Two views of which each drops a share of the cells that is drawn for it alone."""

    def one(random: np.random.Generator) -> Keep:
        share, salt = random.uniform(0, most), int(random.integers(1 << 62))
        return lambda value: chance(value, salt) >= share

    return lambda random: (one(random), one(random))
