"""The configuration of an index: what a search needs to know, and apart from it what the fit reported.

It stands in the catalogue, which is authoritative, and in `config.json`. It is validated when it is loaded:
a key that is missing, unknown or of another type is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from gentus.identifiers.codebooks import CodebookStatistics
from gentus.paper.settings import PaperSettings
from gentus.settings import BuildSettings

FORMAT = 14


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """Size and digest of a file, relative to the index folder."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RankingReport:
    """Which ranking of candidates was chosen."""

    chosen: str  # the parts of the features that it uses; `none`: no ranking was better than the second look
    standard_error: float  # of the gain over none
    training_queries: int
    unreadable: list[str]  # labelled queries that could not be read, with reasons; they taught nothing


@dataclass(frozen=True, slots=True)
class LabelReport:
    """How the labels were used."""

    file: str
    pairs: int  # of two tables that the fit saw
    pairs_outside_the_lake: int
    validation_queries: list[str]  # left out of training, to choose by
    validation_map: dict[str, float]  # MAP on them of each alternative
    ranking: RankingReport | None = None  # where a ranking was learnt
    queries: str | None = None  # the folder of queries that are not in the lake


@dataclass(frozen=True, slots=True)
class GeneratorReport:
    """How the paper's generator was trained."""

    vectors: str  # what table embeddings came from
    bert: str | None  # the language model that read the cells
    t5: str
    parameters: int  # that learnt
    steps: int
    seconds: float
    losses: dict[str, float]  # in the end
    validation_map: dict[str, float]  # MAP on held-out queries, of the generator alone and of the closed form


@dataclass(frozen=True, slots=True)
class FitReport:
    """What the fit found out about the lake; `gentus info` shows it, no search depends on it."""

    tables: int  # in the lake at the time of the fit
    vocabularies: dict[str, int]  # size of each
    names: float | None  # how far column names agree with cells; None: they were not read
    order: float  # how far the lake keeps the positions of columns
    codebook_statistics: CodebookStatistics
    held_out_error: float | None  # mean quantization error to expect of tables that are added later
    held_out_error_p95: float | None  # and what 95 of 100 of them stay below
    labels: LabelReport | None = None
    generator: GeneratorReport | None = None


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """Which files are current, and all that a search needs to know of them."""

    format: int
    version: str  # of gentus, which wrote it
    config_version: int  # one more with each change of this configuration
    generation: int  # of model and generator
    tree: int  # number of the prefix tree
    change_sequence: int  # the last change that the prefix tree contains
    fit_sequence: int  # the change that the fit was
    lake: str
    settings: BuildSettings
    levels: int
    codebook_size: int
    feedback: float  # how far a query moves to the mean of the first tables that it finds
    files: dict[str, FileChecksum]
    report: FitReport
    ranking: tuple[str, ...] | None = None  # parts of the features of a ranking learnt from labels
    paper: PaperSettings | None = None  # of the paper's generator, where it ranks

    @property
    def ordered_by_labels(self) -> bool:
        """Whether the order of tables was learnt from labels."""
        return self.ranking is not None or self.paper is not None


def to_document(config: IndexConfig) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(config)


def from_document(document: object) -> IndexConfig:
    """A configuration from what JSON had; `ValueError` names the first key that is wrong."""
    config = msgspec.convert(document, IndexConfig)  # its ValidationError is a ValueError
    unknown = _unknown(document, to_document(config))
    if unknown is not None:
        raise ValueError(f"unknown key `{unknown}`")
    return config


def _unknown(given: Any, known: Any) -> str | None:
    """The path of the first key that is given but not known. Msgspec passes over those of dataclasses."""
    if not isinstance(given, Mapping) or not isinstance(known, Mapping):
        return None
    for key, value in given.items():
        if key not in known:
            return str(key)
        if (below := _unknown(value, known[key])) is not None:
            return f"{key}.{below}"
    return None
