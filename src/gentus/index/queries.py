"""Queries: reading them, and which tables of the index they are themselves."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from gentus.align.second_look import MOST_COLUMNS, QueryColumns
from gentus.align.signatures import hash_values, sign_tables
from gentus.features.extract import Features, concatenate, featurize_all
from gentus.features.wide import searched_columns
from gentus.index.catalogue import Catalogue
from gentus.index.engine import LocalEngine
from gentus.lake import (
    Frame,
    Limits,
    Remote,
    Skipped,
    Source,
    Unreadable,
    as_location,
    from_frame,
    read_named,
)
from gentus.retrieval.retriever import Encode
from gentus.table import RowSketch, Table

if TYPE_CHECKING:
    from typing_extensions import TypeIs

NamedQuery: TypeAlias = str | os.PathLike[str] | Remote | Source  # a path, a URL, or a name in the index
QueryInput: TypeAlias = NamedQuery | Table | Frame


def is_named(query: object) -> TypeIs[NamedQuery]:
    """Tell a query that names a table from a table or a data frame."""
    return isinstance(query, str | os.PathLike | Remote | Source)


def is_one_query(query: QueryInput | Sequence[QueryInput]) -> TypeIs[QueryInput]:
    """Tell one query from several; text is a sequence, too, and so may be a data frame."""
    return isinstance(query, str) or not isinstance(query, Sequence) or hasattr(query, "__arrow_c_stream__")


@dataclass(frozen=True, slots=True)
class Content:
    """What a search needs of a query."""

    identity: NDArray[Any]  # what the retriever ranks it by
    columns: QueryColumns  # what it is aligned by
    row_sketch: RowSketch | None  # what tells copies of it
    doubt: str  # why its header looks like data; empty: it does not


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was read."""

    content: Content
    location: tuple[str | bytes, str | None] | None  # the real path and the part, if it is a file
    self_ids: set[int]  # tables of the index that were read from there; they are never hits


def read_query(query: Source | Table | Frame, limits: Limits) -> Table:
    """The sample of a query whose file is known, or which needs none."""
    if isinstance(query, Table):
        return query
    if isinstance(query, Source):
        return read_named(query, limits)
    return from_frame(query, "query", limits)


def locate_query(query: QueryInput, content: Content, catalogue: Catalogue, lake: str) -> Query:
    """A query with the tables of the index that it is itself."""
    if isinstance(query, Source):
        location = catalogue.tables.real_path(query.path, lake), query.part
    elif isinstance(query, str | os.PathLike | Remote):
        # A file that could be read is one table, so it needs no part.
        location = catalogue.tables.real_path(as_location(query), lake), None
    else:
        return Query(content, None, set())
    return Query(content, location, catalogue.tables.ids_at(*location))


def read_many(
    queries: Iterable[NamedQuery],
    find: Callable[[NamedQuery], Source],
    encode: Encode,
    workers: int,
    limits: Limits,
) -> Iterator[tuple[str, tuple[Source, Content] | Skipped]]:
    """Read and encode queries in several processes, in order."""
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

    engine = LocalEngine(workers)
    for source, content in engine.each(sources(), ReadContents(encode), limits):
        yield from _skipped_first(waiting)
        name, _ = waiting.popleft()
        yield name, content if isinstance(content, Skipped) else (source, content)
    yield from _skipped_first(waiting)


def _skipped_first(waiting: deque[tuple[str, Skipped | None]]) -> Iterator[tuple[str, Skipped]]:
    while waiting and waiting[0][1] is not None:
        name, skipped = waiting.popleft()
        assert skipped is not None
        yield name, skipped


def encoded(tables: Sequence[Table], encode: Encode) -> list[Content]:
    """Queries as a search needs them."""
    tables = list(map(searched_columns, tables))
    features = featurize_all(tables)
    found = zip(encode(tables, features), _columns(tables, features), tables, strict=True)
    return [Content(identity, columns, table.row_sketch, table.doubt) for identity, columns, table in found]


def columns_of(table: Table) -> QueryColumns:
    """What a table is judged by."""
    some = _first_filled(table)
    (columns,) = _columns([some], featurize_all([some]))
    return columns


def _first_filled(table: Table) -> Table:
    return replace(table, columns=[column for column in table.columns if column.cells][:MOST_COLUMNS])


def _columns(tables: Sequence[Table], features: Features) -> Iterator[QueryColumns]:
    if any(len(table.columns) > MOST_COLUMNS for table in tables):  # others are not looked at
        features = concatenate([features.one(at, MOST_COLUMNS) for at in range(len(tables))])
        tables = list(map(_first_filled, tables))
    values = list(map(hash_values, tables))
    return map(QueryColumns.of, tables, sign_tables(tables, features, values), values)


@dataclass(frozen=True, slots=True)
class ReadContents:
    """Encodes queries in the process that read them: most of the work of a search."""

    encode: Encode

    def __call__(self, found: Sequence[tuple[Source, Table]]) -> list[Content]:
        """The content of every query, the same as alone."""
        return encoded([table for _, table in found], self.encode)
