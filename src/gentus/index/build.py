"""Building an index: read the lake, learn its latent space and codes, lay out the tree.

Without labels everything is closed form, here from top to bottom:
read -> evidence -> blocks -> neighbours -> latent space -> codes -> identifiers -> publish.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gentus import __version__
from gentus.embed.closed_form import learn_space
from gentus.embed.smoothing import choose_anchors, smooth, smooth_by_fit
from gentus.features.evidence import Encoded, Evidence, learn_blocks
from gentus.features.extract import concatenate
from gentus.identifiers.codebooks import codebook_statistics, held_out_error, learn_codebooks
from gentus.identifiers.semantic_ids import NON_SEMANTIC, make_identifiers
from gentus.index.catalogue import Catalogue
from gentus.index.config import FORMAT, FitReport, IndexConfig, ShippedGenerator
from gentus.index.engine import Engine, EngineName, LocalEngine, open_engine
from gentus.index.feature_cache import delete_other_chunks, stream_features
from gentus.index.folder import IndexFolderError, Layout, next_generation
from gentus.index.id_assigner import Chunk, IdAssigner
from gentus.index.index import Index
from gentus.index.ingest import Ingest
from gentus.index.model_file import save_model
from gentus.index.values import Given, Learnt, Sampled, narrowed
from gentus.index.writer import finalise, publish, writer
from gentus.lake import Location, Remote, as_location, exists
from gentus.metrics import load_groundtruth
from gentus.neighbours.graph import find_neighbours, mutual_neighbours
from gentus.progress import Progress
from gentus.search.trie import build_trie
from gentus.settings import BuildSettings, GenerationSettings, Preset, preset_settings
from gentus.threads import one_blas_thread

if TYPE_CHECKING:
    from gentus.generator.distributed import Workers

FEW = 20  # tables, of which a graph says less than their blocks do
__all__ = ["BuildSettings", "Preset", "build", "preset_settings", "refit"]


def build(
    lake: str | os.PathLike[str] | Remote,
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    preset: Preset | None = None,
    settings: BuildSettings | None = None,
    names: bool | None = None,
    seed: int | None = None,
    workers: int | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    time_budget: float | None = None,
    progress: Progress | None = None,
) -> Index:
    """Index a lake, from its own tables alone or, better, with labels.

    With labels a generator is trained as well, for at most `time_budget` seconds; `preset` says otherwise.
    Names of columns count as far as they agree with cells, unless `names` is false.
    Interrupted, it goes on where it stopped when called again; files that did not change are not read again.
    The `engine` ray does the work on the Ray cluster at the `address`, by default one on this machine.
    Of several processes that were launched together, the first builds and the others help to train.
    """
    if labels is not None:
        require_training()
    if assisted():
        return Index(Path(index))
    settings = settings or preset_settings(preset or ("fast" if labels is None else "trained"))
    settings = replace(
        settings,
        seed=settings.seed if seed is None else seed,
        names=settings.names if names is None else names,
    )
    if labels is None:
        _refuse_without_labels(settings)
    root, layout = as_location(lake), Layout(Path(index))
    progress = progress or Progress()
    if not exists(root):
        raise FileNotFoundError(f"There is no lake at {root}. Give a folder of tables, or a database file.")
    if layout.root.resolve() == root.resolve():
        raise IndexFolderError(f"{layout.root} is the lake itself. Give the index a folder of its own.")
    given = None
    if labels is not None:
        given = Given(str(Path(labels).resolve()), load_groundtruth(labels))
    with (
        _team(given) as team,
        writer(layout, create=True) as catalogue,
        open_engine(engine, address, workers) as working,
    ):
        Ingest(layout, catalogue, settings.limits, working, progress).read_lake(root)
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
    if labels is not None:
        require_training()
    if assisted():
        return Index(Path(index))
    layout = Layout(Path(index))
    progress = progress or Progress()
    truth = load_groundtruth(labels) if labels is not None else None
    with writer(layout) as catalogue:
        config = catalogue.config()
        assert config is not None
        # The sizes of its input are for the fit to find out again.
        settings = replace(config.settings, encoder=replace(config.settings.encoder, places=0, inputs=0))
        given = None if labels is None or truth is None else Given(str(Path(labels).resolve()), truth)
        if given is None and config.report.labels:
            require_training()
            given = Given(config.report.labels.file, catalogue.labels())
        if given is not None and settings.generation is None:
            settings = replace(settings, generation=GenerationSettings())
        engine = LocalEngine() if workers is None else LocalEngine(workers)
        Ingest(layout, catalogue, settings.limits, engine, progress).restore_features()
        root = as_location(config.lake)
        with _team(given) as team:
            fit(root, layout, catalogue, settings, given, time_budget, engine, team, progress)
    return Index(layout.root)


def require_training() -> None:
    """Refuse labels where what learns from them is not installed."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        raise ModuleNotFoundError(
            f"Learning from labels needs {' and '.join(missing)}: pip install 'gentus[train]'"
        )


