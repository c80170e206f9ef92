"""Training of the encoder's network: it learns to rank tables as the neighbour graph and the labels do.

In a batch of tables, the softmax over latent similarities is trained towards the softmax over the graph's
scores. Unlike a contrast of two views of one table, this never separates unionable tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import F32
from gentus.embed.encoder import parameter_shapes
from gentus.neighbours.graph import Graph, column_ids
from gentus.progress import Tick
from gentus.settings import EncoderSettings, LatentSettings


class Network(nn.Module):
    """The encoder of `gentus.embed.encoder`, on evidence in a basis of principal components."""

    def __init__(self, settings: EncoderSettings, basis: int) -> None:
        super().__init__()
        self.settings = settings
        self.basis = basis
        inputs = basis + 3 * settings.positions
        shapes = parameter_shapes(settings) | {"column.weight": (inputs, settings.hidden)}
        self.weights = nn.ParameterDict()
        for name, shape in shapes.items():
            bound = shape[0] ** -0.5
            start = torch.empty(shape).uniform_(-bound, bound) if len(shape) > 1 else torch.zeros(shape)
            self.weights[name.replace(".", "_")] = nn.Parameter(start)

    def forward(self, columns: Tensor, owner: Tensor, tables: int) -> tuple[Tensor, Tensor]:
        """Unit embeddings (T, E) and unit latents (T, d), from columns (C, inputs) and their tables (C,)."""
        w = self.weights
        heads = self.settings.heads
        hidden = functional.silu(columns @ w["column_weight"] + w["column_bias"])  # (C, H)
        scores = hidden @ w["query_weight"]  # (C, heads)
        scores = torch.exp(scores - scores.max().detach())
        sums = scores.new_zeros(tables, heads).index_add(0, owner, scores)
        attention = scores / sums[owner].clamp_min(1e-20)
        values = (hidden @ w["value_weight"]).view(len(columns), heads, -1) * attention[:, :, None]
        pooled = hidden.new_zeros(tables, hidden.shape[1]).index_add(0, owner, values.flatten(1))
        count = torch.bincount(owner, minlength=tables).clamp_min(1)[:, None]
        total = hidden.new_zeros(tables, hidden.shape[1]).index_add(0, owner, hidden) / count.sqrt()
        embedding = torch.cat([pooled, total], 1) @ w["project_weight"] + w["project_bias"]
        embedding = functional.normalize(embedding, dim=1)
        inner = embedding * self.settings.embedding**0.5 @ w["latent1_weight"] + w["latent1_bias"]
        latent = functional.silu(inner) @ w["latent2_weight"] + w["latent2_bias"]
        return embedding, functional.normalize(latent, dim=1)

    def export(self, basis: F32) -> dict[str, F32]:
        """Weights for `gentus.embed.encoder`, multiplied by the basis, rounded as they will be stored."""
        arrays = {
            name: self.weights[name.replace(".", "_")].detach().numpy()
            for name in parameter_shapes(self.settings)
        }
        weight = arrays["column.weight"]
        arrays["column.weight"] = np.vstack([basis @ weight[: self.basis], weight[self.basis :]])
        return {name: a.astype(np.float16).astype(np.float32) for name, a in arrays.items()}


def principal_basis(columns: F32, width: int, random: np.random.Generator) -> F32:
    """(W, width) leading principal components of evidence (C, W), scaled to unit variance in total."""
    sample = columns[random.choice(len(columns), min(len(columns), 20_000), replace=False)]
    values, vectors = np.linalg.eigh(sample.T @ sample / len(sample))
    width = min(width, vectors.shape[1])
    scale = (max(float(values[-width:].sum()), 1e-9) / width) ** -0.5
    return np.ascontiguousarray(vectors[:, ::-1][:, :width] * scale, np.float32)


@dataclass(slots=True)
class Batch:
    """Some tables with their columns, and the targets for all pairs of them."""

    columns: Tensor  # (C, inputs)
    owner: Tensor  # (C,)
    tables: NDArray[np.int64]  # (T,)
    target: Tensor  # (A, T) the graph's distribution over the other tables
    anchors: Tensor  # (A,) the rows that have one
    pairs: Tensor  # (T, T) weights of the positives for the contrastive term


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights of the losses, and the positive pairs."""

    pairs: sp.csr_matrix  # (T, T) weights
    teacher: float = 1.0  # weight of the graph's distribution
    union: float = 0.1  # lambda_u: weight of the positive pairs, among the latents ...
    union_coded: float = 0.0  # ... and among the quantized tables
    labelled: bool = False  # label-supervised: pairs are annotated, and the graph is for the other tables


