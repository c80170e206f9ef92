"""The main comparison: every system on every lake, in one process, each measured once and kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from gentus.lake import Skipped, Source, Unreadable, each, read, scan
from gentus.metrics import check, score
from gentus.runs import write_run
from gentus.table import Table
from gentus_bench import table
from gentus_bench.baselines import Reports, Retriever
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality_tables import compared, curves, lake_table, summary
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.methods import METHODS, SAME_INDEX, Lake, wanted
from gentus_bench.ours import GenTUS, IndexFolder
from gentus_bench.paper_system import MINUTES, VECTORS, with_minutes
from gentus_bench.plots import bars, grid, legend, lines, logarithmic
from gentus_bench.results import Document, Results
from gentus_bench.run_files import RunFile
from gentus_bench.sources import code_digest
from gentus_bench.timer import Times, conditions, in_turn

log = logging.getLogger("gentus_bench")

_SHARED = ("gentus.lake", "gentus.metrics", "gentus_bench.timer")  # what every row depends on
UNSEEDED = ("tfidf-words", "tfidf-chars", "tfidf-names", "minilm")
Reuse: TypeAlias = Literal["", "kept", "any"]  # an index that was built by the same code; or by any
DEPTH = 1000  # tables of a ranking that are kept, for curves over k and for smaller pools


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the main comparison."""

    names: bool = False  # also systems that see column names, where these are not the labels
    reuse: bool = False  # open indexes of GenTUS that lie in the results, as they are


class BenchmarkData:
    """The tables of a lake, read when the first method needs them, and its queries."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.seconds = 0.0  # that reading took

    @cached_property
    def sources(self) -> list[Source]:
        """Where the tables of the lake lie."""
        return [item for item in scan(self.benchmark.lake) if isinstance(item, Source)]

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table that can be read, by name."""
        started = time.perf_counter()
        found = {
            source.name: one for source, one in each(self.sources, _same) if not isinstance(one, Skipped)
        }
        self.seconds = time.perf_counter() - started
        return found

    @cached_property
    def queries(self) -> dict[str, Source]:
        """Where the queries of the ground truth lie, those that can be read."""
        wanted = self.benchmark.truth
        folder = self.benchmark.queries or self.benchmark.lake
        found = (item for item in scan(folder) if isinstance(item, Source) and item.name in wanted)
        return {item.name: item for item in found if _readable(item)}

    @property
    def what(self) -> dict[str, Any]:
        """The data that a figure is of."""
        return {"lake": self.benchmark.name, "data": self.benchmark.digest}

    def facts(self) -> dict[str, Any]:
        """Its size; of long tables only a sample of the rows is read."""
        tables = self.tables.values()
        return {
            "tables": len(tables),
            "columns": sum(len(one.columns) for one in tables),
            "rows_mean": float(np.mean([one.rows for one in tables])) if tables else 0.0,
            "queries": len(self.benchmark.truth),
            "pairs": sum(map(len, self.benchmark.truth.values())),
            "labels": sum(map(len, (self.benchmark.labels or {}).values())),
            "read_seconds": self.seconds,
            # what cannot be read cannot be found
            "groundtruth": check(self.benchmark.truth, self.tables, self.queries).summary(),
        }


def _same(found: Sequence[tuple[Source, Table]]) -> list[Table]:
    return [one for _, one in found]


def _readable(source: Source) -> bool:
    try:
        read(source)
    except Unreadable as error:
        log.warning("%s: %s", source.name, error.reason)
        return False
    return True


class Part(NamedTuple):
    """One system, learnt once."""

    method: str
    seed: int = 0
    minutes: float = MINUTES  # to train the paper's generator

    def name(self, lake: str) -> str:
        """Its document on a lake, with its rankings."""
        return f"quality/{lake}/{with_minutes(self.method, self.minutes)}-{self.seed}"


def kept_index(
    results: Results, benchmark: Benchmark, method: str, seed: int = 0, minutes: float = MINUTES
) -> IndexFolder:
    """The index of a method, which is `there` if it was built from the same data by the same code."""
    name = with_minutes(SAME_INDEX.get(method, method), minutes)
    folder = results.folder / "indexes" / f"{benchmark.name}-{name}-{seed}"
    return IndexFolder(folder, f"{benchmark.digest} {code_digest(GenTUS.__module__)}")


def retriever_for(
    method: str,
    benchmark: Benchmark,
    results: Results,
    seed: int = 0,
    reuse: Reuse = "",
    minutes: float = MINUTES,
) -> Retriever | None:
    """A system that is not fitted yet; None if it cannot be had on that lake."""
    _, labels = benchmark.write(results.folder / "truth")
    annotated = benchmark.write_annotated(results.folder / "truth")
    kept = kept_index(results, benchmark, method, seed, minutes)
    index = replace(kept, reuse=reuse != "", any=reuse == "any")
    of = (seed, benchmark.queries, benchmark.named, minutes)
    found = METHODS[method](Lake(benchmark.lake, labels, annotated, index, *of))
    if found is None:
        log.info("%s: no labels, or names that must not be seen, so no %s", benchmark.name, method)
    return found


