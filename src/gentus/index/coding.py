"""From features to codes: what tables go through once a lake is learnt.

A chunk of tables is coded without looking at any other, so it may be coded anywhere; and by one thread, as
several add up in another order: an identifier must not depend on how many cores there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gentus.arrays import F32, U8
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.extract import Features
from gentus.identifiers.codebooks import Codebooks
from gentus.threads import one_blas_thread


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some hundred tables to be coded."""

    features: Features
    columns: F32 | None = None  # (C, W) states of a language model; None: evidence, made of the features


@dataclass(frozen=True, slots=True)
class Coder:
    """All that a chunk needs to be coded."""

    encoder: ClosedForm | Encoder
    codebooks: Codebooks

    def __call__(self, chunk: Chunk) -> tuple[U8, F32]:
        """(T, L) codes, and (T,) the squared distances of codewords to latents."""
        with one_blas_thread():
            latents = self._latents(chunk)
            codes = self.codebooks.encode(latents)
            return codes, self.codebooks.error(latents, codes)

    def _latents(self, chunk: Chunk) -> F32:
        if isinstance(self.encoder, ClosedForm):
            return self.encoder.place(self.encoder.encode(chunk.features))
        if chunk.columns is None:
            return self.encoder.encode(chunk.features)
        inputs = self.encoder.inputs(chunk.columns, chunk.features)
        return self.encoder.latents(inputs, np.diff(chunk.features.tables))