def assisted() -> bool:
    """Help the first of several processes that were launched together to train; False if it is this one."""
    if os.environ.get("RANK", "0") == "0":
        return False
    from gentus.generator.distributed import serve_leader

    return serve_leader()


def _team(given: Given | None) -> AbstractContextManager[Workers | None]:
    """The other processes that were launched together with this one."""
    if os.environ.get("WORLD_SIZE", "1") == "1" and given is None:
        return nullcontext()
    from gentus.generator.distributed import launched_workers

    return launched_workers()


def _refuse_without_labels(settings: BuildSettings) -> None:
    """Only the closed form learns from a lake alone."""
    if settings.identifiers in NON_SEMANTIC:
        raise ValueError(
            f"{settings.identifiers} identifiers say nothing of a table, so only a generator finds them: "
            "give labels."
        )
    if settings.generation is not None or settings.bert is not None or not settings.teacher_weight:
        raise ValueError("BERT, T5 and the presets trained and paper learn from labels: give labels.")


def fit(
    root: Location,
    layout: Layout,
    catalogue: Catalogue,
    settings: BuildSettings,
    given: Given | None,
    time_budget: float | None,
    engine: Engine,
    team: Workers | None,
    progress: Progress,
) -> None:
    """Learn encoder and codes, give every table its identifier, and switch over."""
    sampled = Sampled.draw(catalogue, settings)
    if not len(sampled.tables):
        skipped = catalogue.tables.skipped()
        why = f" ({len(skipped)} skipped, such as {skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        hint = f" See why: gentus info {layout.root} --skipped" if skipped else ""
        raise IndexFolderError(f"No table could be read in {root}{why}.{hint}")
    if given is None:
        learnt = learn_from_lake(sampled, layout, settings, engine, progress)
    else:
        from gentus.index.build_labelled import learn_with_labels

        learnt = learn_with_labels(
            sampled, given, layout, catalogue, settings, time_budget, engine, team, progress
        )
    _switch(root, layout, catalogue, learnt, sampled, given)


