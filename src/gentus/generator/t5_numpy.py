"""T5's forward passes with NumPy: the encoder of one query, and decoder steps with cached keys and values.

A search needs no more than these; only training needs torch. Weights have the names of transformers. All
beams of a step go through one product per matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gentus.arrays import F32, I64

Weights = Mapping[str, F32]
KeysValues = tuple[F32, F32]


def _gelu(x: F32) -> F32:
    """The approximation by tanh, which T5 1.1 has."""
    return np.asarray(
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))), np.float32
    )


def _silu(x: F32) -> F32:
    return np.asarray(x / (1 + np.exp(-x)), np.float32)


ACTIVATIONS: dict[str, Callable[[F32], F32]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gated-gelu": _gelu,
    "gated-silu": _silu,
    "silu": _silu,
}


@dataclass(frozen=True, slots=True)
class T5Shape:
    """What `config.json` says of a T5, beyond the shapes of its weights."""

    heads: int  # h
    width: int  # k, of a head
    encoder_layers: int
    decoder_layers: int
    buckets: int  # of relative positions
    furthest: int  # relative position that is distinguished
    epsilon: float
    activation: str

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> T5Shape:
        """From the contents of `config.json`."""
        if (activation := config["feed_forward_proj"]) not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"its feed-forward layers are {activation}; searching knows {known}")
        return cls(
            config["num_heads"],
            config["d_kv"],
            config["num_layers"],
            config.get("num_decoder_layers") or config["num_layers"],
            config["relative_attention_num_buckets"],
            config["relative_attention_max_distance"],
            config["layer_norm_epsilon"],
            activation,
        )


class T5:
    """Encoder and decoder of a T5; w is its width, h its heads, k the width of a head."""

    def __init__(self, weights: Weights, shape: T5Shape) -> None:
        self.shape = shape
        self._encoder = _Stack(weights, "encoder", shape)
        self._decoder = _Stack(weights, "decoder", shape)

    def encode(self, inputs: F32) -> list[KeysValues]:
        """Keys (h, S, k) and values (h, k, S) for cross-attention, per layer, from embedded inputs (S, w)."""
        stack, hidden = self._encoder, inputs
        at = np.arange(len(inputs))
        bias = stack.bias(at - at[:, None], both_ways=True).transpose(2, 0, 1)  # (h, S, S)
        for block in stack.blocks:
            query, key, value = (
                _heads(part, self.shape.heads) for part in _split(stack.unit(hidden) @ block.qkv, 3)
            )  # (h, S, k) each
            found = _softmax(query @ key.transpose(0, 2, 1) + bias, 2) @ value
            hidden = hidden + _joined(found) @ block.out
            hidden = hidden + block.feed_forward(stack.unit(hidden))
        states = stack.unit(hidden) * stack.scale
        return list(self._cross(states))

    def _cross(self, states: F32) -> Iterator[KeysValues]:
        for block in self._decoder.blocks:
            key, value = (_heads(part, self.shape.heads) for part in _split(states @ block.cross_kv, 2))
            yield np.ascontiguousarray(key), np.ascontiguousarray(value.transpose(0, 2, 1))

    def step(self, inputs: F32, cross: Sequence[KeysValues], past: Sequence[F32]) -> tuple[F32, list[F32]]:
        """(n, w) states after one more symbol of n beams, embedded (n, w); and what is past by then.

        `past` has the keys and values of the t symbols before, per layer (t, n, 2, h, k).
        """
        stack, heads, wide = self._decoder, self.shape.heads, self.shape.width
        hidden, present = inputs, []
        before = len(past[0])
        back = stack.bias(np.arange(-before, 1)[:, None], both_ways=False)  # (t + 1, 1, h)
        for block, earlier, (key, value) in zip(stack.blocks, past, cross, strict=True):
            qkv = (stack.unit(hidden) @ block.qkv).reshape(len(hidden), 3, heads, wide)
            known = np.concatenate([earlier, qkv[None, :, 1:]])
            present.append(known)
            scores = np.einsum("nhk,tnhk->tnh", qkv[:, 0], known[:, :, 0]) + back
            found = np.einsum("tnh,tnhk->nhk", _softmax(scores, 0), known[:, :, 1])
            hidden = hidden + found.reshape(len(hidden), heads * wide) @ block.out
            query = (stack.unit(hidden) @ block.cross_query).T.reshape(heads, wide, len(hidden))
            found = value @ _softmax(key @ query, 1)  # (h, k, n)
            hidden = hidden + found.reshape(heads * wide, len(hidden)).T @ block.cross_out
            hidden = hidden + block.feed_forward(stack.unit(hidden))
        return stack.unit(hidden) * stack.scale, present

    def nothing_past(self) -> list[F32]:
        """The past of one beam before its first symbol."""
        return [
            np.zeros((0, 1, 2, self.shape.heads, self.shape.width), np.float32)
        ] * self.shape.decoder_layers


class _Stack:
    """The encoder or the decoder."""

    def __init__(self, weights: Weights, name: str, shape: T5Shape) -> None:
        self._shape = shape
        layers = shape.encoder_layers if name == "encoder" else shape.decoder_layers
        self.blocks = [_Block(weights, f"{name}.block.{at}", shape.activation) for at in range(layers)]
        self.scale = weights[f"{name}.final_layer_norm.weight"]  # (w,)
        self._positions = weights[f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]

    def unit(self, hidden: F32) -> F32:
        """Normed rows; the learnt scales are in the matrices that follow."""
        return unit_rows(hidden, self._shape.epsilon)

    def bias(self, offsets: I64, both_ways: bool) -> F32:
        """(n, m, h) attention biases of keys at these offsets (n, m) from their queries."""
        buckets = position_buckets(offsets, self._shape.buckets, self._shape.furthest, both_ways)
        return self._positions[buckets]


class _Block:
    """One layer's matrices, each (in, out), with the scale of the norm before it multiplied in."""

    def __init__(self, weights: Weights, name: str, activation: str) -> None:
        def joined(layer: int, *names: str) -> F32:
            return np.concatenate([weights[f"{name}.layer.{layer}.{one}.weight"] for one in names]).T

        def scaled(layer: int, *names: str) -> F32:
            return joined(layer, *names) * weights[f"{name}.layer.{layer}.layer_norm.weight"][:, None]

        own, cross, inner = "SelfAttention", "EncDecAttention", "DenseReluDense"
        self.qkv = scaled(0, *(f"{own}.{part}" for part in "qkv"))
        self.out = joined(0, f"{own}.o")
        last = 1
        if f"{name}.layer.1.{cross}.q.weight" in weights:
            self.cross_query = scaled(1, f"{cross}.q")
            self.cross_kv = joined(1, f"{cross}.k", f"{cross}.v")  # of the encoder's states, normed already
            self.cross_out = joined(1, f"{cross}.o")
            last = 2
        self._activation, self._gated = ACTIVATIONS[activation], activation.startswith("gated-")
        into = ("wi_0", "wi_1") if self._gated else ("wi",)
        self._into = scaled(last, *(f"{inner}.{part}" for part in into))
        self._back = joined(last, f"{inner}.wo")

    def feed_forward(self, unit: F32) -> F32:
        """(n, w) from normed states (n, w)."""
        inner: F32 = unit @ self._into
        if self._gated:
            gate, through = _split(inner, 2)
            return np.asarray(self._activation(gate) * through @ self._back, np.float32)
        return np.asarray(self._activation(inner) @ self._back, np.float32)


