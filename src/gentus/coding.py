"""From features to codes: what every table goes through once a lake is learnt.

A chunk of tables is coded without looking at any other, so it may be coded anywhere; and by one thread, as
several add up in another order: an identifier must not depend on how many cores there are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gentus.codes import U8, Codebooks
from gentus.decode import Decoder
from gentus.encoder import Encoder, lean
from gentus.evidence import F32
from gentus.features import Features


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some hundred tables to be coded."""

    features: Features
    columns: F32 | None = None  # (C, W) states of a language model; None: evidence, made of the features
    toward: F32 | None = None  # (T, d) what draws them to their teacher's neighbours


@dataclass(frozen=True, slots=True)
class Coder:
    """All that a chunk needs to be coded."""

    encoder: Encoder
    codebooks: Codebooks
    learnt: Decoder | None = None  # tables that the fit has seen; those it has not seen lean towards them ...
    weight: float = 0.0  # ... by this much

    def __call__(self, chunk: Chunk) -> tuple[U8, F32]:
        """(T, L) codes, and (T,) the squared distances of codewords to latents."""
        with _one_thread():
            latents = self._latents(chunk)
            codes = self.codebooks.encode(latents)
            return codes, ((latents - self.codebooks.decode(codes)) ** 2).sum(1)

    def _latents(self, chunk: Chunk) -> F32:
        features, encoder = chunk.features, self.encoder
        columns = encoder.evidence.columns(features) if chunk.columns is None else chunk.columns
        latents = encoder.latents(encoder.inputs(columns, features), np.diff(features.tables))
        if chunk.toward is not None:
            latents = lean(latents, chunk.toward)
        return latents if self.learnt is None else self.learnt.leaning(latents, self.weight)


def _one_thread() -> AbstractContextManager[Any]:
    limited: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
