"""The stages of a build that differ with labels: columns, network and codes, generator.

They need torch: `pip install 'gentus[train]'`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from itertools import chain

import msgspec
import numpy as np
import torch

from gentus.arrays import F32, I64
from gentus.embed.encoder import Encoder, with_positions
from gentus.features.evidence import Evidence, block_weights, rescale, unit_blocks
from gentus.features.extract import concatenate
from gentus.generator.readers import ColumnReader, TextReader
from gentus.generator.records import word_profiles
from gentus.generator.supervision import Reader, Supervision, TrainedGenerator, train_generator
from gentus.generator.training import RunOptions
from gentus.identifiers.semantic_ids import NON_SEMANTIC
from gentus.index.column_states import LakeStates
from gentus.index.config import GeneratorReport, LabelReport
from gentus.index.feature_cache import stream_features
from gentus.index.fit_labelled import LabelledFit, fit_columns, load_checkpoint, save_checkpoint
from gentus.index.stages import (
    Assigned,
    LabelFile,
    Model,
    Run,
    Sample,
    Supervised,
    Training,
    chunks,
    some_columns,
)
from gentus.lake import read_named
from gentus.neighbours.labels import Labels
from gentus.neighbours.matching import Columns
from gentus.settings import GenerationSettings
from gentus.table import Table


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """What scorer and network see of the sample's tables that have columns, and the labels among these."""

    sample: Sample
    evidence: Evidence
    columns: Columns
    inputs: F32  # (C, W) what the network sees of the columns; often the evidence itself
    ids: list[int]  # (T,) their catalogue ids
    labels: Labels
    states: LakeStates | None  # where a language model reads the columns


def vectorise(given: LabelFile, sample: Sample, run: Run) -> LabelledSample:
    """Vocabularies of the lake, the evidence of the sample's columns, and the split of the labels."""
    torch.manual_seed(run.settings.seed)
    settings, tables = run.settings, sample.tables
    states = None
    if settings.bert is not None:
        states = LakeStates(settings.bert, run.layout, run.catalogue, settings.limits, settings.download)
        states.read(tables, run.progress)
    with run.progress.stage("Learning vocabularies", None):
        head = concatenate(list(stream_features(tables[sample.head], run.layout)))
        evidence = Evidence.fit(head, len(tables), settings.names, settings.seed)
        columns, inputs, ids = _columns(sample, evidence, states, run)
    position = {table: at for at, table in enumerate(ids)}
    found = run.catalogue.tables.ids(dict.fromkeys(chain(given.truth, *given.truth.values())))
    at = {name: position[table] for name, table in found.items() if table in position}
    labels = Labels.split(given.truth, at, np.random.default_rng(settings.seed))
    return LabelledSample(sample, evidence, columns, inputs, ids, labels, states)


def _columns(
    sample: Sample, evidence: Evidence, states: LakeStates | None, run: Run
) -> tuple[Columns, F32, list[int]]:
    """Weighted evidence of the sample's columns, what the network sees of them, and the tables' ids."""
    tables, most = sample.tables[sample.chosen], run.settings.fit_width
    parts, positions, inputs, widths = [], [], [], []
    for chunk in chunks(tables, run.layout, states):
        features = chunk.features
        seen = some_columns(features.tables, most)
        widths += [min(int(width), most) for width in np.diff(features.tables)]
        parts.append(unit_blocks(evidence.raw(features))[seen])
        positions.append(features.positions[seen])
        if chunk.columns is not None:
            inputs.append(chunk.columns[seen])
    filled = np.flatnonzero(widths)
    joined = np.concatenate(parts)
    del parts
    starts = np.concatenate([[0], np.cumsum(np.array(widths)[filled])]).astype(np.int64)
    rescale(joined, evidence.weights)
    columns = Columns(joined, starts, np.concatenate(positions))
    return columns, np.concatenate(inputs) if inputs else joined, tables[filled, 0].tolist()


def fit(columns: LabelledSample, run: Run) -> tuple[Model, LabelledFit]:
    """Neighbours, network and codes; or those of a run that was stopped while it trained its generator."""
    fitted = _fit_or_load(columns, run)
    evidence = columns.evidence
    if fitted.block_weights is not None:
        evidence = replace(evidence, weights=fitted.block_weights)
    states = columns.states.model.states if columns.states else None
    encoder = Encoder(evidence, fitted.encoder, fitted.weights, states)
    return Model(encoder, fitted.codebooks, fitted.held_out_error), fitted


