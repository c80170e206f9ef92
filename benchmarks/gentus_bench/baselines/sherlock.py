"""A baseline of the Sherlock type: columns are given semantic types, tables compared by their types.

As in Hulsebos et al. (KDD 2019): features of characters, words, paragraph and statistics, a network with one
subnetwork a group of features, and a softmax over types. Replaced: Sherlock's 78 types were learned from
annotated columns that are not part of a lake, so the types here are clusters of the lake's own columns, which
the network learns to tell apart. Sherlock ranks no tables; as in published comparisons, columns are compared
by what the network makes of them (type distribution and last hidden layer, half each), tables by matching.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gentus.arrays import F32
from gentus_bench.baselines.column_features import ColumnFeatures
from gentus_bench.baselines.columns import Columns, unit
from gentus_bench.baselines.matching import CANDIDATES, MatchedColumns

if TYPE_CHECKING:
    import torch

HIDDEN = 128
EPOCHS = 8
BATCH = 256
FEWEST_STEPS = 200


class Sherlock(MatchedColumns):
    """Columns by semantic types that a network predicts; the types are clusters of the lake's columns."""

    name = "Sherlock-type"
    note = "types are clusters of the lake's columns: the annotated ones of the original cannot be had"

    def __init__(self, seed: int = 0, candidates: int = CANDIDATES, types: int = 256) -> None:
        super().__init__(seed, candidates)
        self.types = types

    def _learn(self, columns: Columns) -> None:
        random = np.random.default_rng(self.seed)
        self._features = ColumnFeatures()
        self._fit_context(columns)
        groups = self._features.fit(columns, random)
        groups += self._context(columns, self._features.rows)
        labels = pseudo_types(groups, min(self.types, max(2, len(groups[0]) // 4)), self.seed)
        self._network = train(groups, labels, self.seed)
        self._centre = np.zeros(HIDDEN, np.float32)
        self._centre = self._predict(groups)[1].mean(0)

    def _encode(self, columns: Columns) -> F32:
        types, hidden = self._types(columns)
        return np.asarray(np.hstack([np.sqrt(types), unit(hidden)]) / np.sqrt(2), np.float32)

    def _types(self, columns: Columns) -> tuple[F32, F32]:
        """(C, types) distributions and (C, HIDDEN) last hidden layers."""
        parts = []
        for chunk in columns.chunks():
            rows = np.arange(chunk.start, chunk.stop)
            parts.append(self._predict(self._features.groups(columns, rows) + self._context(columns, rows)))
        types, hidden = (np.concatenate(part) for part in zip(*parts, strict=True))
        return types, hidden

    def _predict(self, groups: list[F32]) -> tuple[F32, F32]:
        import torch

        with torch.inference_mode():
            logits, hidden = self._network(*(torch.from_numpy(group) for group in groups))
        return logits.softmax(1).numpy(), hidden.numpy() - self._centre

    def _fit_context(self, columns: Columns) -> None:
        """Sherlock sees no context."""

    def _context(self, columns: Columns, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[F32]:
        """Return further groups of features of the columns; Sherlock has none."""
        return []


def pseudo_types(groups: list[F32], count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Cluster columns, every group of features counting alike; (n,) the cluster of each."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA

    if len(groups[0]) < 3:  # too few to differ in kind
        return np.zeros(len(groups[0]), np.int64)
    parts = []
    for group in groups:
        rank = min(50, *group.shape)
        reduced = PCA(rank, svd_solver="randomized", random_state=seed).fit_transform(group)
        parts.append(reduced / max(1e-6, float(np.sqrt((reduced**2).sum(1).mean()))))
    points = np.hstack(parts).astype(np.float32)
    clusters = MiniBatchKMeans(min(count, len(points)), batch_size=2048, n_init=2, random_state=seed)
    labels: np.ndarray[tuple[int], np.dtype[np.int64]] = clusters.fit_predict(points).astype(np.int64)
    return labels


def train(
    groups: list[F32], labels: np.ndarray[tuple[int], np.dtype[np.int64]], seed: int
) -> torch.nn.Module:
    """Fit a network with one subnetwork a group to the types."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [group.shape[1] for group in groups]
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.LayerNorm(HIDDEN)) for width in widths
            )
            self.main = nn.Sequential(
                nn.Linear(HIDDEN * len(widths), 2 * HIDDEN), nn.ReLU(), nn.Linear(2 * HIDDEN, HIDDEN)
            )
            self.out = nn.Linear(HIDDEN, int(labels.max()) + 1)

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            joined = torch.cat([part(x) for part, x in zip(self.parts, inputs, strict=True)], dim=1)
            hidden = self.main(joined)  # (n, HIDDEN)
            return self.out(hidden.relu()), hidden

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network()
        inputs, wanted = [torch.from_numpy(group) for group in groups], torch.from_numpy(labels)
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        steps = -(-len(labels) // BATCH)  # an epoch
        for _ in range(max(EPOCHS, FEWEST_STEPS // steps)):
            for rows in torch.split(torch.randperm(len(labels)), BATCH):
                logits, _ = network(*(x[rows] for x in inputs))
                # Smoothed: a sure network would know one type a column and nothing of the next best.
                loss = nn.functional.cross_entropy(logits, wanted[rows], label_smoothing=0.1)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return network.eval()
