"""The generator G_θ (section 5.4): a T5 whose vocabulary has K code tokens, suffix tokens and markers.

P(y_t | y_<t, x) is a softmax over the whole extended vocabulary, text tokens included. Inside, an identifier
is written in *symbols*: 0 .. K-1 are the codes, K + h - 1 is the suffix h, and K + S is the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gentus.arrays import I64
from gentus.paper.serialize import Sentence
from gentus.paper.t5 import T5, Memory

BLOCK = 128  # prefixes whose logits over the text tokens are in memory at once


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The extended vocabulary: V text tokens, then K codes, S suffixes, `[COL]` and `[VAL]`."""

    text: int  # V
    K: int
    S: int
    start: int  # the text token that the decoder begins with
    eos: int  # the text token that ends an identifier

    @property
    def col(self) -> int:
        """The token [COL]."""
        return self.text + self.K + self.S

    @property
    def val(self) -> int:
        """The token [VAL]."""
        return self.col + 1

    @property
    def end(self) -> int:
        """The symbol that ends an identifier."""
        return self.K + self.S

    def suffix(self, suffixes: NDArray[np.integer[Any]]) -> I64:
        """The symbol of each suffix; 0, which is none, is the end. Those beyond S share the last symbol."""
        return np.where(suffixes > 0, self.K + np.minimum(suffixes, self.S) - 1, self.end).astype(np.int64)

    def tok(
        self, codes: NDArray[np.integer[Any]], suffixes: NDArray[np.integer[Any]]
    ) -> tuple[Tensor, Tensor]:
        """(n, L + 2) symbols of identifiers with their end, padded with it, and |y| (n,), which counts it."""
        ends = np.full(len(codes), self.end)
        symbols = np.column_stack([codes.astype(np.int64), self.suffix(suffixes), ends])
        return torch.from_numpy(symbols), torch.from_numpy(
            codes.shape[1] + 1 + (suffixes > 0).astype(np.int64)
        )


def extend_tokenizer(text: int, eos: int, start: int, codes: int, suffixes: int) -> Vocabulary:
    """The vocabulary of a T5 of `text` tokens, extended by those of identifiers and tables.

    Text is never tokenised into the new tokens, so the tokenizer's own files stay as they are.
    """
    return Vocabulary(text, codes, suffixes, start, eos)


