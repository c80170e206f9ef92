"""The paper's ablation of identifiers: its generator alone, trained for equal minutes on each kind of them.

How MAP on held-out queries rises is kept, so that one can see whether a kind would have gone on to rise.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

import gentus
from gentus.arrays import F32, I64
from gentus.features.extract import featurize_all
from gentus.index.stages_paper import some_cells
from gentus.lake import Source, read, scan
from gentus.metrics import score
from gentus.paper.decode import beam_width, generate
from gentus.paper.offline import Lake, encode_tables, latents, offline
from gentus.paper.settings import Kind as PaperKind
from gentus.paper.settings import PaperSettings, TableVectors
from gentus.paper.train import Progress
from gentus.retrieval.retriever import ClosedFormRetriever
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality import BenchmarkData, retriever_for
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.ours import GenTUS
from gentus_bench.paper_system import encoder_name, settings_for
from gentus_bench.plots import figure as drawing
from gentus_bench.plots import legend, lines
from gentus_bench.published import CONDITIONS, figures
from gentus_bench.results import Document, Results
from gentus_bench.sources import code_digest
from gentus_bench.table import Table, figure

log = logging.getLogger("gentus_bench")

Kind = Literal["unionability-aware", "ordinary RQ", "random", "atomic", "no suffix"]
KINDS: tuple[Kind, ...] = ("unionability-aware", "ordinary RQ", "random", "atomic", "no suffix")
OURS = KINDS[0]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the ablation."""

    vectors: TableVectors = "bert"  # what table vectors come from: bert, closed-form
    kinds: tuple[Kind, ...] = KINDS


def of_kind(kind: Kind, settings: PaperSettings) -> PaperSettings:
    """Settings that give this kind of identifiers."""
    if kind == "ordinary RQ":
        return replace(settings, sid=replace(settings.sid, lambda_u=0.0))
    names: dict[Kind, PaperKind] = {"no suffix": "no-suffix", "random": "random", "atomic": "atomic"}
    return replace(settings, identifiers=names.get(kind, "semantic"))


def run(request: Request, options: Options) -> Iterator[Document]:
    """A training for each kind and seed, on every lake that has labels."""
    for benchmark in request.benchmarks():
        if not benchmark.labels:
            log.info("%s: no labels, so no identifiers are compared", benchmark.name)
            continue
        data, vectors = BenchmarkData(benchmark), f"{options.vectors}-{request.minutes:g}min"
        what = {
            **{**data.what, "k": benchmark.k, "vectors": options.vectors, "minutes": request.minutes},
            "encoder": encoder_name(options.vectors),
        }
        rows: dict[str, list[Document]] = {}
        for kind in options.kinds:
            for seed in range(request.seeds):
                log.info("%s: identifiers %s, seed %d", benchmark.name, kind, seed)
                name = f"identifiers/{benchmark.name}/{kind.replace(' ', '-')}-{vectors}-{seed}"
                one = {**what, "kind": kind, "seed": seed}
                measure = partial(_measure, kind, seed, data, options.vectors, request)
                rows.setdefault(kind, []).append(request.results.measured(name, one, measure))
        content = {"k": benchmark.k, "rows": [_over_seeds(kind, found) for kind, found in rows.items()]}
        what |= {"kinds": list(rows), "seeds": request.seeds}
        yield request.results.combined(f"identifiers-{benchmark.name}-{vectors}", what, content)


def _over_seeds(kind: str, rows: list[Document]) -> dict[str, Any]:
    """Means over seeds, and all curves."""
    found: dict[str, Any] = {"kind": kind, "seeds": len(rows), "curves": [row["curve"] for row in rows]}
    for key in ("map", "precision", "recall", "latents", "steps"):
        values = [row[key] for row in rows if row[key] is not None]
        found[key] = float(np.mean(values)) if values else None
    found["map_std"] = float(np.std([row["map"] for row in rows], ddof=1)) if len(rows) > 1 else None
    return found


