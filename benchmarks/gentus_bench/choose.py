"""Choosing settings over lakes: every candidate on every lake, judged with one lake left out at a time.

A candidate's score is the mean over lakes of its MAP relative to the best lexical baseline there, the worst
lake counted twice. For each lake, the candidate that scores best on the *other* lakes is looked up: what it
has there is what a choice like this is worth on a lake that had no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gentus
from gentus.index.evaluate import evaluate_index
from gentus.lake import read
from gentus.metrics import score
from gentus.progress import Progress
from gentus.settings import BuildSettings
from gentus_bench.baselines import Retriever, TfidfChars, TfidfWords
from gentus_bench.benchmarks import Benchmark
from gentus_bench.machine import sentence
from gentus_bench.main import AtHand
from gentus_bench.results import Results, markdown_table

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


def choose(
    benchmarks: Sequence[Benchmark],
    results: Results,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """MAP of every candidate on every lake; what the results have already is not measured again."""
    wanted = {name: found for name, found in candidates().items() if not names or name in {DEFAULT, *names}}
    maps: dict[str, dict[str, float]] = {name: {} for name in wanted}
    lexical: dict[str, float] = {}
    machine: dict[str, Any] = {}
    for benchmark in benchmarks:
        what = {"lake": benchmark.name, "k": benchmark.k}
        measure = _lexical(benchmark)
        lexical[benchmark.name] = results.measured(f"choose-{benchmark.name}-lexical", what, measure)["map"]
        truth, _ = benchmark.write(results.folder / "truth")
        for name, settings in wanted.items():
            done = results.measured(
                f"choose-{benchmark.name}-{name.replace(' ', '-')}",
                {**what, "candidate": name},
                _building(benchmark, truth, settings, results.folder / "indexes", progress or Progress()),
            )
            maps[name][benchmark.name] = done["map"]
            machine = done["machine"]
    document = {"machine": machine, "lexical": lexical, "maps": maps, **judge(maps, lexical)}
    results.write_table("choose", markdown(document))
    return document


def _lexical(benchmark: Benchmark) -> Callable[[], dict[str, Any]]:
    """The better of TF-IDF over words and over characters."""

    def measure() -> dict[str, Any]:
        lake = AtHand(benchmark)
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
    benchmark: Benchmark, truth: Path, settings: BuildSettings, folder: Path, progress: Progress
) -> Callable[[], dict[str, Any]]:
    """Build and rank as a user would; files are read once, as every build finds the features of the last."""

    def measure() -> dict[str, Any]:
        place = folder / f"choose-{benchmark.name}"
        with gentus.build(benchmark.lake, place, settings=settings, progress=progress) as index:
            return {"map": evaluate_index(index, truth, benchmark.k, benchmark.queries).metrics.map}

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


def markdown(document: Mapping[str, Any]) -> str:
    """The document as two tables."""
    lakes = list(document["lexical"])
    rows = [["TF-IDF, better of two", *(f"{document['lexical'][lake]:.4f}" for lake in lakes), "1.0000"]]
    ordered = sorted(document["scores"].items(), key=lambda item: -item[1])
    rows += [
        [name, *(f"{document['maps'][name][lake]:.4f}" for lake in lakes), f"{total:.4f}"]
        for name, total in ordered
    ]
    lines = [sentence(document["machine"]), "", markdown_table(["candidate", *lakes, "score"], rows)]
    if document["left_out"]:
        left = [
            [lake, found["chosen"], f"{found['map']:.4f}", f"{found['default']:.4f}"]
            for lake, found in document["left_out"].items()
        ]
        header = ["lake left out", "chosen on the others", "its MAP there", "the default's"]
        lines += ["", markdown_table(header, left)]
    return "\n".join(lines)
