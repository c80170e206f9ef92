"""Searching: queries in, rows of the tree out, best first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gentus.closed_form import ClosedForm
from gentus.decode import Decoder
from gentus.encoder import Encoder
from gentus.engine import LocalEngine
from gentus.evidence import F32
from gentus.features import Features, featurize, featurize_all
from gentus.lake import Limits, Place, Skipped, Source, Unreadable, only_table
from gentus.table import Table
from gentus.trie import Trie

if TYPE_CHECKING:
    from gentus.generator import Generator

LEAST_BEAM = 100  # where a generator writes; the prior alone is cheap ...
LEAST_PRIOR_BEAM = 200  # ... and can look wider


@dataclass(frozen=True, slots=True)
class Moment:
    """What an index is at one moment: all of it fits together, and none of it ever changes."""

    config: dict[str, Any]
    encoder: ClosedForm | Encoder
    base: Trie  # the snapshot
    changes: int  # how much came and went since
    serial: int  # the last change that is in it
    decoder: Decoder  # what there is now


@dataclass(frozen=True, slots=True)
class Found:
    """A row of the tree, and its score; with a generator, also the two parts of that."""

    row: int
    score: float
    prior: float | None = None
    generator: float | None = None


Seen = Table | Features  # a query: all of its sample, or as much as the prior asks for


def rank(
    now: Moment,
    generator: Generator | None,
    queries: Sequence[Seen],
    itself: Sequence[set[int]],
    k: int,
    beam: int | None,
) -> list[list[Found]]:
    """For every query the `k` best rows, best first, and as many more as the lake has of the query itself."""
    if generator is not None:
        several = [_by_generator(now, generator, _whole(query), k, beam) for query in queries]
        return [found[: k + len(own)] for found, own in zip(several, itself, strict=True)]
    return [
        _by_prior(now, _latent(now.encoder, query), k, beam, own)
        for query, own in zip(queries, itself, strict=True)
    ]


def read_many(
    places: Iterable[Place], whole: bool, workers: int, limits: Limits
) -> Iterator[tuple[Place, tuple[Source, Seen] | Skipped]]:
    """Read queries in several processes, in order: `whole`, or only what the prior asks for."""
    waiting: deque[tuple[Place, Skipped | None]] = deque()  # all that was asked for and not given yet

    def sources() -> Iterator[Source]:
        for place in places:
            try:
                source = only_table(place, limits)
            except Unreadable as error:
                waiting.append((place, Skipped(str(place), place, error.reason)))
                continue
            waiting.append((place, None))
            yield source

    work = whole_tables if whole else features_alone
    engine = LocalEngine(0 if workers == 1 else workers, trusting=True)
    for source, seen in engine.each(sources(), work, limits):
        yield from _refused(waiting)
        place, _ = waiting.popleft()
        yield place, seen if isinstance(seen, Skipped) else (source, seen)
    yield from _refused(waiting)


def _refused(waiting: deque[tuple[Place, Skipped | None]]) -> Iterator[tuple[Place, Skipped]]:
    while waiting and waiting[0][1] is not None:
        place, why = waiting.popleft()
        assert why is not None
        yield place, why


def whole_tables(found: Sequence[tuple[Source, Table]]) -> list[Seen]:
    """Queries for a generator, which reads cells."""
    return [table for _, table in found]


def features_alone(found: Sequence[tuple[Source, Table]]) -> list[Seen]:
    """Queries for the prior, made where they were read: most of the work of a search."""
    features = featurize_all([table for _, table in found])
    return [features.one(at) for at in range(len(found))]


def _whole(query: Seen) -> Table:
    if isinstance(query, Features):
        raise TypeError("a generator reads tables, not features")
    return query


def _latent(encoder: ClosedForm | Encoder, query: Seen) -> F32:
    """(d,) one query at a time: in a larger product the last digits of a score would be others."""
    if isinstance(encoder, Encoder) and isinstance(query, Table):
        return encoder.read(query)[1]
    if encoder.states is not None:
        raise TypeError("a language model reads tables, not features")
    features = featurize(query) if isinstance(query, Table) else query
    latent: F32 = encoder.encode(features)[0]
    return latent


def _by_prior(now: Moment, latent: F32, k: int, beam: int | None, itself: set[int]) -> list[Found]:
    width, feedback = beam or max(2 * k, LEAST_PRIOR_BEAM), now.config.get("feedback", 0.0)
    rows, left = now.decoder.search_with_feedback(latent, width, feedback, itself)
    best = slice(k + len(itself))
    return list(map(Found, rows[best].tolist(), (1 - left[best] / 2).tolist()))


def _by_generator(now: Moment, generator: Generator, table: Table, k: int, beam: int | None) -> list[Found]:
    from gentus.answer import decode, query_inputs

    inputs = query_inputs(generator, table, *now.encoder.read(table))
    weight: float | None = now.config["generator"]["weight"]
    softmax = now.config["settings"]["generation"]["softmax"]
    width = beam or max(2 * k, LEAST_BEAM)
    (found,) = decode(generator, inputs, now.decoder.trie, now.decoder.codebooks, weight, width, softmax)
    rows = found.rows.tolist()
    if weight is None:
        return [
            Found(row, score, None, score) for row, score in zip(rows, found.scores.tolist(), strict=True)
        ]
    # Both parts on the scale of the score: 1 is the same content, and nothing to doubt.
    prior, said = 1 + found.prior / 2, weight / 2 * found.generator
    return list(map(Found, rows, (prior + said).tolist(), prior.tolist(), said.tolist()))
