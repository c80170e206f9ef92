"""T5's encoder and decoder (Raffel et al., 2020), over a vocabulary that tokens are added to.

The same function as T5, written with attention divided by the root of the head's width and queries that are
so much larger: Adam's steps do not depend on the size of a gradient, so T5's own form, whose queries are
small, learns at a rate that is eight times too high for them. Loading T5's weights multiplies them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

BUCKETS, DISTANCE = 32, 128  # of relative positions


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a T5."""

    d_model: int
    d_kv: int
    heads: int
    d_ff: int
    layers: int  # of the encoder
    decoder_layers: int
    dropout: float = 0.0
    gated: bool = False  # a gated GELU in place of ReLU


class Memory(NamedTuple):
    """What the decoder knows of B inputs: keys and values of every layer's cross-attention."""

    keys: list[Tensor]  # (B, H, S, d_kv) a layer
    values: list[Tensor]
    mask: Tensor  # (B, 1, 1, S) 0 at tokens, minus infinity at padding


class Attention(nn.Module):
    """Multi-head attention without biases; with a relative position bias where it has one."""

    def __init__(self, shape: Shape, positions: bool = False) -> None:
        super().__init__()
        inner = shape.heads * shape.d_kv
        self.heads, self.dropout = shape.heads, shape.dropout
        self.q, self.k, self.v = (nn.Linear(shape.d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, shape.d_model, bias=False)
        for layer in (self.q, self.k, self.v):
            nn.init.normal_(layer.weight, std=shape.d_model**-0.5)
        nn.init.normal_(self.o.weight, std=inner**-0.5)
        self.positions = nn.Embedding(BUCKETS, shape.heads) if positions else None
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=shape.d_model**-0.5)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, H * d) as (B, H, T, d)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, H, T, d) of (B, T, d_model)."""
        return self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        """(B, H, T, d) softmax(q k' / sqrt(d) + bias) v."""
        rate = self.dropout if self.training else 0.0
        return functional.scaled_dot_product_attention(q, k, v, bias.to(q.dtype), rate)

    def join(self, x: Tensor) -> Tensor:
        """(B, H, T, d) through the output layer, (B, T, d_model)."""
        return self.o(x.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def bias(self, length: int, *, causal: bool) -> Tensor:
        """(1, H, T, T) by T5's buckets of relative positions; causal: minus infinity for later positions."""
        assert self.positions is not None
        at = torch.arange(length, device=self.positions.weight.device)
        relative = at - at[:, None]  # (T, T) of a key to a query
        bias = self.positions(_bucket(relative, causal)).permute(2, 0, 1)[None]
        return bias.masked_fill(relative > 0, -torch.inf) if causal else bias  # type: ignore[no-any-return]


def _bucket(relative: Tensor, causal: bool) -> Tensor:
    """The bucket of each relative position: small distances one each, larger ones by their logarithm."""
    count = BUCKETS if causal else BUCKETS // 2
    first = torch.zeros_like(relative) if causal else (relative > 0) * count
    distance = (-relative).clamp(min=0) if causal else relative.abs()
    exact = count // 2
    far = exact + (distance.clamp(min=1) / exact).log() / math.log(DISTANCE / exact) * (count - exact)
    return first + torch.where(distance < exact, distance, far.long().clamp(max=count - 1))


class FeedForward(nn.Module):
    """Two layers with ReLU between, or a gated GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.wi = nn.Linear(shape.d_model, shape.d_ff, bias=False)
        self.gate = nn.Linear(shape.d_model, shape.d_ff, bias=False) if shape.gated else None
        self.wo = nn.Linear(shape.d_ff, shape.d_model, bias=False)
        self.dropout = nn.Dropout(shape.dropout)
        for layer in (self.wi, self.gate):
            if layer is not None:
                nn.init.normal_(layer.weight, std=shape.d_model**-0.5)
        nn.init.normal_(self.wo.weight, std=shape.d_ff**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(.., d_model)."""
        inner = self.wi(x)
        if self.gate is None:
            inner = functional.relu(inner)
        else:
            inner = functional.gelu(self.gate(x), approximate="tanh") * inner
        return self.wo(self.dropout(inner))  # type: ignore[no-any-return]


class Norm(nn.Module):
    """Scales to a root mean square of one, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(.., width)."""
        return functional.rms_norm(x.float(), (x.shape[-1],), self.weight, 1e-6)


class Layer(nn.Module):
    """Self-attention, in a decoder cross-attention, and a feed-forward network, each added to its input."""

    cross: Attention
    cross_norm: Norm

    def __init__(self, shape: Shape, *, first: bool, decoder: bool) -> None:
        super().__init__()
        self.itself, self.itself_norm = Attention(shape, positions=first), Norm(shape.d_model)
        if decoder:
            self.cross, self.cross_norm = Attention(shape), Norm(shape.d_model)
        self.feed, self.feed_norm = FeedForward(shape), Norm(shape.d_model)
        self.dropout = nn.Dropout(shape.dropout)


class T5(nn.Module):
    """Encoder and decoder. Embeddings are the caller's."""

    encoder: Sequence[Layer]
    decoder: Sequence[Layer]

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.dropout = shape, nn.Dropout(shape.dropout)
        encoders = [Layer(shape, first=not at, decoder=False) for at in range(shape.layers)]
        self.encoder = nn.ModuleList(encoders)  # type: ignore[assignment]
        self.encoder_norm = Norm(shape.d_model)
        decoders = [Layer(shape, first=not at, decoder=True) for at in range(shape.decoder_layers)]
        self.decoder = nn.ModuleList(decoders)  # type: ignore[assignment]
        self.decoder_norm = Norm(shape.d_model)

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, S, d_model) states of embedded inputs (B, S, d_model); the mask (B, S) is true at tokens."""
        x = self.dropout(x)
        bias = self.encoder[0].itself.bias(x.shape[1], causal=False)
        bias = bias.masked_fill(~mask[:, None, None], -torch.inf)  # (B, H, S, S)
        for layer in self.encoder:
            q, k, v = layer.itself.project(layer.itself_norm(x))
            x = x + layer.dropout(layer.itself.join(layer.itself.attend(q, k, v, bias)))
            x = x + layer.dropout(layer.feed(layer.feed_norm(x)))
        return self.dropout(self.encoder_norm(x))  # type: ignore[no-any-return]

    def memory(self, states: Tensor, mask: Tensor) -> Memory:
        """Keys and values of encoder states (B, S, d_model), made once for all that is decoded from them."""
        crossed = [layer.cross for layer in self.decoder]
        keys, values = ([one.split(getattr(one, part)(states)) for one in crossed] for part in "kv")
        padding = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)
        return Memory(keys, values, padding[:, None, None])

    def decode(
        self, x: Tensor, owner: Tensor, memory: Memory, past: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """(n, T, d_model) states of embedded prefixes (n, T, d_model) of inputs `owner` (n,), rising.

        `past` are keys and values of the positions before, and is returned with those of these added.
        """
        x = self.dropout(x)
        before = past[0][0].shape[2] if past else 0
        bias = self.decoder[0].itself.bias(before + x.shape[1], causal=True)[:, :, before:]
        # (n,) the place of each prefix among those of its input
        slot = torch.arange(len(owner), device=x.device) - torch.searchsorted(owner, owner)
        width = int(slot.max()) + 1
        present = []
        for at, layer in enumerate(self.decoder):
            q, k, v = layer.itself.project(layer.itself_norm(x))
            if past:
                k, v = (torch.cat([old, new], 2) for old, new in zip(past[at], (k, v), strict=True))
            present.append((k, v))
            x = x + layer.dropout(layer.itself.join(layer.itself.attend(q, k, v, bias)))
            # Prefixes of one input attend to it together, side by side as if they were one sequence.
            q = layer.cross.q(layer.cross_norm(x))  # (n, T, H * d)
            beside = q.new_zeros(len(memory.mask), width, *q.shape[1:])
            beside = beside.index_put((owner, slot), q)  # (B, width, T, H * d)
            rows = layer.cross.split(beside.flatten(1, 2))  # (B, H, width * T, d)
            found = layer.cross.attend(rows, memory.keys[at], memory.values[at], memory.mask)
            found = found.transpose(1, 2).reshape(beside.shape)[owner, slot]  # (n, T, H * d)
            x = x + layer.dropout(layer.cross.o(found))
            x = x + layer.dropout(layer.feed(layer.feed_norm(x)))
        return self.dropout(self.decoder_norm(x)), present
