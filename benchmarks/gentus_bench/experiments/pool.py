"""MAP by the size of the candidate pool: learnt from the whole lake, ranked over a part of it.

The tables of a pool are drawn at random; answers outside it do not count, and queries without an answer in
it are left out, so figures of pools of different size are over somewhat different queries. Rankings of the
whole lake are cut down to each pool: for a method that scores tables one by one, that is what it would rank
had it only the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gentus.lake import Source, scan
from gentus.metrics import score
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality import Part
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.methods import METHODS
from gentus_bench.plots import figure, legend, lines
from gentus_bench.results import Document
from gentus_bench.table import Table

Rankings = Mapping[str, Mapping[str, Sequence[str]]]  # by method and query, best first


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of pools."""

    shares: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    draws: int = 3  # of each size


def run(request: Request, options: Options) -> Iterator[Document]:
    """Pools of every lake that `quality` has ranked."""
    for benchmark in request.benchmarks():
        names = (Part(method, 0, request.minutes).name(benchmark.name) for method in METHODS)
        parts = [request.results.read(name) for name in names]
        rankings = {part["title"]: part["rankings"] for part in parts if part and "rankings" in part}
        what = {
            "lake": benchmark.name,
            "data": benchmark.digest,
            "k": benchmark.k,
            "methods": sorted(rankings),
            "measured": [part["made"] for part in parts if part],
            **asdict(options),
        }
        measure = partial(measure_pools, benchmark, rankings, options)
        yield request.results.measured(f"pool-{benchmark.name}", what, measure)


def measure_pools(benchmark: Benchmark, rankings: Rankings, options: Options) -> Document:
    """Mean and deviation of MAP over pools of each size; a size where no query has an answer is left out."""
    tables = sorted(item.name for item in scan(benchmark.lake) if isinstance(item, Source))
    rows = []
    for share in options.shares:
        size = round(share * len(tables))
        found: dict[str, list[float]] = {method: [] for method in rankings}
        for seed in range(options.draws if share < 1 else 1):
            drawn = np.random.default_rng(seed).choice(len(tables), size, replace=False)
            pool = {tables[at] for at in drawn}
            active = {
                query: [table for table in right if table in pool] for query, right in benchmark.truth.items()
            }
            active = {query: right for query, right in active.items() if set(right) - {query}}
            for method, ranked in rankings.items() if active else ():
                cut = {query: [table for table in ranked.get(query, ()) if table in pool] for query in active}
                found[method].append(score(cut, active, benchmark.k).map)
        means = {method: float(np.mean(values)) for method, values in found.items() if values}
        spread = {method: float(np.std(values)) for method, values in found.items() if values}
        if means:
            rows.append({"tables": size, "map": means, "deviation": spread})
    return {"k": benchmark.k, "rows": rows}


def tables(document: Document) -> list[Table]:
    """A row per system, a column per size."""
    rows = document["rows"]
    methods = list(rows[0]["map"]) if rows else []
    cells = [
        [
            method,
            *(
                f"{row['map'][method]:.3f}"
                + (f" ± {row['deviation'][method]:.3f}" if row["deviation"][method] else "")
                for row in rows
            ),
        ]
        for method in methods
    ]
    columns = ["system", *(f"{row['tables']:,} tables" for row in rows)]
    note = "Means and standard deviations over pools drawn at random; answers outside a pool do not count."
    title = f"{document['what']['lake']}, MAP@{document['k']}"
    return [Table(columns, cells, title, note, dict.fromkeys(range(1, len(columns)), True))]


def plot(document: Document, path: Path) -> None:
    """MAP against the size of the pool."""
    rows = document["rows"]
    if not rows:
        return
    with figure(path, width=7) as (axes,):
        sizes = [row["tables"] for row in rows]
        series = {method: (sizes, [row["map"][method] for row in rows]) for method in rows[0]["map"]}
        lines(axes, series, xlabel="tables in the pool", ylabel=f"MAP@{document['k']}")
        axes.set_ylim(bottom=0)
        legend(axes)
