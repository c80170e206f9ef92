"""Building an index: read the lake, let the teacher judge it, learn latents and codes, lay out the tree."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from gentus import __version__
from gentus.catalogue import Catalogue, Places
from gentus.codes import U8, assign_suffixes, health
from gentus.coding import Chunk, Coder
from gentus.consensus import ConsensusSettings, usual_weights
from gentus.decode import Decoder
from gentus.encoder import Encoder, EncoderSettings, with_places
from gentus.engine import Engine, EngineName, LocalEngine, open_engine
from gentus.evaluate import load_groundtruth
from gentus.evidence import BLOCKS, F32, WIDTH, Evidence, block_weights, rescale
from gentus.fitting import FitSettings, Fitted, fit_lake, recall_fit, remember_fit
from gentus.generator import GeneratorSettings
from gentus.identifiers import MEANINGLESS, Identifiers, Variant, make_identifiers
from gentus.index import Index, save_model
from gentus.labels import Labels
from gentus.lake import Limits, Place, Remote, as_place, read
from gentus.lake.base import spread
from gentus.lake_states import LakeStates
from gentus.latent import LatentSettings
from gentus.progress import Progress
from gentus.quantizer import QuantizerSettings
from gentus.readers import ColumnReader, TextReader
from gentus.reading import read_lake, restore_features, stream_features
from gentus.records import word_profiles
from gentus.store import (
    FORMAT,
    IndexFolderError,
    Layout,
    next_generation,
    remove_other_chunks,
)
from gentus.supervision import GenerationSettings, Reader, Supervision, Taught, teach
from gentus.table import Table
from gentus.teacher import Columns, TeacherSettings, weigh_evidence
from gentus.team import Team, assist, leading
from gentus.training import TrainingSettings
from gentus.trie import Trie, build_trie
from gentus.writing import publish, settle, writer

Preset = Literal["fast", "trained", "paper"]
Coded = tuple[U8, F32]  # codes of some tables, and how far the codewords are from the latents


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """Everything that shapes an index."""

    seed: int = 0
    fit_columns: int = 250_000  # the fit sees all tables up to this many columns, a sample beyond
    fit_width: int = 96  # of a wider table it sees this many columns: matching costs the cube of the width
    limits: Limits = field(default_factory=Limits)
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    bert: str | None = None  # a BERT-family checkpoint that reads the columns; None: the hybrid encoder
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    latent: LatentSettings = field(default_factory=LatentSettings)
    quantizer: QuantizerSettings = field(default_factory=QuantizerSettings)
    consensus: ConsensusSettings = field(default_factory=ConsensusSettings)
    teacher_weight: float = 1.0  # 0: labels alone shape the identifiers, as in the paper
    feedback: float = 0.6  # without labels: how far a query is drawn towards the first tables it finds
    identifiers: Variant = "shaped"
    generation: GenerationSettings | None = None  # None: no generator, the prior ranks
    download: bool = False  # whether checkpoints may be fetched from the hub

    def fit(self, tables: int) -> FitSettings:
        """What the fit needs of them for a lake of so many tables."""
        return FitSettings(
            self.teacher,
            self.encoder,
            self.latent,
            self.quantizer.for_lake(tables),
            self.seed,
            self.identifiers,
            self.teacher_weight,
            self.consensus,
        )


def preset_settings(preset: Preset, seed: int = 0, t5: str | None = None) -> BuildSettings:
    """`fast` has no generator, `trained` adds one, `paper` is the paper's system with its constants."""
    if preset == "fast":
        return BuildSettings(seed=seed)
    if preset == "trained":
        model = GeneratorSettings() if t5 is None else GeneratorSettings("text", "tokens", checkpoint=t5)
        # Labels ask for less room than a teacher's many shades.
        return BuildSettings(
            seed=seed, encoder=EncoderSettings(latent=64), generation=GenerationSettings(model)
        )
    if preset == "paper":
        return BuildSettings(
            seed=seed,
            bert="google-bert/bert-base-uncased",
            encoder=EncoderSettings(latent=64),
            quantizer=QuantizerSettings(levels=6, codes=256, union_weight=0.1),
            teacher_weight=0.0,
            generation=GenerationSettings(
                model=GeneratorSettings(input="text", output="tokens", checkpoint=t5 or "google-t5/t5-base"),
                training=TrainingSettings(epochs=30, rate=3e-4, margin=0.2, margin_weight=0.2, patience=30),
                softmax="vocabulary",
                batch=32,
                most_records=None,
                soft=0,
            ),
        )
    raise ValueError(f"there is no preset {preset}; there are {', '.join(get_args(Preset))}")