@dataclass(frozen=True, slots=True)
class Systems:
    """What is compared: methods, with several seeds where they have one, and runs of others."""

    methods: Sequence[str]
    seeds: int = 1
    runs: Mapping[str, str] = field(default_factory=dict)  # files or folders by name
    reuse: Reuse = ""
    minutes: float = MINUTES  # to train the paper's generator

    def retriever(self, method: str, seed: int, benchmark: Benchmark, results: Results) -> Retriever | None:
        """One of them, not fitted yet."""
        return retriever_for(method, benchmark, results, seed, self.reuse, self.minutes)


def run(request: Request, options: Options) -> Iterator[Document]:
    """Fit, search and score systems on lakes; a document per lake, which has no rankings."""
    alone = bool(request.runs) and not request.methods  # beside what the results have
    methods = [] if alone else wanted(request.methods, options.names)
    for benchmark in request.benchmarks():
        reuse: Reuse = "any" if options.reuse else ""
        systems = Systems(methods, request.seeds, request.runs, reuse, request.minutes)
        yield compare(benchmark, systems, request.results)


def compare(benchmark: Benchmark, systems: Systems, results: Results) -> Document:
    """Measure systems on one lake, and show those that are kept of the same data and code beside them.

    One that fails gets a row that says so, and the others go on.
    """
    data = BenchmarkData(benchmark)
    rows = _kept(benchmark, data, systems, results)
    for method in systems.methods:
        for seed in range(1 if method in UNSEEDED else systems.seeds):
            retriever = systems.retriever(method, seed, benchmark, results)
            if retriever is None:
                break
            log.info("%s: %s, seed %d", benchmark.name, retriever.name, seed)
            rows[method, seed] = _measured(retriever, Part(method, seed, systems.minutes), data, results)
    for name, file in systems.runs.items():
        found = RunFile.of(name, Path(file), benchmark.name)
        rows[f"run {name}", 0] = _measured(found, Part(f"run {name}"), data, results)
    facts = results.measured(f"quality/{benchmark.name}/lake", data.what, data.facts, _SHARED)
    ks = sorted({max(1, round(benchmark.k * share)) for share in (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2)})
    order = [*METHODS, *(method for method, _ in rows if method not in METHODS)]
    several = sorted(rows.values(), key=lambda row: order.index(row["what"]["method"]))
    content = {
        "k": benchmark.k,
        "lake": {key: facts[key] for key in data.facts()},
        "labels": list(benchmark.notes),
        "rows": compared(summary(several), several, benchmark.truth, benchmark.k),
        "ks": ks,
        "curves": {
            row["title"]: curves(row["rankings"], benchmark.truth, ks)
            for row in several
            if row["what"]["seed"] == 0 and row.get("rankings")
        },
    }
    methods = list(dict.fromkeys(row["what"]["method"] for row in several))
    what = {**data.what, "methods": methods, "seeds": systems.seeds, "k": benchmark.k}
    if VECTORS.keys() & set(methods):
        what["minutes"] = systems.minutes
    return results.combined(f"quality-{benchmark.name}", what, content)


def _key(data: BenchmarkData, retriever: Retriever, part: Part) -> tuple[Document, list[str]]:
    """What a row depends on: the data, the method, and the modules that it consists of."""
    what = {**data.what, "method": part.method, "seed": part.seed, "k": data.benchmark.k}
    if part.method in VECTORS:
        what["minutes"] = part.minutes
    if isinstance(retriever, RunFile):
        what["run"] = retriever.digest
    return what, [type(retriever).__module__, *_SHARED]


def _measured(retriever: Retriever, part: Part, data: BenchmarkData, results: Results) -> Document:
    """A row, measured or kept, with its ranking as a TREC run and as CSV beside it."""
    what, modules = _key(data, retriever, part)
    name = part.name(data.benchmark.name)
    row = results.measured(name, what, _measuring(retriever, data), modules)
    for ending in ("run", "csv") if "error" not in row else ():
        write_run(results.folder / f"{name}.{ending}", row["answers"], row["title"])
    return row


def _kept(
    benchmark: Benchmark, data: BenchmarkData, systems: Systems, results: Results
) -> dict[tuple[str, int], Document]:
    """Rows of other methods and seeds that the results have of the same data and code."""
    rows: dict[tuple[str, int], Document] = {}
    methods = {with_minutes(method, systems.minutes): method for method in METHODS}
    for path in sorted((results.folder / "quality" / benchmark.name).glob("*-*.json")):
        shown, _, seed = path.stem.rpartition("-")
        if shown not in methods or not seed.isdigit():
            continue
        part = Part(methods[shown], int(seed), systems.minutes)
        retriever = systems.retriever(part.method, part.seed, benchmark, results)
        if retriever is not None:
            what, modules = _key(data, retriever, part)
            row = results.kept(part.name(benchmark.name), results.key(what, modules))
            if row is not None:
                rows[part.method, part.seed] = row
            else:
                log.info("%s: left out, it was measured on other data or by other code", path.stem)
    return rows


