"""Learning a ranking from labels: features of training queries' candidates, and the choice of what counts.

The features of a training query come from the annotated graph without the pairs that name it (in folds), so
that they are those of a query nobody has annotated. Validation queries take no part in any of it but the
choice, and no pair that names one is learnt from or in a graph. Where they are few, training queries take
part in the choice, too, each ranked by what was learnt without it. To learn nothing is one of the choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gentus.align.verdict import judge
from gentus.arrays import F64, I64
from gentus.index.candidates import FEATURES, NEAREST, PARTS, CandidateFinder, Candidates
from gentus.index.queries import Query
from gentus.index.second_look import LOOKED_AT, aligned_order
from gentus.metrics import score
from gentus.neighbours.labels import Labels
from gentus.neighbours.listwise import Lists, Listwise, learn_listwise, training_steps
from gentus.progress import Progress
from gentus.retrieval.retriever import LEAST_BEAM
from gentus.retrieval.walk import AnnotatedGraph

FOLDS = 10
FEW = 50  # validation queries, which cannot choose alone
PARTS_LEFT_OUT = 3  # of the training queries, in turn, where these help to choose
MOST_QUERIES = 2000  # that are learnt from: more take memory, and change little
BEAM = 2 * NEAREST
NONE = ("none",)  # nothing is learnt: a search orders by the second look
ALTERNATIVES: tuple[tuple[str, ...], ...] = (  # parts of the features, the cheapest first
    NONE,
    ("prior", "walk"),
    ("prior", "columns"),
    ("prior", "walk", "columns"),
)


@dataclass(frozen=True, slots=True)
class RankingFit:
    """The ranking that was chosen, and by what."""

    listwise: Listwise | None
    parts: tuple[str, ...]  # of the features, that it uses
    validation_map: dict[str, float]  # of every alternative
    standard_error: float  # of the gain over none
    training_queries: int


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """A query that was read, its latent and its candidates."""

    table: int
    query: Query
    candidates: Candidates


def fit_ranking(
    finder: CandidateFinder, queries: Mapping[int, Query], labels: Labels, seed: int, progress: Progress
) -> RankingFit:
    """Learn from labels, all by catalogue id; `queries` are those that could be read."""
    random = np.random.default_rng(seed)
    graph = AnnotatedGraph.of(labels.pairs)
    truth = _truth(labels.every)
    wanted = np.unique(labels.pairs[:, 0])
    wanted = wanted[np.isin(wanted, list(queries))]
    if len(wanted) > MOST_QUERIES:
        wanted = np.sort(random.choice(wanted, MOST_QUERIES, replace=False))
    with progress.stage("Finding candidates of labelled queries", len(wanted)) as tick:
        training = []
        for one in _training_candidates(finder, graph, wanted, queries, random):
            training.append(one)
            tick(1)
        held = labels.queries()
        judging = _of_graph(finder, graph)
        validation = [_candidates(judging, query, queries) for query in held.tolist() if query in queries]
    lists = _lists(training, truth, held)
    score_by = partial(_precisions, finder=finder, truth=truth, k=labels.k)
    left_out = [np.arange(len(training)) % PARTS_LEFT_OUT == part for part in range(PARTS_LEFT_OUT)]
    left_out = left_out if 0 < len(validation) < FEW else []
    found: dict[tuple[str, ...], tuple[Listwise | None, F64]] = {
        NONE: (None, score_by(None, [*validation, *_ordered(training, left_out)]))
    }
    steps = training_steps(len(training)) * (len(ALTERNATIVES) - 1) * (1 + len(left_out))
    with progress.stage("Learning to rank", steps, "steps") as tick:
        for parts in ALTERNATIVES[1:] if lists.relevant.any() and validation else ():
            learn = partial(learn_listwise, used=_used(parts), tick=tick)
            learnt = learn(lists, random=np.random.default_rng(seed))
            each = [score_by(learnt, validation)]
            for part in left_out:
                judged = _ordered(training, [part])
                known = np.append(held, [one.table for one in judged])
                others = _lists(_ordered(training, [~part]), truth, known)
                learnt_without = learn(others, random=np.random.default_rng(seed))
                each.append(score_by(learnt_without, judged))
            found[parts] = learnt, np.concatenate(each)
    return _chosen(found, len(training))


def _lists(training: Sequence[RankedQuery], truth: Mapping[int, list[int]], without: I64) -> Lists:
    """What is learnt from: the candidates of queries, but for tables that are queries to be judged by."""
    kept = [~np.isin(one.candidates.tables, without) for one in training]
    return Lists.of(
        [one.candidates.features[some] for one, some in zip(training, kept, strict=True)],
        [
            np.isin(one.candidates.tables[some], truth[one.table])
            for one, some in zip(training, kept, strict=True)
        ],
    )


def _ordered(training: Sequence[RankedQuery], parts: Sequence[NDArray[np.bool_]]) -> list[RankedQuery]:
    """The queries of some parts, part by part."""
    return [training[at] for part in parts for at in np.flatnonzero(part).tolist()]


def _training_candidates(
    finder: CandidateFinder,
    graph: AnnotatedGraph,
    wanted: I64,
    queries: Mapping[int, Query],
    random: np.random.Generator,
) -> Iterator[RankedQuery]:
    """The candidates of training queries, each by a graph without the pairs that name one of its fold."""
    fold = random.permutation(len(wanted)) % FOLDS
    for number in range(FOLDS):
        some = wanted[fold == number]
        without = _of_graph(finder, graph.without(some))
        for query in some.tolist():
            yield _candidates(without, query, queries)


def _of_graph(finder: CandidateFinder, graph: AnnotatedGraph) -> CandidateFinder:
    """The same finder with walks in another graph."""
    at, known = finder.graph.find(graph.tables)
    return replace(finder, graph=graph, rows=np.where(known, finder.rows[at], -1))


def _candidates(finder: CandidateFinder, table: int, queries: Mapping[int, Query]) -> RankedQuery:
    return RankedQuery(table, queries[table], finder.search(queries[table], BEAM))


def _truth(pairs: I64) -> dict[int, list[int]]:
    truth: dict[int, list[int]] = {}
    for query, table in pairs.tolist():
        truth.setdefault(query, []).append(table)
    return truth


def _used(parts: tuple[str, ...]) -> NDArray[np.bool_]:
    """(FEATURES,) those of some parts."""
    used = np.zeros(len(FEATURES), bool)
    for part in parts:
        used[PARTS[part]] = True
    return used


def _precisions(
    learnt: Listwise | None,
    queries: Sequence[RankedQuery],
    finder: CandidateFinder,
    truth: Mapping[int, list[int]],
    k: int,
) -> F64:
    """(Q,) average precision per query."""
    found = []
    for one in queries:
        if learnt is None:
            tables = _aligned(finder, one.query)
        else:
            order = np.argsort(-learnt.scores(one.candidates.features), kind="stable")
            tables = one.candidates.tables[order]
        best = tables[:k].tolist()
        found.append(score({one.table: best}, {one.table: truth[one.table]}, k).map)
    return np.array(found, np.float64)


def _aligned(finder: CandidateFinder, query: Query) -> I64:
    """(n,) the tables that a search without labels finds, in its order."""
    decoder, itself = finder.decoder, query.self_ids
    rows, distances = decoder.search_with_feedback(
        query.content.identity, LEAST_BEAM, finder.feedback, itself
    )
    tables = decoder.trie.table(rows)
    others = np.flatnonzero(~np.isin(tables, list(itself)))[:LOOKED_AT]
    tables, distances = tables[others], distances[others]
    signed = finder.catalogue.signatures.of(tables.tolist())
    verdicts = judge(
        query.content.columns, [signed[table].signatures for table in tables.tolist()], finder.names
    )
    return tables[aligned_order((-distances).tolist(), [one.match for one in verdicts])]


def standard_error(values: F64) -> float:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def _chosen(found: Mapping[tuple[str, ...], tuple[Listwise | None, F64]], queries: int) -> RankingFit:
    """The cheapest alternative that is within one standard error of the one with the best MAP."""
    means = {parts: float(each.mean()) if len(each) else 0.0 for parts, (_, each) in found.items()}
    top = max(means, key=lambda parts: means[parts])
    behind = {parts: found[top][1] - each for parts, (_, each) in found.items()}
    best = next(parts for parts, gap in behind.items() if gap.sum() / max(len(gap), 1) <= standard_error(gap))
    error = standard_error(found[best][1] - found[ALTERNATIVES[0]][1])
    figures = {" + ".join(parts): round(mean, 4) for parts, mean in means.items()}
    return RankingFit(found[best][0], best, figures, round(error, 4), queries)
