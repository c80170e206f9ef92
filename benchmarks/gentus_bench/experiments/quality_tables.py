"""Tables of the main comparison: one per lake, and one of all lakes with average ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gentus.metrics import score
from gentus_bench.published import BENCHMARKS, CONDITIONS, rows_for
from gentus_bench.significance import average_precisions, randomisation_test
from gentus_bench.table import Table, figure

Row = Mapping[str, Any]
QUALITY = ("map", "map_full", "map_prefix", "precision", "recall")
_MEANS = (*QUALITY, "ms_p50", "ms_p95", "read_ms_p50")
_FACTS = (
    *("fit_seconds", "offline_seconds", "build_seconds", "peak_mb", "serving_mb"),
    "bytes_per_table",
)
_COSTS = (
    ("ms p50", "ms_p50", ",.1f"),
    ("ms p95", "ms_p95", ",.1f"),
    ("fit s", "fit_seconds", ",.1f"),
    ("bytes per table", "bytes_per_table", ",.0f"),
    ("serving MB", "serving_mb", ",.1f"),
)


def summary(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One row per method: means over seeds, and the standard deviation of MAP."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["what"]["method"], []).append(row)
    return [_over_seeds(method, group) for method, group in grouped.items()]


def compared(
    rows: list[dict[str, Any]], measured: Sequence[Row], truth: Mapping[str, Sequence[str]], k: int
) -> list[dict[str, Any]]:
    """Rows with the p-value of their difference to the best one, by the first seed of each."""
    each = {
        row["what"]["method"]: list(average_precisions(row["answers"], truth, k).values())
        for row in measured
        if row["what"]["seed"] == 0 and "answers" in row
    }
    best = max(each, key=lambda method: float(np.mean(each[method])), default="")
    for row in rows:
        if row["method"] in each and row["method"] != best:
            row["p"] = randomisation_test(each[best], each[row["method"]])
    return rows


def _over_seeds(method: str, rows: Sequence[Row]) -> dict[str, Any]:
    good = [row for row in rows if "error" not in row]
    found: dict[str, Any] = {"method": method, "title": rows[0]["title"], "seeds": len(good)}
    if not good:
        return {**found, "error": rows[0]["error"]}
    for key in (*_MEANS, *_FACTS):
        values = [row[key] for row in good if row.get(key) is not None]
        found[key] = float(np.mean(values)) if values else None
    for key in ("map", "precision", "recall"):
        values = [row[key] for row in good]
        found[f"{key}_std"] = float(np.std(values, ddof=1)) if len(good) > 1 else None
    return found


def curves(
    rankings: Mapping[str, Sequence[str]], truth: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> dict[str, list[float]]:
    """Precision and recall at several k."""
    scored = [score(rankings, truth, k) for k in ks]
    return {"precision": [one.precision for one in scored], "recall": [one.recall for one in scored]}


def lake_table(document: Mapping[str, Any]) -> Table:
    """Quality and costs, best MAP first, and published figures for the same k."""
    k, name, lake = document["k"], document["what"]["lake"], document["lake"]
    columns = ["system", f"MAP@{k}", "MAP full", "MAP prefix", f"P@{k}", f"R@{k}", "p"]
    rows = [_cells(row) for row in sorted(document["rows"], key=lambda row: -(row.get("map") or 0))]
    for row in rows_for(name):
        if row["k"] == k:
            quality = [figure(row.get(key), ".3f") for key in QUALITY]
            source = "published" if row["table"] == "tab:main" else f"published: {row['table']}"
            rows.append([f"{row['method']} ({source})", *quality, "", *[""] * len(_COSTS)])
    title = f"{name}: {lake['tables']:,} tables, {lake['queries']:,} queries, k = {k}"
    best = dict.fromkeys(range(1, 6), True)
    failed = [
        f"{row['title']} failed:\n\n```\n{row['error']}\n```" for row in document["rows"] if "error" in row
    ]
    meant = "*p*: two-sided, of a paired randomisation test against the best system."
    labels = [f"Labels: {note}." for note in document["labels"]]
    tested = [meant] if any("p" in row for row in document["rows"]) else []
    printed = [CONDITIONS] if name in BENCHMARKS else []
    note = "\n\n".join([" ".join([lake["groundtruth"], *labels, *tested, *printed]), *failed])
    return Table([*columns, *(head for head, *_ in _COSTS)], rows, title, note, best).filled()


def _cells(row: Row) -> list[str]:
    if "error" in row:
        return [f"{row['title']} (failed, see below)", *[""] * (len(QUALITY) + 1 + len(_COSTS))]
    spread = f" ± {row['map_std']:.3f}" if row["map_std"] is not None else ""
    quality = [f"{row['map']:.3f}{spread}", *(f"{row[key]:.3f}" for key in QUALITY[1:])]
    return [
        row["title"],
        *quality,
        figure(row.get("p"), ".4f"),
        *(figure(row[key], form) for _, key, form in _COSTS),
    ]


def average_ranks(lakes: Mapping[str, Sequence[Row]], metric: str = "map") -> dict[str, float]:
    """The mean rank of each system over lakes that all of them were measured on; equals share a rank."""
    values = [
        {row["title"]: row[metric] for row in rows if row.get(metric) is not None} for rows in lakes.values()
    ]
    everywhere = set.intersection(*map(set, values)) if values else set()
    ranks: dict[str, list[float]] = {title: [] for title in everywhere}
    for found in values:
        for title in everywhere:
            better = sum(found[other] > found[title] for other in everywhere)
            equal = sum(found[other] == found[title] for other in everywhere)
            ranks[title].append(better + (equal + 1) / 2)
    return dict(sorted(((t, float(np.mean(r))) for t, r in ranks.items()), key=lambda item: item[1]))


def overview(documents: Sequence[Mapping[str, Any]]) -> Table:
    """MAP of every system on every lake, best average rank first; systems that use labels have no rank."""
    lakes = {document["what"]["lake"]: document["rows"] for document in documents}
    ranks = average_ranks({n: [r for r in rows if "labels" not in r["title"]] for n, rows in lakes.items()})
    maps = {n: {r["title"]: r["map"] for r in rows if r.get("map") is not None} for n, rows in lakes.items()}
    titles = dict.fromkeys(title for found in maps.values() for title in found)
    rows = []
    for title in sorted(titles, key=lambda title: (ranks.get(title, np.inf), title)):
        cells = [figure(found.get(title), ".3f") for found in maps.values()]
        rows.append([title, *cells, figure(ranks.get(title), ".2f")])
    columns = [f"{one['what']['lake']}, k = {one['k']}" for one in documents]
    best = dict.fromkeys(range(1, len(lakes) + 1), True) | {len(lakes) + 1: False}
    note = "Ranks are among the systems without labels that were measured on all of these lakes."
    return Table(["system", *columns, "average rank"], rows, "MAP@k", note, best)
