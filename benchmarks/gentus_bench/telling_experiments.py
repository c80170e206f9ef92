"""Sections of the report on GenTUS itself: later tables, pools, identifiers, prefix tree, beams."""

from __future__ import annotations

from gentus_bench import ablation, beam, incremental, overview, plots, pool
from gentus_bench.collected import Collected
from gentus_bench.report import Page
from gentus_bench.results import Results

INCREMENTAL = "Tables that come later"
POOL = "Size of the candidate pool"
IDENTIFIERS = "Kinds of identifiers"
CONSTRAINTS = "The prefix tree"
BEAM = "Beam width"


def tell_incremental(page: Page, found: Collected, results: Results) -> None:
    """What becomes of quality when tables come after learning, and what an update costs."""
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


def tell_pools(page: Page, found: Collected, results: Results) -> None:
    """A plot and a table a lake."""
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


def tell_identifiers(page: Page, found: Collected, results: Results) -> None:
    """What semantic identifiers gain over others."""
    if not found.identifiers:
        return
    page.section(IDENTIFIERS)
    gains = {name: ablation.gains(document) for name, document in found.identifiers.items()}
    variants = dict.fromkeys(variant for told in gains.values() for variant in told)
    if variants:
        page.say("MAP that semantic identifiers have more than each other kind:")
        page.table(
            ["instead of semantic ones", *gains],
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


def tell_prefix_tree(page: Page, found: Collected, results: Results) -> None:
    """What the prefix tree is worth to the generator."""
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


def tell_beams(page: Page, found: Collected, results: Results) -> None:
    """How wide a search has to be."""
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