def unit_rows(rows: F32, epsilon: float) -> F32:
    """(n, w) scaled to a mean square of one."""
    square = np.einsum("nw,nw->n", rows, rows) / np.float32(rows.shape[1]) + np.float32(epsilon)
    unit: F32 = rows / np.sqrt(square)[:, None]
    return unit


def position_buckets(offsets: I64, buckets: int, furthest: int, both_ways: bool) -> I64:
    """T5's bucket of each relative position: small ones have their own, larger ones share by logarithm."""
    first: I64 | int = 0
    if both_ways:
        buckets //= 2
        first = (offsets > 0) * buckets
    distance = np.abs(offsets) if both_ways else -np.minimum(offsets, 0)
    exact = buckets // 2
    ratio = np.maximum(distance, exact).astype(np.float32) / exact
    shared = exact + (np.log(ratio) / math.log(furthest / exact) * (buckets - exact)).astype(np.int64)
    found: I64 = first + np.where(distance < exact, distance, np.minimum(shared, buckets - 1))
    return found


def _split(rows: F32, parts: int) -> list[F32]:
    """Columns in equal parts."""
    return np.split(rows, parts, axis=1)


def _heads(rows: F32, heads: int) -> F32:
    """(n, h k) -> (h, n, k)."""
    return rows.reshape(len(rows), heads, rows.shape[1] // heads).transpose(1, 0, 2)


def _joined(found: F32) -> F32:
    """(h, n, k) -> (n, h k)."""
    heads, count, wide = found.shape
    return found.transpose(1, 0, 2).reshape(count, heads * wide)


def _softmax(scores: F32, axis: int) -> F32:
    """Over one axis; NumPy is fastest over one that is not the last."""
    scores = np.exp(scores - scores.max(axis, keepdims=True))
    scores /= scores.sum(axis, keepdims=True)
    return scores
