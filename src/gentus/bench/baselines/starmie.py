"""A baseline of the Starmie type: contextual column vectors from contrastive learning, verified by matching.

As in Fan et al. (VLDB 2023): a transformer sees all columns of a table together; two views of every table
(columns and cells dropped) make positive pairs of the columns that both hold, all other columns of the
batch are negatives (SimCLR); column vectors lie in an HNSW graph; the tables of the columns found are
verified by maximum-weight bipartite matching over edges above a threshold, with bounds that spare most of
them; the score is the weight that is matched. Replaced: RoBERTa, pre-trained and then tuned on a GPU, by one
attention layer over static token vectors, tuned for minutes of CPU. Columns enter as bags, so an order of
rows or of columns, which Starmie's further views shuffle, is not there to be shuffled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from gentus.bench.baselines.columns import F32, I64, Columns
from gentus.bench.baselines.contrast import (
    BOOLS,
    ColumnEncoder,
    ContrastSettings,
    batch_of,
    encode,
    info_nce,
    make_encoder,
)
from gentus.bench.baselines.matching import CANDIDATES, MatchedColumns, weight_alone
from gentus.bench.baselines.tokens import Tokens, chance, tokenize


class Starmie(MatchedColumns):
    """Contextual column vectors, an HNSW graph of them, bipartite matching."""

    name = "Starmie-type"
    note = "an attention layer over static token vectors, tuned on the lake, stands for RoBERTa"
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

    def _learn(self, columns: Columns) -> None:
        tokens = tokenize(columns.values)
        self._encoder = make_encoder(tokens, self.settings, self.seed)
        train(self._encoder, tokens, columns.starts, self.settings, self.seed)

    def _encode(self, columns: Columns) -> F32:
        return encode(self._encoder, tokenize(columns.values), columns.starts)[0]


def train(
    encoder: ColumnEncoder, tokens: Tokens, starts: I64, settings: ContrastSettings, seed: int
) -> list[float]:
    """Tune the encoder so that a column is found again in another view of its table; return the losses."""
    random = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=settings.rate)
    tables = np.flatnonzero(np.diff(starts) > 0)
    steps = steps_of(len(tables), settings)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1 - step / steps)
        batch = random.choice(tables, min(settings.tables, len(tables)), replace=False)
        chosen = [choose(np.arange(starts[t], starts[t + 1]), settings.widest, random) for t in batch]
        views, held = [], []
        for _ in range(2):
            parts = [drop_columns(part, settings.drop_columns, random) for part in chosen]
            found, there = encoder(*batch_of(tokens, parts, _dropping(settings.drop_cells, random)))
            views.append(found[there])  # (columns of the view, width)
            held.append(np.concatenate(parts))
        _, first, second = np.intersect1d(held[0], held[1], return_indices=True)
        if len(first) < 2:
            continue
        everyone = torch.ones(len(first), len(first), dtype=torch.bool)
        loss = info_nce(views[0][first], views[1][second], settings.temperature, everyone)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def _dropping(most: float, random: np.random.Generator) -> Callable[[I64], BOOLS]:
    """Drop a share of the cells that is drawn anew for every view."""
    share, salt = random.uniform(0, most), int(random.integers(1 << 62))
    return lambda value: chance(value, salt) >= share


def steps_of(tables: int, settings: ContrastSettings) -> int:
    """How many batches a training takes."""
    wanted = settings.epochs * tables // settings.tables
    return int(np.clip(wanted, settings.fewest_steps, settings.most_steps))


def choose(columns: I64, most: int, random: np.random.Generator) -> I64:
    """At most so many of a table's columns, in their order."""
    return columns if len(columns) <= most else np.sort(random.choice(columns, most, replace=False))


def drop_columns(columns: I64, share: float, random: np.random.Generator) -> I64:
    """Drop some columns, never all."""
    kept = columns[random.random(len(columns)) >= share]
    return kept if len(kept) else columns