class Generator(nn.Module):
    """G_θ: tables as tokens in, probabilities of identifiers out."""

    def __init__(self, t5: T5, text: Tensor, vocabulary: Vocabulary, *, frozen: bool) -> None:
        super().__init__()
        self.t5, self.vocabulary = t5, vocabulary
        self.text = nn.Parameter(text, requires_grad=not frozen)  # (V, d)
        spread, mean = torch.std_mean(text, 0)
        # What is common to all identifier tokens lets the softmax leave the text tokens at once.
        common, own = torch.randn(text.shape[1]), torch.randn(vocabulary.end + 2, text.shape[1])
        own[: vocabulary.end] += common
        self.added = nn.Parameter(mean + spread * own)  # (K + S + 2, d)
        self.mixed = False
        self._cast: Tensor | None = None  # the text embeddings in the precision of the products

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.added.device

    def precision(self) -> AbstractContextManager[Any]:
        """Matrix products in bfloat16 where `mixed` says so."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed)

    def embed(self, ids: Tensor) -> Tensor:
        """(.., d) embeddings of token ids."""
        text, added = ids.clamp(max=len(self.text) - 1), (ids - len(self.text)).clamp(min=0)
        return torch.where((ids < len(self.text))[..., None], self.text[text], self.added[added])

    def states(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Encoder states (B, S, d) of serialised tables, and where they are tokens (B, S)."""
        lengths = torch.tensor([len(one.ids) for one in sentences])
        mask = torch.arange(max(1, int(lengths.max()))) < lengths[:, None]  # (B, S)
        mask[:, 0] = True  # a table without any column still has something to attend to
        ids = torch.zeros(mask.shape, dtype=torch.long)
        for row, one in enumerate(sentences):
            ids[row, : len(one.ids)] = torch.tensor(one.ids, dtype=torch.long)
        ids, mask = ids.to(self.device), mask.to(self.device)
        return self.t5.encode(self.embed(ids), mask), mask

    def read(self, sentences: Sequence[Sentence]) -> Memory:
        """What the decoder attends to, of serialised tables."""
        return self.t5.memory(*self.states(sentences))

    def log_p_theta(self, memory: Memory, owner: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
        """(n, T) log P_θ(y_t | y_<t, x) of symbols (n, T) for inputs `owner` (n,), rising; 0 after the end.

        Targets of one input share their first codes: the softmax is taken once for every distinct prefix.
        """
        begin = self.text[self.vocabulary.start].expand(len(y), 1, -1)
        before = torch.cat([begin, self.added[y[:, :-1].clamp(max=self.vocabulary.end - 1)]], 1)  # (n, T, d)
        states, _ = self.t5.decode(before, owner, memory)
        row, position, prefix = _distinct_prefixes(owner, y, lengths)
        some = states[row, position]  # (u, d)
        log_p = self.logits(some) - self.log_normalizer(some)[:, None]  # (u, K + S + 1)
        inside = torch.arange(y.shape[1], device=y.device) < lengths[:, None]
        return log_p[prefix, y].masked_fill(~inside, 0)

    def p_theta(self, memory: Memory, owner: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
        """P_θ(y | x) (n,): the product over the |y| tokens."""
        return self.log_p_theta(memory, owner, y, lengths).sum(1).exp()

    def logits(self, states: Tensor) -> Tensor:
        """(n, K + S + 1) logits of the symbols, of decoder states (n, d); output is tied to the embedding."""
        symbols = torch.cat([self.added[: self.vocabulary.end], self.text[self.vocabulary.eos][None]])
        logits: Tensor = (self._scaled(states) @ symbols.T).float()
        return logits

    def all_logits(self, states: Tensor) -> Tensor:
        """(n, V + K + S + 2) logits of all tokens, of decoder states (n, d)."""
        logits: Tensor = (self._scaled(states) @ torch.cat([self.text, self.added]).T).float()
        return logits

    def log_normalizer(self, states: Tensor) -> Tensor:
        """(n,) log of the sum of exp(logit) over the whole extended vocabulary."""
        scaled = self._scaled(states)
        added = (scaled @ self.added.T).float().logsumexp(1)
        kind = torch.bfloat16 if self.mixed else torch.float32
        if self.text.requires_grad or self._cast is None or self._cast.dtype != kind:
            self._cast = self.text.detach().to(kind)
        text: Tensor = _LogSumExp.apply(scaled, self.text, self._cast)  # type: ignore[no-untyped-call]
        return torch.logaddexp(added, text)

    def _scaled(self, states: Tensor) -> Tensor:
        """As T5 scales states before its tied output layer."""
        scaled: Tensor = states * self.t5.shape.d_model**-0.5
        return scaled


class _LogSumExp(torch.autograd.Function):
    """log sum_v exp(h w_v) of states (n, d) and many rows (V, d), which are frozen or not.

    Its gradient to h is the softmax times the rows, which does not depend on what follows: it is computed at
    once, so that n x V numbers are never kept.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """(n,); `weights` are the rows in the precision of the products."""
        with torch.autocast(states.device.type, enabled=False):
            total, expected = [], []
            for some in torch.split(states.to(weights.dtype), BLOCK):
                logits = some @ weights.T  # (b, V)
                most = logits.amax(1, keepdim=True)
                p = logits.sub_(most).exp_()
                sums = p.sum(1, dtype=torch.float32)
                total.append(most[:, 0].float() + sums.log())
                expected.append((p @ weights).float() / sums[:, None])
            result = torch.cat(total) if total else states.new_zeros(0)
            ctx.save_for_backward(states, rows, result, torch.cat(expected) if expected else states)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """To the states, and to the rows if they learn."""
        states, rows, result, expected = ctx.saved_tensors
        (gradient,) = gradients  # (n,)
        to_rows = None
        if ctx.needs_input_grad[1]:
            to_rows = torch.zeros_like(rows)
            for block in torch.split(torch.arange(len(states), device=states.device), BLOCK):
                some = states[block].to(rows.dtype)
                p = (some @ rows.T - result[block, None]).exp()
                to_rows += (p * gradient[block, None]).T @ some
        return (expected * gradient[:, None]).to(states.dtype), to_rows, None


def _distinct_prefixes(owner: Tensor, y: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row and position (u,) of every distinct prefix of an input, and the prefix of each token (n, T)."""
    rows, positions, prefix, count = [], [], torch.zeros_like(y), 0
    group = owner
    for position in range(y.shape[1]):
        inside = torch.nonzero(lengths > position)[:, 0]
        values, which = torch.unique(group[inside], return_inverse=True)
        first = torch.full_like(values, len(y)).scatter_reduce(0, which, inside, "amin")
        rows.append(first)
        positions.append(torch.full_like(first, position))
        prefix[inside, position] = count + which
        count += len(values)
        group = torch.unique(group * (int(y.max()) + 1) + y[:, position], return_inverse=True)[1]
    return torch.cat(rows), torch.cat(positions), prefix
