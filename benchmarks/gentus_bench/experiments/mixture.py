"""Does a generator add anything to the ranking learnt from labels? Both indexes are of one lake and split.

The scores are added: the logarithm of the learnt ranking's share, and a weight times the generator's
log-probability. The validation queries of the builds, which neither has learnt from, choose the weight; their
annotations are in no graph that they are ranked by. Where a build did not ship its generator, because its
prior alone was better on those queries, its own figures of them stand beside the learnt ranking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gentus
from gentus.arrays import F64
from gentus.generator.decoding import decode
from gentus.index.candidates import NEAREST, CandidateFinder
from gentus.index.fit_ranker import standard_error
from gentus.index.index import Index
from gentus.index.queries import Query, encoded
from gentus.lake import read_named
from gentus.metrics import load_groundtruth, score
from gentus.retrieval.generate import Decoding
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

VALIDATION_K = 20  # of what builds measure
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
Scores = Mapping[str, float]  # by the name of a table


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the mixture."""

    groundtruth: Path | None = None  # a CSV of query_table,candidate_table to measure with
    labels: Path | None = None  # the one that both indexes were built with


def run(request: Request, options: Options) -> Iterator[Document]:
    """The first index ranks by labels, the second one has a generator."""
    if len(request.indexes) != 2 or options.groundtruth is None or options.labels is None:
        raise ValueError("this experiment needs two --index, --set groundtruth=FILE and --set labels=FILE")
    truth = {"dev": load_groundtruth(options.groundtruth), "validation": load_groundtruth(options.labels)}
    k = request.k or 20
    ranking, generating = map(gentus.open, request.indexes)
    with ranking, generating:

        def measure() -> Document:
            held = _validation_queries(ranking, generating)
            chosen = {"validation": held, "dev": [name for name in truth["dev"] if ranking.source(name)]}
            at = {"validation": VALIDATION_K if generating.generator is None else k, "dev": k}
            each = {
                part: _precisions(
                    ranking, generating, {one: truth[part][one] for one in names}, at[part], held
                )
                for part, names in chosen.items()
            }
            counts = {part: len(names) for part, names in chosen.items()}
            if generating.generator is None:
                return {"map": _means(each), "queries": counts, "build": _figures(generating)}
            best = max(each["validation"], key=lambda way: float(each["validation"][way].mean()))
            gain = each["dev"][best] - each["dev"][_named(0.0)]
            return {"map": _means(each), "queries": counts, "chosen": best, "error": standard_error(gain)}

        what = {"lake": ranking.config.lake.split("/")[-2], "k": k}
        yield request.results.measured(f"mixture-{what['lake']}", what, measure)


def _validation_queries(ranking: Index, generating: Index) -> list[str]:
    """The queries that both builds held out."""
    reports = [index.config.report.labels for index in (ranking, generating)]
    if not all(reports) or ranking._current().ranking is None or generating.config.report.generator is None:
        raise ValueError(
            "the first index needs a ranking learnt from labels, the second one a generator that was trained"
        )
    one, other = (set(report.validation_queries) for report in reports if report is not None)
    if one != other:
        raise ValueError("the indexes held out other queries: build both with the same labels and seed")
    return sorted(one)


def _means(each: Mapping[str, Mapping[str, F64]]) -> dict[str, dict[str, float]]:
    return {part: {way: float(some.mean()) for way, some in ways.items()} for part, ways in each.items()}


def _figures(index: Index) -> Document:
    """What a build measured of a generator that it did not ship, on its validation queries."""
    report = index.config.report.generator
    assert report is not None
    return {"map": report.validation_map, "chosen": report.chosen, "error": report.standard_error}


def _precisions(
    ranking: Index, generating: Index, truth: Mapping[str, Sequence[str]], k: int, held: Sequence[str]
) -> dict[str, F64]:
    """(Q,) average precision per query, of every way to rank."""
    found: dict[str, list[float]] = {}
    finder = _finder_without(ranking, held)
    for name, answers in truth.items():
        learnt = _learnt_scores(ranking, finder, name)
        ways = {_named(0.0): _mixed(learnt, {}, 0.0)}
        if generating.generator is not None:
            generated = _generated_scores(generating, name)
            ways = {_named(weight): _mixed(learnt, generated, weight) for weight in WEIGHTS}
            ways["generator with its prior"] = [table for table in generated if table != name]
        for way, tables in ways.items():
            precision = score({name: tables[:k]}, {name: list(answers)}, k).map
            found.setdefault(way, []).append(precision)
    return {way: np.array(some) for way, some in found.items()}


