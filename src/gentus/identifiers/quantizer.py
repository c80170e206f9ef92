"""The unionability-aware residual quantizer (section 4.2): latents and codebooks learnt together.

Loss = L_rec + L_rq + lambda_u L_union, as in the paper, and one term of ours: the *quantized* tables must
rank as the teacher ranks, because a search compares quantized tables.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import half
from gentus.embed.training import BatchSampler, Network, ranking_loss
from gentus.identifiers.codebooks import Codebooks, residual_kmeans
from gentus.progress import Tick
from gentus.settings import QuantizerSettings


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return ((centres**2).sum(1) - 2 * points @ centres.T).argmin(1)


def quantize(latents: Tensor, books: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of the nearest codewords (N, d), and the residual quantization terms of every level (L, N)."""
    total = torch.zeros_like(latents)
    errors = []
    for book in books:
        residual = latents.detach() - total.detach()
        codeword = book[_nearest(residual, book.detach())]
        errors.append(((residual - codeword) ** 2).sum(1))
        total = total + codeword
    return total, torch.stack(errors)


def learn_codes(
    network: Network,
    batches: BatchSampler,
    settings: QuantizerSettings,
    shape: tuple[int, int],
    generator: torch.Generator,
    tick: Tick = lambda n: None,
) -> Codebooks:
    """Tune network and codebooks together, then fit the codebooks to the final latents."""
    temperature, objective = batches.settings.temperature, batches.objective
    latents = all_latents(network, batches)
    levels, size = shape
    start = residual_kmeans(latents.numpy(), [None] * levels, size, settings.rounds)
    books = nn.Parameter(torch.from_numpy(start))
    width = network.settings.embedding
    decoder = nn.Sequential(nn.Linear(books.shape[2], width), nn.SiLU(), nn.Linear(width, width))
    optimizer = torch.optim.AdamW(
        [*network.parameters(), books, *decoder.parameters()], settings.rate, weight_decay=0.0
    )
    steps = settings.training_steps(len(latents))
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
        if step % settings.reset_every == settings.reset_every - 1:
            _reset_dead(books, all_latents(network, batches), generator)
        tick(1)
    final = all_latents(network, batches).numpy()
    return Codebooks(half(residual_kmeans(final, books.detach().numpy(), size, settings.rounds)))


@torch.no_grad()
def _reset_dead(books: Tensor, latents: Tensor, generator: torch.Generator) -> None:
    """Reset dead codewords to random residuals of their level."""
    residual = latents
    for book in books:
        nearest = _nearest(residual, book)
        dead = torch.nonzero(torch.bincount(nearest, minlength=len(book)) == 0)[:, 0]
        after = residual - book[nearest]
        if len(dead):
            some = torch.randint(len(residual), (len(dead),), generator=generator)
            book[dead] = (book[nearest] + after)[some]
        residual = after


@torch.no_grad()
def all_latents(network: Network, batches: BatchSampler, block: int = 1024) -> Tensor:
    """(T, d) latents of every table the batches are drawn from."""
    total = len(batches.starts) - 1
    parts = []
    for begin in range(0, total, block):
        tables = np.arange(begin, min(begin + block, total))
        columns, owner = batches.gather(tables)
        parts.append(network(columns, owner, len(tables))[1])
    return torch.cat(parts)
