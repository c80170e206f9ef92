"""A baseline of the TACTUS type: table vectors first, columns only to rerank.

As in Sun et al. (2026): a pre-trained language model reads columns at build and at query time; a table is
encoded by attention pooling over its column vectors; positive pairs simulate unionable tables (halves of the
rows of one table, columns dropped); negatives come two ways: hard ones (batches hold tables next to each
other), but none so alike that it may be a latent positive; candidates come from an HNSW graph over table
vectors, adaptively many by the distribution of scores; they are reranked by dual evidence, the table score
and the matching of columns. Replaced: the original's language model by MiniLM, frozen since tuning it takes a
GPU, with a contextual layer on top that is tuned, as in the Starmie-type baseline; halves of the rows by
halves of each column's distinct values. The pool has no fewer than `fewest` tables: it shall cost no recall.
`TactusStatic` has static token vectors in the place of the language model, and is the faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from gentus.arrays import F32, I64
from gentus.neighbours.graph import column_ids
from gentus.table import Table
from gentus_bench.baselines.ann import Neighbours
from gentus_bench.baselines.base import serving_mb
from gentus_bench.baselines.columns import gather
from gentus_bench.baselines.contrast import (
    ColumnEncoder,
    ContrastSettings,
    Keep,
    Lessons,
    Reader,
    choose,
    drop_columns,
    encode,
    info_nce,
    make_encoder,
    tune,
)
from gentus_bench.baselines.matching import cosine, edges, top_tables
from gentus_bench.baselines.model_reader import ModelReader
from gentus_bench.baselines.static_reader import StaticReader
from gentus_bench.baselines.tokens import chance

LATENT = 0.9  # tables whose untrained vectors are closer than this may be unionable: no negatives


class Tactus:
    """Attentive table vectors, an HNSW graph of them, dual-evidence reranking."""

    name = "TACTUS-type"
    note = "MiniLM, frozen, under attention layers tuned on the lake stands for a language model tuned on it"

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
            self._reader = self._make_reader()
            lessons = self._reader.fit(lake, halves, self.settings, self.seed)
            self._encoder = make_encoder(self._reader.width, self.settings, self.seed)
            train(self._encoder, self._reader, lessons, lake.starts, self.settings, self.seed)
            columns, vectors = encode(self._encoder, lessons.plain, lake.starts)
            self._columns = columns.astype(np.float16)
            self._index = Neighbours(vectors[self._full])

    def search(self, table: Table, k: int) -> list[str]:
        """Find near tables, then add to their scores how well columns match."""
        query = gather([table], features=False)
        if not query.values or not len(self._full):
            return []
        columns, vectors = encode(self._encoder, self._reader.read(query.values), query.starts)
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
        return {
            "bytes_per_table": size / max(1, len(self.names)),
            "serving_mb": serving_mb(self),
            "note": self.note,
        }

    def _make_reader(self) -> Reader:
        return ModelReader()


class TactusStatic(Tactus):
    """The same with static token vectors in the place of a language model."""

    name = "TACTUS-type, static vectors"
    note = "attention layers over static token vectors, tuned on the lake, stand for a language model"

    def _make_reader(self) -> Reader:
        return StaticReader()


def adaptive_pool(scores: F32, fewest: int) -> I64:
    """Return the places of scores a deviation above the mean, but at least `fewest`, in order."""
    if len(scores) <= fewest:
        return np.arange(len(scores))
    order = np.argsort(-scores, kind="stable")
    standing = int((scores > scores.mean() + scores.std()).sum())
    return np.sort(order[: max(fewest, standing)])


def train(
    encoder: ColumnEncoder,
    reader: Reader,
    lessons: Lessons,
    starts: I64,
    settings: ContrastSettings,
    seed: int,
) -> list[float]:
    """Tune the encoder so that a table is found by a simulated unionable one; return the losses."""
    random = np.random.default_rng(seed)
    before = encode(encoder, lessons.plain, starts)[1][lessons.tables]
    everyone = np.arange(len(before))

    def loss_of_batch() -> torch.Tensor:
        batch = hard_batch(before, everyone, min(settings.tables, len(before)), random)
        chosen = [choose(lessons.columns[table], settings.widest, random) for table in batch]
        pooled, vectors, held = [], [], []
        for view in lessons.draw(random):
            parts = [drop_columns(part, settings.drop_columns, random) for part in chosen]
            found, there = encoder.see(view, parts)
            pooled.append(encoder.pool(found, there))
            vectors.append(found[there])
            held.append(np.concatenate(parts))
        unlike = torch.from_numpy(before[batch] @ before[batch].T < LATENT)
        loss = info_nce(pooled[0], pooled[1], settings.temperature, unlike)
        _, first, second = np.intersect1d(held[0], held[1], return_indices=True)
        if len(first) > 1:  # columns, which rerank, learn along
            loss = loss + 0.5 * info_nce(vectors[0][first], vectors[1][second], settings.temperature)
        return loss

    return tune([*encoder.parameters(), *reader.parameters()], len(before), settings, loss_of_batch)


def halves(random: np.random.Generator) -> tuple[Keep, Keep]:
    """Keep one half of the values, or the other; a tenth goes to both, as unionable tables do share some."""
    salt = int(random.integers(1 << 62))
    return lambda value: chance(value, salt) < 0.55, lambda value: chance(value, salt) >= 0.45


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
