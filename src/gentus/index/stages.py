"""The stages of a build without labels, and those that every build has; `gentus.index.build` is their order.

A stage takes values and returns one, and changes nothing that it was given. Only `publish` writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus import __version__
from gentus.arrays import F32, I64, U8
from gentus.embed.closed_form import ClosedForm, learn_space
from gentus.embed.smoothing import choose_anchors, smooth, smooth_by_fit
from gentus.features.evidence import Blocks, Encoded, Evidence, learn_blocks
from gentus.features.extract import concatenate
from gentus.identifiers.codebooks import Codebooks, codebook_statistics, held_out_error, learn_codebooks
from gentus.identifiers.semantic_ids import assign_suffixes
from gentus.index.catalogue import Catalogue, FeatureSlots
from gentus.index.config import (
    FORMAT,
    FitReport,
    GeneratorReport,
    IndexConfig,
    LabelReport,
)
from gentus.index.engine import Engine
from gentus.index.feature_cache import delete_other_chunks, stream_features
from gentus.index.folder import IndexFolderError, Layout, next_generation
from gentus.index.model_file import save_model
from gentus.index.writer import finalise, publish
from gentus.lake import Location, Source
from gentus.neighbours.graph import Neighbours, find_neighbours, mutual_neighbours
from gentus.neighbours.listwise import Listwise
from gentus.paper.settings import PaperSettings
from gentus.progress import Progress
from gentus.retrieval.retriever import code_tables
from gentus.retrieval.trie import Trie, build_trie
from gentus.retrieval.walk import AnnotatedGraph
from gentus.settings import BuildSettings
from gentus.shell import command
from gentus.table import evenly_spaced
from gentus.threads import one_blas_thread

HEAD = 8192  # tables that vocabularies are learnt from; more change nothing
FEW = 20  # tables, of which a graph says less than their blocks do


@dataclass(frozen=True, slots=True)
class Run:
    """What every stage of a build works with."""

    lake: Location
    layout: Layout
    catalogue: Catalogue
    settings: BuildSettings
    engine: Engine
    progress: Progress


@dataclass(frozen=True, slots=True)
class LabelFile:
    """Annotated pairs as they were given."""

    file: str
    truth: dict[str, list[str]]
    folder: str | None = None  # of queries that are not in the lake
    queries: dict[str, Source] = field(default_factory=dict)  # those of them that it names

    @property
    def names(self) -> list[str]:
        """The tables that they name, each once."""
        return list(dict.fromkeys(chain(self.truth, *self.truth.values())))

    @property
    def outside(self) -> dict[str, int]:
        """Their ids, which no table of a catalogue has."""
        return {name: -at for at, name in enumerate(sorted(self.queries), 1)}


@dataclass(frozen=True, slots=True)
class Sample:
    """All tables of a lake, and those that the fit sees: all, unless the lake is large."""

    tables: FeatureSlots  # (N, 3) catalogue id, chunk, slot
    chosen: I64  # (T,) positions among them, rising
    head: I64  # (H,) some of these, rising


@dataclass(frozen=True, slots=True)
class EncodedTables:
    """The tables of the sample as blocks, and their columns."""

    blocks: Blocks  # what made them
    encoded: Encoded
    filled: I64  # tables that have columns; only these have neighbours


@dataclass(frozen=True, slots=True)
class TableVectors:
    """The tables of the sample as vectors."""

    blocks: Blocks
    vectors: F32  # (T, D)
    filled: I64


@dataclass(frozen=True, slots=True)
class Embedding:
    """A latent space, and the tables of the sample in it."""

    encoder: ClosedForm
    latents: F32  # (T, d)
    smoothed: F32  # (T, d) the same after neighbour smoothing


@dataclass(frozen=True, slots=True)
class Model:
    """Encoder and codebooks."""

    encoder: ClosedForm
    codebooks: Codebooks
    held_out_error: tuple[float, float] | None  # to expect of new tables: mean, and 95th percentile
    smoothed: F32  # (T, d) the sample's tables, smoothed by the graph


@dataclass(frozen=True, slots=True)
class Assigned:
    """The identifiers of all tables."""

    codes: U8  # (N, L)
    suffixes: NDArray[np.int32]  # (N,)
    distances: F32  # (N,) squared distances of latents to codewords
    trie: Trie


@dataclass(frozen=True, slots=True)
class LearntRanking:
    """A ranking of candidates that is better than the prior's."""

    graph: AnnotatedGraph
    listwise: Listwise
    parts: tuple[str, ...]  # of the features, that it uses


