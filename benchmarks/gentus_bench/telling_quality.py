"""Sections of the report on how good rankings are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gentus_bench import claims, overview, plots
from gentus_bench.collected import LONGEST, Collected, Document
from gentus_bench.report import Page
from gentus_bench.results import Results

OVERVIEW = "All lakes at a glance"
CLAIMS = "What is claimed, and whether it holds"
LAKES = "The lakes"
QUALITY = "Quality of rankings, lake by lake"
CURVES = "Precision and recall against k"


def tell_overview(page: Page, found: Collected, results: Results) -> None:
    """Every system on every lake, and quality against time."""
    if not found.main:
        return
    page.section(OVERVIEW)
    ks = {name: one.benchmark.k for name, one in found.main.items()}
    tables = overview.overviews(found.summaries, found.labelled)
    page.say(f"MAP@k, the best of a column underlined. {listed(ks, 'k = {}')}.", soft=True)
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


def tell_claims(page: Page, found: Collected, results: Results) -> None:
    """The claims, each with where it holds and where it does not."""
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


def tell_lakes(page: Page, found: Collected, results: Results) -> None:
    """How large the lakes are."""
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


def tell_quality(page: Page, found: Collected, results: Results) -> None:
    """A table a lake, with published figures where there are some."""
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


def tell_curves(page: Page, found: Collected, results: Results) -> None:
    """A plot a lake."""
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


def listed(values: Mapping[str, Any], form: str) -> str:
    """Values by lake, in a row."""
    return ", ".join(f"{name}: {form.format(value)}" for name, value in values.items())
