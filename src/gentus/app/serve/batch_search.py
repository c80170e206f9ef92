"""Searches for clients. Waiting searches run as one batch, which takes less time than one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from gentus.app.serve.errors import ApiError
from gentus.app.serve.query_input import ResolvedQuery
from gentus.app.serve.schema import SearchOptions
from gentus.app.serve.service import Service
from gentus.index.hits import Hit, Hits, best_fit, verdict
from gentus.index.second_look import AtLeast
from gentus.lake import Unreadable

if TYPE_CHECKING:
    from gentus.index.catalogue import Entry
    from gentus.table import Table

OpenQuery = Callable[[], AbstractContextManager[ResolvedQuery]]  # opens the query, in a thread


def search(service: Service, options: SearchOptions, open_query: OpenQuery) -> dict[str, Any]:
    """One search: a `SearchAnswer`."""
    (answer,) = search_batch(service, options, [open_query])
    if isinstance(answer, Exception):
        raise answer
    return answer


def search_batch(
    service: Service, options: SearchOptions, openers: Sequence[OpenQuery]
) -> list[dict[str, Any] | Exception]:
    """Several searches with the same options; one that fails gives its exception, the others go on."""
    started = time.perf_counter()
    index = service.handle.index
    with ExitStack() as stack:
        queries: list[tuple[ResolvedQuery, Table] | Exception] = []
        for open_query in openers:
            try:
                query = stack.enter_context(open_query())
                queries.append((query, query.read(service)))
            except Exception as error:
                queries.append(error)
        read = [query for query in queries if not isinstance(query, Exception)]
        sources, tables = [query.source for query, _ in read], [table for _, table in read]
        hits = index.search_as(sources, tables, options.k, **options.of_index())
        if options.explain:
            hits = [
                _explain(service, table, found, options.fit)
                for (_, table), found in zip(read, hits, strict=True)
            ]
        known = index.catalogue.tables.entries({hit.table for found in hits for hit in found})
        milliseconds = round((time.perf_counter() - started) * 1000, 2)
        answers = iter(
            {
                "query": query.source.name,
                "query_columns": [column.name for column in table.columns],
                "upload": query.upload,
                "ms": milliseconds,
                "fit": best_fit(found),
                "verdict": verdict(found, options.fit, options.min_score),
                "doubt": table.doubt,
                "results": [_result(hit, known.get(hit.table), index.limits.rows) for hit in found],
            }
            for (query, table), found in zip(read, hits, strict=True)
        )
        return [query if isinstance(query, Exception) else next(answers) for query in queries]


def _result(hit: Hit, entry: Entry | None, sample_rows: int) -> dict[str, Any]:
    """The same words as on the command line, without the path, and with the rows that were sampled."""
    rows = entry.rows if entry else None
    answer = hit.to_dict() | {"rows": rows, "more_rows": (rows or 0) >= sample_rows}
    del answer["path"]
    return answer


def _explain(service: Service, query: Table, hits: Hits, least: AtLeast) -> Hits:
    """Hits with alignments; of a table that cannot be read any more, the alignment says so."""
    from gentus.index.explain import explain_hits

    index = service.handle.index

    def read(name: str) -> Table:
        try:
            return index.read(service.handle.source(name))
        except (Unreadable, ApiError) as error:
            raise Unreadable(service.redact_paths(error.reason)) from error

    return Hits(explain_hits(query, hits, read, index.config.settings.names, least), hits.doubt)
