"""The main comparison: every system on every lake, in one process, each measured once and kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gentus.lake import Skipped, Source, each, read, scan
from gentus.metrics import check, score
from gentus.table import Table
from gentus_bench.baselines import Reports, Retriever
from gentus_bench.benchmarks import Benchmark
from gentus_bench.clock import conditions, time_searches
from gentus_bench.methods import METHODS, Lake
from gentus_bench.overview import lake_markdown
from gentus_bench.results import Results

log = logging.getLogger("gentus_bench")

UNSEEDED = ("tfidf-words", "tfidf-chars", "tfidf-names", "minilm")
DEPTH = 1000  # tables of a ranking that are kept, for curves over k and for smaller pools


@dataclass(slots=True)
class Comparison:
    """One lake and what was measured on it."""

    benchmark: Benchmark
    groundtruth: str  # whether it fits the lake
    rows: list[dict[str, Any]] = field(default_factory=list)  # a document a method and seed

    @property
    def tables(self) -> int:
        """How many tables of the lake could be read."""
        return max((row["tables"] for row in self.rows), default=0)


class AtHand:
    """The tables of a lake, read when the first method needs them, and its queries."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.seconds = 0.0  # that reading took
        self.keep: frozenset[str] = frozenset()  # methods that another experiment will want ...
        self.fitted: dict[str, Retriever] = {}  # ... as they were fitted, instead of once more

    @cached_property
    def sources(self) -> list[Source]:
        """Where the tables of the lake lie."""
        return [item for item in scan(self.benchmark.lake) if isinstance(item, Source)]

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table that can be read, by name."""
        started = time.perf_counter()
        found: dict[str, Table] = {}
        for source, table in each(self.sources, _same):
            if not isinstance(table, Skipped):
                found[source.name] = table
        self.seconds = time.perf_counter() - started
        return found

    @property
    def names(self) -> list[str]:
        """The tables of the lake, readable or not."""
        return [source.name for source in self.sources]

    @cached_property
    def queries(self) -> dict[str, Source]:
        """Where the queries of the ground truth lie, unread."""
        wanted = self.benchmark.truth
        folder = self.benchmark.queries or self.benchmark.lake
        return {item.name: item for item in scan(folder) if isinstance(item, Source) and item.name in wanted}

    def fits(self, names: Iterable[str] | None = None) -> str:
        """Whether lake and ground truth fit each other; by the names of files, without reading any."""
        return check(self.benchmark.truth, names or self.names, self.queries).summary()

    def facts(self) -> dict[str, Any]:
        """Its size, as the paper tells of its lakes; of long tables only a sample of the rows is read."""
        tables = self.tables.values()
        pairs = sum(map(len, self.benchmark.truth.values()))
        return {
            "tables": len(tables),
            "columns": sum(len(table.columns) for table in tables),
            "rows_mean": float(np.mean([table.rows for table in tables])) if tables else 0.0,
            "queries": len(self.benchmark.truth),
            "pairs": pairs,
            "labels": sum(map(len, (self.benchmark.labels or {}).values())),
            "read_seconds": self.seconds,
            "groundtruth": self.fits(self.tables),  # what cannot be read cannot be found
        }


def _same(found: Sequence[tuple[Source, Table]]) -> list[Table]:
    return [table for _, table in found]


def index_folder(results: Results, lake: str, method: str, seed: int = 0) -> Path:
    """Where a method keeps what it builds, for other experiments to open."""
    return results.folder / "indexes" / f"main-{lake}-{method}-{seed}"


def compare(
    benchmark: Benchmark,
    methods: Sequence[str],
    results: Results,
    seeds: int = 1,
    lake: AtHand | None = None,
    reuse: bool = False,
) -> Comparison:
    """Fit, search and score methods on one lake; what the results have already is not measured again.

    A method that fails gets a document that says so, and the others go on. Beside the methods' documents,
    `lake-NAME` says how large the lake is. With `reuse`, indexes that lie in the results
    are opened as they are.
    """
    lake = lake or AtHand(benchmark)
    _, labels = benchmark.write(results.folder / "truth")
    rows = []
    for method in methods:
        for seed in range(seeds):
            name = f"main-{benchmark.name}-{method}-{seed}"
            folder = index_folder(results, benchmark.name, method, seed)
            place = Lake(benchmark.lake, labels, folder, seed, reuse, benchmark.named)
            what = {"lake": benchmark.name, "method": method, "seed": seed, "k": benchmark.k}
            retriever = METHODS[method](place)
            if retriever is None:
                log.info("%s: no labels, or names that must not be seen, so no %s", benchmark.name, method)
                break
            log.info("%s: %s, seed %d", benchmark.name, retriever.name, seed)
            rows.append(results.measured(name, what, _measuring(retriever, lake, method, seed)))
            if method in UNSEEDED:
                break  # another seed would measure the same again
    pairs = sum(map(len, benchmark.truth.values()))
    what = {"lake": benchmark.name, "queries": len(benchmark.truth), "pairs": pairs}
    facts = results.measured(f"lake-{benchmark.name}", what, lake.facts)
    comparison = Comparison(benchmark, facts["groundtruth"], rows)
    text = lake_markdown(benchmark, comparison.tables, comparison.groundtruth, rows)
    results.write_table(f"main-{benchmark.name}", text)
    return comparison


def _measuring(retriever: Retriever, lake: AtHand, method: str, seed: int) -> Any:
    def measure() -> dict[str, Any]:
        try:
            document = {"title": retriever.name, **_measure(retriever, lake)}
            if method in lake.keep and seed == 0:
                lake.fitted[method] = retriever
            return document
        except Exception as error:  # hours of other methods' figures must not go with it
            log.exception("%s failed on %s", retriever.name, lake.benchmark.name)
            return {"title": retriever.name, "tables": 0, "error": f"{type(error).__name__}: {error}"}

    return measure


def _measure(retriever: Retriever, lake: AtHand) -> dict[str, Any]:
    """Fit, time, score what the timed searches found, and then rank deeper for curves and pools.

    A deep search may look wider than an ordinary one, so its rankings are not what is scored, and it comes
    after the clock. `offline_seconds` is from files to a system that answers; one that reads the lake itself
    says so by reporting `build_seconds`. `read_ms_p50` is how much of a search is reading the query's file.
    """
    benchmark = lake.benchmark
    tables = lake.tables.values()  # read before the clock starts, or the first method would pay for all
    started = time.perf_counter()
    retriever.fit(tables)
    fitted = time.perf_counter() - started
    before = conditions()
    clock = time_searches({retriever.name: retriever}, lake.queries, benchmark.k + 1)[retriever.name]
    timing = {**before, "load_after": conditions()["load"]}
    rankings: dict[str, list[str]] = {}
    for query in clock.answers:
        found = retriever.search(read(lake.queries[query]), DEPTH + 1)
        rankings[query] = [name for name in found if name != query][:DEPTH]
    facts = retriever.facts() if isinstance(retriever, Reports) else {}
    return {
        **facts,
        **score(clock.answers, benchmark.truth, benchmark.k).to_dict(),
        **clock.facts(),
        "timing": timing,
        "tables": len(lake.tables),
        **({} if facts.get("reused") else _offline(fitted, "build_seconds" in facts, lake)),
        "rankings": rankings,
    }


def _offline(fitted: float, reads: bool, lake: AtHand) -> dict[str, float]:
    """Time before the first search; a system that reads the lake itself has that in its own time."""
    return {"fit_seconds": fitted, "offline_seconds": fitted if reads else lake.seconds + fitted}
