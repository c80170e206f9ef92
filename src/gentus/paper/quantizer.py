"""The unionability-aware residual quantizer Q_ω (section 5.2): table embeddings in, identifiers out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import F32, I64, U8
from gentus.identifiers.codebooks import residual_kmeans
from gentus.identifiers.semantic_ids import assign_suffixes, format_sid
from gentus.paper.losses import l_rec, l_rq, l_sid, l_union
from gentus.paper.settings import SidSettings
from gentus.progress import Tick
from gentus.retrieval.trie import ranges


class Quantized(NamedTuple):
    """What residual quantization makes of B latents."""

    codes: Tensor  # (B, L) a_{i,l}
    residuals: Tensor  # (L, B, d) r^(l-1); gradients reach the latent, not the codewords before
    codewords: Tensor  # (L, B, d) b_{l,a}

    @property
    def z_hat(self) -> Tensor:
        """(B, d) the sum of the codewords."""
        return self.codewords.sum(0)


class Quantizer(nn.Module):
    """Q_ω: the networks f_ω and g'_ω, and L codebooks of K codewords."""

    def __init__(self, width: int, settings: SidSettings) -> None:
        super().__init__()
        self.settings = settings
        hidden, d = settings.hidden, settings.d_z
        self.f_omega = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, d))
        self.g_omega = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.codebooks = nn.Parameter(torch.zeros(settings.L, settings.K, d))  # B_1 .. B_L

    def z(self, e: Tensor) -> Tensor:
        """(B, d) z = f_ω(e) / ||f_ω(e)||."""
        return functional.normalize(self.f_omega(e), dim=1)

    def quantize(self, z: Tensor) -> Quantized:
        """At each level the codeword that is nearest to the residual, which it is then taken from."""
        codes, residuals, codewords = [], [], []
        residual = z
        for book in self.codebooks:
            nearest = (book.detach() ** 2).sum(1) - 2 * residual.detach() @ book.detach().T  # (B, K)
            a = nearest.argmin(1)
            codes.append(a)
            residuals.append(residual)
            codewords.append(book[a])
            residual = residual - book[a].detach()
        return Quantized(torch.stack(codes, 1), torch.stack(residuals), torch.stack(codewords))

    @torch.inference_mode()
    def encode(self, e: F32) -> tuple[U8, F32]:
        """(N, L) base identifiers of embeddings (N, D), each by itself, and (N,) ||z - z_hat||^2."""
        codes = np.empty((len(e), self.settings.L), np.uint8)
        errors = np.empty(len(e), np.float32)
        for at, one in enumerate(torch.from_numpy(np.ascontiguousarray(e, np.float32))):
            z = self.z(one[None])
            found = self.quantize(z)
            codes[at], errors[at] = found.codes[0].numpy(), ((z - found.z_hat) ** 2).sum()
        return codes, errors


def resolve_collisions(codes: NDArray[np.integer[Any]], errors: F32) -> NDArray[np.int32]:
    """(N,) h_i: 0 for a unique base identifier; in a collision group 1, 2, .., the least error first."""
    return assign_suffixes(np.asarray(codes), errors)


def sid(codes: U8, suffix: int) -> str:
    """sid(T) as text: the base identifier, and its suffix where it has one."""
    return format_sid(codes, suffix)


class Positives:
    """P: which tables are annotated as unionable with which, both ways (P, 2)."""

    def __init__(self, pairs: I64, tables: int) -> None:
        pairs = pairs[np.lexsort(pairs.T[::-1])]
        self.tables, self.columns = tables, pairs[:, 1]
        self.starts = np.searchsorted(pairs[:, 0], np.arange(tables + 1))
        self.anchors = np.unique(pairs[:, 0])

    def batch(self, random: np.random.Generator, size: int, anchors: int) -> I64:
        """Distinct tables, among them some with one of their positives, so that annotated pairs meet."""
        size = min(size, self.tables)
        some = random.permutation(self.anchors)[: min(anchors, size // 2)]
        counts = self.starts[some + 1] - self.starts[some]
        partners = self.columns[self.starts[some] + random.integers(0, counts)]
        others = random.permutation(self.tables)
        tables = np.concatenate([some, partners, others])
        return tables[np.sort(np.unique(tables, return_index=True)[1])][:size]

    def matrix(self, batch: I64) -> Tensor:
        """(B, B) whether (i, j) is in P."""
        at = np.full(self.tables, -1)
        at[batch] = np.arange(len(batch))
        row, entries = ranges(self.starts[batch], self.starts[batch + 1] - self.starts[batch])
        column = at[self.columns[entries]]
        matrix = np.zeros((len(batch), len(batch)), bool)
        matrix[row[column >= 0], column[column >= 0]] = True
        return torch.from_numpy(matrix)


def train_quantizer(
    e: F32, positives: I64, settings: SidSettings, seed: int, tick: Tick = lambda n: None
) -> Quantizer:
    """TrainUnionableAwareRQ: L_SID from table embeddings (N, D) and P (n, 2), both ways, in one training."""
    torch.manual_seed(seed)
    quantizer, pairs, every = (
        Quantizer(e.shape[1], settings),
        Positives(positives, len(e)),
        torch.from_numpy(e),
    )
    optimizer = torch.optim.AdamW(quantizer.parameters(), settings.rate, weight_decay=0.01)
    used = torch.zeros(settings.L, settings.K, dtype=torch.long)
    for step in range(settings.steps):
        random = np.random.default_rng((seed, step))
        if step == settings.start:
            _start_codebooks(quantizer, every)
        batch = pairs.batch(random, settings.batch, settings.anchors)
        embedding = every[batch]
        z = quantizer.z(embedding)
        quantized, rq = z, z.new_zeros(())
        if step >= settings.start:
            found = quantizer.quantize(z)
            rq = l_rq(found.residuals, found.codewords, settings.beta)
            quantized = z + (found.z_hat - z).detach()  # straight through
            used += torch.stack([torch.bincount(codes, minlength=settings.K) for codes in found.codes.T])
            if step % settings.reset_every == 0:
                _reset_dead(quantizer, found, used, random)
        rec = l_rec(embedding, quantizer.g_omega(quantized))
        union = l_union(z, pairs.matrix(batch), settings.tau)
        optimizer.zero_grad()
        l_sid(rec, rq, union, settings.lambda_u).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        tick(1)
    return quantizer


@torch.no_grad()
def _start_codebooks(quantizer: Quantizer, e: Tensor) -> None:
    """k-means of the residuals, level by level."""
    L, K = quantizer.settings.L, quantizer.settings.K  # noqa: N806  # the paper's
    books = residual_kmeans(quantizer.z(e).numpy(), [None] * L, min(K, len(e)), 10)
    quantizer.codebooks[:, : books.shape[1]] = torch.from_numpy(books)


@torch.no_grad()
def _reset_dead(quantizer: Quantizer, found: Quantized, used: Tensor, random: np.random.Generator) -> None:
    """Codewords that nothing was given since the last reset become residuals of this batch."""
    for book, residuals, counts in zip(quantizer.codebooks, found.residuals, used, strict=True):
        dead = torch.nonzero(counts == 0)[:, 0]
        book[dead] = residuals[torch.from_numpy(random.integers(0, len(residuals), len(dead)))]
    used.zero_()
