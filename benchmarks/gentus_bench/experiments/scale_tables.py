"""Trees and searches at scale, as tables and a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gentus_bench import plots
from gentus_bench.experiments.scale_trees import OPENED, SEARCHED
from gentus_bench.table import Table, figure

Document = Mapping[str, Any]


def tables(document: Document) -> list[Table]:
    """Identifiers, trees, and searches."""
    return [_identifiers(document), _trees(document["trees"]), _search(document)]


def _identifiers(document: Document) -> Table:
    lake = document["identifiers"]
    name = document["what"]["index"]
    rows = [
        [name, *_skew(lake["real"])],
        ["made up, as large", *_skew(lake["made_up"])],
        *([f"a part of {name}", *_skew(part)] for part in lake["real_parts"]),
        *(["made up", *_skew(tree["skew"])] for tree in document["trees"].values()),
    ]
    columns = ["lake", "tables", "perplexity, level 1 / 2 / last", "different first 2 / 3 / 4 codes"]
    columns += ["most tables on the same 1 / 2 / 3", "alike", "largest group", "codes until alone, mean"]
    note = (
        f"{lake['levels']} codes out of {lake['codes']}. A made-up table is a table of the real lake moved"
        f" by {lake['move']:g} of how its neighbours differ, coded with the real codebooks. *Perplexity*:"
        " effective number of codes in use at a level. *Alike*: tables that share all codes with another."
    )
    return Table(columns, rows, "Identifiers", note)


def _skew(facts: Document) -> list[str]:
    perplexity = facts["perplexity"]
    return [
        f"{facts['tables']:,}",
        " / ".join(f"{value:.0f}" for value in (*perplexity[:2], perplexity[-1])),
        " / ".join(f"{facts['prefixes'][key]:,}" for key in "234" if key in facts["prefixes"]),
        " / ".join(f"{facts['largest'][key]:,}" for key in "123" if key in facts["largest"]),
        *(f"{facts['collisions']:.2%}", f"{facts['most_alike']:,}", f"{facts['codes_until_alone']:.1f}"),
    ]


def _trees(trees: Mapping[str, Document]) -> Table:
    columns = ["tables", "built, s", "peak, MB", "bytes per table: disk", "mapped", "resident"]
    columns += ["opened, ms", "opened cold, ms", "first answer cold, ms"]
    rows = [
        [
            *(f"{int(size):,}", figure(tree["build_seconds"]), f"{tree['build_peak_bytes'] / 1e6:,.0f}"),
            *(f"{tree[f'{key}_bytes_per_table']:.1f}" for key in ("disk", "memory", "resident")),
            *(figure(1000 * tree[key]["seconds"]) for key in ("open_warm", "open_cold")),
            figure(1000 * tree["open_cold"]["seconds_to_answer"]),
        ]
        for size, tree in trees.items()
    ]
    note = (
        f"Built in a process of its own. Opened {OPENED} times as by an index, all bytes hashed and then"
        " mapped, each time in a new process, with the files in the system's cache and after it was told"
        f" to drop them; medians. *Resident*: memory of the mapped files after {SEARCHED:,} searches."
    )
    return Table(columns, rows, "Prefix trees", note)


def _search(document: Document) -> Table:
    rows = [
        [f"{int(size):,}", figure(times["ms_p50"]), figure(times["ms_p95"])]
        for size, times in document["search"]["times"].items()
    ]
    what = document["what"]
    note = (
        f"Beam {what['beam']}, {what['queries']:,} queries that are not in the trees, the faster of two"
        " passes; ms. Only the prefix tree is searched: no file is read."
    )
    return Table(["tables", "search, p50", "p95"], rows, "Search", note)


Line = tuple[Sequence[float], Sequence[float]]


def plot(document: Document, path: Path) -> None:
    """Bytes per table, time to open, time per query, against the number of tables."""
    trees, times = document["trees"], document["search"]["times"]
    size = {
        "on disk": _line(trees, lambda tree: tree["disk_bytes_per_table"]),
        "resident": _line(trees, lambda tree: tree["resident_bytes_per_table"]),
    }
    ready = {
        "in the system's cache": _line(trees, lambda tree: 1000 * tree["open_warm"]["seconds"]),
        "cold": _line(trees, lambda tree: 1000 * tree["open_cold"]["seconds"]),
    }
    taken = {"p50": _line(times, lambda of: of["ms_p50"]), "p95": _line(times, lambda of: of["ms_p95"])}
    with plots.figure(path, width=6.6, height=2.9, rows=3) as axes:
        plots.lines(axes[0], size, ylabel="bytes per table", title="Size of the prefix tree")
        plots.lines(axes[1], ready, ylabel="ms", title="Opening it")
        plots.lines(axes[2], taken, ylabel="ms per query", title=f"Search, beam {document['what']['beam']}")
        for one in axes:
            one.set(xlabel="tables", xscale="log", yscale="log")
            one.set_xticks([int(size) for size in trees])
            for axis in (one.xaxis, one.yaxis):
                plots.plain_numbers(axis)
            plots.legend(one)


def _line(by_size: Mapping[str, Document], value: Callable[[Document], float]) -> Line:
    return [int(size) for size in by_size], [value(found) for found in by_size.values()]