def learn_from_lake(
    sampled: Sampled, layout: Layout, settings: BuildSettings, engine: Engine, progress: Progress
) -> Learnt:
    """The latent space and codes of a lake without labels, and the identifiers of all its tables."""
    tables, seed = sampled.tables, settings.seed
    chosen, rest = tables[sampled.chosen], np.delete(np.arange(len(tables)), sampled.chosen)
    with one_blas_thread():
        with progress.stage("Learning vocabularies", None):
            head = concatenate(list(stream_features(tables[sampled.head], layout)))
            evidence = Evidence.fit(head, len(tables), settings.names, seed)
            blocks = learn_blocks(evidence, head, settings.space)
        with progress.stage("Encoding tables", len(chosen)) as tick:
            parts = []
            for part in engine.map(blocks.encode, stream_features(chosen, layout)):
                parts.append(part)
                tick(len(part.blocks))
            encoded = _joined(parts, settings.fit_width)
            del parts
        filled = np.flatnonzero(np.diff(encoded.starts))  # only tables with columns have neighbours
        with progress.stage("Finding neighbours", len(filled)) as tick:
            several = len(filled) >= FEW
            starts = np.append(encoded.starts[filled], encoded.starts[-1])
            graph = (
                find_neighbours(encoded.blocks[filled], encoded.columns, starts, settings.graph, tick)
                if several
                else None
            )
        shape = settings.quantizer.for_lake(len(tables)).shape(len(chosen))
        with progress.stage("Learning codes", shape[0], "levels") as tick:
            vectors = encoded.vectors(graph.order if graph else 0.0)
            del encoded
            space = learn_space(blocks, vectors[filled], graph, settings.space)
            latents = space.latents(vectors)
            del vectors
            placed = latents.copy()
            if graph is not None:
                mutual = mutual_neighbours(graph.weights, settings.graph.reciprocal)
                placed[filled] = smooth(latents[filled], mutual, settings.smoothing)
                space = replace(space, anchors=choose_anchors(placed[filled]))
            codebooks = learn_codebooks(placed, shape, settings.quantizer.rounds, seed, tick)
            unseen = held_out_error(latents, placed, shape, seed, smooth_by_fit if graph else None)
        codes = np.zeros((len(tables), codebooks.levels), np.uint8)
        distance = np.zeros(len(tables), np.float32)
        codes[sampled.chosen] = codebooks.encode(placed)
        distance[sampled.chosen] = codebooks.error(placed, codes[sampled.chosen])
        if len(rest):
            code = IdAssigner.of_fit(space, codebooks).codes
            with progress.stage("Coding the other tables", len(rest)) as tick:
                at = 0
                for some, far in engine.map(code, map(Chunk, stream_features(tables[rest], layout))):
                    places = rest[at : at + len(some)]
                    codes[places], distance[places] = some, far
                    at += len(some)
                    tick(len(some))
    named = make_identifiers(
        settings.identifiers, codes, distance, codebooks, np.random.default_rng(settings.seed)
    )
    shown, ids = named.reachable, tables[:, 0].astype(np.int32)
    trie = build_trie(named.codes[shown], named.suffixes[shown], ids[shown])
    return Learnt(space, named, codes, distance, trie, unseen, settings, settings.feedback)


def _joined(parts: list[Encoded], most: int) -> Encoded:
    """Encoded tables as one, with at most so many columns of each to be compared."""
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    columns = np.concatenate([part.columns[narrowed(part.starts, most)] for part in parts])
    starts = np.concatenate([[0], np.cumsum(np.minimum(counts, most))])
    blocks = np.concatenate([part.blocks for part in parts])
    return Encoded(blocks, np.concatenate([part.ordered for part in parts]), columns, starts)


def _switch(
    root: Location,
    layout: Layout,
    catalogue: Catalogue,
    learnt: Learnt,
    sampled: Sampled,
    given: Given | None,
) -> None:
    """Write the next generation beside the current one, then switch."""
    named = learnt.named
    number = next_generation(layout)
    save_model(layout.model(number), learnt.encoder, named.codebooks)
    learnt.trie.save(layout.trie(number))
    if learnt.save_generator is not None:
        learnt.save_generator(layout.generator(number))
    ids = sampled.tables[:, 0].astype(np.int32)
    report = _report(learnt, len(sampled.tables))
    trained, generation = report.generator, learnt.settings.generation
    generator = None
    if trained is not None and trained.shipped and generation is not None:
        generator = ShippedGenerator(trained.weight, generation.softmax)
    with catalogue.transaction():
        sequence = catalogue.identifiers.replace_all(ids, named.codes, named.suffixes, learnt.distance)
        catalogue.put_labels(given.truth if given else {})
        catalogue.tables.purge()
        config = IndexConfig(
            format=FORMAT,
            version=__version__,
            config_version=0,  # `publish` sets it, and the files
            generation=number,
            tree=number,
            change_sequence=sequence,
            fit_sequence=sequence,
            lake=str(root.resolve()),
            settings=learnt.settings,
            levels=named.codebooks.levels,
            codebook_size=named.codebooks.size,
            feedback=learnt.feedback,
            generator=generator,
            files={},
            report=report,
        )
        config = publish(layout, catalogue, config)
    finalise(layout, config)
    delete_other_chunks(layout, catalogue.chunks.numbers())


def _report(learnt: Learnt, tables: int) -> FitReport:
    mean, p95 = learnt.unseen or (None, None)
    return FitReport(
        tables=tables,
        vocabularies=learnt.encoder.evidence.report(),
        names=learnt.encoder.name_trust,
        order=learnt.encoder.order,
        codebook_statistics=codebook_statistics(learnt.codes, learnt.named.codebooks.size, learnt.distance),
        held_out_error=mean,
        held_out_error_p95=p95,
        labels=learnt.labels,
        generator=learnt.generator,
    )
