"""The report: what lies in a folder of results, section by section. Every sentence is made from figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gentus.bench import ablation, beam, claims, incremental, overview, plots, pool, published, timing
from gentus.bench.benchmarks import Benchmark
from gentus.bench.collected import LONGEST, Collected, Document, collect
from gentus.bench.report import Page, link
from gentus.bench.results import Results

OVERVIEW = "All lakes at a glance"
CLAIMS = "What is claimed, and whether it holds"
LAKES = "The lakes"
QUALITY = "Quality of rankings, lake by lake"
CURVES = "Precision and recall against k"
OFFLINE = "Offline: time to build"
ONLINE = "Online: time of a search"
STORAGE = "Storage: what a search needs on disk"
SERVING = "Serving: what a process holds to answer"
INCREMENTAL = "Tables that come later"
POOL = "Size of the candidate pool"
IDENTIFIERS = "Kinds of identifiers"
CONSTRAINTS = "The prefix tree"
BEAM = "Beam width"
PAPER = "The paper's figures and tables, and where their counterpart is here"


def write_report(results: Results, benchmarks: Iterable[Benchmark] = ()) -> Path:
    """Make tables, plots and page from what lies in the folder; returns where the page is."""
    found = collect(results, benchmarks)
    page = Page("GenTUS beside others: what was measured")
    for tell in (
        _overview,
        _claims,
        _lakes,
        _quality,
        _curves,
        _costs,
        _incremental,
        _pool,
        _identifiers,
        _constraints,
        _beam,
        _paper,
    ):
        tell(page, found, results)
    if not found.main:
        page.say("Nothing of the main comparison has been measured yet.")
    out = results.folder / "report.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page.text(), encoding="utf-8")
    return out


# --- quality -------------------------------------------------------------------------------------------


def _overview(page: Page, found: Collected, results: Results) -> None:
    if not found.main:
        return
    page.section(OVERVIEW)
    ks = {name: one.benchmark.k for name, one in found.main.items()}
    tables = overview.overviews(found.summaries, found.labelled)
    page.say(f"MAP@k, the best of a column underlined. {_listed(ks, 'k = {}')}.", soft=True)
    for one in tables:
        page.heading(one.title)
        header, rows = one.table()
        page.table(header, rows, one.best)
        page.say(overview.counted(one), soft=True)
    results.write_table("main", overview.markdown(tables, ks))
    _trade(page, found, results)


def _trade(page: Page, found: Collected, results: Results) -> None:
    """Quality against time, the whole comparison in one picture."""
    points = {
        name: {row["title"]: row for row in rows if row.get("map") is not None and row.get("ms_p50")}
        for name, rows in found.summaries.items()
    }
    points = {name: rows for name, rows in points.items() if rows}
    if not points:
        return
    path = results.folder / "map-and-time"
    names = list(dict.fromkeys(title for rows in points.values() for title in rows))
    with plots.grid(path, len(points), 2, width=5.0, height=3.1) as axes:
        for one, (name, rows) in zip(axes, points.items(), strict=True):
            # every system on every plot, so that the legend of one names the marks of all
            series = {
                title: ([rows[title]["ms_p50"]], [rows[title]["map"]]) if title in rows else ([], [])
                for title in names
            }
            plots.lines(one, series, size=6.5, xlabel="ms a query, p50", ylabel="MAP@k", title=name)
            plots.logarithmic(one, [row["ms_p50"] for row in rows.values()])
            one.margins(0.12)
        plots.legend(axes[min(1, len(points) - 1)])
    page.plot(path, "MAP against the time of a search: the best systems are at the upper left")


def _claims(page: Page, found: Collected, results: Results) -> None:
    summaries = found.summaries
    times = {
        name: {row["title"]: row for row in document["rows"].values() if "ms_p50" in row}
        for name, document in found.timing.items()
    }
    ranks = [claims.rank(one) for one in overview.overviews(summaries, found.labelled)]
    told = [one for one in ranks if one is not None]
    told += [*claims.speed(summaries, times), *claims.size(summaries)]
    if told:
        page.section(CLAIMS)
        for claim in told:
            page.claim(claim.words, [(verdict.holds, verdict.text) for verdict in claim.verdicts])


def _lakes(page: Page, found: Collected, results: Results) -> None:
    names = [*found.main, *(name for name in found.lakes if name not in found.main)]
    if not names:
        return
    page.section(LAKES)
    header = ["lake", "tables", "columns", "columns a table", "rows a table, sampled", "queries", "answers"]
    rows = []
    for name in names:
        lake = found.lakes.get(name)
        if lake is None:
            one = found.main[name]
            pairs = sum(map(len, one.benchmark.truth.values()))
            counts = [one.rows[0].get("queries") or len(one.benchmark.truth), pairs]
            rows.append([name, f"{one.tables:,}", "", "", "", *(f"{n:,}" if n else "" for n in counts)])
            continue
        wide = lake["columns"] / max(lake["tables"], 1)
        rows.append(
            [
                *(name, f"{lake['tables']:,}", f"{lake['columns']:,}", f"{wide:.1f}"),
                *(f"{lake['rows_mean']:,.0f}", f"{lake['queries']:,}", f"{lake['pairs']:,}"),
            ]
        )
    page.table(*overview.filled(header, rows))


def _quality(page: Page, found: Collected, results: Results) -> None:
    if not found.main:
        return
    page.section(QUALITY)
    page.say(
        "MAP@k is average precision over min(k, answers); MAP full divides by all answers; MAP prefix is the "
        "mean of P@1..P@k, as the code of Starmie computes it. Systems called -type are written here after "
        "their papers.",
        soft=True,
    )
    for name, one in found.main.items():
        k = one.benchmark.k
        page.heading(f"{name}: {one.tables:,} tables, {one.rows[0].get('queries', 0):,} queries, k = {k}")
        header, rows = overview.lake_table(k, name, one.rows)
        page.table(
            header, rows, dict.fromkeys(range(1, 6), True) | dict.fromkeys(range(6, len(header)), False)
        )
        if one.groundtruth:
            page.say(one.groundtruth, soft=True)
        notes = {row["title"]: row["note"] for row in one.rows if row.get("note")}
        if notes:
            with page.folded("What the systems called -type replace"):
                page.table(["system", "note"], [[title, note] for title, note in notes.items()], words=True)
        page.machines(one.rows)


def _curves(page: Page, found: Collected, results: Results) -> None:
    drawn = {name: one for name, one in found.main.items() if one.benchmark.truth and _first_seeds(one.rows)}
    if not drawn:
        return
    page.section(CURVES)
    for name, one in drawn.items():
        k = one.benchmark.k
        ks = sorted({max(1, round(k * share)) for share in (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, LONGEST)})
        lines = {
            row["title"]: overview.curves(row, one.benchmark.truth, ks) for row in _first_seeds(one.rows)
        }
        path = results.folder / f"curves-{name}"
        with plots.figure(path, columns=2, width=5.2, height=3.4) as (left, right):
            for axes, key in ((left, "precision"), (right, "recall")):
                series = {title: (ks, values[key]) for title, values in lines.items()}
                plots.lines(axes, series, xlabel="k", ylabel=f"{key} at k", title=name)
                axes.set_ylim(bottom=0)
                axes.set_xticks(ks)
                axes.axvline(k, color="#888", linewidth=0.8, linestyle=":", zorder=1)
            plots.legend(right)
        path.with_name(path.name + ".json").write_text(
            json.dumps({"k": ks, "curves": lines}, indent=1) + "\n", encoding="utf-8"
        )
        page.plot(path, f"{name}: precision and recall of the first k; the dotted line is the usual k")
    page.say("These are of rankings a thousand deep, for which some systems search wider.", soft=True)


def _first_seeds(rows: Iterable[Document]) -> list[Document]:
    return [row for row in rows if row["what"]["seed"] == 0 and row.get("rankings")]


# --- costs ---------------------------------------------------------------------------------------------


def _costs(page: Page, found: Collected, results: Results) -> None:
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
        page.say(f"Reading the query's file alone takes, ms p50: {_listed(reading, '{:.1f}')}.")
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


# --- the other experiments -----------------------------------------------------------------------------


def _incremental(page: Page, found: Collected, results: Results) -> None:
    if not found.incremental:
        return
    page.section(INCREMENTAL)
    for name, document in found.incremental.items():
        last = document["steps"][-1]
        kept = document["share_kept"]
        share = "" if kept is None else f", {kept:.3f} of that of an index learnt from everything"
        seconds = [row["seconds_to_first_query"] for row in document["steps"][1:]]
        page.say(
            f"{name}: learnt from half the tables, at {last['step']} it has MAP {last['map']:.3f}{share}. "
            f"From an update of {last['added']:,} tables to the first answer it takes {seconds[-1]:.2f} s."
        )
        path = results.folder / f"incremental-{name}"
        incremental.plot(document, path, name)
        page.plot(path, f"{name}: MAP after each step; update to first query")
    page.machines(found.incremental.values())


def _pool(page: Page, found: Collected, results: Results) -> None:
    documents = {name: document for name, document in found.pool.items() if document["rows"]}
    if not documents:
        return
    page.section(POOL)
    page.say("Answers outside a pool do not count; means over pools drawn at random.", soft=True)
    for name, document in documents.items():
        best = [max(row["map"], key=row["map"].__getitem__) for row in document["rows"]]
        won = sum(plots.is_ours(title) for title in best)
        if any(plots.is_ours(title) for title in document["rows"][0]["map"]):
            page.say(f"{name}: GenTUS has the highest MAP in {won} of {len(best)} sizes of the pool.")
        path = results.folder / f"pool-{name}"
        pool.plot(document, path, name)
        page.plot(path, f"{name}: MAP over pools drawn at random")
        sizes = [f"{row['tables']:,} tables" for row in document["rows"]]
        rows = [
            [title, *(f"{row['map'][title]:.3f}" if title in row["map"] else "" for row in document["rows"])]
            for title in document["rows"][-1]["map"]
        ]
        with page.folded("The same as a table"):
            page.table(["system", *sizes], rows, dict.fromkeys(range(1, len(sizes) + 1), True))


def _identifiers(page: Page, found: Collected, results: Results) -> None:
    if not found.identifiers:
        return
    page.section(IDENTIFIERS)
    gains = {name: ablation.gains(document) for name, document in found.identifiers.items()}
    variants = dict.fromkeys(variant for told in gains.values() for variant in told)
    if variants:
        page.say("MAP that identifiers shaped by unionability have more than each other kind:")
        page.table(
            ["instead of shaped ones", *gains],
            [
                [variant, *(f"{told[variant]:+.3f}" if variant in told else "" for told in gains.values())]
                for variant in variants
            ],
        )
    path = results.folder / "identifiers"
    with plots.grid(path, len(found.identifiers), 2, width=5.0, height=2.3) as axes:
        for one, document in zip(axes, found.identifiers.values(), strict=True):
            ablation.draw(one, document)
    page.plot(path, "The same generator on identifiers of other kinds")
    page.machines(
        row for document in found.identifiers.values() for rows in document["rows"].values() for row in rows
    )


def _constraints(page: Page, found: Collected, results: Results) -> None:
    if not found.constraints:
        return
    page.section(CONSTRAINTS)
    header = ["lake", "invalid without the tree", "right tables added a query", "change in MAP", "in recall"]
    rows, lower = [], list[str]()
    for name, document in found.constraints.items():
        ways = document["rows"]
        if "generator" not in ways:
            continue
        tree, free = ways["generator"], ways["generator, no prefix tree"]
        lower += [name] if tree["map"] < free["map"] or tree["recall"] < free["recall"] else []
        rows.append(
            [name, f"{free['invalid_share']:.1%}", f"{tree['relevant_added_a_query']:.2f}"]
            + [f"{tree[key] - free[key]:+.3f}" for key in ("map", "recall")]
        )
    if rows:
        where = f"on {', '.join(lower)}" if lower else "on none"
        page.say(
            "What the generator alone writes, with and without the tree. Of "
            f"{len(rows)} lakes, the tree lowers MAP or recall {where}."
        )
        page.table(header, rows)
    for name, document in found.constraints.items():
        with page.folded(f"{name}, part by part"):
            page.table(
                ["ranked by", "MAP", "P", "R", "invalid"],
                [
                    [title, *(f"{row[key]:.3f}" for key in overview.RANKED), f"{row['invalid_share']:.1%}"]
                    for title, row in document["rows"].items()
                ],
                {1: True, 2: True, 3: True},
            )
    page.machines(found.constraints.values())


def _beam(page: Page, found: Collected, results: Results) -> None:
    if not found.beam:
        return
    page.section(BEAM)
    lines = []
    for name, document in found.beam.items():
        best = max(document["rows"], key=lambda row: float(row["map"]))
        enough = next(row for row in document["rows"] if row["map"] >= 0.99 * best["map"])
        cells = [f"{row['beam']}" for row in (enough, best)]
        cells += [f"{row['map']:.3f}" for row in (enough, best)] + [
            f"{row['ms_p50']:.1f}" for row in (enough, best)
        ]
        lines.append([name, *cells])
    page.say("The narrowest beam that has 99% of the highest MAP, and the one that has all of it:")
    header = ["lake", "beam for 99%", "for all", "MAP", "all of it", "ms p50", "for all"]
    page.table(header, lines)
    beam.plot(found.beam, results.folder / "beam")
    page.plot(results.folder / "beam", "MAP and time of a search against the width of the beam")
    page.machines(found.beam.values())


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


def _paper(page: Page, found: Collected, results: Results) -> None:
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


def _listed(values: Mapping[str, Any], form: str) -> str:
    return ", ".join(f"{name}: {form.format(value)}" for name, value in values.items())
