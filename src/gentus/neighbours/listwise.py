"""A ranking learnt from labels: a small network over features of candidates, trained query by query.

The loss is the cross-entropy of each query's unionable tables under a softmax over its candidates. NumPy
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.progress import Tick

HIDDEN = 16
BATCH = 64  # queries
EPOCHS, LEAST_STEPS = 12, 400
RATE, DECAY = 3e-3, 1e-4
BETAS = 0.9, 0.999
RARE, SAMPLE = 1e-3, 100_000  # share of candidates beyond each bound of a feature, and how many tell it


@dataclass(frozen=True, slots=True)
class Listwise:
    """Scores candidates by their features; values beyond those of training count as the nearest of them."""

    bounds: F32  # (2, F) the least and the greatest value of each feature
    weights: tuple[F32, F32, F32]  # (F, H), (H,), (H,): hidden layer, its bias, output

    def scores(self, features: F32) -> F32:
        """(n,) from (n, F) features."""
        hidden, bias, output = self.weights
        low, high = self.bounds
        inner = np.asarray((np.clip(features, low, high) - low) @ hidden + bias, np.float32)
        return np.asarray(_silu(inner)[0] @ output, np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored of it."""
        names = ("ranker.hidden", "ranker.bias", "ranker.output")
        return {"ranker.bounds": self.bounds, **dict(zip(names, self.weights, strict=True))}

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]], width: int) -> Listwise:
        """What `arrays` stored, for so many features."""
        bounds, hidden, bias, output = (
            np.asarray(stored[f"ranker.{part}"], np.float32)
            for part in ("bounds", "hidden", "bias", "output")
        )
        inner = hidden.shape[1:]
        if (
            bounds.shape != (2, width)
            or hidden.shape[:1] != (width,)
            or not bias.shape == output.shape == inner
        ):
            raise ValueError("the arrays of the ranker do not fit each other")
        return cls(bounds, (hidden, bias, output))


@dataclass(frozen=True, slots=True)
class Lists:
    """The candidates of Q queries, padded to M each."""

    features: F32  # (Q, M, F)
    relevant: F32  # (Q, M) 1 for a unionable table
    inside: NDArray[np.bool_]  # (Q, M) where there are candidates

    @classmethod
    def of(cls, features: Sequence[F32], relevant: Sequence[NDArray[np.bool_]]) -> Lists:
        """From the (n, F) features of each query's candidates, and (n,) which are unionable."""
        most = max(map(len, features), default=0)
        width = features[0].shape[1] if features else 0
        joined = np.zeros((len(features), most, width), np.float32)
        right = np.zeros((len(features), most), np.float32)
        inside = np.zeros((len(features), most), bool)
        for row, (some, found) in enumerate(zip(features, relevant, strict=True)):
            joined[row, : len(some)], right[row, : len(some)], inside[row, : len(some)] = some, found, True
        return cls(joined, right, inside)


def learn_listwise(
    lists: Lists, used: NDArray[np.bool_], random: np.random.Generator, tick: Tick = lambda n: None
) -> Listwise:
    """Learn from lists, by the features that are `used` (F,)."""
    bounds = feature_bounds(lists)
    some = np.clip(lists.features[lists.inside], *bounds)
    centre, spread = some.mean(0), some.std(0)
    kept = np.flatnonzero(used & (spread > 1e-6))
    low, high = bounds[:, kept]
    scaled = (np.clip(lists.features[..., kept], low, high) - centre[kept]) / spread[kept]  # (Q, M, f)
    bound = max(len(kept), 1) ** -0.5
    shapes = {"hidden": (len(kept), HIDDEN), "bias": (HIDDEN,), "output": (HIDDEN,)}
    sizes = {"hidden": bound, "bias": bound, "output": HIDDEN**-0.5}
    now = {name: random.uniform(-sizes[name], sizes[name], shape) for name, shape in shapes.items()}
    first, second = ({name: np.zeros_like(array) for name, array in now.items()} for _ in range(2))
    total = training_steps(len(lists.features))
    order = random.permutation(0)
    for step in range(1, total + 1):
        if not len(order):
            order = random.permutation(len(lists.features))
        drawn, order = order[:BATCH], order[BATCH:]
        slopes = _gradient(scaled[drawn], lists.relevant[drawn], lists.inside[drawn], now)
        rate = RATE * (1 - (step - 1) / total)
        for name, slope in slopes.items():  # AdamW
            first[name] += (1 - BETAS[0]) * (slope - first[name])
            second[name] += (1 - BETAS[1]) * (slope**2 - second[name])
            moved = (
                first[name] / (1 - BETAS[0] ** step) / (np.sqrt(second[name] / (1 - BETAS[1] ** step)) + 1e-8)
            )
            now[name] = now[name] - rate * (moved + DECAY * now[name])
        tick(1)
    hidden = np.zeros((len(used), HIDDEN), np.float32)
    hidden[kept] = now["hidden"] / spread[kept][:, None]
    bias = now["bias"] + (bounds[0] - centre) @ hidden  # features are counted from their lower bounds
    return Listwise(bounds, (hidden, bias.astype(np.float32), now["output"].astype(np.float32)))


def feature_bounds(lists: Lists) -> F32:
    """(2, F) values that few candidates are beyond: what is rare in training may be usual later."""
    some = lists.features[lists.inside]
    some = some[:: max(1, len(some) // SAMPLE)]
    return np.quantile(some, [RARE, 1 - RARE], axis=0).astype(np.float32)


def training_steps(queries: int) -> int:
    """How many steps so many queries are learnt from."""
    return max(EPOCHS * -(-queries // BATCH), LEAST_STEPS)


def _gradient(
    inputs: F32, relevant: F32, inside: NDArray[np.bool_], now: Mapping[str, NDArray[np.float64]]
) -> dict[str, NDArray[Any]]:
    """The gradient of the mean loss of some queries."""
    weights = {name: array.astype(np.float32) for name, array in now.items()}
    active, slope = _silu(inputs @ weights["hidden"] + weights["bias"])  # (b, M, H)
    scores = np.where(inside, active @ weights["output"], -np.inf)  # (b, M)
    share = np.exp(scores - scores.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    count = relevant.sum(1, keepdims=True)
    error = (share - relevant / np.maximum(count, 1)) * (count > 0) / len(inputs)  # by scores
    inner = error[:, :, None] * weights["output"] * slope  # (b, M, H)
    flat = inner.reshape(-1, inner.shape[2])
    return {
        "hidden": inputs.reshape(-1, inputs.shape[2]).T @ flat,
        "bias": flat.sum(0),
        "output": active.reshape(flat.shape).T @ error.ravel(),
    }


def _silu(x: F32) -> tuple[F32, F32]:
    """`x * sigmoid(x)`, and its derivative."""
    gate = (1 / (1 + np.exp(-np.clip(x, -60, 60)))).astype(np.float32)
    return x * gate, gate * (1 + x * (1 - gate))
