"""A small transformer over the columns of a table, trained contrastively by views of tables.

Shared by the baselines of the Starmie and the TACTUS type. A `Reader` says what enters for a column: the
vector of a frozen language model (`model_reader`), or a bag of static token vectors (`static_reader`).
Attention over the columns of its table adds context. The untrained network passes on what enters, as a
pre-trained one passes on its knowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from gentus.arrays import F32, I64
from gentus.neighbours.graph import column_ids
from gentus_bench.baselines.columns import Columns

BOOLS = NDArray[np.bool_]

View = Callable[[I64], torch.Tensor]  # columns by number in, (n, width) what enters for each of them out
Keep = Callable[[I64], BOOLS]  # values by number, counted through all columns, in; which of them stay, out
TwoKeeps = Callable[[np.random.Generator], tuple[Keep, Keep]]  # two views of the same values


@dataclass(frozen=True, slots=True)
class ContrastSettings:
    """Size of the network and of its training."""

    width: int = 256  # of static vectors; those of a language model are as wide as it is
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
    sample: int = 2000  # tables learned from where a language model reads each view, which is slow
    pairs: int = 2  # of views that it reads of each of them


@dataclass(frozen=True, slots=True)
class Lessons:
    """A lake, made ready to learn from."""

    plain: View  # all columns of the lake as they are
    tables: I64  # (n,) which tables are learned from
    columns: list[I64]  # (n,) their columns
    draw: Callable[[np.random.Generator], tuple[View, View]]  # two views of those columns


class Reader(Protocol):
    """From the values of columns to what enters the network."""

    @property
    def width(self) -> int:
        """How many numbers enter for a column; known after `fit`."""

    def fit(self, columns: Columns, two: TwoKeeps, settings: ContrastSettings, seed: int) -> Lessons:
        """Get to know a lake; its views are of values that `two` keeps."""

    def read(self, values: list[list[str]]) -> View:
        """Read other columns."""

    def parameters(self) -> Iterable[nn.Parameter]:
        """What of it learns along."""


class ColumnEncoder(nn.Module):
    """From what enters for columns to contextual column vectors, and to table vectors by attention."""

    def __init__(self, width: int, settings: ContrastSettings) -> None:
        super().__init__()
        self.width = width
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
            nn.init.zeros_(block.linear2.bias)
        last = nn.Linear(width // 2, 1)
        nn.init.zeros_(last.weight)  # pooling begins as the mean
        self.attend = nn.Sequential(nn.Linear(width, width // 2), nn.Tanh(), last)

    def forward(self, entering: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (B, W, width) column vectors, length one, and the (B, W) mask of where there are columns.

        `entering` is (C, width); `places` (B, W) says which of these columns stands where, -1 for none.
        """
        scaled = normalize(entering, dim=1) * self.width**0.5
        padded = torch.cat([scaled, scaled.new_zeros(1, self.width)])
        there = places >= 0
        hidden = padded[places]  # (B, W, width); -1 is the row of zeros
        for block in self.blocks:
            hidden = block(hidden, src_key_padding_mask=~there)
        return normalize(hidden, dim=2) * there.unsqueeze(2), there

    def see(self, view: View, tables: list[I64]) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, of tables that are given by the numbers of their columns."""
        sizes = np.array([[len(columns)] for columns in tables])
        places = np.full((len(tables), int(sizes.max())), -1, np.int64)
        places[np.arange(places.shape[1]) < sizes] = np.arange(sizes.sum())
        found: tuple[torch.Tensor, torch.Tensor] = self(
            view(np.concatenate(tables)), torch.from_numpy(places)
        )
        return found

    def pool(self, columns: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """(B, width) tables, by attention over their columns."""
        share = self.attend(columns).squeeze(2).masked_fill(~there, -torch.inf).softmax(1)
        return normalize((share.unsqueeze(2) * columns).sum(1), dim=1)


def make_encoder(width: int, settings: ContrastSettings, seed: int) -> ColumnEncoder:
    """An untrained encoder."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ColumnEncoder(width, settings)


def encode(encoder: ColumnEncoder, view: View, starts: I64, most: int = 2048) -> tuple[F32, F32]:
    """(C, width) vectors of all columns, (T, width) of all tables; those without columns are zero."""
    columns = np.zeros((int(starts[-1]), encoder.width), np.float32)
    tables = np.zeros((len(starts) - 1, encoder.width), np.float32)
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
        with torch.inference_mode():
            found, there = encoder.see(view, [np.arange(starts[table], starts[table + 1]) for table in batch])
            tables[batch] = encoder.pool(found, there).numpy()
            columns[column_ids(starts, batch)[0]] = found[there].numpy()
    return columns, tables


def tune(
    parameters: Iterable[nn.Parameter],
    tables: int,
    settings: ContrastSettings,
    loss_of_batch: Callable[[], torch.Tensor | None],
) -> list[float]:
    """Take as many steps as so many tables are worth, and return the losses; no loss is no step."""
    optimizer = torch.optim.AdamW(parameters, lr=settings.rate)
    steps = steps_of(tables, settings)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1 - step / steps)
        loss = loss_of_batch()
        if loss is not None:
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    optimizer.zero_grad()  # gradients are not needed any more
    return losses


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


def info_nce(
    first: torch.Tensor, second: torch.Tensor, heat: float, unlike: torch.Tensor | None = None
) -> torch.Tensor:
    """Contrast row i of both with all other rows, both ways; `unlike` (n, n) says who may be a negative."""
    logits = (first @ second.T) / heat
    if unlike is not None:
        logits = logits.masked_fill(~(unlike | torch.eye(len(first), dtype=torch.bool)), -torch.inf)
    target = torch.arange(len(first))
    return (cross_entropy(logits, target) + cross_entropy(logits.T, target)) / 2
