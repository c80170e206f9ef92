"""Beam width: quality and time of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gentus
from gentus.index.evaluate import evaluate_index
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality import kept_index
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.paper_system import VECTORS, title, with_minutes
from gentus_bench.plots import figure, legend, lines, logarithmic
from gentus_bench.results import Document
from gentus_bench.table import Table


@dataclass(frozen=True, slots=True)
class Options:
    """Widths."""

    beams: tuple[int, ...] = (5, 10, 20, 40, 80, 100, 160, 320)


def run(request: Request, options: Options) -> Iterator[Document]:
    """Every index that `quality` has built."""
    for benchmark in request.benchmarks():
        for method in ("gentus", "gentus-labels", *VECTORS):
            kept = kept_index(request.results, benchmark, method, 0, request.minutes)
            if kept.there:
                what = {
                    "lake": benchmark.name,
                    "data": benchmark.digest,
                    "method": method,
                    "k": benchmark.k,
                    "beams": options.beams,
                    **({"minutes": request.minutes} if method in VECTORS else {}),
                }
                truth, _ = benchmark.write(request.results.folder / "truth")
                name = f"beam-{benchmark.name}-{with_minutes(method, request.minutes)}"
                measure = partial(_measure, kept.path, benchmark, truth, options.beams)
                yield request.results.measured(name, what, measure)


def _measure(folder: Path, benchmark: Benchmark, truth: Path, beams: Sequence[int]) -> Document:
    with gentus.open(folder) as index:
        evaluate = partial(evaluate_index, index, truth, benchmark.k, benchmark.queries, order="generated")
        evaluate()  # warm
        rows = [{"beam": beam, **evaluate(beam=beam).metrics.to_dict()} for beam in beams]
    return {"k": benchmark.k, "rows": rows}


def tables(document: Document) -> list[Table]:
    """A row per width."""
    k, what = document["k"], document["what"]
    rows = [
        [
            *(str(row["beam"]), f"{row['map']:.4f}", f"{row['precision']:.3f}", f"{row['recall']:.3f}"),
            *(f"{row['ms_p50']:.1f}", f"{row['ms_p95']:.1f}"),
        ]
        for row in document["rows"]
    ]
    columns = ["beam", f"MAP@{k}", f"P@{k}", f"R@{k}", "ms p50", "ms p95"]
    return [Table(columns, rows, f"{what['lake']}, {_system(what)}")]


def _system(what: Mapping[str, Any]) -> str:
    return title(what["method"], what["minutes"]) if "minutes" in what else what["method"]


def plot(document: Document, path: Path) -> None:
    """MAP and latency against the width."""
    rows, what = document["rows"], document["what"]
    beams = [row["beam"] for row in rows]
    with figure(path, columns=2) as (quality, cost):
        for axes, key, label in ((quality, "map", "MAP@k"), (cost, "ms_p50", "ms per query, p50")):
            found = {what["lake"]: (beams, [row[key] for row in rows])}
            lines(axes, found, xlabel="beam width", ylabel=label, title=_system(what))
            logarithmic(axes, beams)
            axes.set_ylim(bottom=0)
        legend(cost)
