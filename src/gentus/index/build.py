"""Building an index: `fit` is the order of the stages, from the tables of a lake to a published index.

ingest -> vectorise -> neighbours -> embed -> quantise -> assign identifiers -> publish. With labels a ranking
is learnt in the end. The stages are in `gentus.index.stages`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from gentus.extras import require_training
from gentus.index.engine import EngineName, LocalEngine, open_engine
from gentus.index.folder import (
    IndexFolderError,
    Layout,
    indexed_lake,
    is_ours,
    new_folder,
    refuse_other_format,
)
from gentus.index.index import Index
from gentus.index.ingest import Ingest, lake_tables
from gentus.index.stages import (
    LabelFile,
    Run,
    assign_identifiers,
    draw_sample,
    embed,
    join_blocks,
    link_neighbours,
    publish_index,
    quantise,
    vectorise,
)
from gentus.index.stages_ranked import learn_ranking, weigh_positions
from gentus.index.writer import writer
from gentus.lake import LakeNotFoundError, Location, Remote, Source, as_location, exists, scan
from gentus.lake.rules import load_rules
from gentus.metrics import load_groundtruth
from gentus.paper.settings import PaperSettings
from gentus.progress import Progress
from gentus.settings import BuildSettings, Preset, refuse_unknown
from gentus.shell import command
from gentus.table import Header, text_choices


class RefitOptions(TypedDict, total=False):
    """Options of `refit`."""

    time_budget: float | None  # seconds to train the paper's generator
    workers: int | None  # processes; by default one per core
    progress: Progress | None


class BuildOptions(RefitOptions, total=False):
    """Options of `build`."""

    preset: Preset | None  # by default `fast`; `paper` needs labels
    paper: PaperSettings | None  # of the paper's generator, which ranks then
    settings: BuildSettings | None
    exclude: Sequence[str]  # patterns of files that are left out, besides those of the lake's .gentusignore
    header: Header | None  # of delimited text that no rule of the lake names; default: auto
    encoding: str | None  # the same
    names: bool | None  # whether names of columns count, as far as they agree with cells
    seed: int | None
    force: bool  # replace an index of another lake
    queries: str | os.PathLike[str] | None  # the folder of labelled queries that are not in the lake
    engine: EngineName  # `ray`: on the Ray cluster at the address, by default one on this machine
    address: str | None


def build(
    lake: str | os.PathLike[str] | Remote,
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    **options: Unpack[BuildOptions],
) -> Index:
    """Index a lake, from its own tables alone or, better, with labels.

    Interrupted, it goes on where it stopped when called again; files that did not change are not read again.
    """
    refuse_unknown(options, BuildOptions)
    settings, paper = _settings(options), options.get("paper")
    if options.get("preset") == "paper" and paper is None:
        paper = PaperSettings()
    if paper is not None:
        if labels is None:
            raise ValueError("The preset paper learns from labels: give labels.")
        paper = _paper(paper, options.get("time_budget"))
    location, layout = _checked(lake, index, options.get("force", False))
    text = {"header": settings.header, "encoding": settings.encoding}
    rules, given = load_rules(location, text, settings.exclude), None
    if labels is not None:
        names = (item.name for item in lake_tables(location, layout, rules) if isinstance(item, Source))
        given = _read_labels(labels, names, location, options.get("queries"))
    elif options.get("queries") is not None:
        raise ValueError("`queries` are those that labels name; there are no labels")
    progress = options.get("progress") or Progress()
    with (
        writer(layout, create=True) as catalogue,
        open_engine(options.get("engine", "local"), options.get("address"), options.get("workers")) as engine,
    ):
        Ingest(layout, catalogue, settings.limits, engine, progress).read_lake(location, rules)
        fit(Run(location, layout, catalogue, settings, engine, progress), given, paper)
    return Index(layout.root)


def fit(run: Run, labels: LabelFile | None, paper: PaperSettings | None) -> None:
    """The stages of a build once the tables are read; each takes what those before it returned."""
    sample = draw_sample(run)
    tables = vectorise(sample, run)
    graph = link_neighbours(tables, run)
    if labels is not None and paper is None:
        graph = weigh_positions(labels, tables, graph, sample, run)
    vectors = join_blocks(tables, graph)
    del tables  # columns and blocks are most of the memory
    embedding = embed(vectors, graph, run)
    del vectors
    model = quantise(embedding, sample, run)
    assigned = assign_identifiers(model, sample, run)
    if labels is None:
        publish_index(run, sample, model, assigned, None)
    elif paper is None:
        publish_index(run, sample, model, assigned, learn_ranking(labels, model, assigned, run))
    else:
        from gentus.index.stages_paper import delete_checkpoints, learn_generator

        learnt, written, supervised = learn_generator(labels, model, assigned, sample, run, paper)
        publish_index(run, sample, model, written, supervised, learnt)
        delete_checkpoints(run.layout.cache)


def refit(
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    **options: Unpack[RefitOptions],
) -> Index:
    """Learn codes anew from the tables there are now, with the settings of the build.

    Labels are those of the build unless others are given. Files are only read where the cache has lost them.
    """
    refuse_unknown(options, RefitOptions)
    layout, workers = Layout(Path(index)), options.get("workers")
    progress = options.get("progress") or Progress()
    with writer(layout) as catalogue:
        config = catalogue.config()
        assert config is not None
        settings, location, given = config.settings, as_location(config.lake), None
        if labels is not None:
            given = _read_labels(labels, catalogue.tables.ids(), location)
        elif config.report.labels:
            of, truth = config.report.labels, catalogue.labels()
            given = LabelFile(of.file, truth, of.queries, _outside(of.queries, truth))
        paper = None if config.paper is None else _paper(config.paper, options.get("time_budget"))
        engine = LocalEngine() if workers is None else LocalEngine(workers)
        Ingest(layout, catalogue, settings.limits, engine, progress).restore_features()
        fit(Run(location, layout, catalogue, settings, engine, progress), given, paper)
    return Index(layout.root)


def _settings(options: BuildOptions) -> BuildSettings:
    """The settings that options come to."""
    settings = options.get("settings") or BuildSettings()
    names, seed = options.get("names"), options.get("seed")
    return replace(
        settings,
        seed=settings.seed if seed is None else seed,
        names=settings.names if names is None else names,
        **text_choices(options),
        exclude=tuple(options.get("exclude") or settings.exclude),
    )


def _paper(settings: PaperSettings, time_budget: float | None) -> PaperSettings:
    """The settings of the paper's generator, if it can be trained here."""
    require_training("The paper's generator")
    if time_budget is None:
        return settings
    return replace(settings, train=replace(settings.train, minutes=time_budget / 60))