class BatchSampler:
    """Draws batches in which unionable tables are together: seeds, and some of each seed's neighbours."""

    def __init__(
        self,
        columns: F32,  # (C, inputs)
        starts: NDArray[np.int64],  # (T + 1,)
        graph: Graph,
        objective: Objective,
        settings: LatentSettings,
        random: np.random.Generator,
    ) -> None:
        self.objective = objective
        self.annotated = np.flatnonzero((np.diff(objective.pairs.indptr) > 0) & objective.labelled)
        self.columns, self.starts, self.settings, self.random = columns, starts, settings, random
        self.width = min(settings.neighbours, graph.ids.shape[1])
        self.ids = graph.ids[:, : self.width]
        total = len(self.ids)
        scores = graph.scores[:, : self.width]
        spread = max(float(graph.scores.std(1).mean()), 1e-6)
        # Shifted so that the best score of each anchor is 0; an absent pair is below all.
        scaled = (scores - graph.scores[:, :1]) / (settings.teacher_temperature * spread)
        rows = np.arange(0, total * self.width + 1, self.width)
        self.scores = sp.csr_matrix((np.exp(scaled).ravel() + 1e-30, self.ids.ravel(), rows), (total, total))

    def draw(self) -> Batch:
        """One batch."""
        total, s, positives = len(self.ids), self.settings, self.objective.pairs
        drawn = []
        count = s.anchors(total)
        if len(self.annotated):  # half of the seeds are annotated tables, with positives and hard negatives
            half = min(s.seeds, len(self.annotated))
            count = min(s.seeds, total)
            for seed in self.random.choice(self.annotated, half, replace=False):
                begin, end = positives.indptr[seed : seed + 2]
                tables, weights = positives.indices[begin:end], positives.data[begin:end]
                some = min(s.positives, end - begin)
                drawn.append([seed])
                drawn.append(self.random.choice(tables, some, replace=False, p=weights / weights.sum()))
                drawn.append(self.ids[seed, self.random.integers(0, self.width, s.hard_negatives)])
        seeds = self.random.choice(total, count, replace=False)
        picks = self.random.integers(0, self.width, (len(seeds), s.per_seed))
        tables = np.unique(np.concatenate([*drawn, seeds, self.ids[seeds[:, None], picks].ravel()]))
        columns, owner = self.gather(tables)
        weight = torch.from_numpy(self.scores[tables][:, tables].toarray().astype(np.float32))
        scored = weight.sum(1) > 0
        if len(self.annotated):
            scored &= torch.from_numpy(~np.isin(tables, self.annotated))
        anchors = torch.nonzero(scored)[:, 0]
        target = weight[anchors] / weight[anchors].sum(1, keepdim=True)
        pairs = torch.from_numpy(positives[tables][:, tables].toarray().astype(np.float32))
        return Batch(columns, owner, tables, target, anchors, pairs)

    def gather(self, tables: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The columns (C, inputs) of some tables, and (C,) which of these tables each belongs to."""
        at, counts = column_ids(self.starts, tables)
        owner = np.repeat(np.arange(len(tables)), counts)
        return torch.from_numpy(self.columns[at]), torch.from_numpy(owner)


def ranking_loss(logits: Tensor, batch: Batch, teacher: float, union: float) -> Tensor:
    """Cross-entropy of (T, T) logits with the graph's distribution and with the positive pairs, weighted."""
    own = torch.eye(len(logits), dtype=torch.bool)
    log_p = torch.log_softmax(logits.masked_fill(own, -1e9), 1)
    loss = logits.new_zeros(())
    if teacher and len(batch.anchors):
        loss = loss - teacher * (batch.target * log_p[batch.anchors]).sum(1).mean()
    return loss + union * _contrast(log_p, batch.pairs.masked_fill(own, 0)) if union else loss


def union_contrast(latents: Tensor, pairs: Tensor, temperature: float) -> Tensor:
    """The paper's L_union (section 4.2): supervised contrast of positive pairs within a batch."""
    own = torch.eye(len(latents), dtype=torch.bool)
    log_p = torch.log_softmax((latents @ latents.T / temperature).masked_fill(own, -1e9), 1)
    return _contrast(log_p, pairs.float().masked_fill(own, 0))


def _contrast(log_p: Tensor, positive: Tensor) -> Tensor:
    sums = positive.sum(1)
    some = sums > 0
    if not some.any():
        return log_p.new_zeros(())
    return -((log_p * positive).sum(1)[some] / sums[some]).mean()


def learn_latent(network: Network, batches: BatchSampler, steps: int, tick: Tick = lambda n: None) -> None:
    """Train the network on `steps` batches."""
    settings, objective = batches.settings, batches.objective
    optimizer = torch.optim.AdamW(network.parameters(), settings.rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.rate, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    for _ in range(steps):
        batch = batches.draw()
        _, latents = network(batch.columns, batch.owner, len(batch.tables))
        logits = latents @ latents.T / settings.temperature
        loss = ranking_loss(logits, batch, objective.teacher, objective.union)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        tick(1)
