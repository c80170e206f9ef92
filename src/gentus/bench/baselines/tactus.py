"""A baseline of the TACTUS type: table vectors first, columns only to rerank.

As in Sun et al. (2026): a table is encoded by attention pooling over its column vectors; positive pairs
simulate unionable tables (halves of the rows of one table, columns dropped); negatives come two ways: hard
ones (batches hold tables next to each other), but none so alike that it may be a latent positive;
candidates come from an HNSW graph over table vectors, adaptively many by the distribution of scores;
they are reranked by dual evidence, the table score and the matching of columns. Replaced: the language
model by static token vectors with a contextual layer, as in the Starmie-type baseline; halves of the rows by
halves of each column's distinct values. The pool has no fewer than `fewest` tables: it shall cost no recall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from gentus.bench.baselines.ann import Neighbours
from gentus.bench.baselines.columns import F32, I64, gather
from gentus.bench.baselines.contrast import (
    BOOLS,
    ColumnEncoder,
    ContrastSettings,
    batch_of,
    encode,
    info_nce,
    make_encoder,
)
from gentus.bench.baselines.matching import cosine, edges, top_tables
from gentus.bench.baselines.starmie import choose, drop_columns, steps_of
from gentus.bench.baselines.tokens import Tokens, chance, tokenize
from gentus.table import Table
from gentus.teacher import column_ids

LATENT = 0.9  # tables whose untrained vectors are closer than this may be unionable: no negatives


class Tactus:
    """Attentive table vectors, an HNSW graph of them, dual-evidence reranking."""

    name = "TACTUS-type"
    note = "attention layers over static token vectors, tuned on the lake, stand for a language model"

    def __init__(
        self,
        seed: int = 0,
        fewest: int = 300,
        most: int = 1000,
        balance: float = 0.5,
        settings: ContrastSettings | None = None,
    ) -> None:
        self.seed = seed
        self.fewest = fewest
        self.most = most
        self.balance = balance  # of the table score; the rest is the columns'
        self.settings = settings or ContrastSettings()

    def fit(self, tables: Iterable[Table]) -> None:
        """Learn from the lake, and index the vectors of its tables."""
        lake = gather(tables, features=False)
        self.names, self._starts = lake.names, lake.starts
        self._full = np.flatnonzero(np.diff(lake.starts) > 0)
        if len(self._full):
            tokens = tokenize(lake.values)
            self._encoder = make_encoder(tokens, self.settings, self.seed)
            train(self._encoder, tokens, lake.starts, self.settings, self.seed)
            columns, vectors = encode(self._encoder, tokens, lake.starts)
            self._columns = columns.astype(np.float16)
            self._index = Neighbours(vectors[self._full])

    def search(self, table: Table, k: int) -> list[str]:
        """Find near tables, then add to their scores how well columns match."""
        query = gather([table], features=False)
        if not query.values or not len(self._full):
            return []
        columns, vectors = encode(self._encoder, tokenize(query.values), query.starts)
        near = self._index.nearest(vectors, max(self.most, 2 * k))
        scores = self._index.rows[near] @ vectors[0]
        pool = adaptive_pool(scores, max(self.fewest, 2 * k))
        near, scores = self._full[near[pool]], scores[pool].astype(np.float64)
        at, counts = column_ids(self._starts, near)
        similarity = (1 - self.balance) * edges(columns, self._columns[at].astype(np.float32))
        places, _ = top_tables(similarity, counts, k, cosine, self.balance * scores)
        return [self.names[near[place]] for place in places]

    def facts(self) -> dict[str, Any]:
        """Return how large the index is, and what is not as in the paper."""
        size = 4 * len(self._starts)
        if len(self._full):
            size += self._index.nbytes + self._columns.nbytes
        return {"bytes_per_table": size / max(1, len(self.names)), "note": self.note}


def adaptive_pool(scores: F32, fewest: int) -> I64:
    """Return the places of scores a deviation above the mean, but at least `fewest`, in order."""
    if len(scores) <= fewest:
        return np.arange(len(scores))
    order = np.argsort(-scores, kind="stable")
    standing = int((scores > scores.mean() + scores.std()).sum())
    return np.sort(order[: max(fewest, standing)])


def train(
    encoder: ColumnEncoder, tokens: Tokens, starts: I64, settings: ContrastSettings, seed: int
) -> list[float]:
    """Tune the encoder so that a table is found by a simulated unionable one; return the losses."""
    random = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=settings.rate)
    tables = np.flatnonzero(np.diff(starts) > 0)
    before = encode(encoder, tokens, starts)[1]
    steps = steps_of(len(tables), settings)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1 - step / steps)
        batch = hard_batch(before, tables, min(settings.tables, len(tables)), random)
        chosen = [choose(np.arange(starts[t], starts[t + 1]), settings.widest, random) for t in batch]
        salt = int(random.integers(1 << 62))
        pooled, views, held = [], [], []
        for half in (False, True):
            parts = [drop_columns(part, settings.drop_columns, random) for part in chosen]
            found, there = encoder(*batch_of(tokens, parts, _half(salt, half)))
            pooled.append(encoder.pool(found, there))
            views.append(found[there])
            held.append(np.concatenate(parts))
        unlike = torch.from_numpy(before[batch] @ before[batch].T < LATENT)
        _, first, second = np.intersect1d(held[0], held[1], return_indices=True)
        everyone = torch.ones(len(first), len(first), dtype=torch.bool)
        loss = info_nce(pooled[0], pooled[1], settings.temperature, unlike)
        if len(first) > 1:  # columns, which rerank, learn along
            loss = loss + 0.5 * info_nce(views[0][first], views[1][second], settings.temperature, everyone)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def _half(salt: int, second: bool) -> Callable[[I64], BOOLS]:
    """Keep one half of the values; a tenth goes to both, for unionable tables do share values."""
    if second:
        return lambda value: chance(value, salt) >= 0.45
    return lambda value: chance(value, salt) < 0.55


def hard_batch(vectors: F32, tables: I64, size: int, random: np.random.Generator) -> I64:
    """Half of a batch at random, the other half near to one of its tables, each table once."""
    seeds = random.choice(tables, max(1, size // 2), replace=False)
    centre = vectors[seeds[0]]
    rest = np.setdiff1d(tables, seeds)
    if not len(rest):
        return np.asarray(seeds, np.int64)
    near = rest[np.argsort(-(vectors[rest] @ centre), kind="stable")[: 4 * size]]
    more = random.choice(near, min(size - len(seeds), len(near)), replace=False)
    return np.concatenate([seeds, more]).astype(np.int64)
