"""The paper's incremental protocol: learn from half a lake, let the rest come in five steps.

D0 is a random half of the tables, D1 to D5 add a tenth each. All learning is from D0 only; after each step
all queries are ranked over what is there. It is compared with an index learnt from the whole lake, that of
`quality` where it is there. The index of D0 is kept until all is measured, so that a stopped run goes on.
"""

from __future__ import annotations

import csv
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gentus
from gentus.index.index import Index
from gentus.lake import Source, scan
from gentus.metrics import load_groundtruth, score
from gentus_bench import plots
from gentus_bench.experiment import Request
from gentus_bench.experiments.quality import kept_index
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.methods import paper_options
from gentus_bench.ours import IndexFolder
from gentus_bench.paper_system import VECTORS, title, with_minutes
from gentus_bench.results import Document
from gentus_bench.sources import code_digest
from gentus_bench.table import Table, figure

log = logging.getLogger("gentus_bench")

STEPS = 5
SYSTEMS = ("gentus", "gentus-labels", *VECTORS)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the protocol."""

    seed: int = 0  # which tables come first, and the seed of all learning


def run(request: Request, options: Options) -> Iterator[Document]:
    """The protocol on every lake, without labels or by systems that learn from those of D0's own pairs."""
    methods = request.methods or ("gentus",)
    if unknown := [method for method in methods if method not in SYSTEMS]:
        raise ValueError(f"{', '.join(unknown)} cannot grow here; those that can are {', '.join(SYSTEMS)}")
    for benchmark in request.benchmarks():
        for method in methods:
            if method != "gentus" and not benchmark.labels:
                log.info("%s: no labels, so no %s", benchmark.name, method)
                continue
            what = {
                **{"lake": benchmark.name, "data": benchmark.digest, "k": benchmark.k, "method": method},
                **({"minutes": request.minutes} if method in VECTORS else {}),
                **asdict(options),
            }
            name = f"incremental-{benchmark.name}"
            name += "" if method == "gentus" else f"-{with_minutes(method, request.minutes)}"
            measure = partial(_measured, benchmark, method, options, request)
            yield request.results.measured(name, what, measure)


def _measured(benchmark: Benchmark, method: str, options: Options, request: Request) -> Document:
    files = sorted({item.file for item in scan(benchmark.lake) if isinstance(item, Source)})
    order = np.random.default_rng(options.seed).permutation(len(files))
    bounds = [round(len(files) * (0.5 + 0.1 * step)) for step in range(STEPS + 1)]
    _, labels = benchmark.write(request.results.folder / "truth")
    labels = None if method == "gentus" else labels
    name = f"{benchmark.name}-{with_minutes(method, request.minutes)}-{options.seed}"
    root = request.results.folder / "incremental" / name
    shutil.rmtree(root / "lake", ignore_errors=True)
    pool = root / "lake"
    learn: dict[str, Any] = {"seed": options.seed, "names": False}
    if method in VECTORS:
        learn |= paper_options(method, options.seed, request.minutes)
    if labels is not None and benchmark.queries is not None:
        learn["queries"] = benchmark.queries
    _link([files[at] for at in order[: bounds[0]]], benchmark.lake.resolve(), pool)
    of_d0 = labels_within(labels, pool, benchmark.queries, root / "labels.csv")
    key = f"{benchmark.digest} {code_digest(__name__)}"
    folder = IndexFolder(root / "learnt", key)
    if not folder.there:
        started = time.perf_counter()
        gentus.build(pool, folder.path, of_d0, progress=request.progress, **learn).close()
        folder.note({"build_seconds": time.perf_counter() - started})
    shutil.rmtree(root / "index", ignore_errors=True)
    shutil.copytree(folder.path, root / "index")  # which grows
    steps: list[dict[str, Any]] = []
    with gentus.open(root / "index") as index:
        for step in range(STEPS + 1):
            arriving = order[bounds[step - 1] if step else bounds[0] : bounds[step]]
            new = _link([files[at] for at in arriving], benchmark.lake.resolve(), pool)
            started = time.perf_counter()
            index.add(new)
            index.search((benchmark.queries or benchmark.lake) / next(iter(benchmark.truth)), k=benchmark.k)
            seconds = time.perf_counter() - started
            row = {"step": f"D{step}", "tables": len(index), **_scored(index, benchmark, pool)}
            steps.append(row | ({"added": len(new), "seconds_to_first_query": seconds} if step else {}))
        drift = index.info()["drift"]
    kept = kept_index(request.results, benchmark, method, options.seed, request.minutes)
    if kept.there:
        with gentus.open(kept.path) as full:
            whole = {"tables": len(full), **_scored(full, benchmark, benchmark.lake)}
    else:
        with gentus.build(pool, root / "whole", labels, progress=request.progress, **learn) as full:
            whole = {"tables": len(full), **_scored(full, benchmark, pool)}
    seconds_to_learn = folder.facts()["build_seconds"]
    shutil.rmtree(root)
    share = steps[-1]["map"] / whole["map"] if whole["map"] else None
    content = {"k": benchmark.k, "seconds_to_learn": seconds_to_learn, "steps": steps, "whole": whole}
    return {**content, "share_kept": share, "drift": drift}


