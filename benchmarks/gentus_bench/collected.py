"""Everything that lies in a folder of results, found by the names of its documents.

Nothing is measured here. What is missing is missing: a report tells what there is.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gentus.metrics import load_groundtruth
from gentus_bench.benchmarks import Benchmark
from gentus_bench.main import AtHand, Comparison
from gentus_bench.methods import METHODS
from gentus_bench.overview import summary
from gentus_bench.results import Results

log = logging.getLogger("gentus_bench")

Document = dict[str, Any]
LONGEST = 2  # times k: how far curves go, and how much of a ranking a report keeps in memory


@dataclass(slots=True)
class Collected:
    """What there is to tell, by lake."""

    main: dict[str, Comparison] = field(default_factory=dict)
    lakes: dict[str, Document] = field(default_factory=dict)
    labelled: set[str] = field(default_factory=set)  # lakes that have labels
    timing: dict[str, Document] = field(default_factory=dict)
    incremental: dict[str, Document] = field(default_factory=dict)
    pool: dict[str, Document] = field(default_factory=dict)
    identifiers: dict[str, Document] = field(default_factory=dict)
    constraints: dict[str, Document] = field(default_factory=dict)
    beam: dict[str, Document] = field(default_factory=dict)

    @property
    def summaries(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of the main comparison by lake, means over seeds."""
        return {name: summary(one.rows) for name, one in self.main.items()}


def collect(results: Results, benchmarks: Iterable[Benchmark] = ()) -> Collected:
    """Read a folder of results. Of the benchmarks given, it is checked how truth and lake fit."""
    found = Collected()
    for name in ("lake", "timing", "incremental", "pool", "constraints"):
        target = found.lakes if name == "lake" else getattr(found, name)
        target.update({_after(document, name): document for document in _documents(results, name)})
    for document in _documents(results, "beam"):
        lake, _, kind = _after(document, "beam").partition("-gentus")
        found.beam[f"{lake}, labels" if kind else lake] = document
    for document in _documents(results, "identifiers"):
        what = document["what"]
        lake = _after(document, "identifiers").removesuffix(f"-{what['variant']}-{what['seed']}")
        whole = found.identifiers.setdefault(lake, {"k": what["k"], "lake": lake, "rows": {}})
        whole["rows"].setdefault(what["variant"], []).append(document)
    known = {benchmark.name: benchmark for benchmark in benchmarks}
    _main(results, known, found)
    order = {name: at for at, name in enumerate(found.main)}
    for experiment in (
        *(found.lakes, found.timing, found.incremental, found.pool),
        *(found.identifiers, found.constraints, found.beam),
    ):
        _sort(experiment, order)
    for name in found.main:
        if (results.folder / "truth" / f"{name}-train.csv").is_file() or (
            name in known and known[name].labels
        ):
            found.labelled.add(name)
    return found


def _sort(documents: dict[str, Document], order: Mapping[str, int]) -> None:
    """Lakes in the order of the main comparison; one with labels right after the one without."""

    def place(name: str) -> tuple[int, str]:
        lake = name.removesuffix(", labels").removesuffix("-labels")
        return order.get(lake, len(order)), name

    for name in sorted(documents, key=place):
        documents[name] = documents.pop(name)


def _after(document: Mapping[str, Any], experiment: str) -> str:
    return str(document["name"]).removeprefix(f"{experiment}-")


def _documents(results: Results, experiment: str) -> Iterator[Document]:
    for path in sorted(results.folder.glob(f"{experiment}-*.json")):
        document = results.read(path.stem)
        if document is None:
            log.warning("%s is left out: it is no document of a measurement", path)
        else:
            yield document


def _main(results: Results, known: Mapping[str, Benchmark], found: Collected) -> None:
    grouped: dict[str, list[Document]] = {}
    for document in _documents(results, "main"):
        rankings = document.get("rankings", {})
        most = LONGEST * document["what"]["k"]  # the rest would fill gigabytes
        document["rankings"] = {query: ranked[:most] for query, ranked in rankings.items()}
        grouped.setdefault(document["what"]["lake"], []).append(document)
    order = {method: at for at, method in enumerate(METHODS)}
    for lake in sorted(grouped, key=lambda name: (max(row["tables"] for row in grouped[name]), name)):
        rows = grouped[lake]
        usual = Counter(row["what"]["k"] for row in rows).most_common(1)[0][0]
        k = known[lake].k if lake in known else usual
        if other := sorted(row["name"] for row in rows if row["what"]["k"] != k):
            log.warning("%s: not for k = %d, so left out: %s", lake, k, ", ".join(other))
        rows = [row for row in rows if row["what"]["k"] == k]
        rows.sort(key=lambda row: (order.get(row["what"]["method"], len(order)), row["what"]["seed"]))
        fits = found.lakes.get(lake, {}).get("groundtruth", "")
        if lake in known:
            benchmark = known[lake]
            fits = fits or AtHand(benchmark).fits()
        else:
            truth = results.folder / "truth" / f"{lake}.csv"
            pairs = load_groundtruth(truth) if truth.is_file() else {}
            benchmark = Benchmark(lake, Path(lake), None, pairs, k)
        if rows:
            found.main[lake] = Comparison(benchmark, fits, rows)
