"""Trees and decoding at scale, as tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gentus_bench.machine import sentence
from gentus_bench.plots import figure, legend, lines, plain_numbers
from gentus_bench.results import markdown_table
from gentus_bench.scale_decoding import BATCH, WEIGHT
from gentus_bench.scale_trees import OPENED, SEARCHED

Document = Mapping[str, Any]
COMPARED_AT = 10**5  # identifiers: where the usual way is to be beaten by far
TITLES = {"dict": "generate() over dicts", "marisa": "generate() over marisa-trie"}
_PARTS = ("reading", "generator", "tree", "children", "pruning", "rest")


def claims(parts: Document) -> list[dict[str, Any]]:
    """What the issue asks for, what was measured, and whether that is enough."""
    smallest, *_, largest = list(parts["trees"]) * 2  # one size is both
    tree = parts["trees"][largest]
    few, many = f"{int(smallest):,}", f"{int(largest):,}"
    search, (threads, generator) = (
        parts["decoding"]["search"],
        _fewest_threads(parts["decoding"]["generator"]),
    )
    found = [
        _most(f"bytes a table on disk, {many} tables", tree["disk_bytes_a_table"], 16),
        _most(f"seconds to open it, not in the file cache, {many} tables", tree["open_cold"]["seconds"], 1),
        _most(
            f"search, p50 at {many} / at {few}", search[largest]["ms_p50"] / search[smallest]["ms_p50"], 1.5
        ),
        _most(
            f"with a generator, p50 at {many} / at {few}",
            generator[largest]["ms_p50"] / generator[smallest]["ms_p50"],
            1.5,
        ),
        _most(
            f"constraint / generator's own step, {many} tables, torch threads: {threads}",
            generator[largest]["parts"]["constraint_share"],
            0.1,
        ),
    ]
    size = str(COMPARED_AT)
    for trie, run in parts["usual"].get(size, {}).items():
        if "did_not_run" not in run:
            times = _fewest_threads(run["threads"])[1]["times"]
            theirs, ours = times["usual children"]["ms_p50"], times["ours children"]["ms_p50"]
            at = f"p50 at {COMPARED_AT:,}"
            title = f"{TITLES[trie]} / our search without labels, {at}"
            found.append(_least(title, theirs / times["search"]["ms_p50"], 50))
            title = f"{TITLES[trie]} / ours with the same T5, {at}; T5's arithmetic alone would allow"
            found.append(_least(f"{title} {theirs / run['least_ms']:.0f}", theirs / ours, 50))
    return found


def _most(what: str, value: float, bound: float) -> dict[str, Any]:
    return {"what": what, "value": value, "bound": f"at most {bound:g}", "holds": value <= bound}


def _least(what: str, value: float, bound: float) -> dict[str, Any]:
    return {"what": what, "value": value, "bound": f"at least {bound:g}", "holds": value >= bound}


def _fewest_threads(by_threads: Mapping[str, Any]) -> tuple[str, Any]:
    return min(by_threads.items(), key=lambda item: int(item[0]))


# --- tables --------------------------------------------------------------------------------------------


def markdown(document: Document) -> str:
    """All tables, and what they come to."""
    what = document["what"]
    paragraphs: list[str] = [
        f"{document['made'][:10]}; {sentence(document['machine'])}.",
        *_identifiers(document),
        "### The tree",
        f"Built in a process of its own. Opened {OPENED} times as by an index, all bytes hashed and then"
        " mapped, each time in a new process, with the files in the system's cache and after it was asked to"
        " drop them; medians. *Resident*: what a process has in memory of the mapped files after"
        f" {SEARCHED:,} searches.",
        _trees(document["trees"]),
        "### Decoding",
        f"Beam {what['beam']}, {document['decoding']['queries']:,} queries that are not in the trees, each"
        " over all sizes before the next, the faster of two passes; ms. *Search* is label-free (NumPy),"
        f" *generator* is prior + {WEIGHT} x an untrained generator of the default size, alone and"
        f" {BATCH} queries at once.",
        _decoding(document["decoding"]),
        "Where the generator's time goes, ms a query, by clocks around functions, medians: *tree* is calls of"
        " the prefix tree, *children* picking their logits and softmax over them; these two are the"
        " constraint. The *generator* is its decoder's steps, *reading* its encoder.",
        _parts(document["decoding"]["generator"]),
        *_usual(document["usual"]),
        "### What it must show",
        markdown_table(
            ["", "measured", "asked", "holds"],
            (
                [
                    claim["what"],
                    _figure(claim["value"]),
                    claim["bound"],
                    "yes" if claim["holds"] else "**no**",
                ]
                for claim in document["claims"]
            ),
        ),
    ]
    return "\n\n".join(paragraphs)


def _identifiers(document: Document) -> Iterable[str]:
    lake = document["identifiers"]
    name = lake["what"]["index"]
    rows = [
        [name, *_skew_row(lake["real"])],
        ["made up, as large", *_skew_row(lake["made_up"])],
        *([f"a part of {name}", *_skew_row(part)] for part in lake["real_parts"]),
        *(["made up", *_skew_row(tree["skew"])] for tree in document["trees"].values()),
    ]
    header = ["lake", "tables", "perplexity, level 1 / 2 / last", "different first 2 / 3 / 4 codes"]
    header += ["most tables on the same 1 / 2 / 3", "alike", "largest group", "codes until alone, mean"]
    yield "### Identifiers"
    yield (
        f"{lake['levels']} codes out of {lake['codes']}. A made-up table is a table of the real lake moved by"
        f" {lake['move']:g} of how its neighbours differ, written in the real codebooks. *Perplexity*:"
        " effective number of codes in use at a level. *Alike*: tables that share all codes with another."
    )
    yield markdown_table(header, rows)


def _skew_row(facts: Document) -> list[str]:
    perplexity = facts["perplexity"]
    return [
        f"{facts['tables']:,}",
        " / ".join(f"{value:.0f}" for value in (*perplexity[:2], perplexity[-1])),
        " / ".join(f"{facts['prefixes'][key]:,}" for key in "234" if key in facts["prefixes"]),
        " / ".join(f"{facts['largest'][key]:,}" for key in "123" if key in facts["largest"]),
        f"{facts['collisions']:.2%}",
        f"{facts['most_alike']:,}",
        f"{facts['codes_until_alone']:.1f}",
    ]


def _trees(trees: Mapping[str, Document]) -> str:
    header = ["tables", "built, s", "peak, MB", "bytes a table: disk", "mapped", "resident"]
    header += ["opened, ms", "opened cold, ms", "first answer cold, ms"]
    rows = (
        [
            f"{int(size):,}",
            _figure(tree["build_seconds"]),
            f"{tree['build_peak_bytes'] / 1e6:,.0f}",
            f"{tree['disk_bytes_a_table']:.1f}",
            f"{tree['memory_bytes_a_table']:.1f}",
            f"{tree['resident_bytes_a_table']:.1f}",
            _figure(1000 * tree["open_warm"]["seconds"]),
            _figure(1000 * tree["open_cold"]["seconds"]),
            _figure(1000 * tree["open_cold"]["seconds_to_answer"]),
        ]
        for size, tree in trees.items()
    )
    return markdown_table(header, rows)


def _decoding(decoding: Document) -> str:
    header = ["tables", "search, p50", "p95"]
    for threads in decoding["generator"]:
        header += [f"generator, torch threads: {threads}, p50", "p95", f"of {BATCH} at once, p50"]
    rows = []
    for size, search in decoding["search"].items():
        row = [f"{int(size):,}", *_both(search)]
        for runs in decoding["generator"].values():
            row += [*_both(runs[size]), _figure(runs[size]["batch_ms_p50"])]
        rows.append(row)
    return markdown_table(header, rows)


def _both(times: Document) -> list[str]:
    return [_figure(times["ms_p50"]), _figure(times["ms_p95"])]


def _parts(generator: Mapping[str, Document]) -> str:
    rows = (
        [
            f"{int(size):,}",
            threads,
            *(_figure(run["parts"]["ms"].get(part, 0.0)) for part in _PARTS),
            f"{run['parts']['steps']:.1f}",
            f"{run['parts']['constraint_share']:.1%}",
        ]
        for threads, runs in generator.items()
        for size, run in runs.items()
    )
    return markdown_table(["tables", "threads", *_PARTS, "steps", "constraint / generator"], rows)


def _usual(usual: Mapping[str, Document]) -> Iterable[str]:
    if not usual:
        return
    yield "### Beside `prefix_allowed_tokens_fn`"
    yield (
        "transformers' `generate()` and ours with the same T5 (untrained, default size, plain tokens, no"
        " prior), which write the same identifiers; p50, ms. *Children*: softmax over what may follow"
        " (`renormalize_logits`); ours then asks no more for beams that are down to one table. *Vocabulary*:"
        " softmax over all symbols, all steps. *Constraint*: asking the trie and masking logits, or our tree"
        " and softmax over children. *T5 at least*: its arithmetic for ours, at the best rate of one thread."
        " *Search*: ours without labels, which asks no T5. *Bytes*: of dicts the memory that building them"
        " took, of marisa-trie what it says; it could also be saved and mapped."
    )
    header = ["trie", "tables", "built, s", "bytes a table", "threads"]
    header += ["children: generate()", "ours", "times"]
    header += ["vocabulary: generate()", "ours", "times", "constraint: generate()", "ours", "times"]
    header += ["T5 at least", "search"]
    rows = []
    for size, tries in usual.items():
        for trie, run in tries.items():
            if "did_not_run" in run:
                rows.append([trie, f"{int(size):,}", f"did not run: {run['did_not_run']}", *["-"] * 13])
                continue
            for threads, measured in run["threads"].items():
                cost = [trie, f"{int(size):,}", _figure(run["build_seconds"]), f"{run['bytes_a_table']:,.0f}"]
                alone = (run["least_ms"], measured["times"]["search"]["ms_p50"])
                rows.append([*cost, threads, *_compared(measured), *map(_figure, alone)])
    yield markdown_table(header, rows)


def _compared(measured: Document) -> Iterable[str]:
    times = measured["times"]
    pairs = [
        (times[f"usual {softmax}"]["ms_p50"], times[f"ours {softmax}"]["ms_p50"])
        for softmax in ("children", "vocabulary")
    ]
    pairs.append((measured["usual"]["ms"]["constraint"], measured["ours"]["constraint_ms"]))
    for theirs, ours in pairs:
        yield from (_figure(theirs), _figure(ours), f"{theirs / ours:.1f}")


def _figure(value: float | None) -> str:
    """Three figures, and whole numbers in full."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# --- plots ---------------------------------------------------------------------------------------------

