"""The main comparison: every system on every lake, in one process, each measured once and kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gentus.bench.baselines import Reports, Retriever
from gentus.bench.benchmarks import Benchmark
from gentus.bench.methods import METHODS, Lake
from gentus.bench.published import rows_for
from gentus.bench.results import Results
from gentus.evaluate import check, score
from gentus.lake import Skipped, Source, Unreadable, each, read, scan
from gentus.table import Table

log = logging.getLogger("gentus.bench")

UNSEEDED = ("tfidf-words", "tfidf-chars", "minilm")
DEPTH = 1000  # tables of a ranking that are kept, for curves over k and for smaller pools
WARM = 5  # searches before the clock counts


@dataclass(slots=True)
class Comparison:
    """One lake and what was measured on it."""

    benchmark: Benchmark
    groundtruth: str  # whether it fits the lake
    rows: list[dict[str, Any]] = field(default_factory=list)  # a document a method and seed

    @property
    def tables(self) -> int:
        """How many tables of the lake could be read."""
        return max((row["tables"] for row in self.rows), default=0)


class _Read:
    """The tables of a lake, read when the first method needs them."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark

    @cached_property
    def tables(self) -> dict[str, Table]:
        found: dict[str, Table] = {}
        sources = [item for item in scan(self.benchmark.lake) if isinstance(item, Source)]
        for source, table in each(sources, _same):
            if not isinstance(table, Skipped):
                found[source.name] = table
        return found

    @cached_property
    def queries(self) -> dict[str, Source]:
        wanted = self.benchmark.truth
        folder = self.benchmark.queries or self.benchmark.lake
        return {item.name: item for item in scan(folder) if isinstance(item, Source) and item.name in wanted}

    def fits(self) -> str:
        """Whether lake and ground truth fit each other, by the names of the files."""
        names = [item.name for item in scan(self.benchmark.lake) if isinstance(item, Source)]
        return check(self.benchmark.truth, names, self.queries).summary()


def _same(table: Table) -> Table:
    return table


def compare(benchmark: Benchmark, methods: Sequence[str], results: Results, seeds: int = 1) -> Comparison:
    """Fit, search and score methods on one lake; what the results have already is not measured again.

    A method that fails gets a document that says so, and the others go on.
    """
    lake = _Read(benchmark)
    _, labels = benchmark.write(results.folder / "truth")
    rows = []
    for method in methods:
        for seed in range(seeds):
            name = f"main-{benchmark.name}-{method}-{seed}"
            place = Lake(benchmark.lake, labels, results.folder / "indexes" / name, seed)
            what = {"lake": benchmark.name, "method": method, "seed": seed, "k": benchmark.k}
            retriever = METHODS[method](place)
            if retriever is None:
                log.info("%s: no labels, so no %s", benchmark.name, method)
                break
            log.info("%s: %s, seed %d", benchmark.name, retriever.name, seed)
            rows.append(results.measured(name, what, _measuring(retriever, lake)))
            if method in UNSEEDED:
                break  # another seed would measure the same again
    comparison = Comparison(benchmark, lake.fits(), rows)
    results.write_table(f"main-{benchmark.name}", markdown(comparison))
    return comparison


def _measuring(retriever: Retriever, lake: _Read) -> Any:
    def measure() -> dict[str, Any]:
        try:
            return {"title": retriever.name, **_measure(retriever, lake)}
        except Exception as error:  # hours of other methods' figures must not go with it
            log.exception("%s failed on %s", retriever.name, lake.benchmark.name)
            return {"title": retriever.name, "tables": 0, "error": f"{type(error).__name__}: {error}"}

    return measure


def _measure(retriever: Retriever, lake: _Read) -> dict[str, Any]:
    benchmark = lake.benchmark
    started = time.perf_counter()
    retriever.fit(lake.tables.values())
    fitted = time.perf_counter() - started
    queries = list(lake.queries.items())
    for _, source in queries[:WARM]:
        retriever.search(read(source), benchmark.k + 1)
    rankings: dict[str, list[str]] = {}
    milliseconds: list[float] = []
    for query, source in queries:
        try:
            started = time.perf_counter()
            table = read(source)  # end to end, for all alike: from the file to the ranking
            retriever.search(table, benchmark.k + 1)
            milliseconds.append((time.perf_counter() - started) * 1000)
        except Unreadable as error:
            log.warning("%s: %s", query, error.reason)
            continue
        rankings[query] = [name for name in retriever.search(table, DEPTH + 1) if name != query][:DEPTH]
    facts = retriever.facts() if isinstance(retriever, Reports) else {}
    return {
        **facts,
        **score(rankings, benchmark.truth, benchmark.k, milliseconds).to_dict(),
        "tables": len(lake.tables),
        "fit_seconds": fitted,
        "rankings": rankings,
    }