def _measure(kind: Kind, seed: int, data: BenchmarkData, vectors: TableVectors, request: Request) -> Document:
    """Train the generator on one kind of identifiers, and rank the queries by it alone."""
    benchmark, results = data.benchmark, request.results
    settings = of_kind(kind, settings_for(vectors, seed))
    settings = replace(settings, train=replace(settings.train, minutes=request.minutes))
    given = labelled_lake(data)
    e = table_vectors(given, data, settings, results)
    key = sha256(f"{benchmark.digest} {settings} {code_digest(__name__)}".encode()).hexdigest()[:12]
    folder = results.folder / "checkpoints" / f"identifiers-{benchmark.name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    noted = folder / "curve.jsonl"

    def report(progress: Progress) -> None:
        left, share = progress.seconds_left / 60, 100 * progress.share
        log.info("%s: %.0f %%, about %.0f min left, MAP %.3f", kind, share, left, progress.map)
        with noted.open("a", encoding="utf-8") as file:
            file.write(json.dumps(progress._asdict()) + "\n")

    made = offline(given, settings, folder, e, report)
    # A training that was stopped may report a step again.
    curve = {one["step"]: one for one in map(json.loads, noted.read_text("utf-8").splitlines())}
    names = [table.name for table in given.tables]
    queries = list(data.queries)
    sentences = [made.serializer.ser(read(data.queries[query])) for query in queries]
    found = generate(made.g_theta, sentences, made.trie, beam_width(benchmark.k))
    ranked = {
        query: [names[at] for at in made.trie.table(one.rows)]
        for query, one in zip(queries, found, strict=True)
    }
    z = latents(made.q_omega, e)
    shutil.rmtree(folder)
    return {
        **score(ranked, benchmark.truth, benchmark.k).to_dict(),
        "latents": _map_of_latents(z, names[: given.N], benchmark),
        "held_out": made.map,
        "steps": max(curve),
        "curve": [
            {name: curve[step][name] for name in ("step", "seconds", "map", "ce")} for step in sorted(curve)
        ],
    }


def _map_of_latents(z: F32, names: list[str], benchmark: Benchmark) -> float | None:
    """MAP of the latents that identifiers come from, on the queries that lie in the lake; None: none does."""
    at = {name: number for number, name in enumerate(names)}
    queries = [query for query in benchmark.truth if query in at]
    if not queries:
        return None
    ranked = {
        query: [names[one] for one in np.argsort(-(z @ z[at[query]]), kind="stable")[: benchmark.k + 1]]
        for query in queries
    }
    return score(ranked, {query: benchmark.truth[query] for query in queries}, benchmark.k).map


def labelled_lake(data: BenchmarkData) -> Lake:
    """The tables of a lake, then labelled queries outside it, and the pairs that may be learnt from."""
    benchmark, labels = data.benchmark, data.benchmark.labels or {}
    found = scan(benchmark.queries) if benchmark.queries is not None else ()
    wanted = labels.keys() - data.tables.keys()
    outside = [item for item in found if isinstance(item, Source) and item.name in wanted]
    cells = some_cells(
        (source, data.tables[source.name]) for source in data.sources if source.name in data.tables
    )
    tables = [*cells, *some_cells((source, read(source)) for source in outside)]
    at = {table.name: number for number, table in enumerate(tables)}
    pairs = [(at[q], at[t]) for q, found in labels.items() for t in found if q in at and t in at and q != t]
    annotated: I64 = np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0)
    return Lake(tables, len(cells), annotated)


