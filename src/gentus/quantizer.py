"""The unionability-aware residual quantizer: latents and codebooks learnt together.

Loss = reconstruction + residual quantization + unionability contrast, as in the paper, and one term of
ours: the *quantized* tables must rank as the teacher ranks, because quantized is what they are at search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gentus.codes import Codebooks
from gentus.latent import Batches, Network, ranking_loss
from gentus.progress import Tick

VERY_MANY = 2_000_000  # tables


@dataclass(frozen=True, slots=True)
class QuantizerSettings:
    """Size of the code space, and how it is learnt. None: chosen from the size of the lake."""

    levels: int | None = None
    codes: int | None = None
    commitment: float = 0.25  # beta
    union_weight: float = 0.1  # lambda_u, without labels
    steps: int | None = None
    rate: float = 5e-4
    revive_every: int = 50
    lloyd: int = 12  # k-means rounds a level, at the start and at the end

    def for_lake(self, tables: int) -> QuantizerSettings:
        """With fewer levels for a lake of very many tables, whatever part of it the fit sees.

        There the tree is what a search artifact weighs: 15 bytes a table, not 30, for some hundredths of MAP.
        """
        return replace(self, levels=9) if self.levels is None and tables > VERY_MANY else self

    def rounds(self, tables: int) -> int:
        """How many steps of learning together."""
        return self.steps if self.steps is not None else 150 if tables < 2000 else 300

    def shape(self, tables: int) -> tuple[int, int]:
        """(L, K) for a lake of this size; K is at most the number of tables and fits a byte."""
        fitting = 1 << max(2, (tables // 4).bit_length() - 1)
        size = min(self.codes or min(fitting, 256), tables, 256)
        # Small lakes are told apart early; large ones gain to the last.
        return self.levels or (8 if tables < 2000 else 24), max(size, 1)


def kmeans(points: Tensor, centres: Tensor, rounds: int) -> Tensor:
    """(K, d) centres after some rounds; one that loses all its points goes to the worst-served one."""
    size = len(centres)
    for _ in range(rounds):
        distance, nearest = _nearest(points, centres)
        counts = torch.bincount(nearest, minlength=size)
        sums = torch.zeros_like(centres).index_add(0, nearest, points)
        centres = sums / counts.clamp_min(1)[:, None]
        dead = torch.nonzero(counts == 0)[:, 0]
        if len(dead):
            worst = distance.topk(min(len(dead), len(points))).indices
            centres[dead[: len(worst)]] = points[worst]
    return centres


def _nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    squared = (centres**2).sum(1) - 2 * points @ centres.T
    best = squared.min(1)
    return best.values + (points**2).sum(1), best.indices


def residual_kmeans(latents: Tensor, books: Iterable[Tensor | None], size: int, rounds: int) -> Tensor:
    """(L, K, d) codebooks fitted level by level to what the levels before leave over.

    A level starts from the book given for it, or from some of the residuals.
    """
    rest = latents.clone()
    fitted = []
    for book in books:
        start = rest[:: max(len(rest) // size, 1)][:size] if book is None else book
        centres = kmeans(rest, start.clone(), rounds)
        rest = rest - centres[_nearest(rest, centres)[1]]
        fitted.append(centres)
    return torch.stack(fitted)


def quantize(latents: Tensor, books: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of the nearest codewords (N, d), and the residual quantization terms of every level (L, N)."""
    total = torch.zeros_like(latents)
    errors = []
    for book in books:
        rest = latents.detach() - total.detach()
        word = book[_nearest(rest, book.detach())[1]]
        errors.append(((rest - word) ** 2).sum(1))
        total = total + word
    return total, torch.stack(errors)


def unseen_error(
    latents: Tensor, placed: Tensor, shape: tuple[int, int], generator: torch.Generator
) -> tuple[float, float]:
    """How far tables lie from codewords not fitted to them: the mean, and what 95 of 100 stay below.

    Codes know the tables they were learnt from nearly by heart, so their own error says little about those
    to come. A tenth is left out of codebooks made for this only, fitted to where tables are `placed`.
    """
    order = torch.randperm(len(latents), generator=generator)
    out, fitted = order[: len(order) // 10], order[len(order) // 10 :]
    levels, size = shape
    books = residual_kmeans(placed[fitted], [None] * levels, min(size, len(fitted)), rounds=4)
    errors = quantize(latents[out], books)[1][-1]
    return float(errors.mean()), float(errors.quantile(0.95))


def learn_codes(
    network: Network,
    batches: Batches,
    settings: QuantizerSettings,
    shape: tuple[int, int],
    generator: torch.Generator,
    tick: Tick = lambda n: None,
    placed: Callable[[Tensor], Tensor] = lambda latents: latents,
) -> Codebooks:
    """Tune network and codebooks together, then fit the codebooks to where the latents came to rest.

    `placed` says where that is, if the lake's tables do not stay where the network puts them.
    """
    temperature, objective = batches.settings.temperature, batches.objective
    latents = all_latents(network, batches)
    levels, size = shape
    books = nn.Parameter(residual_kmeans(latents, [None] * levels, size, settings.lloyd))
    width = network.settings.embedding
    decoder = nn.Sequential(nn.Linear(books.shape[2], width), nn.SiLU(), nn.Linear(width, width))
    optimizer = torch.optim.AdamW(
        [*network.parameters(), books, *decoder.parameters()], settings.rate, weight_decay=0.0
    )
    steps = settings.rounds(len(latents))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    for step in range(steps):
        batch = batches.draw()
        embedding, latent = network(batch.columns, batch.owner, len(batch.tables))
        coded, errors = quantize(latent, books)
        passed = coded + latent - latent.detach()  # straight through: the gradient reaches books and network
        ranked = (latent @ passed.T - (passed**2).sum(1) / 2) / temperature  # minus half the squared distance
        commitment = ((latent - coded.detach()) ** 2).sum(1).mean()
        reconstruction = ((functional.normalize(decoder(passed), dim=1) - embedding.detach()) ** 2).sum(1)
        loss = (
            ranking_loss(ranked, batch, objective.teacher, objective.union_coded)
            + ranking_loss(latent @ latent.T / temperature, batch, objective.teacher, objective.union)
            + reconstruction.mean()
            + errors.sum(0).mean()
            + settings.commitment * commitment
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % settings.revive_every == settings.revive_every - 1:
            _revive(books, all_latents(network, batches), generator)
        tick(1)
    rested = residual_kmeans(placed(all_latents(network, batches)), books.detach(), size, settings.lloyd)
    return Codebooks(rested.numpy().astype(np.float16).astype(np.float32))


@torch.no_grad()
def _revive(books: Tensor, latents: Tensor, generator: torch.Generator) -> None:
    """Put codewords that no table uses where residuals are."""
    rest = latents
    for book in books:
        nearest = _nearest(rest, book)[1]
        dead = torch.nonzero(torch.bincount(nearest, minlength=len(book)) == 0)[:, 0]
        rest = rest - book[nearest]
        if len(dead):
            book[dead] = (book[nearest] + rest)[torch.randint(len(rest), (len(dead),), generator=generator)]


@torch.no_grad()
def all_latents(network: Network, batches: Batches, block: int = 1024) -> Tensor:
    """(T, d) latents of every table the batches are drawn from."""
    total = len(batches.starts) - 1
    parts = []
    for begin in range(0, total, block):
        tables = np.arange(begin, min(begin + block, total))
        columns, owner = batches.gather(tables)
        parts.append(network(columns, owner, len(tables))[1])
    return torch.cat(parts)
