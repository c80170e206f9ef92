"""Kinds of identifiers: the same generator on identifiers of five kinds, trained with labels."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from gentus.index.build import build
from gentus.index.evaluate import evaluate_index
from gentus.settings import Softmax, Variant, preset_settings
from gentus_bench.ablation import small_paper
from gentus_bench.experiment import Request
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.plots import bars, figure
from gentus_bench.results import Document, Results
from gentus_bench.table import Table

VARIANTS: tuple[Variant, ...] = get_args(Variant)
OURS = VARIANTS[0]


@dataclass(frozen=True, slots=True)
class Options:
    """Which kinds, and how long to train."""

    variants: tuple[Variant, ...] = VARIANTS
    preset: Literal["trained", "paper"] = "trained"  # paper: its softmax and losses, at a size for a CPU
    softmax: Softmax = "children"  # vocabulary: over all symbols, as in the paper
    minutes: float | None = None  # that training a generator may take


def run(request: Request, options: Options) -> Iterator[Document]:
    """MAP by kind of identifier, on every lake with labels; the generator ranks, with the prior."""
    for benchmark in request.benchmarks():
        if benchmark.labels is None:
            continue
        rows = {
            variant: [_measured(request, benchmark, variant, seed, options) for seed in range(request.seeds)]
            for variant in options.variants
        }
        what = {
            "lake": benchmark.name,
            "k": benchmark.k,
            "minutes": options.minutes,
            "seeds": request.seeds,
            "preset": options.preset,
            "softmax": options.softmax,
        }
        name = f"identifiers-{_of(benchmark.name, options)}"
        yield request.results.combined(name, what, {"k": benchmark.k, "rows": rows})


def _of(lake: str, options: Options) -> str:
    """A lake with the preset and the softmax, where they are not the usual ones."""
    preset = "" if options.preset == "trained" else f"-{options.preset}"
    return lake + preset + ("" if options.softmax == "children" else f"-{options.softmax}")


def _measured(
    request: Request, benchmark: Benchmark, variant: Variant, seed: int, options: Options
) -> Document:
    truth, labels = benchmark.write(request.results.folder / "truth")
    usual = small_paper(seed) if options.preset == "paper" else preset_settings("trained", seed)
    assert usual.generation is not None
    generation = replace(usual.generation, always=True)
    if options.preset == "trained":  # the paper's preset has the paper's softmax
        generation = replace(generation, softmax=options.softmax)
    settings = replace(usual, identifiers=variant, names=False, generation=generation)
    lake, minutes = _of(benchmark.name, options), options.minutes
    folder = index_folder(request.results, lake, variant, seed)
    first = index_folder(request.results, lake, options.variants[0], seed)

    def measure() -> Document:
        budget = None if minutes is None else 60 * minutes
        if not folder.exists() and first.exists():
            shutil.copytree(first, folder)  # with what was read of the lake, which is the same for all kinds
        with build(
            benchmark.lake, folder, labels, settings=settings, time_budget=budget, progress=request.progress
        ) as index:
            report = evaluate_index(index, truth, benchmark.k, benchmark.queries).metrics.to_dict()
            generator = index.info()["generator"]
        return {**report, "validation_map": generator["validation_map"], "chosen": generator["chosen"]}

    what = {
        "variant": variant,
        "k": benchmark.k,
        "seed": seed,
        "minutes": minutes,
        "preset": options.preset,
        "softmax": options.softmax,
    }
    return request.results.measured(f"identifiers/{lake}/{variant}-{seed}", what, measure)


def index_folder(results: Results, lake: str, variant: Variant = OURS, seed: int = 0) -> Path:
    """Where the index of a kind is kept, for other experiments to open."""
    return results.folder / "indexes" / f"identifiers-{lake}-{variant}-{seed}"


def _mean(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(sum(row[key] for row in rows) / len(rows))


def tables(document: Document) -> list[Table]:
    """A row per kind, with what ours gains over it."""
    k, found = document["k"], document["rows"]
    ours = _mean(found[OURS], "map") if found.get(OURS) else None
    rows = []
    for variant, several in found.items():
        mean = _mean(several, "map")
        gain = "" if ours is None or variant == OURS else f"{ours - mean:+.3f}"
        rows.append([variant, f"{mean:.4f}", f"{_mean(several, 'recall'):.3f}", gain, several[0]["chosen"]])
    columns = ["identifiers", f"MAP@{k}", f"R@{k}", f"{OURS} ones gain", "ranked by"]
    what = document["what"]
    small = ", the paper's preset at a small size" if what.get("preset") == "paper" else ""
    paper = ", softmax over the vocabulary" if what.get("softmax") == "vocabulary" else ""
    return [Table(columns, rows, what["lake"] + small + paper)]


def plot(document: Document, path: Path) -> None:
    """MAP of each kind, best first."""
    values = {
        ("GenTUS: " if variant == OURS else "") + variant: _mean(rows, "map")
        for variant, rows in document["rows"].items()
    }
    with figure(path, height=2.6) as (axes,):
        ordered = dict(sorted(values.items(), key=lambda item: -item[1]))
        bars(axes, ordered, xlabel=f"MAP@{document['k']}", title=document["what"]["lake"])