@dataclass(frozen=True, slots=True)
class Supervised:
    """What a build with labels has besides."""

    truth: dict[str, list[str]]
    labels: LabelReport
    ranking: LearntRanking | None
    generator: GeneratorReport | None = None


@dataclass(frozen=True, slots=True)
class Searchable:
    """What an index is searched by, to be written."""

    codebooks: Codebooks
    save: Callable[[Path], None]  # to the model file
    paper: PaperSettings | None = None  # of the paper's generator, if that ranks

    @classmethod
    def closed_form(cls, model: Model, ranking: LearntRanking | None) -> Searchable:
        """The closed form, and a ranking learnt from labels."""
        learnt = (ranking.graph, ranking.listwise) if ranking else None
        save = partial(save_model, encoder=model.encoder, codebooks=model.codebooks, ranking=learnt)
        return cls(model.codebooks, save)


def draw_sample(run: Run) -> Sample:
    """As many tables as have `fit_columns` columns, drawn at random."""
    settings = run.settings
    tables, widths = run.catalogue.chunks.slots(), run.catalogue.chunks.widths()
    if not len(tables):
        skipped = run.catalogue.tables.skipped()
        why = f" ({len(skipped)} skipped, such as {skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        hint = f" See why: {command('info', run.layout.root, '--skipped')}" if skipped else ""
        raise IndexFolderError(f"No table could be read in {run.lake}{why}.{hint}")
    widths = np.minimum(widths, settings.fit_width)
    order = np.random.default_rng(settings.seed).permutation(len(tables))
    chosen = order[np.cumsum(widths[order]) <= max(settings.fit_columns, widths.max(initial=0))]
    return Sample(tables, np.sort(chosen), np.sort(chosen[:HEAD]))


@one_blas_thread()
def vectorise(sample: Sample, run: Run) -> EncodedTables:
    """Vocabularies of the lake, and the blocks and columns of the sample's tables by them."""
    settings, tables = run.settings, sample.tables
    with run.progress.stage("Learning vocabularies", None):
        head = concatenate(list(stream_features(tables[sample.head], run.layout)))
        evidence = Evidence.fit(head, len(tables), settings.names, settings.seed)
        blocks = learn_blocks(evidence, head, settings.space)
    chosen = tables[sample.chosen]
    with run.progress.stage("Encoding tables", len(chosen)) as tick:
        parts = []
        for part in run.engine.map(blocks.encode, stream_features(chosen, run.layout)):
            parts.append(part)
            tick(len(part.blocks))
        encoded = _joined(parts, settings.fit_width)
    return EncodedTables(blocks, encoded, np.flatnonzero(np.diff(encoded.starts)))


def _joined(parts: list[Encoded], most: int) -> Encoded:
    """Encoded tables as one, with at most so many columns of each to be compared."""
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    columns = np.concatenate([part.columns[some_columns(part.starts, most)] for part in parts])
    starts = np.concatenate([[0], np.cumsum(np.minimum(counts, most))])
    blocks, ordered, widths = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("blocks", "ordered", "widths")
    )
    return Encoded(blocks, ordered, columns, starts, widths)


def some_columns(starts: NDArray[np.integer[Any]], most: int) -> list[int]:
    """The columns of tables that begin at `starts`; of very wide tables some, spread evenly."""
    pairs = pairwise(starts.tolist())
    return [first + at for first, last in pairs for at in evenly_spaced(last - first, most)]


@one_blas_thread()
def link_neighbours(tables: EncodedTables, run: Run) -> Neighbours | None:
    """The affinity graph of the tables that have columns; None if there are too few."""
    encoded, filled = tables.encoded, tables.filled
    with run.progress.stage("Finding neighbours", len(filled)) as tick:
        if len(filled) < FEW:
            return None
        starts = np.append(encoded.starts[filled], encoded.starts[-1])
        return find_neighbours(encoded.blocks[filled], encoded.columns, starts, run.settings.graph, tick)


def join_blocks(tables: EncodedTables, graph: Neighbours | None) -> TableVectors:
    """One vector per table; the order of columns counts as far as neighbours have it in common."""
    vectors = tables.encoded.vectors(graph.order, graph.width) if graph else tables.encoded.vectors(0.0)
    return TableVectors(tables.blocks, vectors, tables.filled)


@one_blas_thread()
def embed(tables: TableVectors, graph: Neighbours | None, run: Run) -> Embedding:
    """The latent space, and the sample's tables in it, smoothed with their mutual neighbours."""
    settings, filled = run.settings, tables.filled
    with run.progress.stage("Learning the latent space", None):
        encoder = learn_space(tables.blocks, tables.vectors[filled], graph, settings.space)
        latents = encoder.latents(tables.vectors)
        if graph is None:
            return Embedding(encoder, latents, latents)
        smoothed = latents.copy()
        mutual = mutual_neighbours(graph.weights, settings.graph.reciprocal)
        smoothed[filled] = smooth(latents[filled], mutual, settings.smoothing)
        return Embedding(replace(encoder, anchors=choose_anchors(smoothed[filled])), latents, smoothed)


