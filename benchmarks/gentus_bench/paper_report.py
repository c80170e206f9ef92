"""What `gentus-bench reproduce` has measured, laid out as the paper lays out its experiments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gentus_bench.experiments.quality_tables import average_ranks, lake_table
from gentus_bench.machine import sentence
from gentus_bench.published import CONDITIONS, figures, rows_for
from gentus_bench.registry import EXPERIMENTS
from gentus_bench.results import Document
from gentus_bench.table import Table, figure

QUALITY = {"map": "MAP", "precision": "P", "recall": "R"}


def render(documents: Sequence[Document], failed: Mapping[str, str]) -> str:
    """The report, as Markdown, of the documents of one run."""
    of = {
        name: [document for document in documents if document["name"].split("-")[0] == name]
        for name in EXPERIMENTS
    }
    paragraphs = ["# Tables 1 to 6 and Figures 5 to 10 of the paper", *_conditions(documents)]
    if failed:
        paragraphs += ["## Steps that failed", *(f"{step}: {error}" for step, error in failed.items())]
    if lakes := of["quality"]:
        paragraphs += ["## Table 1: lakes", datasets(lakes).markdown()]
        paragraphs += ["## Table 2: quality", main_table(lakes).markdown()]
        paragraphs += ["## Table 3: memory that answering takes", serving(lakes).markdown()]
        paragraphs += _printed("tab:model-weights")
    for title, name, table in (
        ("Table 4: size of the candidate pool", "pool", "tab:robustness"),
        ("Table 5: identifiers", "identifiers", ""),
        ("Table 6: decoding without the prefix tree", "unconstrained", ""),
        ("Figures 5 to 8: quality by k, times, and bytes", "quality", "sec:exp:efficiency"),
        ("Figure 9: tables that are added", "incremental", "sec:exp:dynamic"),
        ("Figure 10: beam width", "beam", ""),
    ):
        if of[name]:
            paragraphs.append(f"## {title}")
        for document in of[name]:
            found = [lake_table(document)] if name == "quality" else EXPERIMENTS[name].module.tables(document)
            paragraphs += [f"### {document['name']}", *(one.markdown() for one in found)]
            paragraphs.append(f"![{document['name']}]({document['name']}.png)")
        paragraphs += _printed(table) if of[name] and table else []
    return "\n\n".join(paragraphs) + "\n"


def _conditions(documents: Sequence[Document]) -> Iterator[str]:
    machines = dict.fromkeys(sentence({**document["machine"], "load": None}) for document in documents)
    minutes = dict.fromkeys(f"{one['what']['minutes']:g}" for one in documents if "minutes" in one["what"])
    trained = f"The paper's generator was trained for {', '.join(minutes)} minutes. " if minutes else ""
    yield f"{trained}{CONDITIONS}"
    yield "\n".join(f"Machine: {machine}." for machine in machines)


def datasets(lakes: Sequence[Document]) -> Table:
    """Statistics of the lakes."""
    columns = ["lake", "tables", "columns", "columns a table", "rows a table", "queries", "answers", "labels"]
    rows = []
    for document in lakes:
        lake = document["lake"]
        rows.append(
            [
                *(document["what"]["lake"], f"{lake['tables']:,}", f"{lake['columns']:,}"),
                f"{lake['columns'] / max(lake['tables'], 1):.1f}",
                *(f"{lake[key]:,.0f}" for key in ("rows_mean", "queries", "pairs", "labels")),
            ]
        )
    return Table(
        columns, rows, note="Labels are the pairs that name no query. Of long tables rows are a sample."
    )


def main_table(lakes: Sequence[Document]) -> Table:
    """MAP, P and R of every system, mean and deviation over seeds, and the average rank."""
    names = [f"{document['what']['lake']}" for document in lakes]
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for name, document in zip(names, lakes, strict=True):
        measured = [row for row in document["rows"] if row.get("map") is not None]
        for row in measured:
            found = cells.setdefault(row["title"], {})
            for key in QUALITY:
                spread = row.get(f"{key}_std")
                found[name, key] = f"{row[key]:.3f}" + ("" if spread is None else f" ± {spread:.3f}")
        for row in rows_for(name):
            if row["k"] == document["k"]:
                found = cells.setdefault(f"{row['method']} (published)", {})
                found |= {(name, key): figure(row.get(key), ".3f") for key in QUALITY}
    ranked = [document for document in lakes if document["lake"]["labels"]] or list(lakes)
    ranks = ranks_of(ranked)
    order = sorted(cells, key=lambda title: (ranks.get(title, float("inf")), "published" in title))
    rows = [
        [
            *(title, *(cells[title].get((name, key), "") for name in names for key in QUALITY)),
            figure(ranks.get(title), ".2f"),
        ]
        for title in order
    ]
    columns = [
        f"{name} {QUALITY[key]}@{one['k']}" for name, one in zip(names, lakes, strict=True) for key in QUALITY
    ]
    over = ", ".join(document["what"]["lake"] for document in ranked)
    note = f"Average rank over MAP, P and R on {over}, among the systems that were measured on all of these."
    best = dict.fromkeys(range(1, len(columns) + 1), True) | {len(columns) + 1: False}
    return Table(["system", *columns, "average rank"], rows, note=note, best=best)


def ranks_of(lakes: Sequence[Document]) -> dict[str, float]:
    """The mean rank of each system over all pairs of a lake and a metric."""
    rows = {document["what"]["lake"]: document["rows"] for document in lakes}
    by_metric = [average_ranks(rows, key) for key in QUALITY]
    return {title: sum(one[title] for one in by_metric) / len(by_metric) for title in by_metric[0]}


def serving(lakes: Sequence[Document]) -> Table:
    """MB that a process needs to answer, by system and lake."""
    found: dict[str, dict[str, float]] = {}
    for document in lakes:
        for row in document["rows"]:
            if row.get("serving_mb") is not None:
                found.setdefault(row["title"], {})[document["what"]["lake"]] = row["serving_mb"]
    names = [document["what"]["lake"] for document in lakes]
    rows = [[title, *(figure(of.get(name), ",.1f") for name in names)] for title, of in found.items()]
    return Table(["system, MB", *names], rows, best=dict.fromkeys(range(1, len(names) + 1), False))


def _printed(table: str) -> list[str]:
    """What the paper prints under a label."""
    cells: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for one in figures(table=table):
        column = ", ".join(filter(None, (one["metric"].replace("_", " "), one["setting"])))
        columns[column] = None
        found = cells.setdefault(f"{one['benchmark']}, {one['method']} (published)", {})
        found[column] = ("about " if one["about"] else "") + f"{one['value']:,g}"
    rows = [[title, *(found.get(column, "") for column in columns)] for title, found in cells.items()]
    return [Table(["lake, system", *columns], rows, "In the paper").markdown()]
