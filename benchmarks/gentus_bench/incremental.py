"""The paper's incremental protocol: learn from half a lake, let the rest come in five steps.

D0 is a random half of the tables, D1 to D5 add a tenth each. Everything is learnt from D0 only; after each
step all queries are ranked over what is there. Beside it stands an index learnt from everything.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gentus
from gentus.index.index import Index
from gentus.lake import Source, scan
from gentus.metrics import load_groundtruth, score
from gentus.progress import Progress
from gentus_bench.machine import sentence
from gentus_bench.plots import COLOURS, OURS, figure
from gentus_bench.results import Results

STEPS = 5


def incremental(
    lake: Path,
    groundtruth: Path,
    k: int,
    results: Results,
    name: str,
    *,
    queries: Path | None = None,
    labels: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run the protocol on a lake; writes `incremental-NAME` to the results.

    `options` go to `gentus.build`. With labels, D0 learns from the pairs among its own tables.
    """
    name = f"{name}-labels" if labels else name
    told = {key: value for key, value in options.items() if isinstance(value, str | float | int)}
    what = {"k": k, "seed": seed, "labels": labels is not None, **told}
    document = results.measured(
        f"incremental-{name}",
        what,
        lambda: _measured(lake, groundtruth, k, queries, labels, seed, progress or Progress(), options),
    )
    results.write_table(f"incremental-{name}", markdown(document, name))
    plot(document, results.folder / f"incremental-{name}", name)
    return document


def _measured(
    lake: Path,
    groundtruth: Path,
    k: int,
    queries: Path | None,
    labels: Path | None,
    seed: int,
    progress: Progress,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    truth = load_groundtruth(groundtruth)
    files = sorted({item.file for item in scan(lake) if isinstance(item, Source)})
    order = np.random.default_rng(seed).permutation(len(files))
    bounds = [round(len(files) * (0.5 + 0.1 * step)) for step in range(STEPS + 1)]
    root = lake.resolve()
    asked = queries or root
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gentus-incremental-") as scratch:
        pool, index_path = Path(scratch, "lake"), Path(scratch, "index")
        _link([files[at] for at in order[: bounds[0]]], root, pool)
        known = labels_within(labels, pool, Path(scratch, "labels.csv"))
        started = time.perf_counter()
        index = gentus.build(pool, index_path, known, seed=seed, progress=progress, **options)
        learnt = time.perf_counter() - started
        for step in range(STEPS + 1):
            arriving = order[bounds[step - 1] if step else bounds[0] : bounds[step]]
            new = _link([files[at] for at in arriving], root, pool)
            started = time.perf_counter()
            index.add(new)
            index.search(asked / next(iter(truth)), k=k)
            seconds = time.perf_counter() - started
            row = {"step": f"D{step}", "tables": len(index), **_scored(index, truth, k, asked, pool)}
            if step:
                row |= {"added": len(new), "seconds_to_first_query": seconds}
            steps.append(row)
        drift = index.info()["drift"]
        index.close()
        with gentus.build(
            pool, Path(scratch, "whole"), labels, seed=seed, progress=progress, **options
        ) as whole:
            everything = {"tables": len(whole), **_scored(whole, truth, k, asked, pool)}
    return {
        "k": k,
        "seed": seed,
        "seconds_to_learn": learnt,
        "steps": steps,
        "everything": everything,
        "share_kept": steps[-1]["map"] / everything["map"] if everything["map"] else None,
        "drift": drift,
    }


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


def labels_within(labels: Path | None, pool: Path, out: Path) -> Path | None:
    """The labelled pairs among the tables of the pool; the others are not known yet."""
    if labels is None:
        return None
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["query_table", "candidate_table"])
        for query, found in load_groundtruth(labels).items():
            if (pool / query).exists():
                writer.writerows((query, table) for table in found if (pool / table).exists())
    return out


def _scored(
    index: Index, truth: Mapping[str, Sequence[str]], k: int, queries: Path, pool: Path
) -> dict[str, Any]:
    """Scores over what is in the index now; queries without an answer there are left out.

    A query that is in the pool is read from there, so that search knows it as itself.
    """
    there = set(index.tables())
    active = {query: [table for table in found if table in there] for query, found in truth.items()}
    active = {query: found for query, found in active.items() if set(found) - {query}}
    rankings, milliseconds = {}, []
    for query in active:
        own = pool / query
        path = own if own.exists() else queries / query
        started = time.perf_counter()
        hits = index.search(path, k=k + 1)
        milliseconds.append(1000 * (time.perf_counter() - started))
        rankings[query] = [hit.table for hit in hits]
    return score(rankings, active, k, milliseconds).to_dict()


def markdown(document: Mapping[str, Any], name: str) -> str:
    """The document as a table."""
    k = document["k"]
    lines = [
        f"{document['made'][:10]}; {sentence(document['machine'])}.",
        "",
        f"{name}, seed {document['seed']}: D0 learnt in {document['seconds_to_learn']:.0f} s.",
        "",
        f"| step | tables | queries | MAP@{k} | R@{k} | added | update to first query, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in document["steps"]:
        update = f"{row['added']:,} | {row['seconds_to_first_query']:.2f}" if "added" in row else "| "
        lines.append(
            f"| {row['step']} | {row['tables']:,} | {row['queries']:,} | {row['map']:.4f} "
            f"| {row['recall']:.3f} | {update} |"
        )
    whole = document["everything"]
    lines += [
        f"| learnt from everything | {whole['tables']:,} | {whole['queries']:,} | {whole['map']:.4f} "
        f"| {whole['recall']:.3f} |  |  |",
        "",
        f"At D5 {document['share_kept']:.3f} of the MAP of an index learnt from everything.",
    ]
    return "\n".join(lines)


def plot(document: Mapping[str, Any], path: Path, name: str) -> None:
    """MAP by step, and what an update costs."""
    steps, whole = document["steps"], document["everything"]["map"]
    names = [row["step"] for row in steps]
    reached = [row["map"] for row in steps]
    with figure(path, columns=2, width=4.5, height=3.3) as (quality, cost):
        quality.plot(names, reached, marker="o", color=OURS, label="GenTUS, learnt from D0 only")
        quality.axhline(whole, color=COLOURS[0], linestyle="--", label="learnt from everything")
        top = min(1.05, 1.25 * max(whole, *reached))
        quality.set(ylim=(0, top), ylabel=f"MAP@{document['k']}", title=name)
        quality.legend(loc="lower left")
        seconds = [row["seconds_to_first_query"] for row in steps[1:]]
        drawn = cost.bar(names[1:], seconds, color=OURS, width=0.6)
        cost.bar_label(drawn, [f"{s:.1f} s" for s in seconds], padding=2)
        title = f"update to first query ({steps[1]['added']:,} tables each)"
        cost.set(ylim=(0, 1.25 * max(seconds)), ylabel="seconds", title=title)
