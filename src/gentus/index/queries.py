"""Queries: reading them, and which tables of the index they are themselves."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.extract import featurize_all
from gentus.index.catalogue import Catalogue
from gentus.index.engine import LocalEngine
from gentus.index.model_file import restore_encoder
from gentus.lake import (
    Limits,
    Remote,
    Skipped,
    Source,
    Unreadable,
    as_location,
    from_frame,
    read,
)
from gentus.settings import EncoderSettings
from gentus.table import Table

NamedQuery: TypeAlias = str | os.PathLike[str] | Remote | Source  # a path, a URL, or a name in the index
QueryInput: TypeAlias = Any  # one that is named, a Table, or a polars, pandas or Arrow table
Content: TypeAlias = Table | F32  # of a query: its sample, or its latent (d,)


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was read."""

    content: Content
    location: tuple[str | bytes, str | None] | None  # the real path and the part, if it is a file
    self_ids: set[int]  # tables of the index that were read from there; they are never hits


def read_query(query: Source | Table | Any, limits: Limits) -> Table:
    """The sample of a query whose file is known, or which needs none."""
    if isinstance(query, Table):
        return query
    if isinstance(query, Source):
        return read(query, limits)
    return from_frame(query, "query", limits)


def locate_query(query: QueryInput, content: Content, catalogue: Catalogue) -> Query:
    """A query with the tables of the index that it is itself."""
    if isinstance(query, Source):
        location = catalogue.tables.real_path(query.path), query.part
    elif isinstance(query, str | os.PathLike | Remote):
        # A file that could be read is one table, so it needs no part.
        location = catalogue.tables.real_path(as_location(query)), None
    else:
        return Query(content, None, set())
    return Query(content, location, catalogue.tables.ids_at(*location))


def read_many(
    queries: Iterable[NamedQuery],
    find: Callable[[NamedQuery], Source],
    encoder: ClosedForm | Encoder | None,
    workers: int,
    limits: Limits,
) -> Iterator[tuple[str, tuple[Source, Content] | Skipped]]:
    """Read queries in several processes, in order: their latents, or without an encoder their samples."""
    waiting: deque[tuple[str, Skipped | None]] = deque()  # all that were begun and not yielded yet

    def sources() -> Iterator[Source]:
        for query in queries:
            location = query.path if isinstance(query, Source) else as_location(query)
            name = query.name if isinstance(query, Source) else str(location)
            try:
                source = find(query)
            except Unreadable as error:
                waiting.append((name, Skipped(name, location, error.reason)))
                continue
            waiting.append((name, None))
            yield source

    work = samples if encoder is None else Latents.by(encoder)
    engine = LocalEngine(0 if workers == 1 else workers, trusting=True)
    for source, content in engine.each(sources(), work, limits):
        yield from _skipped_first(waiting)
        name, _ = waiting.popleft()
        yield name, content if isinstance(content, Skipped) else (source, content)
    yield from _skipped_first(waiting)


def _skipped_first(waiting: deque[tuple[str, Skipped | None]]) -> Iterator[tuple[str, Skipped]]:
    while waiting and waiting[0][1] is not None:
        name, skipped = waiting.popleft()
        assert skipped is not None
        yield name, skipped


def samples(found: Sequence[tuple[Source, Table]]) -> list[Content]:
    """Queries for a generator, which reads cells."""
    return [table for _, table in found]


@dataclass(slots=True)
class Latents:
    """Queries for the prior, encoded in the process that read them: most of the work of a search."""

    arrays: Mapping[str, NDArray[Any]]  # of an encoder: it is sent to another process as these
    settings: EncoderSettings | None
    _encoder: ClosedForm | Encoder | None = field(default=None, init=False, repr=False)

    @classmethod
    def by(cls, encoder: ClosedForm | Encoder) -> Latents:
        """Work for an encoder that needs nothing but features."""
        return cls(encoder.arrays(), getattr(encoder, "settings", None))

    def __call__(self, found: Sequence[tuple[Source, Table]]) -> list[Content]:
        """(d,) of every table, the same as alone."""
        if self._encoder is None:
            self._encoder = restore_encoder(self.arrays, self.settings)
        features = featurize_all([table for _, table in found])
        if isinstance(self._encoder, ClosedForm):
            return list(self._encoder.encode(features))
        # In a larger product of the network the last digits would be others.
        return [self._encoder.encode(features.one(at))[0] for at in range(len(found))]