def _checked(
    lake: str | os.PathLike[str] | Remote, index: str | os.PathLike[str], force: bool
) -> tuple[Location, Layout]:
    location, layout = as_location(lake), Layout(Path(index))
    if not exists(location):
        raise LakeNotFoundError(
            f"There is no lake at {location}. Give a folder of tables, or a database file."
        )
    if isinstance(location, Path) and is_ours(Layout(location)):
        raise IndexFolderError(
            f"{location} is an index, not a lake. To follow its lake: {command('sync', location)}"
        )
    if _holds_data(layout, location):
        same = layout.root.resolve() == location.resolve()
        raise IndexFolderError(
            f"{layout.root} is {'the lake itself' if same else 'a folder of other files'}. Give the index a "
            f"folder of its own: {command('index', location, '-o', new_folder(layout.root))}"
        )
    if not force:
        refuse_other_format(layout, older=False)
        _refuse_other_lake(layout, str(location.resolve()))
    return location, layout


def _holds_data(layout: Layout, lake: Location) -> bool:
    """Whether a folder has files of somebody else, among which an index does not belong; but for the lake."""
    if not layout.root.is_dir() or is_ours(layout):
        return False
    entries = (path for path in layout.root.resolve().iterdir())
    others = (path for path in entries if not path.name.startswith((".", "write.lock")))
    return any(not lake.resolve().is_relative_to(path) for path in others)


def _refuse_other_lake(layout: Layout, lake: str) -> None:
    """An index of another lake would lose all tables of that lake."""
    indexed = indexed_lake(layout)
    if indexed is not None and indexed != lake:
        raise IndexFolderError(
            f"{layout.root} is the index of {indexed}. --force replaces it by an index of {lake}; "
            f"give another folder to keep both. If the lake has moved: {command('sync', layout.root, lake)}"
        )


def _read_labels(
    file: str | os.PathLike[str],
    names: Iterable[str],
    lake: Location,
    queries: str | os.PathLike[str] | None = None,
) -> LabelFile:
    """Labels, if one of their pairs at least can be learnt from. The first such pair is enough."""
    truth = load_groundtruth(file)
    folder = None if queries is None else str(Path(queries).resolve())
    given = LabelFile(str(Path(file).resolve()), truth, folder, _outside(folder, truth))
    asked: dict[str, set[str]] = {}  # the queries of a candidate
    for query, candidates in truth.items():
        for candidate in candidates:
            asked.setdefault(candidate, set()).add(query)
    first, found = None, set[str]()
    for name in names:
        first = first or name
        if name in truth or name in asked:
            found.add(name)
            of = asked.get(name, set())
            if of & found or of & given.queries.keys() or found.intersection(truth.get(name, ())):
                return given
    if first is None:
        return given  # an empty lake: the build says so
    pairs = f"{file}: none of its {sum(map(len, truth.values())):,} pairs"
    if found & asked.keys():
        such = f"their queries, such as {min(truth)}, are"
        where = f"neither in {lake} nor in {folder}" if folder else f"not in {lake}"
        give = "" if folder else " If they are in another folder, give it: --queries FOLDER."
        raise ValueError(f"{pairs} can be learnt from: candidates are in {lake}, {such} {where}.{give}")
    example = f" They name {min(asked)}; the lake has {first}." if asked else ""
    raise ValueError(f"{pairs} names a candidate in {lake}.{example}")


def _outside(folder: str | None, truth: Mapping[str, Sequence[str]]) -> dict[str, Source]:
    """The files of labelled queries in a folder beside the lake."""
    if folder is None:
        return {}
    if not Path(folder).is_dir():
        raise LakeNotFoundError(
            f"There is no folder {folder}, which the queries of the labels are read from."
        )
    return {item.name: item for item in scan(Path(folder)) if isinstance(item, Source) and item.name in truth}