@one_blas_thread()
def quantise(embedding: Embedding, sample: Sample, run: Run) -> Model:
    """Codebooks for the latents, and the error to expect of tables that are added later."""
    settings, smoothed = run.settings, embedding.smoothed
    shape = settings.quantizer.for_lake(len(sample.tables)).shape(len(smoothed))
    with run.progress.stage("Learning codes", shape[0], "levels") as tick:
        codebooks = learn_codebooks(smoothed, shape, settings.quantizer.rounds, settings.seed, tick)
        smoothing = None if embedding.encoder.anchors is None else smooth_by_fit
        error = held_out_error(embedding.latents, smoothed, shape, settings.seed, smoothing)
    return Model(embedding.encoder, codebooks, error, smoothed)


@one_blas_thread()
def assign_identifiers(model: Model, sample: Sample, run: Run) -> Assigned:
    """The identifiers of all tables of the lake, and their prefix tree."""
    tables, codebooks = sample.tables, model.codebooks
    codes = np.zeros((len(tables), codebooks.levels), np.uint8)
    distances = np.zeros(len(tables), np.float32)
    codes[sample.chosen] = codebooks.encode(model.smoothed)
    distances[sample.chosen] = codebooks.error(model.smoothed, codes[sample.chosen])
    rest = np.delete(np.arange(len(tables)), sample.chosen)
    if len(rest):
        # As it is when it is loaded: BLAS rounds by memory order.
        arrays = {name: np.ascontiguousarray(array) for name, array in model.encoder.arrays().items()}
        code = partial(code_tables, ClosedForm.restore(arrays), codebooks)
        with run.progress.stage("Assigning identifiers", len(rest)) as tick:
            done = 0
            for some, far in run.engine.map(code, stream_features(tables[rest], run.layout)):
                at = rest[done : done + len(some)]
                codes[at], distances[at] = some, far
                done += len(some)
                tick(len(some))
    suffixes = assign_suffixes(codes, distances)
    return Assigned(codes, suffixes, distances, build_trie(codes, suffixes, tables[:, 0].astype(np.int32)))


def publish_index(
    run: Run,
    sample: Sample,
    model: Model,
    assigned: Assigned,
    supervised: Supervised | None,
    made: Searchable | None = None,
) -> None:
    """Write the next generation beside the current one, then switch to it."""
    layout, catalogue, number = run.layout, run.catalogue, next_generation(run.layout)
    ranking = supervised.ranking if supervised else None
    made = made or Searchable.closed_form(model, ranking)
    codebooks = made.codebooks
    made.save(layout.model(number))
    assigned.trie.save(layout.trie(number))
    with catalogue.transaction():
        ids = sample.tables[:, 0].astype(np.int32)
        codes, suffixes, distances = assigned.codes, assigned.suffixes, assigned.distances
        sequence = catalogue.identifiers.replace_all(ids, codes, suffixes, distances)
        catalogue.put_labels(supervised.truth if supervised else {})
        catalogue.tables.purge()
        config = IndexConfig(
            format=FORMAT,
            version=__version__,
            config_version=0,  # `publish` sets it, and the files
            generation=number,
            tree=number,
            change_sequence=sequence,
            fit_sequence=sequence,
            lake=str(run.lake.resolve()),
            settings=run.settings,
            levels=codebooks.levels,
            codebook_size=codebooks.size,
            feedback=run.settings.feedback,
            files={},
            report=_report(sample, model, assigned, supervised, codebooks.size),
            ranking=ranking.parts if ranking else None,
            paper=made.paper,
        )
        config = publish(layout, catalogue, config)
    finalise(layout, config)
    delete_other_chunks(layout, catalogue.chunks.numbers())


def _report(
    sample: Sample, model: Model, assigned: Assigned, supervised: Supervised | None, size: int
) -> FitReport:
    encoder = model.encoder
    mean, p95 = model.held_out_error or (None, None)
    return FitReport(
        tables=len(sample.tables),
        vocabularies=encoder.evidence.report(),
        names=encoder.name_trust,
        order=encoder.order,
        codebook_statistics=codebook_statistics(assigned.codes, size, assigned.distances),
        held_out_error=mean,
        held_out_error_p95=p95,
        labels=supervised.labels if supervised else None,
        generator=supervised.generator if supervised else None,
    )