def _fit_or_load(columns: LabelledSample, run: Run) -> LabelledFit:
    tables = len(columns.sample.tables)
    settings, evidence, labels = run.settings, columns.columns.evidence, columns.labels

    def fit() -> LabelledFit:
        return fit_columns(columns.columns, columns.inputs, labels, settings, tables, run.progress)

    if settings.generation is None or len(columns.ids) <= 2:
        return fit()
    path = run.layout.cache / "fit.safetensors"
    told = [asdict(replace(settings, generation=None)), tables, columns.ids]
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(evidence[:: max(1, len(evidence) // 1000)].tobytes())
    digest.update(labels.pairs.tobytes() + labels.validation.tobytes())
    key = digest.hexdigest()
    fitted = load_checkpoint(path, key)
    if fitted is None:
        fitted = fit()
        save_checkpoint(path, fitted, key)
    elif fitted.block_weights is not None and columns.inputs is evidence:
        old = block_weights(evidence)
        rescale(evidence, np.asarray(fitted.block_weights / np.where(old > 0, old, 1), np.float32))
    return fitted


def supervise(
    columns: LabelledSample,
    fitted: LabelledFit,
    trained: TrainedGenerator | None,
    given: LabelFile,
    run: Run,
) -> Supervised:
    """What labels and generator came to, as it is published."""
    labels = columns.labels
    validation = run.catalogue.tables.names(columns.ids[query] for query in labels.queries())
    report = LabelReport(
        given.file,
        len(labels.pairs) + len(labels.validation),
        labels.unknown,
        sorted(named.name for named in validation.values()),
        **fitted.report,
    )
    if trained is None:
        return Supervised(given.truth, report, None, lambda folder: None)
    return Supervised(
        given.truth, report, msgspec.convert(trained.report, GeneratorReport), trained.generator.save
    )


def train(
    columns: LabelledSample,
    fitted: LabelledFit,
    model: Model,
    assigned: Assigned,
    run: Run,
    training: Training,
) -> TrainedGenerator | None:
    """A generator that writes the identifiers; None where settings want none."""
    if run.settings.generation is None or len(assigned.codes) <= 2:
        return None
    assert isinstance(model.encoder, Encoder)
    supervision = _supervision(columns, fitted, model.encoder, assigned, run, run.settings.generation)
    codes, pairs = assigned.identifiers.codes, columns.labels.pairs
    fingerprint = hashlib.sha256(codes.tobytes() + pairs.tobytes()).hexdigest()
    options = RunOptions(run.layout.cache, fingerprint, training.time_budget, training.workers)
    return train_generator(supervision, options, run.progress, run.settings.download)


def _supervision(
    columns: LabelledSample,
    fitted: LabelledFit,
    encoder: Encoder,
    assigned: Assigned,
    run: Run,
    generation: GenerationSettings,
) -> Supervision:
    """What the generator is to learn, of the tables that the fit saw."""
    if run.settings.identifiers in NON_SEMANTIC:  # codewords that say nothing are no output to be tied to
        generation = replace(generation, model=replace(generation.model, output="tokens"))
    inputs, starts, positions = columns.inputs, columns.columns.starts, columns.columns.positions
    hidden = np.empty((len(inputs), encoder.settings.hidden), np.float32)
    for begin in range(0, len(hidden), 8192):
        part = slice(begin, begin + 8192)
        hidden[part] = encoder.hidden(
            with_positions(inputs[part], positions[part], encoder.settings.positions)
        )
    latents = encoder.pool(hidden, np.diff(starts))
    sources = run.catalogue.tables.sources_of(columns.ids)

    def opened(position: int) -> Table:
        return read_named(sources[columns.ids[position]], run.settings.limits)

    tables = columns.sample.tables
    kept = tables[np.isin(tables[:, 0], columns.ids)]
    reader: Reader = ColumnReader(encoder, hidden, starts, latents, opened)
    if generation.model.input == "text":
        reader = TextReader(latents, opened)
    words = generation.records.tokens
    return Supervision(
        reader,
        assigned.trie,
        _rows_of(np.array(columns.ids), tables[:, 0], assigned),
        assigned.identifiers.codebooks,
        columns.labels,
        np.diff(starts),
        word_profiles(stream_features(kept, run.layout), words) if columns.labels else None,
        fitted.affinity if generation.affinity_targets else None,
        generation,
        run.settings.seed,
    )


def _rows_of(wanted: I64, ids: I64, assigned: Assigned) -> I64:
    """The rows of some tables in the tree; where none leads to a table, that of the one with its codes."""
    trie, named = assigned.trie, assigned.identifiers
    order = np.argsort(trie.tables)
    at = np.searchsorted(trie.tables, wanted, sorter=order).clip(max=len(order) - 1)
    rows: I64 = order[at]
    hidden = np.flatnonzero(trie.tables[rows] != wanted)
    if len(hidden):
        position = {int(table): at for at, table in enumerate(ids)}
        row_of = {int(table): row for row, table in enumerate(trie.tables)}
        by_code = {named.codes[at].tobytes(): row_of[int(ids[at])] for at in np.flatnonzero(named.reachable)}
        for one in hidden:
            rows[one] = by_code.get(named.codes[position[int(wanted[one])]].tobytes(), 0)
    return rows
