"""The stage of a build that learns a ranking from labels, in the latent space that the lake has without them.

It needs neither torch nor SciPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from gentus.arrays import I64
from gentus.index.candidates import CandidateFinder, rows_of
from gentus.index.config import LabelReport, RankingReport
from gentus.index.fit_ranker import fit_ranking
from gentus.index.queries import Latents, Query
from gentus.index.stages import Assigned, LabelFile, LearntRanking, Model, Run, Supervised
from gentus.lake import Skipped
from gentus.neighbours.labels import Labels
from gentus.retrieval.beam import Decoder
from gentus.retrieval.walk import AnnotatedGraph
from gentus.threads import one_blas_thread


@one_blas_thread()
def learn_ranking(
    given: LabelFile, model: Model, assigned: Assigned, run: Run, random: np.random.Generator
) -> Supervised:
    """A ranking of candidates, if one is better than the prior's; and what was found out."""
    ids = run.catalogue.tables.ids(dict.fromkeys(chain(given.truth, *given.truth.values())))
    labels = Labels.split(given.truth, ids, random)
    pairs = np.concatenate([labels.pairs, labels.validation])
    graph = AnnotatedGraph.of(pairs)
    settings = run.settings
    finder = CandidateFinder(
        Decoder(assigned.trie, assigned.identifiers.codebooks),
        run.catalogue,
        graph,
        rows_of(assigned.trie, graph.tables),
        settings.names,
        settings.feedback,
    )
    wanted = np.unique(pairs[:, 0])
    with run.progress.stage("Reading labelled queries", len(wanted)) as tick:
        queries, unreadable = dict[int, Query](), list[str]()
        for table, query in _read(wanted, model, run, unreadable):
            queries[table] = query
            tick(1)
    fitted = fit_ranking(finder, queries, labels, settings.seed, run.progress)
    held = run.catalogue.tables.names(labels.queries().tolist())
    report = LabelReport(
        given.file,
        len(pairs),
        labels.unknown,
        sorted(named.name for named in held.values()),
        fitted.validation_map,
        RankingReport(" + ".join(fitted.parts), fitted.standard_error, fitted.training_queries, unreadable),
    )
    ranking = None if fitted.listwise is None else LearntRanking(graph, fitted.listwise, fitted.parts)
    return Supervised(given.truth, report, None, lambda folder: None, ranking)


def _read(wanted: I64, model: Model, run: Run, unreadable: list[str]) -> Iterator[tuple[int, Query]]:
    """Queries as a search reads them, by catalogue id; a file that is gone by now becomes `unreadable`.

    They are read where the lake was: a file that crashes its parser costs itself.
    """
    ids = wanted.tolist()
    sources = run.catalogue.tables.sources_of(ids)
    work = Latents.by(model.encoder)
    found = run.engine.each((sources[one] for one in ids), work, run.settings.limits)
    for one, (source, content) in zip(ids, found, strict=True):
        if isinstance(content, Skipped):
            unreadable.append(f"{source.name}: {content.reason}")
        else:
            yield one, Query(content, None, {one})
