"""How well columns are aligned: precision, recall and F1 on slices of tables whose columns are known."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np

from gentus.align.matcher import shipped_weights
from gentus.table import Column, Table
from gentus_bench.aligners import Aligner, Found, ours
from gentus_bench.column_pairs import Example, lake_examples
from gentus_bench.machine import sentence
from gentus_bench.plots import bars, figure
from gentus_bench.results import Results, markdown_table

log = logging.getLogger("gentus_bench")
WIDTHS = (20, 300)  # columns of both tables, to be timed
RUNS = 25


def measure_alignment(
    lake: Path, aligners: Mapping[str, Aligner], results: Results, pairs: int = 6, seed: int = 0
) -> dict[str, Any]:
    """Align pairs of slices of every base table, by all methods, with names hidden and not.

    Writes `align-LAKE`: documents of each method, which are not measured again, a table and a plot.
    """
    examples: list[Example] = []

    def known() -> list[Example]:
        if not examples:
            examples.extend(lake_examples(lake, pairs, seed))
        return examples

    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    for key, aligner in aligners.items():
        for names in (False, True):
            what = {"lake": lake.name, "pairs": pairs, "seed": seed, "names": names}
            if key == "gentus":
                what["weights"] = crc32(
                    json.dumps(shipped_weights().to_dict()).encode()
                )  # others, other figures
            if names and not aligner.reads_names:
                rows[key, names] = rows[key, False]
                continue
            name = f"align/{lake.name}/{key}{'-names' if names else ''}"
            measure = partial(_measured, aligner, known, names)
            rows[key, names] = results.measured(name, what, measure)
    timed = results.measured(
        f"align/{lake.name}/times", {"lake": lake.name, "widths": WIDTHS}, lambda: _times(known(), seed)
    )
    document = {
        "lake": lake.name,
        "made": max(row["made"] for row in rows.values()),
        "machine": timed["machine"],
        "rows": [row | {"names": names, "key": key} for (key, names), row in rows.items()],
        "times": timed["times"],
    }
    results.write_table(f"align-{lake.name}", markdown(document))
    plot(document, results.folder / f"align-{lake.name}")
    return document


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
    strangers = [
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
        "false_pairs_of_strangers": float(
            np.mean([len(_kept(some, threshold)) for some in strangers] or [0])
        ),
        "ms_p50": float(np.percentile(times, 50)),
        "ms_p95": float(np.percentile(times, 95)),
    }


def _tried(aligner: Aligner, query: Table, table: Table, names: bool) -> tuple[Found, float]:
    try:
        return aligner.match(query, table, names)
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
    """Align tables as wide as asked for, put together from columns of the lake."""
    times = []
    for width in WIDTHS:
        query, table = (_wide(examples, width, f"{seed} {side}") for side in ("query", "table"))
        taken, used = [], []
        for _ in range(RUNS):
            before = time.process_time()
            taken.append(ours(query, table, True)[1])
            used.append(1000 * (time.process_time() - before))
        times.append(
            {
                "columns": width,
                "rows": max(query.rows, table.rows),
                "cells": sum(len(column.cells) for side in (query, table) for column in side.columns),
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


def markdown(document: Mapping[str, Any]) -> str:
    """The document as tables."""
    first = document["rows"][0]
    lines = [
        f"{document['made'][:10]}; {sentence(document['machine'])}.",
        "",
        f"{document['lake']}: {first['table_pairs']:,} pairs of slices of {first['base_tables']:,} base"
        f" tables, {first['column_pairs']:,} pairs of columns to find.",
    ]
    for names in (False, True):
        lines += ["", f"Headers {'shown' if names else 'hidden'}:", "", _table(document["rows"], names)]
    lines += [
        "",
        "Matchers of valentine are given the threshold that is best for them on these very pairs; GenTUS has"
        " the one it ships with.",
        "",
        *(
            f"{row['columns']} x {row['columns']} columns, {row['cells']:,} cells: {row['ms_median']:.1f} ms,"
            f" least of {RUNS} {row['ms_least']:.1f} ms, of processor time {row['cpu_ms_median']:.1f} ms."
            for row in document["times"]
        ),
    ]
    return "\n".join(lines)


def _table(rows: Iterable[Mapping[str, Any]], names: bool) -> str:
    header = [
        *("method", "precision", "recall", "F1", "mean F1 of base tables", "threshold"),
        *("false pairs of unrelated tables", "ms p50", "ms p95"),
    ]
    return markdown_table(
        header,
        [
            [
                row["title"],
                *(f"{row[figure]:.3f}" for figure in ("precision", "recall", "f1", "mean_f1")),
                f"{row['threshold']:.2f}",
                f"{row['false_pairs_of_strangers']:.2f}",
                *(f"{row[figure]:,.1f}" for figure in ("ms_p50", "ms_p95")),
            ]
            for row in rows
            if row["names"] == names
        ],
    )


def plot(document: Mapping[str, Any], path: Path) -> None:
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
