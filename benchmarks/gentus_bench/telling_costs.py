"""Sections of the report on what systems cost: time to build and to answer, on disk and in memory."""

from __future__ import annotations

from gentus_bench import plots, published, timing
from gentus_bench.collected import Collected
from gentus_bench.report import Page
from gentus_bench.results import Results
from gentus_bench.telling_quality import listed

OFFLINE = "Offline: time to build"
ONLINE = "Online: time of a search"
STORAGE = "Storage: what a search needs on disk"
SERVING = "Serving: what a process holds to answer"


def tell_costs(page: Page, found: Collected, results: Results) -> None:
    """Time to build and to answer, bytes on disk, memory of a process."""
    summaries = found.summaries
    timed = all(
        row.get("offline_seconds") for rows in summaries.values() for row in rows if "error" not in row
    )
    offline = "offline_seconds" if timed else "fit_seconds"
    _cost(page, OFFLINE, offline, "seconds", found, results)
    if page.anchor(OFFLINE):
        said = (
            "From files to a system that answers: reading the lake is included for all."
            if timed
            else "The build of GenTUS includes reading the lake; the other systems get tables that were read."
        )
        page.say(said, soft=True)
    _cost(page, ONLINE, "ms_p50", "ms a query, p50, reading the file included", found, results)
    _online(page, found, results)
    _cost(page, STORAGE, "bytes_per_table", "bytes a table", found, results)
    _cost(page, SERVING, "serving_mb", "MB", found, results)
    told = {one["method"]: one["value"] for one in published.figures(table="tab:model-weights")}
    if page.anchor(SERVING):
        listed = ", ".join(f"{method} {value:,.0f}" for method, value in told.items())
        page.say(f"Published, on wiki_union, in MB: {listed} (LIFTus: more than that).", soft=True)


def _cost(page: Page, heading: str, key: str, unit: str, found: Collected, results: Results) -> None:
    """One kind of cost on all lakes: a grid of bars, and the same as a table."""
    values = {
        name: {row["title"]: row[key] for row in rows if row.get(key)}
        for name, rows in found.summaries.items()
    }
    values = {name: costs for name, costs in values.items() if costs}
    if not values:
        return
    page.section(heading)
    path = results.folder / key
    height = 0.95 + 0.235 * max(map(len, values.values()))
    with plots.grid(path, len(values), 2, width=5.0, height=height) as axes:
        for one, (name, costs) in zip(axes, values.items(), strict=True):
            ordered = dict(sorted(costs.items(), key=lambda item: item[1]))
            plots.bars(one, ordered, log=True, xlabel=unit, title=name)
    page.plot(
        path, f"{heading.split(':')[0]}: {unit} (logarithmic where they differ much; shorter is better)"
    )
    titles = dict.fromkeys(title for costs in values.values() for title in costs)
    rows = [[title, *(_figure(costs.get(title)) for costs in values.values())] for title in titles]
    with page.folded("The same as a table"):
        page.table(["system", *values], rows, dict.fromkeys(range(1, len(values) + 1), False))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _online(page: Page, found: Collected, results: Results) -> None:
    reading = {
        name: min(row["read_ms_p50"] for row in rows if row.get("read_ms_p50"))
        for name, rows in found.summaries.items()
        if any(row.get("read_ms_p50") for row in rows)
    }
    if reading:
        page.say(f"Reading the query's file alone takes, ms p50: {listed(reading, '{:.1f}')}.")
    if not found.timing:
        return
    if page.anchor(ONLINE) is None:
        page.section(ONLINE)
    most = max(len(document["rows"]) for document in found.timing.values())
    path = results.folder / "timing"
    with plots.grid(path, len(found.timing), 2, width=5.0, height=0.95 + 0.235 * most) as axes:
        for one, document in zip(axes, found.timing.values(), strict=True):
            timing.draw(one, document)
    page.heading("Side by side, in one process")
    page.plot(path, "All systems in one process, query by query: ms a query, p50, reading the file included")
    for name, document in found.timing.items():
        page.heading(f"{name}, side by side")
        timing.write(document, results)
        header, rows = timing.table(document)
        page.table(header, rows, {1: False, 2: False})
        page.say(timing.told(document), soft=True)
    page.machines(found.timing.values())
