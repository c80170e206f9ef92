"""Ranking: queries in, rows of the prefix tree out, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gentus.index.queries import Cells, Query
from gentus.index.snapshot import Snapshot

if TYPE_CHECKING:
    from gentus.generator.saved import SavedGenerator

LEAST_BEAM = 100  # with a generator; the prior alone is cheap ...
LEAST_PRIOR_BEAM = 200  # ... and can look wider


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A row of the prefix tree and its score; with a generator, also the two parts of the score."""

    row: int
    score: float
    prior: float | None = None
    generator: float | None = None


def rank(
    snapshot: Snapshot, generator: SavedGenerator | None, queries: Sequence[Query], k: int, beam: int | None
) -> list[list[RankedRow]]:
    """For every query the `k` best rows, best first, and as many more as are the query itself."""
    if generator is None:
        return [_by_prior(snapshot, query, k, beam) for query in queries]
    return [
        _by_generator(snapshot, generator, query, k, beam)[: k + len(query.self_ids)] for query in queries
    ]


def _by_prior(snapshot: Snapshot, query: Query, k: int, beam: int | None) -> list[RankedRow]:
    found = query.content.identity
    latent = snapshot.encoder.read(*found)[1] if isinstance(found, Cells) else found
    width, best = beam or max(2 * k, LEAST_PRIOR_BEAM), slice(k + len(query.self_ids))
    rows, distances = snapshot.decoder.search_with_feedback(
        latent, width, snapshot.config.feedback, query.self_ids
    )
    return list(map(RankedRow, rows[best].tolist(), (1 - distances[best] / 2).tolist()))


def _by_generator(
    snapshot: Snapshot, generator: SavedGenerator, query: Query, k: int, beam: int | None
) -> list[RankedRow]:
    from gentus.generator.decoding import decode
    from gentus.retrieval.generate import Decoding

    cells, shipped, decoder = query.content.identity, snapshot.config.generator, snapshot.decoder
    assert isinstance(cells, Cells), "a generator reads cells, not latents"
    assert shipped is not None
    hidden, latent = snapshot.encoder.read(*cells)
    session = generator.session(cells.table, hidden, latent)
    weight, width = shipped.weight, beam or max(2 * k, LEAST_BEAM)
    decoding = Decoding(width, weight, shipped.softmax)
    (found,) = decode(session, latent[None], decoder.trie, decoder.codebooks, decoding)
    rows, scores = found.rows.tolist(), found.scores.tolist()
    if weight is None:
        return [RankedRow(row, score, None, score) for row, score in zip(rows, scores, strict=True)]
    # Both parts on the scale of the score: 1 is the same content, and a certain generator.
    prior, generated = 1 + found.prior / 2, weight / 2 * found.generator
    return list(map(RankedRow, rows, (prior + generated).tolist(), prior.tolist(), generated.tolist()))
