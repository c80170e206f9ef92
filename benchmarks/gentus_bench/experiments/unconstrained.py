"""Decoding with the prefix tree and without it, by the paper's generators that `quality` has trained.

Without the tree the beam is over the whole vocabulary. What it writes may be no identifier: such a slot of
the first k is empty. The same with empty slots left out stands beside it, for the order alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gentus
from gentus.lake import read
from gentus.metrics import score
from gentus.paper.decode import beam_width, generate, generate_freely
from gentus.paper.retriever import PaperRetriever
from gentus_bench.experiment import NoOptions, Request
from gentus_bench.experiments.quality import BenchmarkData, kept_index
from gentus_bench.paper_system import VECTORS, title, with_minutes
from gentus_bench.plots import COLOURS, OURS
from gentus_bench.plots import figure as drawing
from gentus_bench.published import BENCHMARKS, CONDITIONS, figures
from gentus_bench.results import Document
from gentus_bench.table import Table

WITH, WITHOUT, LEFT_OUT = "with the tree", "without it", "without it, empty slots left out"
EMPTY = ""  # no table has this name
EFFECTS = ("invalid_rate", "added_relevant_per_query", "map_gain", "recall_gain")  # as the paper prints them

Rankings = Mapping[str, Sequence[str]]


def run(request: Request, options: NoOptions) -> Iterator[Document]:
    """Every index of the paper's generator that `quality` has built."""
    for benchmark in request.benchmarks():
        for method in VECTORS:
            kept = kept_index(request.results, benchmark, method, 0, request.minutes)
            if kept.there:
                data = BenchmarkData(benchmark)
                what = {**data.what, "k": benchmark.k, "method": method, "minutes": request.minutes}
                name = f"unconstrained-{benchmark.name}-{with_minutes(method, request.minutes)}"
                yield request.results.measured(name, what, partial(_measure, kept.path, data))


def _measure(folder: Path, data: BenchmarkData) -> Document:
    """Decode every query both ways."""
    with gentus.open(folder) as index:
        retriever = index._snapshot.retriever
        assert isinstance(retriever, PaperRetriever)
        model, trie = retriever.g_theta, retriever.decoder.trie
        rows = np.arange(len(trie))
        ids = trie.table(rows).tolist()
        named = index.catalogue.tables.names(ids)
    names = [named[one].name for one in ids]  # by row of the tree
    y, lengths = model.vocabulary.tok(trie.codes_of(rows), trie.suffix(rows))
    written = zip((y + model.vocabulary.text).tolist(), lengths.tolist(), names, strict=True)
    phi = {tuple(tokens[: length - 1]): name for tokens, length, name in written}
    queries, beam = list(data.queries), beam_width(data.benchmark.k)
    sentences = [retriever.serializer.ser(read(data.queries[query])) for query in queries]
    found = generate(model, sentences, trie, beam)
    bound = {query: [names[row] for row in one.rows] for query, one in zip(queries, found, strict=True)}
    freely = generate_freely(model, sentences, trie.levels, beam)
    free = {
        query: [phi.get(one, EMPTY) for one in sequences]
        for query, sequences in zip(queries, freely, strict=True)
    }
    return compared(bound, free, data.benchmark.truth, data.benchmark.k)


def compared(bound: Rankings, free: Rankings, truth: Mapping[str, Sequence[str]], k: int) -> dict[str, Any]:
    """Scores of both ways, and what the tree does: rankings without it have `EMPTY` for what is invalid."""
    slots = {query: [name for name in found if name != query][:k] for query, found in free.items()}
    # Empty slots count as tables that are wrong, each another one.
    full = {q: [name or f"empty slot {at}" for at, name in enumerate(found)] for q, found in slots.items()}
    ways = {
        WITH: bound,
        WITHOUT: full,
        LEFT_OUT: {query: [name for name in found if name != EMPTY] for query, found in free.items()},
    }
    scored = {way: score(ranked, truth, k) for way, ranked in ways.items()}
    invalid = [name == EMPTY for found in slots.values() for name in found]
    added = []
    for query, found in bound.items():
        right = set(truth[query]) - {query}
        first = [name for name in found if name != query][:k]
        added.append(len(right & set(first)) - len(right & set(slots[query])))
    return {
        "k": k,
        "rows": [{"way": way, **one.to_dict()} for way, one in scored.items()],
        "invalid_rate": float(np.mean(invalid)) if invalid else 0.0,
        "added_relevant_per_query": float(np.mean(added)) if added else 0.0,
        "map_gain": scored[WITH].map - scored[WITHOUT].map,
        "recall_gain": scored[WITH].recall - scored[WITHOUT].recall,
    }


def tables(document: Document) -> list[Table]:
    """Quality with the tree and without it; and the paper's own four figures, with those it prints."""
    what, k = document["what"], document["k"]
    ways = [
        [row["way"], *(f"{row[key]:.3f}" for key in ("map", "precision", "recall"))]
        for row in document["rows"]
    ]
    quality = Table(["decoding", f"MAP@{k}", f"P@{k}", f"R@{k}"], ways, _system(document))
    columns = ["lake", "invalid of the first k", "relevant tables added per query", "MAP gain", "recall gain"]
    rows = [[what["lake"], *(f"{document[key]:.3f}" for key in EFFECTS)]]
    printed = {
        lake: {one["metric"]: one["value"] for one in figures(lake, "tab:prefix-decoding")}
        for lake in BENCHMARKS
    }
    rows += [
        [f"{lake} (published)", *(f"{values[key]:.3f}" for key in EFFECTS)]
        for lake, values in printed.items()
    ]
    return [quality, Table(columns, rows, "What the tree adds", CONDITIONS)]


def _system(document: Document) -> str:
    what = document["what"]
    return f"{what['lake']}, {title(what['method'], what['minutes'])}"


def plot(document: Document, path: Path) -> None:
    """MAP, precision and recall, both ways."""
    keys = {"map": "MAP", "precision": "P", "recall": "R"}
    with drawing(path, width=6.5) as (axes,):
        width, shades = 0.8 / len(document["rows"]), (OURS, *COLOURS)
        for number, row in enumerate(document["rows"]):
            at = np.arange(len(keys)) + width * number
            drawn = axes.bar(at, [row[key] for key in keys], width, label=row["way"], color=shades[number])
            axes.bar_label(drawn, [f"{row[key]:.2f}" for key in keys], padding=2, fontsize=8)
        axes.set_xticks(np.arange(len(keys)) + width, [f"{name}@{document['k']}" for name in keys.values()])
        axes.set(ylim=(0, 1.1), title=_system(document))
        axes.legend(loc="upper center", ncols=3, fontsize=8)