# --- what the documents say together -------------------------------------------------------------------


def summary(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a method: means over seeds, and the standard deviation of MAP."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["what"]["method"], []).append(row)
    return [_over_seeds(method, group) for method, group in grouped.items()]


_MEANS = ("map", "map_full", "map_prefix", "precision", "recall", "ms_p50", "ms_p95")
_FACTS = ("fit_seconds", "build_seconds", "bytes_per_table", "peak_mb", "serving_mb")


def _over_seeds(method: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if "error" not in row]
    told: dict[str, Any] = {"method": method, "title": rows[0]["title"], "seeds": len(good)}
    if not good:
        return {**told, "error": rows[0]["error"]}
    for key in (*_MEANS, *_FACTS):
        values = [row[key] for row in good if row.get(key) is not None]
        told[key] = float(np.mean(values)) if values else None
    told["map_std"] = float(np.std([row["map"] for row in good], ddof=1)) if len(good) > 1 else None
    return told


def average_ranks(lakes: Mapping[str, Sequence[Mapping[str, Any]]], metric: str = "map") -> dict[str, float]:
    """The mean place of each method over lakes that all of them were measured on; equals share a place."""
    everywhere = set.intersection(
        *({row["title"] for row in rows if row.get(metric) is not None} for rows in lakes.values())
    )
    places: dict[str, list[float]] = {title: [] for title in everywhere}
    for rows in lakes.values():
        values = {row["title"]: row[metric] for row in rows if row["title"] in everywhere}
        for title, value in values.items():
            better = sum(other > value for other in values.values())
            equal = sum(other == value for other in values.values())
            places[title].append(better + (equal + 1) / 2)
    return dict(sorted(((t, float(np.mean(p))) for t, p in places.items()), key=lambda item: item[1]))


def curves(
    row: Mapping[str, Any], truth: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> dict[str, list[float]]:
    """Precision and recall of a document at several k."""
    scored = [score(row["rankings"], truth, k) for k in ks]
    return {"precision": [one.precision for one in scored], "recall": [one.recall for one in scored]}


def markdown(comparison: Comparison) -> str:
    """A table of the methods, best MAP first."""
    k = comparison.benchmark.k
    header = [
        "method",
        f"MAP@{k}",
        "MAP full",
        "MAP prefix",
        f"P@{k}",
        f"R@{k}",
        "ms p50",
        "ms p95",
        "fit s",
        "bytes a table",
    ]
    benchmark = comparison.benchmark
    lines = [
        f"{benchmark.name}: {comparison.tables:,} tables, {len(benchmark.truth):,} queries, k = {k}. "
        + comparison.groundtruth,
        "",
        f"| {' | '.join(header)} |",
        "| --- |" + " ---: |" * (len(header) - 1),
    ]
    for row in sorted(summary(comparison.rows), key=lambda row: -(row.get("map") or 0)):
        lines.append(f"| {' | '.join(_cells(row))} |")
    for row in rows_for(benchmark.name):
        if row["k"] == k:
            figures = ("" if row.get(key) is None else f"{row[key]:.3f}" for key in _MEANS[:5])
            lines.append(f"| {row['method']} (published) | {' | '.join(figures)} |  |  |  |  |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    if "error" in row:
        yield f"{row['title']} (failed: {row['error'].splitlines()[0].replace('|', '/')})"
        yield from [""] * 9
        return
    yield row["title"]
    spread = f" ± {row['map_std']:.3f}" if row["map_std"] is not None else ""
    yield f"{row['map']:.3f}{spread}"
    for key in ("map_full", "map_prefix", "precision", "recall"):
        yield f"{row[key]:.3f}"
    for key, digits in (("ms_p50", 1), ("ms_p95", 1), ("fit_seconds", 1), ("bytes_per_table", 0)):
        yield "" if row[key] is None else f"{row[key]:,.{digits}f}"
