"""All experiments on all lakes, and the page that tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import gentus
from gentus.progress import Progress
from gentus.settings import Variant
from gentus_bench import ablation, beam, incremental, main, parts, pool, timing
from gentus_bench.benchmarks import Benchmark
from gentus_bench.methods import METHODS
from gentus_bench.results import Results
from gentus_bench.telling import write_report

EXPERIMENTS = ("main", "timing", "incremental", "pool", "identifiers", "constraints", "beam")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    benchmarks: Sequence[Benchmark]
    methods: Sequence[str] = tuple(METHODS)
    experiments: Sequence[str] = EXPERIMENTS
    seeds: int = 1
    time_budget: float | None = None  # seconds for each generator
    variants: Sequence[Variant] = get_args(Variant)  # of identifiers, semantic ones among them


def run_all(plan: Plan, results: Results, progress: Progress | None = None) -> Path:
    """Run what is missing, write every table and plot, and the report; returns where that is."""
    for benchmark in plan.benchmarks:
        _run(plan, benchmark, results, progress or Progress())
    return write_report(results, plan.benchmarks)


def _run(plan: Plan, benchmark: Benchmark, results: Results, progress: Progress) -> None:
    """The experiments of one lake; its tables and rankings are let go of before the next one."""
    name = benchmark.name
    truth, labels = benchmark.write(results.folder / "truth")
    lake = main.AtHand(benchmark)
    if "timing" in plan.experiments:
        lake.keep = frozenset(timing.compared(plan.methods, benchmark, results))
    if plan.methods:
        comparison = main.compare(benchmark, plan.methods, results, plan.seeds, lake)
        if "pool" in plan.experiments:
            rankings = {
                row["title"]: row["rankings"]
                for row in comparison.rows
                if row["what"]["seed"] == 0 and "rankings" in row
            }
            pool.measure_pools(rankings, benchmark.truth, lake.names, benchmark.k, results, name)
        del comparison
    if "timing" in plan.experiments:
        methods = timing.compared(plan.methods, benchmark, results)
        if len(methods) > 1:
            timing.measure_timing(benchmark, methods, results, lake)
    del lake
    if "beam" in plan.experiments:
        for method in ("gentus-labels", "gentus"):
            folder = main.index_folder(results, name, method)
            if (folder / "config.json").is_file():
                with gentus.open(folder) as index:
                    beam.measure_beams(
                        index, truth, benchmark.k, results, f"{name}-{method}", queries=benchmark.queries
                    )
    if "incremental" in plan.experiments:
        incremental.incremental(
            benchmark.lake,
            truth,
            benchmark.k,
            results,
            name,
            queries=benchmark.queries,
            progress=progress,
        )
    if labels is not None and "identifiers" in plan.experiments:
        ablation.measure_identifiers(
            benchmark.lake,
            labels,
            truth,
            benchmark.k,
            results,
            name,
            variants=plan.variants,
            time_budget=plan.time_budget,
            progress=progress,
        )
        if "constraints" in plan.experiments:
            _constraints(benchmark, truth, results)


def _constraints(benchmark: Benchmark, truth: Path, results: Results) -> None:
    folder = ablation.index_folder(results, benchmark.name, "semantic")

    def measure() -> dict[str, Any]:
        with gentus.open(folder) as index:
            return parts.measure_parts(index, truth, benchmark.k)

    what = {"lake": benchmark.name, "k": benchmark.k}
    document = results.measured(f"constraints-{benchmark.name}", what, measure)
    results.write_table(f"constraints-{benchmark.name}", parts.markdown(document))
