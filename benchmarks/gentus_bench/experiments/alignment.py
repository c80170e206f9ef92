"""Precision, recall and F1 of column alignment, on slices of tables whose columns are known."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np

from gentus.align.matcher import shipped_weights
from gentus.table import Column, Table
from gentus_bench import table
from gentus_bench.experiment import Request
from gentus_bench.experiments.aligners import Aligner, Found, aligners, ours
from gentus_bench.experiments.column_pairs import Example, lake_examples
from gentus_bench.plots import bars, figure
from gentus_bench.results import Document, Results

log = logging.getLogger("gentus_bench")
WIDTHS = (20, 300)  # columns of both tables, to be timed
RUNS = 25


@dataclass(frozen=True, slots=True)
class Options:
    """Which pairs of slices."""

    pairs: int = 6  # of each base table
    seed: int = 0


def run(request: Request, options: Options) -> Iterator[Document]:
    """Lakes that `make-lake` cut, or others of slices with ground truth."""
    for lake in request.folders():
        yield measure_alignment(lake, aligners(list(request.methods)), request.results, options)


def measure_alignment(
    lake: Path, methods: Mapping[str, Aligner], results: Results, options: Options | None = None
) -> Document:
    """Align pairs of slices of every base table, by all methods, with names hidden and not."""
    options = options or Options()
    known = cache(lambda: lake_examples(lake, options.pairs, options.seed))
    rows: dict[tuple[str, bool], Document] = {}
    for key, aligner in methods.items():
        for names in (False, True):
            if names and not aligner.reads_names:
                rows[key, names] = rows[key, False]
                continue
            what: Document = {"lake": lake.name, **asdict(options), "names": names}
            if key == "gentus":  # other weights, other figures
                what["weights"] = crc32(json.dumps(shipped_weights().to_dict()).encode())
            name = f"alignment/{lake.name}/{key}{'-names' if names else ''}"
            rows[key, names] = results.measured(name, what, partial(_measured, aligner, known, names))
    what = {"lake": lake.name, "widths": WIDTHS}
    timed = results.measured(f"alignment/{lake.name}/times", what, lambda: _times(known(), options.seed))
    content = {
        "rows": [row | {"names": names, "key": key} for (key, names), row in rows.items()],
        "times": timed["times"],
    }
    what = {"lake": lake.name, "methods": list(methods), **asdict(options)}
    return results.combined(f"alignment-{lake.name}", what, content)


def _measured(aligner: Aligner, known: Callable[[], list[Example]], names: bool) -> dict[str, Any]:
    """All examples, then as many pairs of tables that have nothing to do with each other."""
    log.info("%s, names %s", aligner.name, "shown" if names else "hidden")
    examples = known()
    found: list[Found] = []
    times = []
    for example in examples:
        some, milliseconds = _tried(aligner, example.query, example.table, names)
        found.append(some)
        times.append(milliseconds)
    unrelated = [
        _tried(aligner, one.query, other.table, names)[0]
        for one, other in pairwise(examples)
        if one.base != other.base
    ]
    threshold = aligner.threshold
    if threshold is None:
        cuts = sorted({round(score, 2) for some in found for _, _, score in some} | {0.0})
        threshold = max(cuts, key=lambda cut: scored(examples, found, cut)["f1"])
    return {
        "title": aligner.name,
        "threshold": threshold,
        "threshold_is_best_for_it": aligner.threshold is None,
        **scored(examples, found, threshold),
        "false_pairs_of_unrelated": float(
            np.mean([len(_kept(some, threshold)) for some in unrelated] or [0])
        ),
        "ms_p50": float(np.percentile(times, 50)),
        "ms_p95": float(np.percentile(times, 95)),
    }


def _tried(aligner: Aligner, query: Table, other: Table, names: bool) -> tuple[Found, float]:
    try:
        return aligner.match(query, other, names)
    except Exception as error:  # other people's matchers: one that fails has found nothing
        log.warning("%s: %s: %s", aligner.name, type(error).__name__, error)
        return [], 0.0


def _kept(found: Found, threshold: float) -> set[tuple[int, int]]:
    return {(i, j) for i, j, score in found if score >= threshold}


def scored(examples: Sequence[Example], found: Sequence[Found], threshold: float) -> dict[str, Any]:
    """Precision, recall and F1 over all pairs of columns, and the mean F1 of base tables."""
    by_base: dict[str, list[int]] = {}
    for example, some in zip(examples, found, strict=True):
        kept = _kept(some, threshold)
        counts = by_base.setdefault(example.base, [0, 0, 0])
        counts[0] += sum(bool(example.truth[pair]) for pair in kept)
        counts[1] += len(kept)
        counts[2] += int(example.truth.sum())
    hits, said, true = np.sum(list(by_base.values()), 0).tolist() if by_base else (0, 0, 0)
    return {
        "base_tables": len(by_base),
        "table_pairs": len(examples),
        "column_pairs": true,
        "precision": hits / max(said, 1),
        "recall": hits / max(true, 1),
        "f1": 2 * hits / max(said + true, 1),
        "mean_f1": float(np.mean([2 * h / max(s + t, 1) for h, s, t in by_base.values()] or [0])),
    }


def _times(examples: Sequence[Example], seed: int) -> dict[str, Any]:
    """Align tables of several widths, put together from columns of the lake."""
    times = []
    for width in WIDTHS:
        query, other = (_wide(examples, width, f"{seed} {side}") for side in ("query", "table"))
        taken, used = [], []
        for _ in range(RUNS):
            before = time.process_time()
            taken.append(ours(query, other, True)[1])
            used.append(1000 * (time.process_time() - before))
        times.append(
            {
                "columns": width,
                "rows": max(query.rows, other.rows),
                "cells": sum(len(column.cells) for side in (query, other) for column in side.columns),
                "ms_median": float(np.median(taken)),
                "ms_least": float(min(taken)),
                "cpu_ms_median": float(np.median(used)),
            }
        )
    return {"times": times}


def _wide(examples: Sequence[Example], width: int, seed: str) -> Table:
    """A table of so many columns, the longest of the lake first, under names of their own."""
    chance = Random(seed)
    columns = [column for example in examples for column in example.query.columns]
    chance.shuffle(columns)
    columns.sort(key=lambda column: -len(column.cells))
    some = [columns[at % len(columns)] for at in range(width)]
    named = [Column(f"{column.name} {at}", column.cells) for at, column in enumerate(some)]
    return Table(seed, named, max(len(column.cells) for column in named))


def tables(document: Document) -> list[table.Table]:
    """Precision and recall of all methods, names hidden and shown, and times of wide tables."""
    first = document["rows"][0]
    rows = [
        [
            *(row["title"], "shown" if row["names"] else "hidden"),
            *(f"{row[key]:.3f}" for key in ("precision", "recall", "f1", "mean_f1")),
            *(f"{row['threshold']:.2f}", f"{row['false_pairs_of_unrelated']:.2f}"),
            *(f"{row[key]:,.1f}" for key in ("ms_p50", "ms_p95")),
        ]
        for row in sorted(document["rows"], key=lambda row: bool(row["names"]))
    ]
    columns = ["method", "headers", "precision", "recall", "F1", "mean F1 of base tables", "threshold"]
    columns += ["false pairs of unrelated tables", "ms p50", "ms p95"]
    title = (
        f"{document['what']['lake']}: {first['table_pairs']:,} pairs of slices of {first['base_tables']:,}"
        f" base tables, {first['column_pairs']:,} pairs of columns"
    )
    times = "; ".join(
        f"{row['columns']} x {row['columns']} columns, {row['cells']:,} cells: {row['ms_median']:.1f} ms"
        for row in document["times"]
    )
    return [table.Table(columns, rows, title, f"Median of {RUNS} alignments of wide tables: {times}.")]


def plot(document: Document, path: Path) -> None:
    """F1 with headers hidden and shown, and the time of one alignment."""
    hidden, shown = ([row for row in document["rows"] if row["names"] == names] for names in (False, True))
    with figure(path, columns=3, width=4.2, height=2.4) as axes:
        for drawn, rows, title in ((axes[0], hidden, "headers hidden"), (axes[1], shown, "headers shown")):
            bars(drawn, {row["title"]: row["f1"] for row in rows}, xlabel="F1", title=title)
            drawn.set_xlim(0, 1.15)
        times = {row["title"]: row["ms_p50"] for row in hidden}
        bars(axes[2], times, log=True, xlabel="ms (median)", title="one alignment")
        for drawn in axes[1:]:
            drawn.set_yticklabels([])
