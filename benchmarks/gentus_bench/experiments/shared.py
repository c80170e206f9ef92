"""One generator for several lakes: learnt from the labels of some, applied to a lake that it has not seen.

For each lake, the network, the codes and the generator are learnt from the train splits of all other lakes in
one index. Then the lake takes the place of their tables: the same codebooks give its identifiers. Beside it
stand the closed form of the lake's own tables, which no label has shaped, and TF-IDF.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import gentus
from gentus.generator.decoding import decode
from gentus.index.index import Index
from gentus.index.ranker import LEAST_BEAM
from gentus.lake import read
from gentus.metrics import score
from gentus.retrieval.generate import Decoding
from gentus.settings import preset_settings
from gentus.table import Table as ReadTable
from gentus_bench.baselines import Retriever, TfidfChars
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality import BenchmarkData
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.lakes.truths import Truth, write_truth
from gentus_bench.ours import GenTUS
from gentus_bench.results import Document
from gentus_bench.table import Table

OWN, TFIDF = "closed form of the lake itself", "TF-IDF chars 3-4"
PRIOR, BOTH, ALONE = "other lakes: prior", "other lakes: prior + generator", "other lakes: generator"
Way = dict[str, list[str]]  # tables by query, best first


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the shared generator."""

    tables: int = 5000  # of each lake that is learnt from, at most: labelled queries with their answers
    minutes: float = 10  # of training each generator
    seed: int = 0


def run(request: Request, options: Options) -> Iterator[Document]:
    """Every lake, left out in turn."""
    lakes, measured = list(request.benchmarks()), []
    with tempfile.TemporaryDirectory(prefix="gentus-shared-") as scratch:
        for left_out in lakes:
            others = [one for one in lakes if one.labels and one.lake != left_out.lake]
            if not others:
                raise ValueError(f"no lake but {left_out.name} has labels to learn from")
            what = {"lake": left_out.name, "k": left_out.k, **asdict(options)}
            what["learnt from"] = [one.name for one in others]
            measure = partial(_measured, left_out, others, options, request, Path(scratch))
            measured.append(request.results.measured(f"shared/{left_out.name}", what, measure))
    what = {"lakes": [one.name for one in lakes], **asdict(options)}
    yield request.results.combined("shared", what, {"lakes": measured})


def _measured(
    left_out: Benchmark, others: Sequence[Benchmark], options: Options, request: Request, scratch: Path
) -> Document:
    # Lakes with the same others share what was learnt.
    folder = scratch / "-".join(one.name for one in others)
    if not folder.exists():
        _learn(others, options, request, folder)
    with gentus.open(folder / "index") as learnt:
        report = learnt.config.report.generator
    assert report is not None
    moved = folder / f"index-{left_out.name}"
    shutil.copytree(folder / "index", moved)
    data = BenchmarkData(left_out)
    queries = {name: read(source) for name, source in data.queries.items()}
    ways: dict[str, Way] = {}
    with gentus.open(moved) as index:
        index.sync(left_out.lake, force=True, progress=request.progress)
        weight = report.weight or 0.0
        for name, given in ((PRIOR, 0.0), (BOTH, weight), (ALONE, None)):
            ways[name] = _generated(index, queries, left_out.k, given)
    own = scratch / "own" / left_out.name
    systems: dict[str, Retriever] = {
        OWN: GenTUS(left_out.lake, own, order="generated", seed=options.seed, names=False),
        TFIDF: TfidfChars(),
    }
    for name, system in systems.items():
        system.fit(data.tables.values())
        ways[name] = {query: system.search(table, left_out.k + 1) for query, table in queries.items()}
    truth = {name: left_out.truth[name] for name in queries}
    return {
        "map": {name: score(way, truth, left_out.k).map for name, way in ways.items()},
        "queries": len(truth),
        "generator": {"weight": weight, "chosen": report.chosen, "validation": report.validation_map},
    }


def _learn(others: Sequence[Benchmark], options: Options, request: Request, folder: Path) -> None:
    """One index of several lakes, with a generator trained on their labels."""
    truth: Truth = {}
    for one in others:
        for query, tables in _some(one.labels or {}, options).items():
            for name in (query, *tables):
                place = folder / "lake" / one.name / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(one.lake / name, place)
            truth[f"{one.name}/{query}"] = [f"{one.name}/{name}" for name in tables]
    settings = preset_settings("trained", options.seed)
    assert settings.generation is not None
    settings = replace(settings, names=False, generation=replace(settings.generation, always=True))
    gentus.build(
        folder / "lake",
        folder / "index",
        write_truth(truth, folder / "labels.csv"),
        settings=settings,
        time_budget=60 * options.minutes,
        progress=request.progress,
    ).close()


def _some(labels: Mapping[str, Sequence[str]], options: Options) -> Truth:
    """Labelled queries with all of their answers, drawn until they are so many tables."""
    queries = sorted(labels)
    chosen: Truth = {}
    seen = set[str]()
    for at in np.random.default_rng(options.seed).permutation(len(queries)).tolist():
        wanted = {queries[at], *labels[queries[at]]}
        if len(seen | wanted) <= options.tables:
            seen |= wanted
            chosen[queries[at]] = list(labels[queries[at]])
    return chosen


def _generated(index: Index, queries: Mapping[str, ReadTable], k: int, weight: float | None) -> Way:
    """The tables of every query by prior and generator; without a weight the generator ranks alone."""
    generator, shipped = index.generator, index.config.generator
    assert generator is not None
    assert shipped is not None
    encoder, decoder = index._current().encoder, index.decoder
    how = Decoding(max(2 * k, LEAST_BEAM), weight, shipped.softmax)
    names = {table: name for name, table in index.catalogue.tables.ids(index.tables()).items()}
    found: Way = {}
    for name, table in queries.items():
        columns, latent = encoder.read(table)
        session = generator.session(table, columns, latent)
        (ranked,) = decode(session, latent[None], decoder.trie, decoder.codebooks, how)
        found[name] = [names[one] for one in decoder.trie.table(ranked.rows).tolist()]
    return found


def tables(document: Document) -> list[Table]:
    """A row per lake that was left out."""
    ways = (TFIDF, OWN, PRIOR, BOTH, ALONE)
    rows = [
        [
            f"{one['what']['lake']}, k = {one['what']['k']}",
            *(f"{one['map'][way]:.4f}" for way in ways),
            f"{one['generator']['weight']:g}",
        ]
        for one in document["lakes"]
    ]
    what = document["what"]
    note = (
        f"MAP@k on dev queries. Of each other lake with labels, up to {what['tables']:,} tables are learnt"
        f" from, with {what['minutes']:g} minutes of training. The weight of the generator is chosen by"
        " validation queries of the lakes that it is learnt from."
    )
    return [Table(["lake left out", *ways, "weight"], rows, note=note)]
