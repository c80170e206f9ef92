"""The report: what lies in a folder of results, section by section. Every sentence is made from figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gentus_bench import published
from gentus_bench.benchmarks import Benchmark
from gentus_bench.collected import Collected, collect
from gentus_bench.report import Page, link
from gentus_bench.results import Results
from gentus_bench.telling_costs import OFFLINE, ONLINE, SERVING, STORAGE, tell_costs
from gentus_bench.telling_experiments import (
    BEAM,
    CONSTRAINTS,
    IDENTIFIERS,
    INCREMENTAL,
    POOL,
    tell_beams,
    tell_identifiers,
    tell_incremental,
    tell_pools,
    tell_prefix_tree,
)
from gentus_bench.telling_quality import (
    CURVES,
    LAKES,
    OVERVIEW,
    QUALITY,
    tell_claims,
    tell_curves,
    tell_lakes,
    tell_overview,
    tell_quality,
)

PAPER = "The paper's figures and tables, and where their counterpart is here"


def write_report(results: Results, benchmarks: Iterable[Benchmark] = ()) -> Path:
    """Make tables, plots and page from what lies in the folder; returns where the page is."""
    found = collect(results, benchmarks)
    page = Page("GenTUS beside others: what was measured")
    for tell in (
        tell_overview,
        tell_claims,
        tell_lakes,
        tell_quality,
        tell_curves,
        tell_costs,
        tell_incremental,
        tell_pools,
        tell_identifiers,
        tell_prefix_tree,
        tell_beams,
        _tell_paper,
    ):
        tell(page, found, results)
    if not found.main:
        page.say("Nothing of the main comparison has been measured yet.")
    out = results.folder / "report.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page.text(), encoding="utf-8")
    return out


# --- beside the paper ----------------------------------------------------------------------------------

Where = Callable[[Collected], Iterable[str]]  # the lakes that a section tells of


def _measured(key: str) -> Where:
    def lakes(found: Collected) -> list[str]:
        return [
            name for name, rows in found.summaries.items() if any(row.get(key) is not None for row in rows)
        ]

    return lakes


_COUNTERPARTS: Mapping[str, tuple[str, Where, str]] = {  # by the paper's labels: section, lakes, what differs
    "tab:datasets": (LAKES, lambda found: found.main, "rows are of samples"),
    "tab:main": (QUALITY, _measured("map"), f"average ranks in “{OVERVIEW}”"),
    "fig:e2": (
        CURVES,
        lambda found: [name for name, one in found.main.items() if one.benchmark.truth],
        "",
    ),
    "fig:e3": (OFFLINE, _measured("fit_seconds"), ""),
    "fig:e4": (ONLINE, _measured("ms_p50"), "a query instead of all queries together"),
    "fig:e5": (STORAGE, _measured("bytes_per_table"), "bytes a table instead of MB"),
    "tab:model-weights": (SERVING, _measured("serving_mb"), ""),
    "fig:dyn": (
        INCREMENTAL,
        lambda found: found.incremental,
        "GenTUS alone, beside learning from everything",
    ),
    "tab:robustness": (POOL, lambda found: found.pool, ""),
    "tab:abl-sid": (IDENTIFIERS, lambda found: found.identifiers, ""),
    "tab:prefix-decoding": (CONSTRAINTS, lambda found: found.constraints, ""),
    "fig:e12": (
        BEAM,
        lambda found: dict.fromkeys(name.removesuffix(", labels") for name in found.beam),
        "p50 instead of the mean time",
    ),
}


def _tell_paper(page: Page, found: Collected, results: Results) -> None:
    """Where each of the paper's figures and tables is told here; generated from what the page has."""
    rows = []
    for item in published.ITEMS:
        if item.label not in _COUNTERPARTS:
            rows.append([item.name, item.caption, "a drawing: nothing to measure", "", ""])
            continue
        heading, where, differs = _COUNTERPARTS[item.label]
        anchor = page.anchor(heading)
        if anchor is None:
            rows.append([item.name, item.caption, "not measured in this run", "", ""])
        else:
            rows.append([item.name, item.caption, link(anchor, heading), ", ".join(where(found)), differs])
    page.section(PAPER)
    page.table(["in the paper", "what it shows", "here", "lakes", "what differs"], rows, words=True)
