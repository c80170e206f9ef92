"""From features to identifiers: encode, smooth, quantise, and a suffix where codes are taken.

Tables of a build and tables that are added later go through the same steps. Each table is coded by itself and
by one BLAS thread: in a product of many rows, or on several threads, BLAS rounds in another way, and a code
may tip over. So an identifier depends neither on the tables beside it nor on the number of cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gentus.arrays import F32, U8
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.extract import Features
from gentus.identifiers.codebooks import Codebooks
from gentus.index.catalogue import Catalogue
from gentus.index.model_file import restore_encoder
from gentus.threads import one_blas_thread

if TYPE_CHECKING:  # a language model needs torch
    from gentus.index.column_states import LakeStates


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some hundred tables to be coded."""

    features: Features
    columns: F32 | None = None  # (C, W) states of a language model; None: evidence, made of the features


@dataclass(frozen=True, slots=True)
class IdAssigner:
    """All that tables need to get their identifiers."""

    encoder: ClosedForm | Encoder
    codebooks: Codebooks

    @classmethod
    def of_fit(cls, encoder: ClosedForm | Encoder, codebooks: Codebooks) -> IdAssigner:
        """With an encoder that was just learnt, as it is when it is loaded: BLAS rounds by memory order."""
        arrays = {name: np.ascontiguousarray(array) for name, array in encoder.arrays().items()}
        settings = encoder.settings if isinstance(encoder, Encoder) else None
        return cls(restore_encoder(arrays, settings), codebooks)

    def codes(self, chunk: Chunk) -> tuple[U8, F32]:
        """(T, L) codes, and (T,) the squared distances of codewords to latents."""
        with one_blas_thread():
            latents = self._latents(chunk)
            codes = np.empty((len(latents), self.codebooks.levels), np.uint8)
            for at in range(len(latents)):
                codes[at] = self.codebooks.encode(latents[at : at + 1])[0]
            return codes, self.codebooks.error(latents, codes)

    def add(
        self,
        tables: Sequence[tuple[int, int, int]],
        features: Features,
        catalogue: Catalogue,
        states: LakeStates | None,
    ) -> None:
        """Give tables (id, chunk, slot) that were just stored their identifiers, in the same transaction."""
        if not tables:
            return
        columns = None if states is None else states.read_columns(tables)
        codes, distances = self.codes(Chunk(features, columns))
        catalogue.identifiers.assign([table for table, _, _ in tables], codes, distances.tolist())

    def _latents(self, chunk: Chunk) -> F32:
        """(T, d) latents; without labels, smoothed with those of the lake."""
        features = chunk.features
        if isinstance(self.encoder, ClosedForm):
            latents = self.encoder.encode(features)  # which does not depend on the tables beside
            for at in range(len(latents)):
                latents[at] = self.encoder.smooth(latents[at : at + 1])[0]
            return latents
        columns = self.encoder.evidence.columns(features) if chunk.columns is None else chunk.columns
        inputs = self.encoder.inputs(columns, features)
        latents = np.empty((len(features), self.encoder.settings.latent), np.float32)
        for at, (begin, end) in enumerate(pairwise(features.tables.tolist())):
            latents[at] = self.encoder.latents(inputs[begin:end], np.array([end - begin]))[0]
        return latents