def build(
    lake: str | os.PathLike[str] | Remote,
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    preset: Preset | None = None,
    settings: BuildSettings | None = None,
    seed: int | None = None,
    workers: int | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    time_budget: float | None = None,
    progress: Progress | None = None,
) -> Index:
    """Index a lake; without labels its own evidence is the teacher.

    With labels a generator is trained as well, for at most `time_budget` seconds; `preset` says otherwise.
    Interrupted, it goes on where it stopped when called again; files that did not change are not read again.
    The `engine` ray does the work on the Ray cluster at the `address`, by default one on this machine.
    Of several processes that were launched together, the first builds and the others help to train.
    """
    if assist():
        return Index(Path(index))
    settings = settings or preset_settings(preset or ("fast" if labels is None else "trained"))
    if seed is not None:
        settings = replace(settings, seed=seed)
    root, layout = as_place(lake), Layout(Path(index))
    progress = progress or Progress()
    if not root.exists():
        raise FileNotFoundError(f"There is no lake at {root}. Give a folder of tables, or a database file.")
    if layout.root.resolve() == root.resolve():
        raise IndexFolderError(f"{layout.root} is the lake itself. Give the index a folder of its own.")
    truth = load_groundtruth(labels) if labels is not None else None
    if settings.identifiers in MEANINGLESS and settings.generation is None:
        raise ValueError(
            f"{settings.identifiers} identifiers say nothing of a table, so only a generator finds them: "
            "give labels, or the preset trained."
        )
    if not settings.teacher_weight and truth is None:
        raise ValueError("The preset paper learns from labels alone: give labels.")
    with (
        leading() as team,
        writer(layout, create=True) as catalogue,
        open_engine(engine, address, workers) as working,
    ):
        read_lake(root, layout, catalogue, settings.limits, working, progress)
        given = None if truth is None or labels is None else Given(str(Path(labels).resolve()), truth)
        fit(root, layout, catalogue, settings, given, time_budget, working, team, progress)
    return Index(layout.root)


