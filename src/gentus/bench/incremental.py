"""The paper's incremental protocol: learn from half a lake, let the rest come in five steps.

D0 is a random half of the tables, D1 to D5 add a tenth each. Everything is learnt from D0 only; after each
step all queries are ranked over what is there. Beside it stands an index learnt from everything.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import gentus
from gentus.bench.machine import describe, sentence
from gentus.evaluate import load_groundtruth, score
from gentus.index import Index
from gentus.lake import Source, scan
from gentus.progress import Progress

STEPS = 5


def incremental(
    lake: Path,
    groundtruth: Path,
    k: int,
    out: Path,
    *,
    queries: Path | None = None,
    labels: Path | None = None,
    name: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run the protocol on a lake and write `incremental-NAME.json`, `.md`, `.png` and `.svg` to `out`.

    `options` go to `gentus.build`. With labels, D0 learns from the pairs among its own tables.
    """
    name = (name or lake.parent.name) + ("-labels" if labels else "")
    truth = load_groundtruth(groundtruth)
    files = sorted({item.path for item in scan(lake) if isinstance(item, Source)})
    order = np.random.default_rng(seed).permutation(len(files))
    bounds = [round(len(files) * (0.5 + 0.1 * step)) for step in range(STEPS + 1)]
    root = lake.resolve()
    steps: list[dict[str, Any]] = []
    progress = progress or Progress()
    with tempfile.TemporaryDirectory(prefix="gentus-incremental-") as scratch:
        pool, index_path = Path(scratch, "lake"), Path(scratch, "index")
        _link([files[at] for at in order[: bounds[0]]], root, pool)
        known = labels_within(labels, pool, Path(scratch, "labels.csv"))
        started = time.perf_counter()
        index = gentus.build(pool, index_path, known, seed=seed, progress=progress, **options)
        learnt = time.perf_counter() - started
        for step in range(STEPS + 1):
            new = (
                _link([files[at] for at in order[bounds[step - 1] : bounds[step]]], root, pool)
                if step
                else []
            )
            started = time.perf_counter()
            index.add(new)
            first = index.search(queries / next(iter(truth)) if queries else root / next(iter(truth)), k=k)
            seconds = time.perf_counter() - started
            assert first or not len(index)
            row = {"step": f"D{step}", "tables": len(index), **_scored(index, truth, k, queries or root)}
            if step:
                row |= {"added": len(new), "seconds_to_first_query": seconds}
            steps.append(row)
        drift = index.info()["drift"]
        index.close()
        whole = gentus.build(pool, Path(scratch, "whole"), labels, seed=seed, progress=progress, **options)
        everything = {"tables": len(whole), **_scored(whole, truth, k, queries or root)}
        whole.close()
    document = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "lake": name,
        "k": k,
        "seed": seed,
        "seconds_to_learn": learnt,
        "steps": steps,
        "everything": everything,
        "share_kept": steps[-1]["map"] / everything["map"] if everything["map"] else None,
        "drift": drift,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / f"incremental-{name}.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    (out / f"incremental-{name}.md").write_text(markdown(document) + "\n", "utf-8")
    _plot(document, out / f"incremental-{name}")
    return document


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


def _scored(index: Index, truth: Mapping[str, Sequence[str]], k: int, queries: Path) -> dict[str, Any]:
    """Scores over what is in the index now; queries without an answer there are left out."""
    there = set(index.tables())
    active = {query: [table for table in found if table in there] for query, found in truth.items()}
    active = {query: found for query, found in active.items() if set(found) - {query}}
    rankings, milliseconds = {}, []
    for query in active:
        started = time.perf_counter()
        hits = index.search(queries / query, k=k + 1)  # the query may be its own first answer
        milliseconds.append(1000 * (time.perf_counter() - started))
        rankings[query] = [hit.table for hit in hits]
    return score(rankings, active, k, milliseconds).to_dict()


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table."""
    k = document["k"]
    lines = [
        f"{document['made'][:10]}; {sentence(document['machine'])}.",
        "",
        f"{document['lake']}, seed {document['seed']}: D0 learnt in {document['seconds_to_learn']:.0f} s.",
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


def _plot(document: Mapping[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    steps = document["steps"]
    names = [row["step"] for row in steps]
    figure, (quality, cost) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    quality.plot(
        names, [row["map"] for row in steps], marker="o", color="#1f6f8b", label="learnt from D0 only"
    )
    quality.axhline(
        document["everything"]["map"], color="#c8553d", linestyle="--", label="learnt from everything"
    )
    top = max(document["everything"]["map"], *(row["map"] for row in steps))
    quality.set(ylim=(0, min(1.05, 1.25 * top)), ylabel=f"MAP@{document['k']}", title=document["lake"])
    quality.legend(frameon=False, loc="lower left")
    seconds = [row["seconds_to_first_query"] for row in steps[1:]]
    bars = cost.bar(names[1:], seconds, color="#1f6f8b", width=0.6)
    cost.bar_label(bars, [f"{s:.1f} s" for s in seconds], padding=2)
    cost.set(
        ylim=(0, 1.25 * max(seconds)),
        ylabel="seconds",
        title=f"update to first query ({steps[1]['added']:,} tables each)",
    )
    for axes in (quality, cost):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path.with_suffix(".png"), dpi=130)
    figure.savefig(path.with_suffix(".svg"))
    plt.close(figure)