def table_vectors(lake: Lake, data: BenchmarkData, settings: PaperSettings, results: Results) -> F32:
    """(N, D) vectors of the tables, made once for all kinds."""
    benchmark = data.benchmark
    code = code_digest("gentus.paper.encoder" if settings.vectors == "bert" else GenTUS.__module__)
    key = f"{benchmark.digest} {settings.vectors} {settings.bert} {settings.encoder} {code}"
    path = results.folder / "vectors" / f"{benchmark.name}-{sha256(key.encode()).hexdigest()[:12]}.npy"
    if path.exists():
        return np.asarray(np.load(path, allow_pickle=False), np.float32)
    tables = lake.tables[: lake.N]
    if settings.vectors == "bert":
        e = encode_tables(tables, settings)[1]
    else:
        closed = retriever_for("gentus", benchmark, results, reuse="kept")
        assert isinstance(closed, GenTUS)
        closed.fit(())
        with gentus.open(closed.index) as index:
            retriever = index._snapshot.retriever
            assert isinstance(retriever, ClosedFormRetriever)
            e = retriever.encoder.encode(featurize_all(tables))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, e)
    return np.asarray(e, np.float32)


def tables(document: Document) -> list[Table]:
    """A row per kind, with the paper's gain over it where it is known."""
    what, k = document["what"], document["k"]
    rows = {row["kind"]: row for row in document["rows"]}
    gains = published_gains(what["lake"])
    cells = []
    for kind, row in rows.items():
        spread = "" if row["map_std"] is None else f" ± {row['map_std']:.3f}"
        gain = "" if OURS not in rows or kind == OURS else f"{rows[OURS]['map'] - row['map']:+.3f}"
        rises = " / ".join(rising(curve) for curve in row["curves"])
        figures_of = [figure(row[key], ".3f") for key in ("precision", "recall", "latents")]
        cells.append(
            [
                *(kind, f"{row['map']:.3f}{spread}", *figures_of),
                *(gain, gains.get(kind, ""), f"{row['steps']:,.0f}", rises),
            ]
        )
    columns = [
        *("identifiers", f"MAP@{k}", f"P@{k}", f"R@{k}", "MAP of the latents", "gain of unionability-aware"),
        *("the paper's gain (published)", "steps", "held-out MAP at 50, 75, 100 % of the time"),
    ]
    note = (
        f"The generator alone, {what['minutes']:g} minutes a kind, table vectors of {what['encoder']}, labels"
        " that name no query."
    )
    note += f" {CONDITIONS}"
    return [Table(columns, cells, what["lake"], note, {1: True}).filled()]


def published_gains(lake: str) -> dict[str, str]:
    """What the paper gains over each kind: on this lake, or the least and the most on its own."""
    every = figures(table="tab:abl-sid")
    here = [one for one in every if one["benchmark"] == lake] or every
    of = {kind: [one["value"] for one in here if one["setting"] == f"over {kind}"] for kind in KINDS}
    return {
        kind: " to ".join(f"{value:+.3f}" for value in sorted({min(found), max(found)}))
        for kind, found in of.items()
        if found
    }


def rising(curve: Sequence[Mapping[str, float]]) -> str:
    """Held-out MAP at half, three quarters and all of the training."""
    end = curve[-1]["seconds"]
    until = [[one["map"] for one in curve if one["seconds"] <= share * end] for share in (0.5, 0.75, 1.0)]
    return ", ".join(f"{found[-1]:.3f}" if found else "" for found in until)


def plot(document: Document, path: Path) -> None:
    """How MAP on held-out queries rises, by kind; the first seed of each."""
    curves = {row["kind"]: row["curves"][0] for row in document["rows"]}
    what = document["what"]
    with drawing(path, width=6.5) as (axes,):
        found = {
            f"GenTUS: {kind}" if kind == OURS else kind: (
                [one["seconds"] / 60 for one in curve],
                [one["map"] for one in curve],
            )
            for kind, curve in curves.items()
        }
        lines(axes, found, xlabel="minutes of training", ylabel="MAP@20 on held-out queries")
        axes.set(title=f"{what['lake']}, {what['encoder']}")
        axes.set_ylim(bottom=0)
        legend(axes)
