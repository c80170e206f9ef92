"""Families of unionable tables against the groups of the ground truth, beside TF-IDF on the same graph.

The groups of a ground truth are what its pairs connect, those of all splits. Tables that no pair names count
in no score: nothing is known about them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import gentus
from gentus.arrays import I64
from gentus.index.groups import NEIGHBOURS, POWER
from gentus.neighbours.communities import propagate_labels, symmetric_graph
from gentus.neighbours.graph import BLOCK, largest
from gentus.settings import BuildSettings
from gentus_bench.baselines.lexical import TfidfWords
from gentus_bench.experiment import NoOptions, Request
from gentus_bench.experiments.quality import BenchmarkData, kept_index
from gentus_bench.lakes.benchmarks import Benchmark
from gentus_bench.results import Document, Results
from gentus_bench.table import Table

Groups = dict[str, int]  # of every table


def run(request: Request, options: NoOptions) -> Iterator[Document]:
    """Every lake with ground truth, column names hidden; an index that `quality` has built is opened."""
    lakes = []
    for benchmark in request.benchmarks():
        measure = partial(_measure, benchmark, request.results)
        name = f"groups/{benchmark.name}"
        lakes.append(
            request.results.measured(name, {"lake": benchmark.name, "data": benchmark.digest}, measure)
        )
    what = {"lakes": [one["what"]["lake"] for one in lakes]}
    yield request.results.combined("groups", what, {"lakes": lakes})


def _measure(benchmark: Benchmark, results: Results) -> Document:
    folder = kept_index(results, benchmark, "gentus")
    if not folder.there:
        gentus.build(benchmark.lake, folder.path, settings=BuildSettings(names=False)).close()
        folder.note({})
    with gentus.open(folder.path) as index:
        started = time.perf_counter()
        found = index.groups()
        seconds = time.perf_counter() - started
        names = index.tables()
    truth = true_groups(benchmark)
    ours = {table: group.id for group in found for table in group.tables}
    return {
        "tables": len(names),
        "truth": {"tables": len(truth), "groups": len(set(truth.values()))},
        "seconds": round(seconds, 2),
        "families": len(found),
        "single": found.single,
        "largest": found[0].size if found else 0,
        "gentus": scores(truth, ours),
        "tfidf": scores(truth, tfidf_groups(benchmark)),
    }


def true_groups(benchmark: Benchmark) -> Groups:
    """Tables of the lake that pairs of the ground truth connect, whichever split they are of."""
    both = (benchmark.truth, benchmark.labels or {})
    pairs = [(query, table) for truth in both for query, tables in truth.items() for table in tables]
    numbers = {name: at for at, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
    rows, columns = (np.array([numbers[pair[side]] for pair in pairs]) for side in (0, 1))
    edges = sp.csr_matrix((np.ones(len(pairs)), (rows, columns)), (len(numbers), len(numbers)))
    labels = connected_components(edges, directed=False)[1].tolist()
    outside = set() if benchmark.queries is None else set(benchmark.truth)
    return {name: labels[at] for name, at in numbers.items() if name not in outside}


def tfidf_groups(benchmark: Benchmark) -> Groups:
    """Communities of the same graph by cosines of TF-IDF over cell words."""
    baseline = TfidfWords()
    baseline.fit(BenchmarkData(benchmark).tables.values())
    vectors = baseline.vectors()  # (tables, terms)
    count = min(NEIGHBOURS, vectors.shape[0] - 1)
    ids = np.zeros((vectors.shape[0], count), np.int32)
    cosines = np.zeros(ids.shape, np.float32)
    across = vectors.T.tocsr()
    for begin in range(0, vectors.shape[0], BLOCK):
        for at, values in enumerate((vectors[begin : begin + BLOCK] @ across).toarray(), begin):
            values[at] = -1
            best = largest(values, count)
            ids[at], cosines[at] = best, values[best]
    labels = propagate_labels(symmetric_graph(ids, np.maximum(cosines, 0) ** POWER))
    return dict(zip(baseline.names, labels.tolist(), strict=True))


def scores(truth: Mapping[str, int], found: Mapping[str, int]) -> dict[str, float]:
    """Agreement with the true groups; a table that is in no group is a group of its own."""
    from sklearn.metrics import adjusted_rand_score, completeness_score, homogeneity_score

    names = sorted(truth)
    ours = _numbered(names, found)
    theirs = np.array([truth[name] for name in names])
    measures = {
        "ari": adjusted_rand_score,
        "homogeneity": homogeneity_score,
        "completeness": completeness_score,
    }
    return {name: round(float(measure(theirs, ours)), 4) for name, measure in measures.items()}


def _numbered(names: Sequence[str], found: Mapping[str, int]) -> I64:
    return np.array([found.get(name, -1 - at) for at, name in enumerate(names)], np.int64)


_SYSTEMS = {"gentus": "GenTUS", "tfidf": "TF-IDF words, same graph"}
_MEASURES = ("ari", "homogeneity", "completeness")


def tables(document: Document) -> list[Table]:
    """One row per lake and system, and one per lake of what was found."""
    scored = [
        [
            lake["what"]["lake"] if key == "gentus" else "",
            name,
            *(f"{lake[key][one]:.3f}" for one in _MEASURES),
        ]
        for lake in document["lakes"]
        for key, name in _SYSTEMS.items()
    ]
    found = [
        [
            lake["what"]["lake"],
            *(f"{lake[key]:,}" for key in ("tables", "families", "largest", "single")),
            *(f"{lake['truth'][key]:,}" for key in ("groups", "tables")),
            f"{lake['seconds']:.1f}",
        ]
        for lake in document["lakes"]
    ]
    return [
        Table(["lake", "system", "adjusted Rand index", "homogeneity", "completeness"], scored),
        Table(
            ["lake", "tables", "families", "largest", "single", "true groups", "tables in them", "s"], found
        ),
    ]
