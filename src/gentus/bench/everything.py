"""All experiments on all lakes, and the page that tells them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import gentus
from gentus.bench import ablation, beam, incremental, main, parts, plots, pool, published
from gentus.bench.benchmarks import Benchmark
from gentus.bench.methods import METHODS
from gentus.bench.report import Page, ratio
from gentus.bench.results import Results
from gentus.identifiers import Variant
from gentus.progress import Progress

EXPERIMENTS = ("main", "incremental", "pool", "identifiers", "constraints", "beam")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    benchmarks: Sequence[Benchmark]
    methods: Sequence[str] = tuple(METHODS)
    experiments: Sequence[str] = EXPERIMENTS
    seeds: int = 1
    time_budget: float | None = None  # seconds for each generator
    variants: Sequence[Variant] = get_args(Variant)  # of identifiers, shaped ones among them


@dataclass(slots=True)
class _Done:
    """What there is to tell, by lake."""

    main: dict[str, main.Comparison] = field(default_factory=dict)
    incremental: dict[str, dict[str, Any]] = field(default_factory=dict)
    pool: dict[str, dict[str, Any]] = field(default_factory=dict)
    identifiers: dict[str, dict[str, Any]] = field(default_factory=dict)
    constraints: dict[str, dict[str, Any]] = field(default_factory=dict)
    beam: dict[str, dict[str, Any]] = field(default_factory=dict)


def run_all(plan: Plan, results: Results, progress: Progress | None = None) -> Path:
    """Run what is missing, write every table and plot, and the report; returns where that is."""
    progress = progress or Progress()
    done = _Done()
    for benchmark in plan.benchmarks:
        name = benchmark.name
        truth, labels = benchmark.write(results.folder / "truth")
        done.main[name] = main.compare(benchmark, plan.methods, results, plan.seeds)
        if "pool" in plan.experiments:
            rankings = {
                row["title"]: row["rankings"] for row in _first_seeds(done.main[name]) if "rankings" in row
            }
            tables = {item for ranked in rankings.values() for found in ranked.values() for item in found}
            done.pool[name] = pool.measure_pools(
                rankings, benchmark.truth, tables | set(benchmark.truth), benchmark.k, results, name
            )
        if "beam" in plan.experiments:
            for method in ("gentus-labels", "gentus"):
                folder = results.folder / "indexes" / f"main-{name}-{method}-0"
                if (folder / "config.json").is_file():
                    title = f"{name}, labels" if method == "gentus-labels" else name
                    with gentus.open(folder) as index:
                        done.beam[title] = beam.measure_beams(
                            index, truth, benchmark.k, results, f"{name}-{method}", queries=benchmark.queries
                        )
        if "incremental" in plan.experiments:
            done.incremental[name] = incremental.incremental(
                benchmark.lake,
                truth,
                benchmark.k,
                results,
                name,
                queries=benchmark.queries,
                progress=progress,
            )
        if labels is not None and "identifiers" in plan.experiments:
            done.identifiers[name] = ablation.measure_identifiers(
                benchmark.lake,
                labels,
                truth,
                benchmark.k,
                results,
                name,
                variants=plan.variants,
                time_budget=plan.time_budget,
                progress=progress,
            )
            if "constraints" in plan.experiments:
                done.constraints[name] = _constraints(benchmark, truth, results)
    out = results.folder / "report.html"
    out.write_text(_page(plan, done, results).text(), encoding="utf-8")
    return out


def _constraints(benchmark: Benchmark, truth: Path, results: Results) -> dict[str, Any]:
    folder = ablation.index_folder(results, benchmark.name, "shaped")

    def measure() -> dict[str, Any]:
        with gentus.open(folder) as index:
            return parts.measure_parts(index, truth, benchmark.k)

    what = {"lake": benchmark.name, "k": benchmark.k}
    document = results.measured(f"constraints-{benchmark.name}", what, measure)
    results.write_table(f"constraints-{benchmark.name}", parts.markdown(document))
    return document


def _first_seeds(comparison: main.Comparison) -> list[dict[str, Any]]:
    return [row for row in comparison.rows if row["what"]["seed"] == 0]


# --- the page ------------------------------------------------------------------------------------------


def _page(plan: Plan, done: _Done, results: Results) -> Page:
    page = Page("GenTUS beside others: what was measured")
    summaries = {name: main.summary(comparison.rows) for name, comparison in done.main.items()}
    if all(summaries.values()):
        _quality(page, done, summaries)
        _curves(page, done, results)
        _costs(page, summaries, results)
    _others(page, done, results)
    return page


def _quality(page: Page, done: _Done, summaries: Mapping[str, list[dict[str, Any]]]) -> None:
    page.section("Quality of rankings")
    without = {
        name: [row for row in rows if row["method"] != "gentus-labels"] for name, rows in summaries.items()
    }
    ranks = main.average_ranks(without)
    best = {name: max(row.get("map") or 0.0 for row in rows) for name, rows in without.items()}
    ours = {name: row["map"] for name, rows in without.items() for row in rows if row["title"] == "GenTUS"}
    if "GenTUS" in ranks:
        won = sum(ours[name] == highest for name, highest in best.items())
        page.say(
            f"Without labels GenTUS has the highest MAP on {won} of {len(best)} lakes; its average rank "
            f"by MAP among {len(ranks)} systems is {ranks['GenTUS']:.2f}.",
        )
        ahead = [
            f"{row['title']} on {name} ({row['map']:.3f} against {ours[name]:.3f})"
            for name, rows in without.items()
            for row in rows
            if (row.get("map") or 0.0) > ours[name]
        ]
        if ahead:
            page.say(f"Ahead of it: {', '.join(ahead)}.")
    page.table(
        ["system", "average rank by MAP"],
        [[title, f"{rank:.2f}"] for title, rank in ranks.items()],
        {1: False},
    )
    for name, comparison in done.main.items():
        k = comparison.benchmark.k
        page.heading(
            f"{name}: {comparison.tables:,} tables, {len(comparison.benchmark.truth):,} queries, k = {k}"
        )
        rows = []
        for row in sorted(summaries[name], key=lambda row: -(row.get("map") or 0)):
            if "error" in row:
                rows.append([f"{row['title']} (failed: {row['error'][:60]})", *[""] * 5])
                continue
            spread = f" ± {row['map_std']:.3f}" if row["map_std"] is not None else ""
            rows.append(
                [row["title"], f"{row['map']:.3f}{spread}"]
                + [f"{row[key]:.3f}" for key in ("map_full", "map_prefix", "precision", "recall")]
            )
        for told in published.rows_for(name):
            rows.append([f"{told['method']} (published)"] + [_cell(told.get(key)) for key in _PUBLISHED])
        header = ["system", f"MAP@{k}", "MAP full", "MAP prefix", f"P@{k}", f"R@{k}"]
        page.table(header, rows, dict.fromkeys(range(1, 6), True))
        page.say(comparison.groundtruth, soft=True)
        page.machines(comparison.rows)


_MEASURES = ("map", "precision", "recall")
_PUBLISHED = ("map", "map_full", "map_prefix", "precision", "recall")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _curves(page: Page, done: _Done, results: Results) -> None:
    page.section("Precision and recall against k")
    for name, comparison in done.main.items():
        k = comparison.benchmark.k
        ks = sorted({max(1, round(k * share)) for share in (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)})
        found = {
            row["title"]: main.curves(row, comparison.benchmark.truth, ks)
            for row in _first_seeds(comparison)
            if "rankings" in row
        }
        path = results.folder / f"curves-{name}"
        with plots.figure(path, columns=2, width=4.6) as (left, right):
            for axes, key in ((left, "precision"), (right, "recall")):
                series = {title: (ks, values[key]) for title, values in found.items()}
                plots.lines(axes, series, xlabel="k", ylabel=f"{key} at k")
                axes.set_ylim(bottom=0)
            left.legend(fontsize=6.5, ncols=2)
        (results.folder / f"curves-{name}.json").write_text(
            json.dumps({"k": ks, "curves": found}, indent=1) + "\n"
        )
        page.plot(path, f"{name}: precision and recall of the first k")


def _costs(page: Page, summaries: Mapping[str, list[dict[str, Any]]], results: Results) -> None:
    for heading, key, unit, what in (
        ("Offline: time to build", "fit_seconds", "seconds", "builds"),
        ("Online: time of a search", "ms_p50", "ms a query, p50, reading the file included", "answers"),
        ("Storage: what a search needs", "bytes_per_table", "bytes a table", "stores"),
    ):
        page.section(heading)
        for name, rows in summaries.items():
            values = {row["title"]: row[key] for row in rows if row.get(key)}
            if not values:
                continue
            if "GenTUS" in values:
                ours = values["GenTUS"]
                told = [
                    f"{title} {ratio(value, ours)}"
                    for title, value in values.items()
                    if title in ("Starmie-type", "TACTUS-type")
                ]
                if told:
                    others = " and ".join(told)
                    page.say(f"{name}: GenTUS {what} at {ours:,.1f} {unit}; against that, {others} as much.")
            path = results.folder / f"{key}-{name}"
            ordered = dict(sorted(values.items(), key=lambda item: item[1]))
            with plots.figure(path, width=7, height=0.8 + 0.3 * len(ordered)) as (axes,):
                plots.bars(axes, ordered, log=True, xlabel=unit, title=name)
            page.plot(path, f"{name}: {unit} (logarithmic)")


def _others(page: Page, done: _Done, results: Results) -> None:
    if done.incremental:
        page.section("Tables that come later")
        for name, document in done.incremental.items():
            page.say(
                f"{name}: learnt from half the tables, at D5 it has MAP {document['steps'][-1]['map']:.3f}, "
                f"{document['share_kept']:.3f} of that of an index learnt from everything."
            )
            page.plot(
                results.folder / f"incremental-{name}", f"{name}: MAP after each step; update to first query"
            )
        page.machines(done.incremental.values())
    if done.pool:
        page.section("Size of the candidate pool")
        for name in done.pool:
            page.plot(results.folder / f"pool-{name}", f"{name}: MAP over pools drawn at random")
    if done.identifiers:
        page.section("Kinds of identifiers")
        for name, document in done.identifiers.items():
            page.plot(
                results.folder / f"identifiers-{name}", f"{name}: the same generator, other identifiers"
            )
            page.machines(row for rows in document["rows"].values() for row in rows)
    if done.constraints:
        page.section("The prefix tree")
        for name, document in done.constraints.items():
            rows = document["rows"]
            if "generator" in rows:
                tree, free = rows["generator"], rows["generator, no prefix tree"]
                page.say(
                    f"{name}: without the tree {free['invalid_share']:.1%} of what the generator writes "
                    f"names no table; the tree adds {tree['relevant_added_a_query']:.2f} right tables, "
                    f"{tree['map'] - free['map']:+.3f} MAP and "
                    f"{tree['recall'] - free['recall']:+.3f} recall a query."
                )
            page.table(
                ["ranked by", "MAP", "P", "R", "invalid"],
                [
                    [title, *(f"{row[key]:.3f}" for key in _MEASURES), f"{row['invalid_share']:.1%}"]
                    for title, row in rows.items()
                ],
                {1: True, 2: True, 3: True},
            )
        page.machines(done.constraints.values())
    if done.beam:
        page.section("Beam width")
        beam.plot(done.beam, results.folder / "beam")
        page.plot(results.folder / "beam", "MAP and time of a search against the width of the beam")
        page.machines(done.beam.values())
