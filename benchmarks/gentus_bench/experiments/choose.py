"""Choosing settings over lakes: every candidate on every lake, judged with one lake left out at a time.

A candidate's score is the mean over lakes of its MAP relative to the best lexical baseline there, the worst
lake counted twice. For each lake, the candidate that scores best on the *other* lakes is looked up: what it
has there is what a choice like this is worth on a lake that had no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gentus
from gentus.index.evaluate import evaluate_index
from gentus.lake import read
from gentus.metrics import score
from gentus.settings import BuildSettings
from gentus_bench.baselines import Retriever, TfidfChars, TfidfWords
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality import BenchmarkData
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.results import Document
from gentus_bench.table import Table

DEFAULT = "default"
_PARTS: dict[str, dict[str, tuple[float, ...]]] = {  # settings, and what else they could be
    "space": {
        "columns": (128, 256),
        "whitening": (0.0, 0.25, 0.6),
        "latent": (96, 160),
        "ridge": (0.0012, 0.01),
    },
    "graph": {
        "candidates": (50, 200),
        "order": (0.0, 0.5, 2.0),
        "hubness": (0.0, 0.2, 0.6),
        "reciprocal": (8, 25),
        "kept": (25, 50, 120),
    },
    "": {"smoothing": (0.0, 0.5), "feedback": (0.0, 0.3, 0.9)},
}


def candidates() -> dict[str, BuildSettings]:
    """The settings as they are, and with one of them changed."""
    usual = BuildSettings(names=False)
    found = {DEFAULT: usual}
    for part, settings in _PARTS.items():
        for name, values in settings.items():
            for value in values:
                inner = {part: replace(getattr(usual, part), **{name: value})} if part else {name: value}
                found[f"{name} {value:g}"] = replace(usual, **inner)
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """Which candidates, beside the default; none: all."""

    candidates: tuple[str, ...] = ()


def run(request: Request, options: Options) -> Iterator[Document]:
    """MAP of every candidate on every lake; what the results have already is not measured again."""
    results, names = request.results, {DEFAULT, *options.candidates}
    wanted = {name: of for name, of in candidates().items() if not options.candidates or name in names}
    maps: dict[str, dict[str, float]] = {name: {} for name in wanted}
    lexical: dict[str, float] = {}
    for benchmark in request.benchmarks():
        what = {"lake": benchmark.name, "data": benchmark.digest, "k": benchmark.k}
        part = f"choose/{benchmark.name}"
        lexical[benchmark.name] = results.measured(f"{part}/lexical", what, _lexical(benchmark))["map"]
        for name, settings in wanted.items():
            measure = _building(benchmark, settings, request)
            done = results.measured(f"{part}/{name.replace(' ', '-')}", {**what, "candidate": name}, measure)
            maps[name][benchmark.name] = done["map"]
    what = {"lakes": list(lexical), "candidates": list(wanted)}
    yield results.combined("choose", what, {"lexical": lexical, "maps": maps, **judge(maps, lexical)})


def _lexical(benchmark: Benchmark) -> Callable[[], dict[str, Any]]:
    """The better of TF-IDF over words and over characters."""

    def measure() -> dict[str, Any]:
        lake = BenchmarkData(benchmark)
        methods: tuple[Retriever, ...] = (TfidfWords(), TfidfChars())
        figures = {}
        for method in methods:
            method.fit(lake.tables.values())
            found = {
                query: [name for name in method.search(read(source), benchmark.k + 1) if name != query]
                for query, source in lake.queries.items()
            }
            figures[method.name] = score(found, benchmark.truth, benchmark.k).map
        return {"map": max(figures.values()), "each": figures}

    return measure


def _building(
    benchmark: Benchmark, settings: BuildSettings, request: Request
) -> Callable[[], dict[str, Any]]:
    """Build and rank as a user would; files are read once, as every build finds the features of the last."""

    def measure() -> dict[str, Any]:
        truth, _ = benchmark.write(request.results.folder / "truth")
        folder = request.results.folder / "indexes" / f"choose-{benchmark.name}"
        with gentus.build(benchmark.lake, folder, settings=settings, progress=request.progress) as index:
            report = evaluate_index(index, truth, benchmark.k, benchmark.queries, order="generated")
            return {"map": report.metrics.map}

    return measure


def judge(maps: Mapping[str, Mapping[str, float]], lexical: Mapping[str, float]) -> dict[str, Any]:
    """Scores of candidates over all lakes, and what a choice without each lake is worth there."""
    scores = {name: score_over(found, lexical, list(lexical)) for name, found in maps.items()}
    left_out = {}
    for lake in lexical if len(lexical) > 1 else ():
        others = [name for name in lexical if name != lake]
        best = max(maps, key=lambda name: score_over(maps[name], lexical, others))
        left_out[lake] = {"chosen": best, "map": maps[best][lake], "default": maps[DEFAULT][lake]}
    return {"scores": scores, "left_out": left_out}


def score_over(maps: Mapping[str, float], lexical: Mapping[str, float], lakes: Sequence[str]) -> float:
    """The mean of MAP relative to the lexical baseline, the worst lake counted twice."""
    relative = [maps[lake] / max(lexical[lake], 1e-9) for lake in lakes]
    return (sum(relative) + min(relative)) / (len(relative) + 1)


def tables(document: Document) -> list[Table]:
    """Scores of candidates, and what a choice without each lake is worth there."""
    lakes = list(document["lexical"])
    rows = [["TF-IDF, better of two", *(f"{document['lexical'][lake]:.4f}" for lake in lakes), "1.0000"]]
    for name, total in sorted(document["scores"].items(), key=lambda item: -item[1]):
        rows.append([name, *(f"{document['maps'][name][lake]:.4f}" for lake in lakes), f"{total:.4f}"])
    left_out = [
        [lake, found["chosen"], f"{found['map']:.4f}", f"{found['default']:.4f}"]
        for lake, found in document["left_out"].items()
    ]
    columns = ["lake left out", "chosen on the others", "its MAP there", "the default's"]
    return [Table(["candidate", *lakes, "score"], rows), *([Table(columns, left_out)] if left_out else [])]
