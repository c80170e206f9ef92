"""Searching: queries in, rows of the tree out, best first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.extract import featurize_all
from gentus.index.config import IndexConfig
from gentus.index.engine import LocalEngine
from gentus.lake import Limits, Location, Skipped, Source, Unreadable, only_table
from gentus.search.beam import Decoder
from gentus.search.trie import Trie
from gentus.settings import EncoderSettings
from gentus.table import Table

if TYPE_CHECKING:
    from gentus.generator.model import Generator

LEAST_BEAM = 100  # where a generator writes; the prior alone is cheap ...
LEAST_PRIOR_BEAM = 200  # ... and can look wider


@dataclass(frozen=True, slots=True)
class Moment:
    """What an index is at one moment: all of it fits together, and none of it ever changes."""

    config: IndexConfig
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


Seen = Table | F32  # a query: all of its sample, or its latent (d,)


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
    places: Iterable[Location], encoder: ClosedForm | Encoder | None, workers: int, limits: Limits
) -> Iterator[tuple[Location, tuple[Source, Seen] | Skipped]]:
    """Read queries in several processes, in order: their latents, or without an encoder whole tables."""
    waiting: deque[tuple[Location, Skipped | None]] = deque()  # all that was asked for and not given yet

    def sources() -> Iterator[Source]:
        for place in places:
            try:
                source = only_table(place, limits)
            except Unreadable as error:
                waiting.append((place, Skipped(str(place), place, error.reason)))
                continue
            waiting.append((place, None))
            yield source

    work = whole_tables if encoder is None else Latents.by(encoder)
    engine = LocalEngine(0 if workers == 1 else workers, trusting=True)
    for source, seen in engine.each(sources(), work, limits):
        yield from _refused(waiting)
        place, _ = waiting.popleft()
        yield place, seen if isinstance(seen, Skipped) else (source, seen)
    yield from _refused(waiting)


def _refused(waiting: deque[tuple[Location, Skipped | None]]) -> Iterator[tuple[Location, Skipped]]:
    while waiting and waiting[0][1] is not None:
        place, why = waiting.popleft()
        assert why is not None
        yield place, why


def whole_tables(found: Sequence[tuple[Source, Table]]) -> list[Seen]:
    """Queries for a generator, which reads cells."""
    return [table for _, table in found]


@dataclass(slots=True)
class Latents:
    """Queries for the prior, encoded where they were read: most of the work of a search."""

    arrays: Mapping[str, NDArray[Any]]  # of an encoder: that is how one goes to another process
    settings: EncoderSettings | None
    _encoder: ClosedForm | Encoder | None = field(default=None, init=False, repr=False)

    @classmethod
    def by(cls, encoder: ClosedForm | Encoder) -> Latents:
        """Work for an encoder that needs nothing but features."""
        return cls(encoder.arrays(), getattr(encoder, "settings", None))

    def __call__(self, found: Sequence[tuple[Source, Table]]) -> list[Seen]:
        """(d,) of every table, the same as alone."""
        if self._encoder is None:
            self._encoder = restore_encoder(self.arrays, self.settings)
        features = featurize_all([table for _, table in found])
        if isinstance(self._encoder, ClosedForm):
            return list(self._encoder.encode(features))
        # In a larger product of the network the last digits would be others.
        return [self._encoder.encode(features.one(at))[0] for at in range(len(found))]


def restore_encoder(
    arrays: Mapping[str, NDArray[Any]], settings: EncoderSettings | None
) -> ClosedForm | Encoder:
    """The encoder that was stored: learnt in closed form, or with labels a network of these settings."""
    if "closed_form.projection" in arrays or settings is None:
        return ClosedForm.restore(arrays)
    return Encoder.restore(arrays, settings)


def _whole(query: Seen) -> Table:
    if not isinstance(query, Table):
        raise TypeError("a generator reads tables, not latents")
    return query


def _latent(encoder: ClosedForm | Encoder, query: Seen) -> F32:
    """(d,) of one query."""
    return encoder.read(query)[1] if isinstance(query, Table) else query


def _by_prior(now: Moment, latent: F32, k: int, beam: int | None, itself: set[int]) -> list[Found]:
    width, feedback = beam or max(2 * k, LEAST_PRIOR_BEAM), now.config.feedback
    rows, left = now.decoder.search_with_feedback(latent, width, feedback, itself)
    best = slice(k + len(itself))
    return list(map(Found, rows[best].tolist(), (1 - left[best] / 2).tolist()))


def _by_generator(now: Moment, generator: Generator, table: Table, k: int, beam: int | None) -> list[Found]:
    from gentus.generator.decoding import decode, query_inputs
    from gentus.search.generate import Decoding

    inputs = query_inputs(generator, table, *now.encoder.read(table))
    shipped = now.config.generator
    assert shipped is not None
    weight, softmax = shipped.weight, shipped.softmax
    width = beam or max(2 * k, LEAST_BEAM)
    decoding = Decoding(width, weight, softmax)
    (found,) = decode(generator, inputs, now.decoder.trie, now.decoder.codebooks, decoding)
    rows = found.rows.tolist()
    if weight is None:
        return [
            Found(row, score, None, score) for row, score in zip(rows, found.scores.tolist(), strict=True)
        ]
    # Both parts on the scale of the score: 1 is the same content, and nothing to doubt.
    prior, said = 1 + found.prior / 2, weight / 2 * found.generator
    return list(map(Found, rows, (prior + said).tolist(), prior.tolist(), said.tolist()))
