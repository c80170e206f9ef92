"""Learning a lake with labels: network, codes and generator. Needs torch: `pip install 'gentus[train]'`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.embed.encoder import Encoder, with_positions
from gentus.features.evidence import Evidence, block_weights, rescale, unit_blocks
from gentus.features.extract import concatenate
from gentus.generator.distributed import Workers
from gentus.generator.readers import ColumnReader, TextReader
from gentus.generator.records import word_profiles
from gentus.generator.supervision import Reader, Supervision, train_generator
from gentus.generator.training import RunOptions
from gentus.identifiers.semantic_ids import NON_SEMANTIC, Identifiers, make_identifiers
from gentus.index.catalogue import Catalogue, FeatureSlots
from gentus.index.column_states import LakeStates
from gentus.index.config import GeneratorReport, LabelReport
from gentus.index.engine import Engine
from gentus.index.feature_cache import stream_features
from gentus.index.fit_labelled import Fitted, fit_lake, recall_fit, remember_fit
from gentus.index.folder import Layout
from gentus.index.id_assigner import Chunk, IdAssigner
from gentus.index.values import Given, Learnt, Sampled, narrowed
from gentus.lake import read
from gentus.neighbours.labels import Labels
from gentus.neighbours.matching import Columns
from gentus.progress import Progress
from gentus.search.trie import Trie, build_trie
from gentus.settings import BuildSettings
from gentus.table import Table


@dataclass(slots=True)
class _Sample:
    """The tables that the fit sees: all of them, unless the lake is large."""

    columns: Columns
    inputs: F32  # (C, W) what the network sees of the columns; often the same
    ids: list[int]  # (T,) their catalogue ids


def learn_with_labels(
    sampled: Sampled,
    given: Given,
    layout: Layout,
    catalogue: Catalogue,
    settings: BuildSettings,
    time_budget: float | None,
    engine: Engine,
    team: Workers | None,
    progress: Progress,
) -> Learnt:
    """Encoder, codes and generator, and the identifiers of all tables."""
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    tables = sampled.tables
    bert = None
    if settings.bert is not None:
        bert = LakeStates(settings.bert, layout, catalogue, settings.limits, settings.download)
        bert.read(tables, progress)
    with progress.stage("Learning vocabularies", None):
        head = concatenate(list(stream_features(tables[sampled.head], layout)))
        evidence = Evidence.fit(head, len(tables), settings.names, settings.seed)
        sample = _sample(tables[sampled.chosen], layout, evidence, bert, settings)
        rescale(sample.columns.evidence, evidence.weights)
    position = {table: at for at, table in enumerate(sample.ids)}
    found = catalogue.tables.ids(dict.fromkeys(chain(given.truth, *given.truth.values())))
    at = {name: position[table] for name, table in found.items() if table in position}
    labels = Labels.split(given.truth, at, random)
    fitted = _fit_or_recall(sample, labels, settings, len(tables), layout, progress)
    if fitted.evidence is not None:
        evidence.weights = fitted.evidence
    encoder = Encoder(evidence, fitted.encoder, fitted.weights, bert.model.states if bert else None)
    with progress.stage("Writing identifiers", len(tables)) as tick:
        assigner = IdAssigner.of_fit(encoder, fitted.codebooks)
        coded = []
        for codes, distances in engine.map(assigner.codes, _chunks(tables, layout, bert)):
            coded.append((codes, distances))
            tick(len(codes))
    codes = np.concatenate([some for some, _ in coded])
    distance = np.concatenate([far for _, far in coded])
    named = make_identifiers(settings.identifiers, codes, distance, fitted.codebooks, random)
    ids, shown = tables[:, 0].astype(np.int32), named.reachable
    trie = build_trie(named.codes[shown], named.suffixes[shown], ids[shown])
    taught = None
    if settings.generation is not None and len(tables) > 2:
        lesson = _supervision(
            sample, encoder, named, ids, trie, labels, fitted, tables, layout, catalogue, settings
        )
        mark = hashlib.sha256(named.codes.tobytes() + lesson.labels.pairs.tobytes()).hexdigest()
        options = RunOptions(layout.cache, mark, time_budget, team)
        taught = train_generator(lesson, options, progress, settings.download)
    trained = None if taught is None else msgspec.convert(taught.report, GeneratorReport)
    report = _label_report(given, labels, fitted, sample, catalogue)
    return Learnt(
        encoder,
        named,
        codes,
        distance,
        trie,
        fitted.unseen,
        replace(settings, encoder=encoder.settings),
        labels=report,
        generator=trained,
        save_generator=taught.generator.save if taught and trained and trained.shipped else None,
    )


def _sample(
    tables: FeatureSlots, layout: Layout, evidence: Evidence, bert: LakeStates | None, settings: BuildSettings
) -> _Sample:
    """Evidence of the tables that the fit sees, every block of length one."""
    parts, places, states, widths = [], [], [], []
    for chunk in _chunks(tables, layout, bert):
        features = chunk.features
        seen = narrowed(features.tables, settings.fit_width)
        widths += [min(int(width), settings.fit_width) for width in np.diff(features.tables)]
        parts.append(unit_blocks(evidence.raw(features))[seen])
        places.append(features.positions[seen])
        if chunk.columns is not None:
            states.append(chunk.columns[seen])
    filled = np.flatnonzero(widths)
    columns = np.concatenate(parts)
    del parts
    starts = np.concatenate([[0], np.cumsum(np.array(widths)[filled])]).astype(np.int64)
    inputs = np.concatenate(states) if states else columns
    return _Sample(Columns(columns, starts, np.concatenate(places)), inputs, tables[filled, 0].tolist())


def _chunks(tables: FeatureSlots, layout: Layout, bert: LakeStates | None) -> Iterator[Chunk]:
    """Features of tables with what else they are coded by, some hundred at a time."""
    at = 0
    for features in stream_features(tables, layout):
        part = slice(at, at + len(features))
        at = part.stop
        yield Chunk(features, None if bert is None else bert.columns(tables[part]))


def _fit_or_recall(
    sample: _Sample,
    labels: Labels,
    settings: BuildSettings,
    tables: int,
    layout: Layout,
    progress: Progress,
) -> Fitted:
    """Latents and codes, learnt now or in a run that was stopped while it trained the generator."""
    if settings.generation is None or len(sample.ids) <= 2:
        return fit_lake(sample.columns, sample.inputs, labels, settings, tables, progress)
    path = layout.cache / "fit.safetensors"
    told = [asdict(replace(settings, generation=None)), tables, sample.ids]
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(sample.columns.evidence[:: max(1, len(sample.columns.evidence) // 1000)].tobytes())
    digest.update(labels.pairs.tobytes() + labels.validation.tobytes())
    key = digest.hexdigest()
    fitted = recall_fit(path, key)
    if fitted is None:
        fitted = fit_lake(sample.columns, sample.inputs, labels, settings, tables, progress)
        remember_fit(path, fitted, key)
    elif fitted.evidence is not None and sample.inputs is sample.columns.evidence:
        old = block_weights(sample.columns.evidence)
        rescale(sample.columns.evidence, np.asarray(fitted.evidence / np.where(old > 0, old, 1), np.float32))
    return fitted


def _label_report(
    given: Given, labels: Labels, fitted: Fitted, sample: _Sample, catalogue: Catalogue
) -> LabelReport:
    """How the labels were used."""
    validation = catalogue.tables.names(sample.ids[query] for query in labels.queries())
    return LabelReport(
        given.file,
        len(labels.pairs) + len(labels.validation),
        labels.unknown,
        sorted(named.name for named in validation.values()),
        **fitted.report,
    )


def _supervision(
    sample: _Sample,
    encoder: Encoder,
    named: Identifiers,
    ids: NDArray[np.int32],
    trie: Trie,
    labels: Labels,
    fitted: Fitted,
    tables: FeatureSlots,
    layout: Layout,
    catalogue: Catalogue,
    settings: BuildSettings,
) -> Supervision:
    """What the generator is to learn, of the tables that the fit saw."""
    assert settings.generation is not None
    generation = settings.generation
    if settings.identifiers in NON_SEMANTIC:  # tied to codewords that say nothing it could not learn
        generation = replace(generation, model=replace(generation.model, output="tokens"))
    starts, places = sample.columns.starts, sample.columns.positions
    hidden = np.empty((len(sample.inputs), encoder.settings.hidden), np.float32)
    for begin in range(0, len(hidden), 8192):
        part = slice(begin, begin + 8192)
        hidden[part] = encoder.hidden(
            with_positions(sample.inputs[part], places[part], encoder.settings.places)
        )
    latents = encoder.pool(hidden, np.diff(starts))
    sources = catalogue.tables.sources_of(sample.ids)

    def opened(position: int) -> Table:
        return read(sources[sample.ids[position]], settings.limits)

    kept = tables[np.isin(tables[:, 0], sample.ids)]
    soft = fitted.soft if generation.soft else None
    reader: Reader = ColumnReader(encoder, hidden, starts, latents, opened)
    if generation.model.input == "text":
        reader = TextReader(latents, opened)
    return Supervision(
        reader,
        trie,
        _rows_of(np.array(sample.ids), ids, named, trie),
        named.codebooks,
        labels,
        np.diff(starts),
        word_profiles(stream_features(kept, layout), generation.records.tokens) if labels else None,
        soft,
        generation,
        settings.seed,
    )


def _rows_of(
    wanted: NDArray[np.int64], ids: NDArray[np.int32], named: Identifiers, trie: Trie
) -> NDArray[np.int64]:
    """The rows of some tables in the tree. One that no identifier leads to has that of who answers for it."""
    order = np.argsort(trie.tables)
    at = np.searchsorted(trie.tables, wanted, sorter=order).clip(max=len(order) - 1)
    rows: NDArray[np.int64] = order[at]
    silent = np.flatnonzero(trie.tables[rows] != wanted)
    if len(silent):
        place = {int(table): at for at, table in enumerate(ids)}
        row_of = {int(table): row for row, table in enumerate(trie.tables)}
        by_code = {named.codes[at].tobytes(): row_of[int(ids[at])] for at in np.flatnonzero(named.reachable)}
        for one in silent:
            rows[one] = by_code.get(named.codes[place[int(wanted[one])]].tobytes(), 0)
    return rows
