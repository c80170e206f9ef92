"""Beam width: what a wider search finds, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gentus.index.evaluate import evaluate_index
from gentus.index.index import Index
from gentus_bench.plots import figure, legend, lines, logarithmic
from gentus_bench.results import Results

BEAMS = (5, 10, 20, 40, 80, 100, 160, 320)


def measure_beams(
    index: Index,
    groundtruth: Path,
    k: int,
    results: Results,
    name: str,
    *,
    queries: Path | None = None,
    beams: Sequence[int] = BEAMS,
) -> dict[str, Any]:
    """MAP, recall and time of a search by width; writes `beam-NAME` to the results."""

    def measure() -> dict[str, Any]:
        evaluate_index(index, groundtruth, k, queries)  # warm
        rows = []
        for beam in beams:
            rows.append(
                {"beam": beam, **evaluate_index(index, groundtruth, k, queries, beam).metrics.to_dict()}
            )
        return {"k": k, "rows": rows, "generator": index.config.generator is not None}

    what = {"tables": len(index), "k": k, "beams": list(beams), "config_version": index.config.config_version}
    document = results.measured(f"beam-{name}", what, measure)
    results.write_table(f"beam-{name}", markdown(document))
    plot({name: document}, results.folder / f"beam-{name}")
    return document


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table."""
    k = document["k"]
    lines = [
        f"| beam | MAP@{k} | P@{k} | R@{k} | ms p50 | ms p95 |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['beam']} | {row['map']:.4f} | {row['precision']:.3f} | {row['recall']:.3f} "
        f"| {row['ms_p50']:.1f} | {row['ms_p95']:.1f} |"
        for row in document["rows"]
    ]
    return "\n".join(lines)


def plot(documents: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """MAP and latency against the width, a line a lake."""
    with figure(path, columns=2) as (quality, cost):
        for axes, key, label in ((quality, "map", "MAP@k"), (cost, "ms_p50", "ms a query, p50")):
            series = {
                name: ([row["beam"] for row in document["rows"]], [row[key] for row in document["rows"]])
                for name, document in documents.items()
            }
            lines(axes, series, xlabel="beam width", ylabel=label)
            logarithmic(axes, [row["beam"] for document in documents.values() for row in document["rows"]])
            axes.set_ylim(bottom=0)
        legend(cost)
