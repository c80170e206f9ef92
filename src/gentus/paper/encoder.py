"""The table encoder F_η (section 5.1): column states of a frozen language model, pooled by attention.

The paper does not say how η is trained. It begins here as what needs no training: q_η is zero and the
attention's matrices are the identity, so that pooling is the mean, and g_η standardises over the lake.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import F32
from gentus.paper.checkpoints import Bert, best_device, fast_bfloat16
from gentus.paper.serialize import Serializer
from gentus.paper.settings import SerialSettings
from gentus.progress import Tick
from gentus.table import Table

HEADS = 4


class ColumnStates:
    """H_T^col of tables: the language model's states at `[COL]`."""

    def __init__(self, bert: Bert, settings: SerialSettings) -> None:
        limits = SerialSettings(settings.values, min(settings.tokens, bert.tokens))
        self.serializer = Serializer(bert.pieces, bert.col, bert.val, (bert.cls,), (), limits)
        self._device = best_device()
        self.width, self._model = bert.width, bert.model.to(self._device)
        self._bfloat16 = fast_bfloat16(self._device)

    @torch.inference_mode()
    def h_col(self, table: Table) -> F32:
        """(|C|, W) H_T[p_j], the state at the `[COL]` of each column.

        A table is read alone: in a batch, its states would depend on the tables beside it in their last bits.
        """
        ids, columns = self.serializer.ser(table)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            x = torch.tensor([ids], device=self._device)  # (1, T)
            states = self._model(input_ids=x).last_hidden_state[0]  # (T, W) H_T
        return np.asarray(states[columns].float().cpu().numpy(), np.float32)

    def h_cols(self, tables: Sequence[Table], tick: Tick = lambda n: None) -> list[F32]:
        """The same of many tables, one per thread."""
        threads, found = torch.get_num_threads(), []
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for states in pool.map(self.h_col, tables):
                found.append(states)
                tick(1)
        torch.set_num_threads(threads)
        return found


class Pooling(nn.Module):
    """η: q_η, the attention, and g_η."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_eta = nn.Parameter(torch.zeros(width))
        self.attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.g_eta = nn.Linear(width, width)
        with torch.no_grad():
            one = torch.eye(width)
            self.attention.in_proj_weight.copy_(one.repeat(3, 1))
            self.attention.out_proj.weight.copy_(one)
            self.g_eta.weight.copy_(one)
            self.g_eta.bias.zero_()

    def h_tab(self, h_col: Sequence[F32]) -> Tensor:
        """(B, W) MultiHeadAttn(q_η, H_T^col, H_T^col); zero for a table without columns."""
        counts = torch.tensor([len(one) for one in h_col])
        states = torch.zeros(len(h_col), max(1, int(counts.max())), len(self.q_eta))
        for row, one in enumerate(h_col):
            states[row, : len(one)] = torch.from_numpy(one)
        padding = torch.arange(states.shape[1]) >= counts.clamp(min=1)[:, None]  # (B, C)
        query = self.q_eta.expand(len(states), 1, -1)
        pooled, _ = self.attention(query, states, states, key_padding_mask=padding, need_weights=False)
        return pooled[:, 0]  # type: ignore[no-any-return]

    def e_t(self, h_col: Sequence[F32]) -> Tensor:
        """(B, W) e_T = g_η(h_tab) / ||g_η(h_tab)||."""
        return functional.normalize(self.g_eta(self.h_tab(h_col)), dim=1)

    @torch.no_grad()
    def standardise(self, h_col: Sequence[F32]) -> None:
        """Set g_η so that its outputs have mean 0 and variance 1 over the lake."""
        pooled = torch.cat([self.h_tab(h_col[at : at + 256]) for at in range(0, len(h_col), 256)])
        scale = 1 / pooled.std(0, correction=0).clamp(min=1e-6)
        self.g_eta.weight.copy_(torch.diag(scale))
        self.g_eta.bias.copy_(-scale * pooled.mean(0))

    @torch.inference_mode()
    def vectors(self, h_col: Sequence[F32]) -> F32:
        """(N, W) e_T of tables, each computed alone."""
        rows = [self.e_t([one])[0].numpy() for one in h_col]
        return np.array(rows, np.float32).reshape(len(rows), -1)


@dataclass(frozen=True, slots=True)
class Encoder:
    """F_η: the language model's column states and their pooling."""

    states: ColumnStates
    eta: Pooling

    def vectors(self, tables: Sequence[Table]) -> F32:
        """(N, D) e_T."""
        return self.eta.vectors(self.states.h_cols(tables))