Line = tuple[Sequence[float], Sequence[float]]


def draw(path: Path, document: Document) -> None:
    """Bytes a table, time to open, time a query, against the number of tables; ours beside the usual way."""
    trees, decoding = document["trees"], document["decoding"]
    _, generator = _fewest_threads(decoding["generator"])
    size = {
        "GenTUS": _line(trees, lambda tree: tree["disk_bytes_a_table"]),
        "GenTUS, resident": _line(trees, lambda tree: tree["resident_bytes_a_table"]),
        **_usual_lines(document, lambda run: run["bytes_a_table"]),
    }
    ready = {
        "GenTUS": _line(trees, lambda tree: 1000 * tree["open_warm"]["seconds"]),
        "GenTUS, cold": _line(trees, lambda tree: 1000 * tree["open_cold"]["seconds"]),
        **_usual_lines(document, lambda run: 1000 * run["build_seconds"]),
    }
    times = {
        "GenTUS": _line(decoding["search"], lambda run: run["ms_p50"]),
        "GenTUS, p95": _line(decoding["search"], lambda run: run["ms_p95"]),
        "GenTUS with labels": _line(generator, lambda run: run["ms_p50"]),
        "GenTUS with labels, p95": _line(generator, lambda run: run["ms_p95"]),
        **_usual_lines(
            document, lambda run: _fewest_threads(run["threads"])[1]["times"]["usual children"]["ms_p50"]
        ),
    }
    with figure(path, width=6.6, height=2.9, rows=3) as axes:
        lines(axes[0], size, ylabel="bytes a table", title="Size of the prefix tree")
        lines(axes[1], ready, ylabel="ms", title="Until it can be asked: ours opened, others built")
        lines(axes[2], times, ylabel="ms a query", title=f"Decoding, beam {document['what']['beam']}, p50")
        for one in axes:
            one.set(xlabel="tables", xscale="log", yscale="log")
            one.set_xticks([int(size) for size in trees])
            for axis in (one.xaxis, one.yaxis):
                plain_numbers(axis)
            legend(one)


def _line(by_size: Mapping[str, Document], value: Callable[[Document], float]) -> Line:
    return [int(size) for size in by_size], [value(found) for found in by_size.values()]


def _usual_lines(document: Document, value: Callable[[Document], float]) -> dict[str, Line]:
    """A line for each kind of trie, over the sizes where it ran."""
    found = {}
    for trie, title in TITLES.items():
        ran = {
            size: runs[trie]
            for size, runs in document["usual"].items()
            if trie in runs and "did_not_run" not in runs[trie]
        }
        if ran:
            found[title] = _line(ran, value)
    return found
