"""What a build passes on: which tables its fit sees, the labels it was given, and what was learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64, U8
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.identifiers.semantic_ids import Identifiers
from gentus.index.catalogue import Catalogue, FeatureSlots
from gentus.index.config import GeneratorReport, LabelReport
from gentus.search.trie import Trie
from gentus.settings import BuildSettings
from gentus.table import evenly_spaced

HEAD = 8192  # tables that vocabularies are learnt from; more change nothing


@dataclass(frozen=True, slots=True)
class Given:
    """Annotated pairs as they were given."""

    file: str
    truth: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Sampled:
    """All tables of a lake, and those that the fit sees: all, unless the lake is large."""

    tables: FeatureSlots  # (N, 3) catalogue id, chunk, slot
    chosen: I64  # (T,) places among them, rising
    head: I64  # (H,) of these some, rising

    @classmethod
    def draw(cls, catalogue: Catalogue, settings: BuildSettings) -> Sampled:
        """As many tables as have `fit_columns` columns, drawn at random."""
        tables, widths = catalogue.chunks.slots(), catalogue.chunks.widths()
        widths = np.minimum(widths, settings.fit_width)
        random = np.random.default_rng(settings.seed)
        order = random.permutation(len(tables))
        within = np.cumsum(widths[order]) <= max(settings.fit_columns, widths.max(initial=0))
        chosen = order[within]
        return cls(tables, np.sort(chosen), np.sort(chosen[:HEAD]))


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a fit found, and the identifiers of all tables."""

    encoder: ClosedForm | Encoder
    named: Identifiers
    codes: U8  # (N, L) as the quantizer gave them
    distance: F32  # (N,) squared distances of latents to codewords
    trie: Trie
    unseen: tuple[float, float] | None  # error to expect of new tables: mean, and of 95 in 100
    settings: BuildSettings  # as they turned out
    feedback: float = 0.0
    labels: LabelReport | None = None  # what became of them
    generator: GeneratorReport | None = None  # what came of training it
    save_generator: Callable[[Path], None] | None = None  # where one is shipped


def narrowed(starts: NDArray[np.integer[Any]], most: int) -> list[int]:
    """The columns of tables that begin at these places; of very wide tables some, spread evenly."""
    pairs = pairwise(starts.tolist())
    return [first + at for first, last in pairs for at in evenly_spaced(last - first, most)]
