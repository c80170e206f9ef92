"""Ranking a query by what was learnt from labels: candidates of prior and walks, ordered by features."""

from __future__ import annotations

import numpy as np

from gentus.index.candidates import NEAREST, CandidateFinder
from gentus.index.catalogue import Catalogue
from gentus.index.queries import Query
from gentus.index.second_look import ChosenOptions
from gentus.index.snapshot import Snapshot
from gentus.retrieval.retriever import RankedRow


def rank_by_labels(
    snapshot: Snapshot, catalogue: Catalogue, query: Query, options: ChosenOptions
) -> list[RankedRow]:
    """The best rows of a query, best first; the score is the share of a softmax over all candidates."""
    ranking, config = snapshot.ranking, snapshot.config
    assert ranking is not None
    assert config.ranking is not None
    finder = CandidateFinder(
        snapshot.decoder,
        catalogue,
        ranking.graph,
        ranking.rows,
        config.settings.names,
        config.feedback,
        "columns" in config.ranking,
    )
    count = max(options.looked_at, NEAREST)
    found = finder.search(query, options.beam or 2 * count, count)
    scores = ranking.listwise.scores(found.features)
    order = np.argsort(-scores, kind="stable")
    shares = np.exp(scores - scores.max(initial=-np.inf))
    shares /= max(float(shares.sum()), 1e-12)
    order = order[: options.looked_at]
    return list(map(RankedRow, found.rows[order].tolist(), shares[order].tolist()))