def _named(weight: float) -> str:
    return f"learnt ranking + {weight:g} x generator" if weight else "learnt ranking"


def _mixed(learnt: Scores, generated: Scores, weight: float) -> list[str]:
    """Tables by the sum of their scores; what one of the two did not find is below all that it found."""
    least = min(learnt.values(), default=0.0) - 1, min(generated.values(), default=0.0) - 1
    tables = dict.fromkeys([*learnt, *(generated if weight else ())])
    total = {table: learnt.get(table, least[0]) + weight * generated.get(table, least[1]) for table in tables}
    return sorted(total, key=lambda table: -total[table])


def _finder_without(index: Index, held: Sequence[str]) -> CandidateFinder:
    """Finds candidates in a graph without the annotations of some queries."""
    snapshot, ids = index._current(), index.catalogue.tables.ids(held)
    ranking, config = snapshot.ranking, snapshot.config
    assert ranking is not None
    assert config.ranking is not None
    graph = ranking.graph.without(np.array(sorted(ids.values()), np.int64))
    return CandidateFinder(
        snapshot.decoder,
        index.catalogue,
        graph,
        ranking.rows,
        config.settings.names,
        config.feedback,
        "columns" in config.ranking,
    )


def _learnt_scores(index: Index, finder: CandidateFinder, name: str) -> Scores:
    """Logarithms of the shares of a query's candidates, best first."""
    snapshot = index._current()
    assert snapshot.ranking is not None
    source = index.source(name)
    assert source is not None
    (content,) = encoded([read_named(source, index.limits)], snapshot.encoder)
    query = Query(content, None, set(index.catalogue.tables.ids([name]).values()))
    found = finder.search(query, 2 * NEAREST)
    scores = snapshot.ranking.listwise.scores(found.features).astype(np.float64)
    shares = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
    names = index.catalogue.tables.names(found.tables.tolist())
    return {names[table].name: share for table, share in zip(found.tables.tolist(), shares, strict=True)}


def _generated_scores(index: Index, name: str, beam: int = 100) -> Scores:
    """Log-probabilities of what a generator writes beside its prior, best first."""
    snapshot, generator = index._current(), index.generator
    shipped, decoder, source = snapshot.config.generator, snapshot.decoder, index.source(name)
    assert generator is not None
    assert shipped is not None
    assert source is not None
    table = read_named(source, index.limits)
    hidden, latent = snapshot.encoder.read(table)
    session = generator.session(table, hidden, latent)
    how = Decoding(beam, shipped.weight, shipped.softmax)
    (found,) = decode(session, latent[None], decoder.trie, decoder.codebooks, how)
    tables = decoder.trie.table(found.rows).tolist()
    names = index.catalogue.tables.names(tables)
    return {names[one].name: float(p) for one, p in zip(tables, found.generator, strict=True)}


def tables(document: Document) -> list[Table]:
    """MAP of every mixture on validation and dev queries."""
    found, counts, what = document["map"], document["queries"], document["what"]
    columns = ["ranked by", *(f"{part}, {counts[part]} queries" for part in ("validation", "dev"))]
    if (build := document.get("build")) is not None:
        rows = [["learnt ranking", *(f"{found[part][_named(0.0)]:.4f}" for part in ("validation", "dev"))]]
        rows += [[f"`trained`: {way}", f"{figure:.4f}", ""] for way, figure in build["map"].items()]
        note = (
            f"MAP@{VALIDATION_K} on validation queries, MAP@{what['k']} on dev queries. `trained`: as its"
            f" build measured it; it ships {build['chosen']}. The standard error of the best mixture's gain"
            f" over its prior alone is {build['error']:.4f}."
        )
        return [Table(columns, rows, what["lake"], note)]
    chosen = document["chosen"]
    rows = [
        [
            f"**{way}**" if way == chosen else way,
            f"{found['validation'][way]:.4f}",
            f"{found['dev'][way]:.4f}",
        ]
        for way in found["dev"]
    ]
    note = (
        f"MAP@{document['what']['k']}. Bold: chosen by the validation queries; the standard error of its gain"
        f" over the learnt ranking, on dev queries, is {document['error']:.4f}."
    )
    return [Table(columns, rows, document["what"]["lake"], note)]
