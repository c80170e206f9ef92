"""Robustness to the size of the candidate pool: learnt from the whole lake, ranked over a part of it.

The tables of a pool are drawn at random; answers outside it do not count, and queries without an answer in
it are left out, so figures of pools of different size are over somewhat different queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gentus.metrics import score
from gentus_bench.plots import figure, legend, lines
from gentus_bench.results import Results

Ranked = Mapping[str, Sequence[str]]  # every table that a method ranks for a query, best first

SHARES = (0.1, 0.25, 0.5, 1.0)


def measure_pools(
    rankings: Mapping[str, Ranked],
    truth: Mapping[str, Sequence[str]],
    tables: Iterable[str],
    k: int,
    results: Results,
    name: str,
    *,
    shares: Sequence[float] = SHARES,
    seeds: int = 3,
) -> dict[str, Any]:
    """MAP of every method over random pools; rankings of the whole lake are cut down to each pool.

    For every method that scores tables one by one, that is what it would rank had it only the pool.
    """
    everything = sorted(tables)

    def measure() -> dict[str, Any]:
        rows = []
        for share in shares:
            found: dict[str, list[float]] = {method: [] for method in rankings}
            size = round(share * len(everything))
            for seed in range(seeds if share < 1 else 1):
                drawn = np.random.default_rng(seed).choice(len(everything), size, replace=False)
                pool = {everything[at] for at in drawn}
                active = {
                    query: [table for table in right if table in pool] for query, right in truth.items()
                }
                active = {query: right for query, right in active.items() if set(right) - {query}}
                if not active:
                    continue
                for method, ranked in rankings.items():
                    cut = {q: [table for table in ranked.get(q, ()) if table in pool] for q in active}
                    found[method].append(score(cut, active, k).map)
            if not any(found.values()):
                continue  # so small that no query has an answer in it
            rows.append(
                {
                    "tables": size,
                    "map": {method: float(np.mean(values)) for method, values in found.items() if values},
                    "deviation": {
                        method: float(np.std(values)) for method, values in found.items() if values
                    },
                }
            )
        return {"k": k, "rows": rows}

    what = {
        "tables": len(everything),
        "shares": list(shares),
        "seeds": seeds,
        "k": k,
        "methods": sorted(rankings),
    }
    document = results.measured(f"pool-{name}", what, measure)
    results.write_table(f"pool-{name}", markdown(document))
    plot(document, results.folder / f"pool-{name}", name)
    return document


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table, best of a row in bold."""
    if not document["rows"]:
        return "No pool has a query with an answer in it."
    methods = list(document["rows"][0]["map"])
    lines = ["| tables | " + " | ".join(methods) + " |", "| ---: |" + " ---: |" * len(methods)]
    for row in document["rows"]:
        best = max(row["map"].values())
        cells = []
        for method in methods:
            value = f"{row['map'][method]:.3f}"
            spread = row["deviation"][method]
            value = f"**{value}**" if row["map"][method] == best else value
            cells.append(value + (f" ± {spread:.3f}" if spread else ""))
        lines.append(f"| {row['tables']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(document: Mapping[str, Any], path: Path, name: str) -> None:
    """MAP against the size of the pool."""
    rows = document["rows"]
    if not rows:
        return
    with figure(path, width=7) as (axes,):
        series = {
            method: ([row["tables"] for row in rows], [row["map"][method] for row in rows])
            for method in rows[0]["map"]
        }
        lines(axes, series, xlabel="tables in the pool", ylabel=f"MAP@{document['k']}", title=name)
        axes.set_ylim(bottom=0)
        legend(axes)
