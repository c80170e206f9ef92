"""A small transformer over the columns of a table, trained contrastively by views of tables.

Shared by the baselines of the Starmie and the TACTUS type. A column enters as the weighted mean of the static
vectors of its word pieces, with one learned weight a piece; attention over the columns of its table adds
context. The untrained network passes the static vectors through, as a pre-trained one passes its knowledge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy, embedding_bag, normalize

from gentus.bench.baselines.columns import F32, I64
from gentus.bench.baselines.tokens import Tokens, projected_vectors, rarity
from gentus.teacher import column_ids

BOOLS = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ContrastSettings:
    """Size of the network and of its training."""

    width: int = 256
    heads: int = 4
    layers: int = 1
    tables: int = 64  # a batch
    widest: int = 16  # columns of a table that a view may have; search sees them all
    epochs: int = 10
    most_steps: int = 1200  # about two minutes of one core
    fewest_steps: int = 60
    rate: float = 5e-4
    temperature: float = 0.07
    drop_cells: float = 0.5  # at most; each view draws its own share
    drop_columns: float = 0.1


class ColumnEncoder(nn.Module):
    """From bags of word pieces to contextual column vectors, and to table vectors by attention."""

    vectors: torch.Tensor

    def __init__(self, vectors: F32, weights: F32, settings: ContrastSettings) -> None:
        super().__init__()
        width = settings.width
        self.register_buffer("vectors", torch.from_numpy(vectors))
        self.weights = nn.Parameter(torch.from_numpy(weights).log())
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, settings.heads, 2 * width, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(settings.layers)
        )
        for block in self.blocks:
            assert isinstance(block, nn.TransformerEncoderLayer)
            nn.init.zeros_(block.self_attn.out_proj.weight)
            nn.init.zeros_(block.linear2.weight)
        last = nn.Linear(width // 2, 1)
        nn.init.zeros_(last.weight)  # pooling begins as the mean
        self.attend = nn.Sequential(nn.Linear(width, width // 2), nn.Tanh(), last)

    def forward(
        self, pieces: torch.Tensor, begins: torch.Tensor, kept: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (B, W, width) column vectors, length one, and the (B, W) mask of where there are columns.

        `pieces` (n,) with a (n,) factor `kept` belong to columns that begin at `begins` (C,); `places`
        (B, W) says which column stands where, -1 for none.
        """
        weight = self.weights[pieces].exp() * kept
        bags = embedding_bag(
            pieces, self.vectors, begins, mode="sum", per_sample_weights=weight
        )  # (C, width)
        padded = torch.cat([normalize(bags, dim=1) * bags.shape[1] ** 0.5, bags.new_zeros(1, bags.shape[1])])
        there = places >= 0
        hidden = padded[places]  # (B, W, width); -1 is the row of zeros
        for block in self.blocks:
            hidden = block(hidden, src_key_padding_mask=~there)
        return normalize(hidden, dim=2) * there.unsqueeze(2), there

    def pool(self, columns: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """(B, width) tables, by attention over their columns."""
        share = self.attend(columns).squeeze(2).masked_fill(~there, -torch.inf).softmax(1)
        return normalize((share.unsqueeze(2) * columns).sum(1), dim=1)


def batch_of(
    tokens: Tokens, chosen: list[I64], keep: Callable[[I64], BOOLS] | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out the chosen columns of each table for the network; `keep` says which values stay."""
    flat = np.concatenate(chosen)
    pieces, value, begins = tokens.take(flat)
    kept = np.ones(len(pieces), np.float32) if keep is None else keep(value).astype(np.float32)
    places = np.full((len(chosen), max(map(len, chosen))), -1, np.int64)
    places[np.arange(places.shape[1]) < np.array([[len(part)] for part in chosen])] = np.arange(len(flat))
    return tuple(map(torch.from_numpy, (pieces, begins, kept, places)))  # type: ignore[return-value]


def make_encoder(tokens: Tokens, settings: ContrastSettings, seed: int) -> ColumnEncoder:
    """An untrained encoder that gives static vectors, in the main directions of the lake."""
    weights = rarity(tokens)
    vectors = projected_vectors(tokens, weights, settings.width, np.random.default_rng(seed))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ColumnEncoder(vectors, weights, settings)


def encode(encoder: ColumnEncoder, tokens: Tokens, starts: I64, most: int = 2048) -> tuple[F32, F32]:
    """(C, width) vectors of all columns, (T, width) of all tables; those without columns are zero."""
    width = encoder.vectors.shape[1]
    columns = np.zeros((int(starts[-1]), width), np.float32)
    tables = np.zeros((len(starts) - 1, width), np.float32)
    counts = np.diff(starts)
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    begin = 0
    while begin < len(order):  # tables of like width together, so that little is padding
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * counts[order[end]] <= most:
            end += 1
        batch = order[begin:end]
        begin = end
        chosen = [np.arange(starts[table], starts[table + 1]) for table in batch]
        with torch.inference_mode():
            found, there = encoder(*batch_of(tokens, chosen))
            tables[batch] = encoder.pool(found, there).numpy()
            columns[column_ids(starts, batch)[0]] = found[there].numpy()
    return columns, tables


def info_nce(first: torch.Tensor, second: torch.Tensor, heat: float, unlike: torch.Tensor) -> torch.Tensor:
    """Contrast row i of both with all other rows, both ways; `unlike` (n, n) says who may be a negative."""
    logits = (first @ second.T) / heat
    logits = logits.masked_fill(~(unlike | torch.eye(len(first), dtype=torch.bool)), -torch.inf)
    target = torch.arange(len(first))
    return (cross_entropy(logits, target) + cross_entropy(logits.T, target)) / 2
