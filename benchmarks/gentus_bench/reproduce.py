"""All tables and figures of the paper's experiments on every lake, one step after the other.

Each step is an experiment on a lake, kept in the results like any other: a run that was stopped goes on with
the step that it was in, also in the middle of a training. How long steps took is noted beside, for the
estimate of the time left.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gentus.files import write_file
from gentus.progress import in_words
from gentus_bench.experiment import Request
from gentus_bench.experiments.identifiers import KINDS
from gentus_bench.experiments.incremental import SYSTEMS
from gentus_bench.lakes.benchmarks import UnknownBenchmarkError, find, recognise
from gentus_bench.methods import wanted
from gentus_bench.paper_report import render
from gentus_bench.paper_system import VECTORS
from gentus_bench.registry import EXPERIMENTS
from gentus_bench.results import Document

log = logging.getLogger("gentus_bench")

REPORT = "PAPER.md"
_USUAL = 60.0  # seconds of a step beside training, until some were measured


@dataclass(frozen=True, slots=True)
class Step:
    """One experiment on one lake."""

    experiment: str
    lake: str  # its folder in the data; "": the data is one lake
    methods: tuple[str, ...] = ()
    minutes: float = 0.0  # of training
    seeds: int = 1
    settings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What is shown."""
        return ", ".join(filter(None, (self.lake, self.experiment, *self.methods)))

    def run(self, request: Request) -> Iterator[Document]:
        """Its documents, with tables and plots in the results."""
        lakes = (self.lake,) if self.lake else ()
        one, given = EXPERIMENTS[self.experiment], replace(request, lakes=lakes, methods=self.methods)
        for document, _ in one.execute(replace(given, seeds=self.seeds), one.parse(self.settings)):
            yield document


@dataclass(slots=True)
class Reproduction:
    """What a run came to."""

    documents: dict[str, Document] = field(default_factory=dict)  # by name
    failed: dict[str, str] = field(default_factory=dict)  # by step


def plan(request: Request) -> list[Step]:
    """All steps, by lake; what `quality` trains comes before the experiments that open it."""
    methods = wanted(request.methods)
    papers = [method for method in VECTORS if method in methods]
    steps: list[Step] = []
    for lake in _lakes(request):
        labelled = any(one.labels for one in find(request.folder, [lake] if lake else None, request.k))
        each = request.minutes if labelled else 0.0
        for method in methods:
            if labelled or method not in papers:
                training = each * request.seeds * (method in papers)
                steps.append(Step("quality", lake, (method,), training, request.seeds))
        steps.append(Step("pool", lake))
        growing = [one for one in SYSTEMS if one in methods and (labelled or one == "gentus")]
        steps += [Step("incremental", lake, (one,), each * (one in papers)) for one in growing]
        steps.append(Step("beam", lake))
        if papers and labelled:
            vectors = f"vectors={VECTORS[papers[0]]}"
            steps.append(Step("identifiers", lake, (), each * len(KINDS), settings=(vectors,)))
            steps.append(Step("unconstrained", lake))
    return steps


def _lakes(request: Request) -> list[str]:
    """Folders of lakes in the data; an empty name is the data itself, where it has none."""
    if request.lakes:
        return list(request.lakes)
    found = [path.name for path in sorted(request.folder.iterdir()) if path.is_dir() and _is_lake(path)]
    return found or [""]


def _is_lake(folder: Path) -> bool:
    try:
        recognise(folder)
    except UnknownBenchmarkError:
        return False
    return True


def reproduce(request: Request) -> Reproduction:
    """Run all steps; the report is written anew after each. A step that fails stops no other."""
    steps, clock, made = plan(request), Clock(request.results.folder, request.minutes), Reproduction()
    for number, step in enumerate(steps):
        left = clock.left(steps[number:])
        log.info("[%d/%d] %s: about %s left in all", number + 1, len(steps), step.title, in_words(left))
        started = time.monotonic()
        try:
            for document in step.run(request):
                made.documents[document["name"]] = document
        except Exception as error:  # what the other steps measure must not be lost
            log.debug("%s", step.title, exc_info=True)
            made.failed[step.title] = f"{type(error).__name__}: {error}"
        else:
            clock.note(step, time.monotonic() - started)
        text = render(list(made.documents.values()), made.failed)
        write_file(request.results.folder / REPORT, text.encode())
    return made


class Clock:
    """The time left, by how long steps took, in this run or in one that was stopped."""

    def __init__(self, results: Path, minutes: float) -> None:
        self._file = results / "reproduce" / f"times-{minutes:g}min.json"
        self._took: dict[str, dict[str, float]] = {}  # seconds, and those of training in them, by step
        if self._file.is_file():
            self._took = json.loads(self._file.read_text("utf-8"))

    def left(self, steps: list[Step]) -> float:
        """Seconds of these steps; those that were done before are kept, and take none."""
        beside = [max(0.0, one["seconds"] - one["training"]) for one in self._took.values()]
        usual = sum(beside) / len(beside) if beside else _USUAL
        return sum(60 * step.minutes + usual for step in steps if self._key(step) not in self._took)

    def note(self, step: Step, seconds: float) -> None:
        """A step is done; of one that was measured before, only the first time says how long it takes."""
        if self._key(step) not in self._took:
            self._took[self._key(step)] = {"seconds": seconds, "training": 60 * step.minutes}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._file, json.dumps(self._took, indent=1).encode())

    @staticmethod
    def _key(step: Step) -> str:
        facts: list[Any] = [step.title, *step.settings, f"{step.seeds} seeds"]
        return ", ".join(facts)