def _measuring(retriever: Retriever, data: BenchmarkData) -> Callable[[], Document]:
    def measure() -> Document:
        try:
            return {"title": retriever.name, **_measure(retriever, data)}
        except Exception as error:  # the figures of the other methods must not be lost
            log.exception("%s failed on %s", retriever.name, data.benchmark.name)
            return {"title": retriever.name, "tables": 0, "error": f"{type(error).__name__}: {error}"}

    return measure


def time_searches(
    retrievers: dict[str, Retriever], queries: dict[str, Source], k: int
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, list[str]]]]:
    """Times of warm searches, from the query's file to its ranking, and what they found, by method.

    `read_ms_p50` is how much of a search is reading the file.
    """
    answers: dict[str, dict[str, list[str]]] = {method: {} for method in retrievers}
    reading = {method: Times() for method in retrievers}

    def searching(method: str) -> Callable[[str], None]:
        def search(query: str) -> None:
            started = time.perf_counter()
            one = read(queries[query])
            reading[method].add(query, time.perf_counter() - started)
            answers[method][query] = retrievers[method].search(one, k)

        return search

    times = in_turn({method: searching(method) for method in retrievers}, list(queries))
    facts = {
        method: {**of.facts(), "read_ms_p50": reading[method].facts().get("ms_p50", 0.0)}
        for method, of in times.items()
    }
    return facts, answers


def _measure(retriever: Retriever, data: BenchmarkData) -> Document:
    """Fit, time, score what the timed searches found, and then rank deeper for curves and pools.

    A deep search may look wider than an ordinary one, so its rankings are not what is scored.
    `offline_seconds` is from files to a system that answers; one that reads the lake itself reports
    `build_seconds`.
    """
    benchmark = data.benchmark
    tables = data.tables.values()  # read before the clock starts, or the first method would pay for all
    started = time.perf_counter()
    retriever.fit(tables)
    fitted = time.perf_counter() - started
    before = conditions()
    times, answers = time_searches({retriever.name: retriever}, data.queries, benchmark.k + 1)
    rankings: dict[str, list[str]] = {}
    for query, source in data.queries.items():
        found = retriever.search(read(source), DEPTH + 1)
        rankings[query] = [name for name in found if name != query][:DEPTH]
    facts = retriever.facts() if isinstance(retriever, Reports) else {}
    fitted = max(fitted, facts.get("build_seconds", 0.0))  # one that was built before a run was stopped
    offline = fitted if "build_seconds" in facts else data.seconds + fitted
    return {
        **facts,
        **score(answers[retriever.name], benchmark.truth, benchmark.k).to_dict(),
        **times[retriever.name],
        "timing": {**before, "load_after": conditions()["load"]},
        "tables": len(data.tables),
        "answers": answers[retriever.name],  # what is scored
        **({} if facts.get("reused") else {"fit_seconds": fitted, "offline_seconds": offline}),
        "rankings": rankings,
    }


def tables(document: Document) -> list[table.Table]:
    """Quality and costs of all systems on a lake."""
    return [lake_table(document)]


def plot(document: Document, path: Path) -> None:
    """Precision and recall over k, MAP against time, time to build, and bytes per table."""
    rows = [row for row in document["rows"] if row.get("ms_p50")]
    with grid(path, 6, 3, width=5.2, height=3.6) as (precision, recall, trade, offline, size, names):
        for axes, key in ((precision, "precision"), (recall, "recall")):
            found = {title: (document["ks"], values[key]) for title, values in document["curves"].items()}
            lines(axes, found, xlabel="k", ylabel=f"{key} at k", title=document["what"]["lake"])
            axes.set_ylim(bottom=0)
        points = {row["title"]: ([row["ms_p50"]], [row["map"]]) for row in rows}
        lines(trade, points, size=6.5, xlabel="ms per query, p50", ylabel=f"MAP@{document['k']}")
        logarithmic(trade, [row["ms_p50"] for row in rows])
        for axes, key, unit in (
            (offline, "offline_seconds", "s to build"),
            (size, "bytes_per_table", "bytes per table"),
        ):
            bars(axes, _sorted(rows, key), log=True, xlabel=unit)
        legend(recall, on=names)


def _sorted(rows: Iterable[dict[str, Any]], key: str) -> dict[str, float]:
    return dict(sorted(((row["title"], row[key]) for row in rows if row.get(key)), key=lambda item: item[1]))
