"""Trees and decoding at scale, as tables and a plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gentus_bench import plots
from gentus_bench.experiments.scale_decoding import BATCH, WEIGHT
from gentus_bench.experiments.scale_trees import OPENED, SEARCHED
from gentus_bench.table import Table, figure

Document = Mapping[str, Any]
TITLES = {"dict": "generate() over dicts", "marisa": "generate() over marisa-trie"}
_PARTS = ("reading", "generator", "tree", "children", "pruning", "rest")


def tables(document: Document) -> list[Table]:
    """Identifiers, trees, decoding and its parts, and transformers beside it."""
    decoding = document["decoding"]
    found = [
        _identifiers(document),
        _trees(document["trees"]),
        _decoding(document),
        _parts(decoding["generator"]),
    ]
    return [*found, *([_transformers(document["transformers"])] if document["transformers"] else [])]


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


def _decoding(document: Document) -> Table:
    decoding = document["decoding"]
    columns = ["tables", "search, p50", "p95"]
    for threads in decoding["generator"]:
        columns += [f"generator, torch threads: {threads}, p50", "p95", f"of {BATCH} at once, p50"]
    rows = []
    for size, search in decoding["search"].items():
        row = [f"{int(size):,}", *_both(search)]
        for runs in decoding["generator"].values():
            row += [*_both(runs[size]), figure(runs[size]["batch_ms_p50"])]
        rows.append(row)
    note = (
        f"Beam {document['what']['beam']}, {decoding['queries']:,} queries that are not in the trees, the"
        f" faster of two passes; ms. *Search* is label-free (NumPy), *generator* is prior + {WEIGHT} x an"
        f" untrained generator of the default size, alone and {BATCH} queries at once."
    )
    return Table(columns, rows, "Decoding", note)


def _both(times: Document) -> list[str]:
    return [figure(times["ms_p50"]), figure(times["ms_p95"])]


def _parts(generator: Mapping[str, Document]) -> Table:
    rows = [
        [
            *(f"{int(size):,}", threads),
            *(figure(run["parts"]["ms"].get(part, 0.0)) for part in _PARTS),
            *(f"{run['parts']['steps']:.1f}", f"{run['parts']['constraint_share']:.1%}"),
        ]
        for threads, runs in generator.items()
        for size, run in runs.items()
    ]
    note = (
        "Medians, ms per query. *Tree*: calls of the prefix tree; *children*: their logits and softmax;"
        " these two are the constraint. *Generator*: its decoder's steps; *reading*: its encoder."
    )
    return Table(
        ["tables", "threads", *_PARTS, "steps", "constraint / generator"], rows, "Parts of decoding", note
    )


def _transformers(found: Mapping[str, Document]) -> Table:
    columns = [
        "trie",
        "tables",
        "built, s",
        "bytes per table",
        "threads",
        "children: generate()",
        "ours",
        "times",
    ]
    columns += ["vocabulary: generate()", "ours", "times", "constraint: generate()", "ours", "times"]
    columns += ["T5 at least", "search"]
    rows = []
    for size, tries in found.items():
        for trie, run in tries.items():
            cost = [trie, f"{int(size):,}"]
            if "did_not_run" in run:
                rows.append([*cost, f"did not run: {run['did_not_run']}", *[""] * 13])
                continue
            cost += [figure(run["build_seconds"]), f"{run['bytes_per_table']:,.0f}"]
            for threads, measured in run["threads"].items():
                alone = (run["least_ms"], measured["times"]["search"]["ms_p50"])
                rows.append([*cost, threads, *_compared(measured), *map(figure, alone)])
    note = (
        "transformers' `generate()` with `prefix_allowed_tokens_fn` and ours with the same T5 (untrained,"
        " default size, plain tokens, no prior), which write the same identifiers; p50, ms. *Children*:"
        " softmax over what may follow; *vocabulary*: over all symbols. *Constraint*: walking the trie"
        " and masking logits. *T5 at least*: its arithmetic for ours at the best rate of one thread."
        " *Search*: ours without labels, without T5. *Bytes*: of dicts the memory that building them"
        " took, of marisa-trie what it reports."
    )
    return Table(columns, rows, "Beside `prefix_allowed_tokens_fn`", note)


def _compared(measured: Document) -> Iterator[str]:
    times = measured["times"]
    pairs = [
        (times[f"transformers {softmax}"]["ms_p50"], times[f"ours {softmax}"]["ms_p50"])
        for softmax in ("children", "vocabulary")
    ]
    pairs.append((measured["transformers"]["ms"]["constraint"], measured["ours"]["constraint_ms"]))
    for theirs, ours in pairs:
        yield from (figure(theirs), figure(ours), f"{theirs / ours:.1f}")


Line = tuple[Sequence[float], Sequence[float]]


def plot(document: Document, path: Path) -> None:
    """Bytes per table, time to open, time per query, against the number of tables; beside transformers."""
    trees, search = document["trees"], document["decoding"]["search"]
    generator = _fewest(document["decoding"]["generator"])
    size = {
        "GenTUS": _line(trees, lambda tree: tree["disk_bytes_per_table"]),
        "GenTUS, resident": _line(trees, lambda tree: tree["resident_bytes_per_table"]),
        **_their_lines(document, lambda run: run["bytes_per_table"]),
    }
    ready = {
        "GenTUS": _line(trees, lambda tree: 1000 * tree["open_warm"]["seconds"]),
        "GenTUS, cold": _line(trees, lambda tree: 1000 * tree["open_cold"]["seconds"]),
        **_their_lines(document, lambda run: 1000 * run["build_seconds"]),
    }
    times = {
        "GenTUS": _line(search, lambda run: run["ms_p50"]),
        "GenTUS, p95": _line(search, lambda run: run["ms_p95"]),
        "GenTUS with labels": _line(generator, lambda run: run["ms_p50"]),
        "GenTUS with labels, p95": _line(generator, lambda run: run["ms_p95"]),
        **_their_lines(
            document, lambda run: _fewest(run["threads"])["times"]["transformers children"]["ms_p50"]
        ),
    }
    with plots.figure(path, width=6.6, height=2.9, rows=3) as axes:
        plots.lines(axes[0], size, ylabel="bytes per table", title="Size of the prefix tree")
        plots.lines(axes[1], ready, ylabel="ms", title="Until the first search: ours opened, others built")
        plots.lines(
            axes[2], times, ylabel="ms per query", title=f"Decoding, beam {document['what']['beam']}, p50"
        )
        for one in axes:
            one.set(xlabel="tables", xscale="log", yscale="log")
            one.set_xticks([int(size) for size in trees])
            for axis in (one.xaxis, one.yaxis):
                plots.plain_numbers(axis)
            plots.legend(one)


def _fewest(by_threads: Mapping[str, Any]) -> Any:
    return by_threads[min(by_threads, key=int)]


def _line(by_size: Mapping[str, Document], value: Callable[[Document], float]) -> Line:
    return [int(size) for size in by_size], [value(found) for found in by_size.values()]


def _their_lines(document: Document, value: Callable[[Document], float]) -> dict[str, Line]:
    """A line for each kind of trie, over the sizes where it ran."""
    found = {}
    for trie, title in TITLES.items():
        ran = {
            size: runs[trie]
            for size, runs in document["transformers"].items()
            if trie in runs and "did_not_run" not in runs[trie]
        }
        if ran:
            found[title] = _line(ran, value)
    return found
