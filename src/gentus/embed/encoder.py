"""The table encoder with labels (section 4.1): evidence of columns, attention pooling, projection, latent.

The forward pass with NumPy, for search and insertion; `gentus.embed.training` learns the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.features.evidence import Evidence, normalize
from gentus.features.extract import Features, featurize
from gentus.features.wide import searched_columns
from gentus.settings import EncoderSettings
from gentus.table import Table


def parameter_shapes(settings: EncoderSettings) -> dict[str, tuple[int, ...]]:
    """Every learnt array of the encoder and its shape."""
    hidden, embedding = settings.hidden, settings.embedding
    return {
        "column.weight": (settings.inputs + 3 * settings.positions, hidden),
        "column.bias": (hidden,),
        "query.weight": (hidden, settings.heads),
        "value.weight": (hidden, hidden),
        "project.weight": (2 * hidden, embedding),
        "project.bias": (embedding,),
        "latent1.weight": (embedding, embedding),
        "latent1.bias": (embedding,),
        "latent2.weight": (embedding, settings.latent),
        "latent2.bias": (settings.latent,),
    }


def with_positions(columns: F32, positions: NDArray[np.uint16], kept: int) -> F32:
    """(C, w + 3 kept) columns with one-hot positions: from the left, from the right, and the width."""
    if not kept:
        return columns
    left, right = positions.astype(np.int64).T
    one_hot = np.eye(kept, dtype=np.float32)
    return np.hstack([columns, *(one_hot[np.minimum(at, kept - 1)] for at in (left, right, left + right))])


@dataclass(frozen=True, slots=True)
class Encoder:
    """Tables in, unit latents out."""

    evidence: Evidence
    settings: EncoderSettings
    weights: dict[str, F32] = field(repr=False)
    # Column states of a language model, which replace the evidence.
    states: Callable[[Sequence[Table]], list[F32]] | None = field(default=None, repr=False)

    @property
    def name_trust(self) -> float | None:
        """1 where names of columns count: their weight is learnt; None where they do not."""
        return 1.0 if self.evidence.named else None

    @property
    def order(self) -> float:
        """1 where positions of columns count: their weight is learnt; else 0."""
        return 1.0 if self.settings.positions else 0.0

    def read(self, table: Table, features: Features | None = None) -> tuple[F32, F32]:
        """The (C, hidden) column states of a table, and its latent (latent,); its features may be known."""
        table = searched_columns(table)
        features = featurize(table) if features is None else features
        hidden = self.hidden(self.inputs(self.columns(table, features), features))
        return hidden, self.pool(hidden, np.diff(features.tables))[0]

    def columns(self, table: Table, features: Features) -> F32:
        """(C, inputs) evidence or states of every filled column, without its position."""
        if self.states is None:
            return self.evidence.columns(features)
        filled = [column for column in table.columns if column.cells]
        return self.states([replace(table, columns=filled)])[0].reshape(len(filled), self.settings.inputs)

    def encode(self, features: Features) -> F32:
        """(T, latent) unit latents by the evidence; a table without any gets the zero vector."""
        return self.latents(self.inputs(self.evidence.columns(features), features), np.diff(features.tables))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is stored of it."""
        weights = {name: array.astype(np.float16) for name, array in self.weights.items()}
        return {**self.evidence.arrays(), **weights}

    @classmethod
    def restore(cls, stored: Mapping[str, NDArray[Any]], settings: EncoderSettings) -> Encoder:
        """What `arrays` stored, its shapes checked."""
        shapes = parameter_shapes(settings)
        for name, shape in shapes.items():
            if name not in stored or stored[name].shape != shape:
                raise ValueError(f"it does not hold {name} of shape {shape}")
        weights = {name: stored[name].astype(np.float32) for name in shapes}
        return cls(Evidence.restore(stored), settings, weights)

    def inputs(self, columns: F32, features: Features) -> F32:
        """(C, inputs + 3 positions) inputs of the network, from evidence or states (C, inputs)."""
        return with_positions(columns, features.positions, self.settings.positions)

    def hidden(self, inputs: F32) -> F32:
        """(C, hidden) column states."""
        return silu(inputs @ self.weights["column.weight"] + self.weights["column.bias"])

    def latents(self, inputs: F32, counts: NDArray[np.integer[Any]]) -> F32:
        """(T, latent) of tables with `counts` columns each, from the inputs of all of them."""
        return self.pool(self.hidden(inputs), counts)

    def pool(self, hidden: F32, counts: NDArray[np.integer[Any]]) -> F32:
        """(T, latent) from the (C, hidden) column states."""
        w = self.weights
        latents = np.zeros((len(counts), self.settings.latent), np.float32)
        filled = np.flatnonzero(counts)
        if not len(filled):
            return latents
        count = counts[filled][:, None]
        starts = np.concatenate([[0], np.cumsum(count)[:-1]])
        # A learned global query against the keys of each head is one linear map to a score per head.
        scores = hidden @ w["query.weight"]  # (C, heads)
        scores = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), count[:, 0], 0))
        attention = scores / np.repeat(np.add.reduceat(scores, starts), count[:, 0], 0)
        values = (hidden @ w["value.weight"]).reshape(len(hidden), self.settings.heads, -1)
        pooled = np.add.reduceat((values * attention[:, :, None]).reshape(len(hidden), -1), starts)  # (T, H)
        # Attention pooling loses the number of columns; a sum over its square root keeps it.
        total = np.add.reduceat(hidden, starts) / np.sqrt(count)
        embedding = normalize(np.hstack([pooled, total]) @ w["project.weight"] + w["project.bias"])
        inner = silu(embedding * np.sqrt(self.settings.embedding) @ w["latent1.weight"] + w["latent1.bias"])
        latents[filled] = normalize(inner @ w["latent2.weight"] + w["latent2.bias"])
        return latents


def silu(x: F32) -> F32:
    """`x * sigmoid(x)`."""
    return np.asarray(x / (1 + np.exp(-np.clip(x, -60, None))), np.float32)
