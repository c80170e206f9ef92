"""Times of searches side by side, in one process.

The times of the main comparison are taken when each system was fitted, which may be hours apart. Here all
systems are fitted and kept, and every query goes to each of them in turn, so that other work on the machine
slows all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gentus_bench.baselines import Retriever
from gentus_bench.experiment import NoOptions, Request
from gentus_bench.experiments.quality import BenchmarkData, kept_index, retriever_for, time_searches
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.methods import wanted
from gentus_bench.ours import GenTUS
from gentus_bench.paper_system import VECTORS
from gentus_bench.plots import bars, figure, is_ours
from gentus_bench.results import Document, Results
from gentus_bench.table import Table
from gentus_bench.timer import PASSES, conditions

COMPARED = ("starmie", "tactus", "gentus")  # methods that are compared by default, by prefix
_BOTH = ("ms_p50", "ms_p95")


def run(request: Request, options: NoOptions) -> Iterator[Document]:
    """Time systems side by side on every lake."""
    for benchmark in request.benchmarks():
        methods = wanted(request.methods) if request.methods else compared(benchmark, request.results)
        yield measure_timing(benchmark, methods, request.results)


def compared(benchmark: Benchmark, results: Results) -> list[str]:
    """The methods that are compared by default.

    GenTUS with labels is among them only where its index is there: training it takes longer than all else.
    """
    chosen = [method for method in wanted(None) if method.startswith(COMPARED)]
    learnt = ("gentus-labels", *VECTORS)
    return [one for one in chosen if one not in learnt or kept_index(results, benchmark, one).there]


def measure_timing(benchmark: Benchmark, methods: Sequence[str], results: Results) -> Document:
    """Fit methods one after another, keep them all, and time them side by side.

    An index of GenTUS that lies in the results is opened.
    """
    data = BenchmarkData(benchmark)

    def measure() -> Document:
        ready: dict[str, Retriever] = {}
        for method in methods:
            retriever = retriever_for(method, benchmark, results, reuse="kept")
            if retriever is not None:
                there = isinstance(retriever, GenTUS) and retriever.folder.there
                retriever.fit(() if there else data.tables.values())
                ready[method] = retriever
        before = conditions()
        times, _ = time_searches(ready, data.queries, benchmark.k + 1)
        return {
            "k": benchmark.k,
            "queries": len(data.queries),
            "timing": {**before, "load_after": conditions()["load"]},
            "rows": {method: {"title": ready[method].name, **found} for method, found in times.items()},
        }

    what = {**data.what, "methods": list(methods), "k": benchmark.k, "passes": PASSES}
    return results.measured(f"timing-{benchmark.name}", what, measure)


def tables(document: Document) -> list[Table]:
    """Times, fastest first, and how many times those of each GenTUS."""
    rows = sorted(document["rows"].values(), key=lambda row: float(row["ms_p50"]))
    ours = sorted((row for row in rows if is_ours(row["title"])), key=lambda row: len(row["title"]))
    columns = ["system", "ms p50", "ms p95", "of it reading, p50"]
    columns += [f"times {row['title']}, p50 / p95" for row in ours]
    cells = [
        [
            *(row["title"], *(f"{row[key]:.1f}" for key in (*_BOTH, "read_ms_p50"))),
            *(" / ".join(f"{row[key] / one[key]:.1f}" for key in _BOTH) for one in ours),
        ]
        for row in rows
    ]
    timing = document["timing"]
    threads = ", ".join(f"{name} {count}" for name, count in timing["threads"].items())
    note = (
        f"{document['queries']:,} queries, each by all systems before the next, the faster of"
        f" {timing['passes']} passes; threads: {threads}; load {(timing['load'] or ['?'])[0]} at the start."
    )
    return [Table(columns, cells, document["what"]["lake"], note)]


def plot(document: Document, path: Path) -> None:
    """Median times, fastest first."""
    rows = sorted(document["rows"].values(), key=lambda row: float(row["ms_p50"]))
    with figure(path, width=7, height=0.9 + 0.3 * len(rows)) as (axes,):
        times = {row["title"]: row["ms_p50"] for row in rows}
        bars(axes, times, log=True, xlabel="ms per query, p50", title=document["what"]["lake"])
