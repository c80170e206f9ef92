"""Times of searches side by side, in one process.

The times of the main comparison are taken when each system was fitted, which may be hours apart. Here all
systems are fitted and kept, and every query goes to each of them in turn, so that whatever else the machine
does meets all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gentus_bench.baselines import Retriever
from gentus_bench.benchmarks import Benchmark
from gentus_bench.clock import PASSES, conditions, time_searches
from gentus_bench.machine import sentence
from gentus_bench.main import AtHand, index_folder
from gentus_bench.methods import METHODS, Lake
from gentus_bench.ours import GenTUS
from gentus_bench.plots import bars, figure, is_ours
from gentus_bench.results import Results, markdown_table

log = logging.getLogger("gentus_bench")

COMPARED = ("starmie", "tactus", "gentus")  # methods whose times are claimed beside each other, by prefix


def compared(methods: Iterable[str], benchmark: Benchmark, results: Results) -> list[str]:
    """Those of the methods whose times are claimed beside each other.

    GenTUS with labels is among them only where its index is there: training it takes longer than all else.
    """
    chosen = [method for method in methods if method.startswith(COMPARED)]
    there = index_folder(results, benchmark.name, "gentus-labels") / "config.json"
    return [method for method in chosen if method != "gentus-labels" or there.is_file()]


def measure_timing(
    benchmark: Benchmark, methods: Sequence[str], results: Results, lake: AtHand | None = None
) -> dict[str, Any]:
    """Fit methods one after another, keep them all, and time them side by side; writes `timing-LAKE`.

    What the main comparison has fitted in this process (`lake.fitted`) is taken as it is, and so is an
    index of GenTUS that lies on disk.
    """
    lake = lake or AtHand(benchmark)

    def measure() -> dict[str, Any]:
        _, labels = benchmark.write(results.folder / "truth")
        ready: dict[str, Retriever] = {}
        opened = []
        for method in methods:
            if method in lake.fitted:
                ready[method] = lake.fitted[method]
                continue
            place = index_folder(results, benchmark.name, method)
            retriever = METHODS[method](Lake(benchmark.lake, labels, place, reuse=True))
            if retriever is None:
                log.info("%s: no labels, so no %s", benchmark.name, method)
                continue
            log.info("%s: %s", benchmark.name, retriever.name)
            if isinstance(retriever, GenTUS) and (place / "config.json").is_file():
                opened.append(method)
                retriever.fit(())
            else:
                retriever.fit(lake.tables.values())
            ready[method] = retriever
        before = conditions()
        clocks = time_searches(ready, lake.queries, benchmark.k + 1)
        return {
            "k": benchmark.k,
            "queries": len(next(iter(clocks.values())).whole) if clocks else 0,
            "opened": opened,
            "timing": {**before, "load_after": conditions()["load"]},
            "rows": {
                method: {"title": ready[method].name, **clock.facts()} for method, clock in clocks.items()
            },
        }

    what = {"lake": benchmark.name, "methods": list(methods), "k": benchmark.k, "passes": PASSES}
    document = results.measured(f"timing-{benchmark.name}", what, measure)
    write(document, results)
    return document


def write(document: Mapping[str, Any], results: Results) -> None:
    """Table and plot of a document, beside it."""
    name = document["what"]["lake"]
    results.write_table(f"timing-{name}", markdown(document))
    with figure(results.folder / f"timing-{name}", width=7, height=0.9 + 0.3 * len(document["rows"])) as (
        axes,
    ):
        draw(axes, document)


def draw(axes: Any, document: Mapping[str, Any]) -> None:
    """Median times, fastest first."""
    rows = [row for row in document["rows"].values() if "ms_p50" in row]
    values = {row["title"]: row["ms_p50"] for row in sorted(rows, key=lambda row: float(row["ms_p50"]))}
    bars(axes, values, log=True, xlabel="ms a query, p50", title=document["what"]["lake"])


def table(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows, fastest first: times, and how many times those of each GenTUS."""
    rows = sorted(
        (row for row in document["rows"].values() if "ms_p50" in row), key=lambda row: float(row["ms_p50"])
    )
    ours = sorted((row for row in rows if is_ours(row["title"])), key=lambda row: len(row["title"]))
    header = ["system", "ms p50", "ms p95", "of it reading, p50"]
    header += [f"times {row['title']}, p50 / p95" for row in ours]
    lines = []
    for row in rows:
        cells = [row["title"], *(f"{row[key]:.1f}" for key in (*_BOTH, "read_ms_p50"))]
        cells += [" / ".join(f"{row[key] / one[key]:.1f}" for key in _BOTH) for one in ours]
        lines.append(cells)
    return header, lines


_BOTH = ("ms_p50", "ms_p95")


def told(document: Mapping[str, Any]) -> str:
    """How it was measured, in a sentence."""
    timing = document["timing"]
    threads = ", ".join(f"{name} {count}" for name, count in timing["threads"].items())
    load = "" if timing["load"] is None else f"; load {timing['load'][0]} at the start"
    return (
        f"{document['queries']:,} queries, each by all systems before the next, {timing['passes']} passes "
        f"of which the faster counts for each query, one process; threads: {threads}{load}."
    )


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table."""
    header, rows = table(document)
    return "\n".join(
        [
            f"{document['made'][:10]}; {sentence(document['machine'])}.",
            "",
            f"{document['what']['lake']}: {told(document)}",
            "",
            markdown_table(header, rows),
        ]
    )
