"""The hybrid table encoder: evidence of columns, attention pooling, projection, latent. NumPy only.

Learning happens in `gentus.latent`; here is the forward pass that search and insertion use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gentus.evidence import F32, WIDTH, Evidence, normalize
from gentus.features import Features


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Sizes of the network."""

    hidden: int = 256
    heads: int = 8
    embedding: int = 256
    latent: int = 64


def parameter_shapes(settings: EncoderSettings) -> dict[str, tuple[int, ...]]:
    """Every learnt array of the encoder and its shape."""
    hidden, embedding = settings.hidden, settings.embedding
    return {
        "column.weight": (WIDTH, hidden),
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


@dataclass(slots=True)
class Encoder:
    """Tables in, unit latents out."""

    evidence: Evidence
    settings: EncoderSettings
    weights: dict[str, F32] = field(repr=False)

    def encode(self, features: Features) -> F32:
        """(T, latent) unit latents; a table without evidence gets the zero vector."""
        return self.forward(self.evidence.columns(features), np.diff(features.tables))

    def forward(self, columns: F32, counts: np.ndarray[tuple[int], np.dtype[np.integer]]) -> F32:
        """Latents of tables with `counts` columns each, from all their (C, WIDTH) evidence."""
        w = self.weights
        latents = np.zeros((len(counts), self.settings.latent), np.float32)
        filled = np.flatnonzero(counts)
        if not len(filled):
            return latents
        count = counts[filled][:, None]
        starts = np.concatenate([[0], np.cumsum(count)[:-1]])
        hidden = silu(columns @ w["column.weight"] + w["column.bias"])  # (C, H)
        # A learned global query against the keys of each head is one linear map to a score a head.
        scores = hidden @ w["query.weight"]  # (C, heads)
        scores = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), count[:, 0], 0))
        attention = scores / np.repeat(np.add.reduceat(scores, starts), count[:, 0], 0)
        values = (hidden @ w["value.weight"]).reshape(len(columns), self.settings.heads, -1)
        pooled = np.add.reduceat((values * attention[:, :, None]).reshape(len(columns), -1), starts)  # (T, H)
        # Attention forgets how many columns there are; a sum damped by the root of their number does not.
        total = np.add.reduceat(hidden, starts) / np.sqrt(count)
        embedding = normalize(np.hstack([pooled, total]) @ w["project.weight"] + w["project.bias"])
        inner = silu(embedding * np.sqrt(self.settings.embedding) @ w["latent1.weight"] + w["latent1.bias"])
        latents[filled] = normalize(inner @ w["latent2.weight"] + w["latent2.bias"])
        return latents


def silu(x: F32) -> F32:
    """`x * sigmoid(x)`."""
    return np.asarray(x / (1 + np.exp(-np.clip(x, -60, None))), np.float32)
