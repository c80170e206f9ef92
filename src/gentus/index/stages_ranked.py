"""The stages of a build that learn from labels: how much column positions count, and a ranking.

They need neither torch nor SciPy. What they choose, training queries decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from gentus.arrays import F64, I64
from gentus.index.candidates import CandidateFinder, rows_of
from gentus.index.config import LabelReport, RankingReport
from gentus.index.fit_ranker import fit_ranking, standard_error
from gentus.index.queries import Query, ReadContents
from gentus.index.stages import (
    Assigned,
    Embedding,
    EncodedTables,
    LabelFile,
    LearntRanking,
    Model,
    Run,
    Sample,
    Supervised,
    embed,
    join_blocks,
)
from gentus.lake import Skipped, Source
from gentus.neighbours.graph import Neighbours, largest
from gentus.neighbours.labels import Labels, Ranker
from gentus.retrieval.beam import Decoder
from gentus.retrieval.retriever import SentEncoder
from gentus.retrieval.walk import AnnotatedGraph
from gentus.table import evenly_spaced
from gentus.threads import one_blas_thread

MOST_JUDGED = 500  # training queries that weigh positions
POSITION_WEIGHTS = ((1, 0.0), (2, 0.5), (4, 1.0), (8, 2.0))  # factors of the order, weights of the number


@one_blas_thread()
def weigh_positions(
    given: LabelFile, tables: EncodedTables, graph: Neighbours | None, sample: Sample, run: Run
) -> Neighbours | None:
    """The graph with the weights of column positions and of their number that rank training queries best.

    A lake that keeps no order of columns is left as it is. A gain within one standard error counts as none.
    """
    if graph is None or not graph.order:
        return graph
    position = {int(table): at for at, table in enumerate(sample.tables[sample.chosen, 0])}
    training = _split(given, run.catalogue.tables.ids(given.names), run).pairs.tolist()
    inside = [(position[q], position[t]) for q, t in training if q in position and t in position]
    pairs = np.array(inside, np.int64).reshape(-1, 2)
    queries = np.unique(pairs[:, 0])
    some = queries[list(evenly_spaced(len(queries), MOST_JUDGED))]
    judged = Labels(pairs, pairs[np.isin(pairs[:, 0], some)])
    found: list[tuple[Neighbours, F64]] = []
    for factor, width in POSITION_WEIGHTS:
        weighed = replace(graph, order=round(factor * graph.order, 3), width=width)
        embedding = embed(join_blocks(tables, weighed), weighed, run)
        found.append((weighed, judged.precisions(_nearest_by(embedding, judged.k))))
    best = max(found, key=lambda one: one[1].sum())
    gain = best[1] - found[0][1]
    return best[0] if len(gain) and gain.mean() > standard_error(gain) else graph


def _nearest_by(embedding: Embedding, k: int) -> Ranker:
    """Ranks the tables of the sample by the similarity of a query's latent with smoothed latents."""

    def rank(queries: I64) -> Iterator[list[int]]:
        for query in queries.tolist():
            similarity = embedding.smoothed @ embedding.latents[query]
            similarity[query] = -np.inf
            yield largest(similarity, min(k, len(similarity) - 1)).tolist()

    return rank


def _split(given: LabelFile, ids: Mapping[str, int], run: Run) -> Labels:
    """Labels by id, with the same validation queries every time."""
    return Labels.split(given.truth, ids, np.random.default_rng(run.settings.seed), given.outside)


@one_blas_thread()
def learn_ranking(given: LabelFile, model: Model, assigned: Assigned, run: Run) -> Supervised:
    """A ranking of candidates, if one is better than the prior's; and what was found out."""
    settings, ids, outside = run.settings, run.catalogue.tables.ids(given.names), given.outside
    labels = _split(given, ids, run)
    graph = AnnotatedGraph.of(labels.every)
    finder = CandidateFinder(
        Decoder(assigned.trie, model.codebooks),
        run.catalogue,
        graph,
        rows_of(assigned.trie, graph.tables),
        settings.names,
        settings.feedback,
    )
    named = {table: name for name, table in (outside | ids).items()}
    sources = run.catalogue.tables.sources_of(ids.values())
    sources |= {outside[name]: source for name, source in given.queries.items()}
    wanted = {table: sources[table] for table in np.unique(labels.every[:, 0]).tolist()}
    with run.progress.stage("Reading labelled queries", len(wanted)) as tick:
        queries, unreadable = dict[int, Query](), list[str]()
        for table, query in _read(wanted, model, run, unreadable):
            queries[table] = query
            tick(1)
    fitted = fit_ranking(finder, queries, labels, settings.seed, run.progress)
    report = LabelReport(
        given.file,
        len(labels.every),
        labels.unknown,
        sorted(named[table] for table in labels.queries().tolist()),
        fitted.validation_map,
        RankingReport(" + ".join(fitted.parts), fitted.standard_error, fitted.training_queries, unreadable),
        given.folder,
    )
    ranking = None if fitted.listwise is None else LearntRanking(graph, fitted.listwise, fitted.parts)
    return Supervised(given.truth, report, ranking)


def _read(
    wanted: Mapping[int, Source], model: Model, run: Run, unreadable: list[str]
) -> Iterator[tuple[int, Query]]:
    """Queries as a search reads them, by id; a file that is gone by now becomes `unreadable`.

    They are read where the lake was: a file that crashes its parser costs itself.
    """
    work = ReadContents(SentEncoder(model.encoder.arrays()))
    found = run.engine.each(wanted.values(), work, run.settings.limits)
    for one, (source, content) in zip(wanted, found, strict=True):
        if isinstance(content, Skipped):
            unreadable.append(f"{source.name}: {content.reason}")
        else:
            yield one, Query(content, None, {one} if one >= 0 else set())