def _link(files: Iterable[Path], root: Path, pool: Path) -> list[Path]:
    """Let files of the lake appear in the pool, under the same names."""
    placed = []
    for file in files:
        target = pool / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, target)
        except OSError:  # another file system
            shutil.copy2(file, target)
        placed.append(target)
    return placed


def labels_within(labels: Path | None, pool: Path, queries: Path | None, out: Path) -> Path | None:
    """The labelled pairs of which the pool has the tables; queries may lie in a folder of their own."""
    if labels is None:
        return None
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["query_table", "candidate_table"])
        for query, found in load_groundtruth(labels).items():
            if ((queries or pool) / query).exists():
                writer.writerows((query, table) for table in found if (pool / table).exists())
    return out


def _scored(index: Index, benchmark: Benchmark, pool: Path) -> dict[str, Any]:
    """Scores over what is in the index now; queries without an answer there are left out.

    A query that is in the pool is read from there, so that search knows it as itself.
    """
    there = set(index.tables())
    active = {query: [name for name in found if name in there] for query, found in benchmark.truth.items()}
    active = {query: found for query, found in active.items() if set(found) - {query}}
    rankings, milliseconds = {}, []
    for query in active:
        own = pool / query
        path = own if own.exists() else (benchmark.queries or benchmark.lake) / query
        started = time.perf_counter()
        hits = index.search(path, k=benchmark.k + 1)
        milliseconds.append(1000 * (time.perf_counter() - started))
        rankings[query] = [hit.table for hit in hits]
    return score(rankings, active, benchmark.k, milliseconds).to_dict()


def tables(document: Document) -> list[Table]:
    """A row per step, and one of an index learnt from the whole lake."""
    k = document["k"]
    rows = [
        [
            *(row.get("step", "learnt from the whole lake"), f"{row['tables']:,}", f"{row['queries']:,}"),
            *(f"{row['map']:.4f}", f"{row['recall']:.3f}", figure(row.get("added"), ",")),
            figure(row.get("seconds_to_first_query"), ".2f"),
        ]
        for row in (*document["steps"], document["whole"])
    ]
    columns = ["step", "tables", "queries", f"MAP@{k}", f"R@{k}", "added", "update to first query, s"]
    note = f"D0 learnt in {document['seconds_to_learn']:.0f} s."
    if document["share_kept"] is not None:
        note += f" At D5 {document['share_kept']:.3f} of the MAP of an index learnt from the whole lake."
    return [Table(columns, rows, f"{document['what']['lake']}, {_system(document)}", note)]


def _system(document: Document) -> str:
    what = document["what"]
    names = {"gentus": "GenTUS", "gentus-labels": "GenTUS, labels"}
    return names.get(what["method"]) or title(what["method"], what["minutes"])


def plot(document: Document, path: Path) -> None:
    """MAP by step, and what an update costs."""
    steps, whole = document["steps"], document["whole"]["map"]
    names = [row["step"] for row in steps]
    reached = [row["map"] for row in steps]
    with plots.figure(path, columns=2, width=4.5, height=3.3) as (quality, cost):
        quality.plot(
            names, reached, marker="o", color=plots.OURS, label=f"{_system(document)}, learnt from D0 only"
        )
        quality.axhline(whole, color=plots.COLOURS[0], linestyle="--", label="learnt from the whole lake")
        top = min(1.05, 1.25 * max(whole, *reached))
        quality.set(ylim=(0, top), ylabel=f"MAP@{document['k']}", title=document["what"]["lake"])
        quality.legend(loc="lower left")
        seconds = [row["seconds_to_first_query"] for row in steps[1:]]
        drawn = cost.bar(names[1:], seconds, color=plots.OURS, width=0.6)
        cost.bar_label(drawn, [f"{s:.1f} s" for s in seconds], padding=2)
        title = f"update to first query ({steps[1]['added']:,} tables each)"
        cost.set(ylim=(0, 1.25 * max(seconds)), ylabel="seconds", title=title)