def refit(
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    time_budget: float | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Index:
    """Learn codes and generator anew from the tables there are now, with the settings of the build.

    Labels are those of the build unless others are given. Files are only read where the cache has lost them.
    """
    if assist():
        return Index(Path(index))
    layout = Layout(Path(index))
    progress = progress or Progress()
    truth = load_groundtruth(labels) if labels is not None else None
    with leading() as team, writer(layout) as catalogue:
        config = catalogue.config()
        assert config is not None
        settings = settings_of(config["settings"])
        if truth is None and config["labels"]:
            given: Given | None = Given(config["labels"]["file"], catalogue.labels())
        else:
            given = None if labels is None or truth is None else Given(str(Path(labels).resolve()), truth)
        if given is not None and settings.generation is None:
            settings = replace(settings, generation=GenerationSettings())
        engine = LocalEngine() if workers is None else LocalEngine(workers)
        restore_features(layout, catalogue, settings.limits, engine, progress)
        fit(as_place(config["lake"]), layout, catalogue, settings, given, time_budget, engine, team, progress)
    return Index(layout.root)


def settings_of(stored: dict[str, Any]) -> BuildSettings:
    """Settings as they stand in `config.json`."""
    settings: BuildSettings = _revive(BuildSettings, stored)
    # What the fit found out about its input is for it to find out again.
    return replace(settings, encoder=replace(settings.encoder, places=0, inputs=WIDTH))


def _revive(kind: Any, stored: Any) -> Any:
    """A value of a type made of dataclasses, from what `asdict` made of it."""
    if stored is not None:
        for choice in (kind, *get_args(kind)):  # `X | None` is X or None
            if isinstance(choice, type) and is_dataclass(choice):
                types = get_type_hints(choice)
                return choice(**{name: _revive(types[name], value) for name, value in stored.items()})
    return stored


@dataclass(frozen=True, slots=True)
class Given:
    """Annotated pairs as they were given."""

    file: str
    truth: dict[str, list[str]]


@dataclass(slots=True)
class _Sample:
    """The tables that the fit sees: all of them, unless the lake is large."""

    columns: Columns
    inputs: F32  # (C, W) what the network sees of the columns; often the same
    ids: list[int]  # (T,) their catalogue ids


def fit(
    root: Place,
    layout: Layout,
    catalogue: Catalogue,
    settings: BuildSettings,
    given: Given | None,
    time_budget: float | None,
    engine: Engine,
    team: Team | None,
    progress: Progress,
) -> None:
    """Learn encoder, codes and generator, give every table its identifier, and switch over."""
    import torch

    tables = catalogue.featurized()
    if not len(tables):
        skipped = catalogue.skipped()
        why = f" ({len(skipped)} skipped, such as {skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        hint = f" See why: gentus info {layout.root} --skipped" if skipped else ""
        raise IndexFolderError(f"No table could be read in {root}{why}.{hint}")
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    bert = None
    if settings.bert is not None:
        bert = LakeStates(settings.bert, layout, catalogue, settings.limits, settings.download)
        bert.read(tables, progress)
    with progress.stage("Weighing evidence", None):
        evidence = Evidence.fit(stream_features(tables, layout))
        sample = _sample(tables, layout, evidence, bert, settings, random)
        if len(sample.ids) > 2:
            evidence.weights = weigh_evidence(sample.columns, settings.teacher, random)
            if given is None:
                evidence.weights = usual_weights(evidence.weights)
        evidence.weigh(sample.columns.evidence)
    labels = None
    if given is not None:
        position = {table: at for at, table in enumerate(sample.ids)}
        found = catalogue.ids(dict.fromkeys(chain(given.truth, *given.truth.values())))
        at = {name: position[table] for name, table in found.items() if table in position}
        labels = Labels.split(given.truth, at, random)
    fitted = _fit_or_recall(sample, labels, settings, len(tables), layout, progress)
    if fitted.evidence is not None:
        evidence.weights = fitted.evidence
    encoder = Encoder(evidence, fitted.encoder, fitted.weights, bert.model.states if bert else None)

    count = len(tables)
    with progress.stage("Writing identifiers", count) as tick:
        coder = Coder(replace(encoder, states=None), fitted.codebooks)

        def code(some: Places, coder: Coder, toward: F32 | None) -> Iterator[Coded]:
            for coded in engine.map(coder, _chunks(some, layout, bert, toward)):
                tick(len(coded[0]))
                yield coded

        codes, distance = _code(tables, sample.ids, code, coder, fitted.toward, settings.consensus.lean)
    ids = tables[:, 0].astype(np.int32)
    mean, usual = fitted.unseen or (None, None)
    report = {
        **asdict(health(codes, fitted.codebooks.size, distance)),
        "unseen_error": mean,  # what to expect of tables that come later,
        "unseen_usual": usual,  # and what 95 of 100 stay below
    }
    named = make_identifiers(settings.identifiers, codes, distance, fitted.codebooks, random)
    shown = named.reachable
    trie = build_trie(named.codes[shown], named.suffixes[shown], ids[shown])
    taught = None
    if settings.generation is not None and count > 2:
        lesson = _supervision(
            sample, encoder, named, ids, trie, labels, fitted, tables, layout, catalogue, settings
        )
        mark = hashlib.sha256(named.codes.tobytes() + lesson.labels.pairs.tobytes()).hexdigest()
        taught = teach(lesson, layout.cache, time_budget, mark, progress, settings.download, team)
    config = {
        "format": FORMAT,
        "version": __version__,
        "lake": str(root.resolve()),
        "settings": asdict(replace(settings, encoder=encoder.settings)),
        "levels": named.codebooks.levels,
        "codes": named.codebooks.size,
        "tables": count,
        "evidence_weights": {k: round(float(w), 4) for k, w in zip(BLOCKS, evidence.weights, strict=True)},
        "feedback": 0.0 if labels or taught else settings.feedback,
        "labels": _label_report(given, labels, fitted, sample, catalogue),
        "generator": taught and taught.report,
        "health": report,
    }
    _switch(layout, catalogue, config, encoder, named, trie, ids, distance, taught, given)


def _fit_or_recall(
    sample: _Sample,
    labels: Labels | None,
    settings: BuildSettings,
    tables: int,
    layout: Layout,
    progress: Progress,
) -> Fitted:
    """Latents and codes, learnt now or in a run that was stopped while it trained the generator."""
    of_fit = settings.fit(tables)
    if settings.generation is None or len(sample.ids) <= 2:
        return fit_lake(sample.columns, sample.inputs, labels, of_fit, progress)
    path = layout.cache / "fit.safetensors"
    shape = of_fit.quantizer.shape(len(sample.ids))  # the settings may leave it open
    told = [asdict(of_fit), shape, settings.bert, sample.ids]
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(sample.columns.evidence[:: max(1, len(sample.columns.evidence) // 1000)].tobytes())
    if labels is not None:
        digest.update(labels.pairs.tobytes() + labels.held.tobytes())
    key = digest.hexdigest()
    fitted = recall_fit(path, key)
    if fitted is None:
        fitted = fit_lake(sample.columns, sample.inputs, labels, of_fit, progress)
        remember_fit(path, fitted, key)
    elif fitted.evidence is not None and sample.inputs is sample.columns.evidence:
        rescale(sample.columns.evidence, fitted.evidence / block_weights(sample.columns.evidence))
    return fitted


def _label_report(
    given: Given | None, labels: Labels | None, fitted: Fitted, sample: _Sample, catalogue: Catalogue
) -> dict[str, Any] | None:
    """What became of the labels."""
    if given is None or labels is None:
        return None
    held = catalogue.names(sample.ids[query] for query in labels.queries())
    return {
        "file": given.file,
        "pairs": len(labels.pairs) + len(labels.held),
        "pairs_outside_the_lake": labels.unknown,
        "queries_held_out": len(held),
        "held_out": sorted(named.name for named in held.values()),
        **fitted.report,
    }


def _supervision(
    sample: _Sample,
    encoder: Encoder,
    named: Identifiers,
    ids: NDArray[np.int32],
    trie: Trie,
    labels: Labels | None,
    fitted: Fitted,
    tables: Places,
    layout: Layout,
    catalogue: Catalogue,
    settings: BuildSettings,
) -> Supervision:
    """What the generator is to learn, of the tables that the fit saw."""
    assert settings.generation is not None
    generation = settings.generation
    if settings.identifiers in MEANINGLESS:  # tied to codewords that say nothing it could not learn
        generation = replace(generation, model=replace(generation.model, output="tokens"))
    starts, places = sample.columns.starts, sample.columns.places
    hidden = np.empty((len(sample.inputs), encoder.settings.hidden), np.float32)
    for begin in range(0, len(hidden), 8192):
        part = slice(begin, begin + 8192)
        hidden[part] = encoder.hidden(with_places(sample.inputs[part], places[part], encoder.settings.places))
    latents = encoder.pool(hidden, np.diff(starts))
    sources = catalogue.read_sources(sample.ids)

    def opened(position: int) -> Table:
        return read(sources[sample.ids[position]], settings.limits)

    kept = tables[np.isin(tables[:, 0], sample.ids)]
    soft = fitted.soft if generation.soft else None
    random = np.random.default_rng(settings.seed)
    if labels is None:
        assert fitted.soft is not None
        labels = Labels.of_teacher(fitted.soft, random)
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


def _code(
    tables: Places,
    sampled: list[int],
    code: Callable[[Places, Coder, F32 | None], Iterable[Coded]],
    coder: Coder,
    toward: F32 | None,
    weight: float,
) -> Coded:
    """(T, L) codes of all tables, and how far the codewords are from the latents.

    Tables lean towards their teacher's neighbours before they are coded; those that the fit has not seen come
    second, and lean towards the others.
    """
    seen = {table: at for at, table in enumerate(sampled)}
    known = np.isin(tables[:, 0], sampled)
    codes = np.zeros((len(tables), coder.codebooks.levels), np.uint8)
    distance = np.zeros(len(tables), np.float32)

    def put(places: NDArray[np.intp], coder: Coder, toward: F32 | None) -> None:
        at = 0
        for some, far in code(tables[places], coder, toward):
            part = places[at : at + len(some)]
            codes[part], distance[part] = some, far
            at += len(some)

    places = np.flatnonzero(known)
    put(places, coder, None if toward is None else toward[[seen[table] for table in tables[places, 0]]])
    if known.all():
        return codes, distance
    if toward is not None:
        order = assign_suffixes(codes[known], distance[known])
        learnt = Decoder(build_trie(codes[known], order, np.flatnonzero(known)), coder.codebooks)
        coder = replace(coder, learnt=learnt, weight=weight)
    put(np.flatnonzero(~known), coder, None)
    return codes, distance


def _chunks(
    tables: Places, layout: Layout, bert: LakeStates | None, toward: F32 | None = None
) -> Iterator[Chunk]:
    """Features of tables with what else they are coded by, some hundred at a time."""
    at = 0
    for features in stream_features(tables, layout):
        part = slice(at, at + len(features))
        at = part.stop
        states = None if bert is None else bert.columns(tables[part])
        yield Chunk(features, states, None if toward is None else toward[part])


def _sample(
    tables: Places,
    layout: Layout,
    evidence: Evidence,
    bert: LakeStates | None,
    settings: BuildSettings,
    random: np.random.Generator,
) -> _Sample:
    """Evidence of a sample of tables that fits in memory, in the order of the catalogue."""
    widths = np.concatenate([np.diff(features.tables) for features in stream_features(tables, layout)])
    widths = np.minimum(widths, settings.fit_width)
    order = random.permutation(len(tables))
    order = order[widths[order] > 0]
    chosen = np.sort(order[np.cumsum(widths[order]) <= max(settings.fit_columns, widths.max(initial=0))])
    columns = np.empty((int(widths[chosen].sum()), WIDTH), np.float32)
    inputs = columns if bert is None else np.empty((len(columns), bert.model.width), np.float32)
    places = np.empty((len(columns), 2), np.uint16)
    numbers = np.empty(len(columns), np.float32)
    at = 0
    for chunk in _chunks(tables[chosen], layout, bert):
        features = chunk.features
        pairs = pairwise(features.tables.tolist())
        seen = [first + i for first, last in pairs for i in spread(last - first, settings.fit_width)]
        columns[at : at + len(seen)] = evidence.blocks(features)[seen]
        places[at : at + len(seen)] = features.places[seen]
        numbers[at : at + len(seen)] = features.numbers[seen]
        if chunk.columns is not None:
            inputs[at : at + len(seen)] = chunk.columns[seen]
        at += len(seen)
    starts = np.concatenate([[0], np.cumsum(widths[chosen])]).astype(np.int64)
    return _Sample(Columns(columns, starts, places, numbers), inputs, tables[chosen, 0].tolist())


def _switch(
    layout: Layout,
    catalogue: Catalogue,
    config: dict[str, Any],
    encoder: Encoder,
    named: Identifiers,
    trie: Trie,
    ids: NDArray[np.int32],
    distance: F32,
    taught: Taught | None,
    given: Given | None,
) -> None:
    """Write the next generation beside the current one, then switch."""
    generation = next_generation(layout)
    save_model(layout.model(generation), encoder, named.codebooks)
    trie.save(layout.trie(generation))
    if taught is not None and taught.report["shipped"]:
        taught.generator.save(layout.generator(generation))
    with catalogue.transaction():
        serial = catalogue.put_sids(ids, named.codes, named.suffixes, distance)
        catalogue.put_labels(given.truth if given else {})
        catalogue.purge()
        numbers = {"generation": generation, "snapshot": generation, "serial": serial, "fitted": serial}
        config = publish(layout, catalogue, {**config, **numbers})
    settle(layout, config)
    remove_other_chunks(layout, catalogue.chunks())
