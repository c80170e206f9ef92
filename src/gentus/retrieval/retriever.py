"""The seam between an index and what it is searched by: codes for tables, and rows of the tree for a query.

There are two retrievers, the closed form below and the paper's generator; an index only chooses one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, U8
from gentus.embed.closed_form import ClosedForm
from gentus.features.extract import Features
from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Tree
from gentus.table import Table
from gentus.threads import one_blas_thread

# Tables and their features in; out, for each, what it is ranked by as a query.
Encode: TypeAlias = Callable[[Sequence[Table], Features], Sequence[NDArray[Any]]]
LEAST_BEAM = 200


class RankedRow(NamedTuple):
    """A row of the prefix tree, and what it was ranked by."""

    row: int
    score: float


class Retriever(ABC):
    """Gives tables their codes, and ranks the rows of a prefix tree for a query."""

    decoder: Decoder  # tree and codebooks

    @property
    def reads_cells(self) -> bool:
        """Whether codes come from cells, not from features alone."""
        return False

    @abstractmethod
    def encode(self, tables: Sequence[Table], features: Features) -> Sequence[NDArray[Any]]:
        """What each table is ranked by as a query, the same as alone."""

    @abstractmethod
    def portable(self) -> Encode:
        """`encode`, to be sent to another process."""

    @abstractmethod
    def codes(self, tables: Sequence[Table], features: Features) -> tuple[U8, F32]:
        """(T, L) codes, and (T,) the squared distances of latents to their codewords."""

    @abstractmethod
    def rank(
        self, query: NDArray[Any], k: int, beam: int | None, self_ids: Collection[int]
    ) -> list[RankedRow]:
        """The `k` best rows, best first, and as many more as are the query itself."""

    @abstractmethod
    def over(self, tree: Tree) -> Retriever:
        """The same over another tree."""


@dataclass(frozen=True, slots=True)
class ClosedFormRetriever(Retriever):
    """Latents in closed form, coded by residual k-means, ranked by residual distance."""

    encoder: ClosedForm
    decoder: Decoder
    feedback: float  # how far a query moves to the mean of the first tables that it finds

    def encode(self, tables: Sequence[Table], features: Features) -> list[F32]:
        """Latents (d,)."""
        return list(self.encoder.encode(features))

    def portable(self) -> Encode:
        """With the encoder as its arrays."""
        return SentEncoder(self.encoder.arrays())

    def codes(self, tables: Sequence[Table], features: Features) -> tuple[U8, F32]:
        """By smoothed latents."""
        return code_tables(self.encoder, self.decoder.codebooks, features)

    def rank(
        self, query: NDArray[Any], k: int, beam: int | None, self_ids: Collection[int]
    ) -> list[RankedRow]:
        """By residual distance, with pseudo-relevance feedback; a score of 1 is the same content."""
        width, best = beam or max(2 * k, LEAST_BEAM), slice(k + len(self_ids))
        rows, distances = self.decoder.search_with_feedback(query, width, self.feedback, self_ids)
        return list(map(RankedRow, rows[best].tolist(), (1 - distances[best] / 2).tolist()))

    def over(self, tree: Tree) -> ClosedFormRetriever:
        """The same model."""
        return ClosedFormRetriever(self.encoder, Decoder(tree, self.decoder.codebooks), self.feedback)


@dataclass(slots=True)
class SentEncoder:
    """An encoder that is sent to another process as its arrays, and restored there when it is needed."""

    arrays: Mapping[str, NDArray[Any]]
    _encoder: ClosedForm | None = field(default=None, init=False, repr=False)

    def __call__(self, tables: Sequence[Table], features: Features) -> list[F32]:
        """Latents (d,) of tables."""
        if self._encoder is None:
            self._encoder = ClosedForm.restore(self.arrays)
        return list(self._encoder.encode(features))


def code_tables(encoder: ClosedForm, codebooks: Codebooks, features: Features) -> tuple[U8, F32]:
    """(T, L) codes of smoothed latents, and (T,) their squared distances to the codewords.

    Each table is coded by itself and by one BLAS thread: in a product of many rows, or on several threads,
    BLAS rounds in another way, and a code may tip over. So an identifier depends neither on the tables beside
    it nor on the number of cores.
    """
    with one_blas_thread():
        latents = encoder.encode(features)  # which does not depend on the tables beside
        codes = np.empty((len(latents), codebooks.levels), np.uint8)
        for at in range(len(latents)):
            latents[at] = encoder.smooth(latents[at : at + 1])[0]
            codes[at] = codebooks.encode(latents[at : at + 1])[0]
        return codes, codebooks.error(latents, codes)
