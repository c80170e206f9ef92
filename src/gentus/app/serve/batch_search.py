"""Searches for clients. Waiting searches run as one batch, which takes less time than one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gentus.app.serve.errors import ApiError
from gentus.app.serve.query_input import ResolvedQuery
from gentus.app.serve.service import Service
from gentus.lake import Unreadable

if TYPE_CHECKING:
    from gentus.index.catalogue import Entry
    from gentus.index.hits import Hit
    from gentus.table import Table

OpenQuery = Callable[[], AbstractContextManager[ResolvedQuery]]  # opens the query, in a thread


def search(service: Service, k: int, open_query: OpenQuery, explain: bool = False) -> dict[str, Any]:
    """One search: a `SearchAnswer`."""
    (answer,) = search_batch(service, k, [open_query], explain)
    if isinstance(answer, Exception):
        raise answer
    return answer


def search_batch(
    service: Service, k: int, openers: Sequence[OpenQuery], explain: bool = False
) -> list[dict[str, Any] | Exception]:
    """Several searches; one that fails gives its exception and does not affect the others."""
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
        hits = index.search_as([query.source for query, _ in read], [table for _, table in read], k)
        if explain:
            hits = [_explain(service, table, found) for (_, table), found in zip(read, hits, strict=True)]
        known = index.catalogue.tables.entries({hit.table for found in hits for hit in found})
        milliseconds = round((time.perf_counter() - started) * 1000, 2)
        answers = iter(
            {
                "query": query.source.name,
                "query_columns": [column.name for column in table.columns],
                "upload": query.upload,
                "ms": milliseconds,
                "results": [_result(hit, known.get(hit.table), index.limits.rows) for hit in found],
            }
            for (query, table), found in zip(read, hits, strict=True)
        )
        return [query if isinstance(query, Exception) else next(answers) for query in queries]


def _result(hit: Hit, entry: Entry | None, sample_rows: int) -> dict[str, Any]:
    rows = entry.rows if entry else None
    answer = {
        "rank": hit.rank,
        "table": hit.table,
        "score": hit.score,
        "sid": hit.sid,
        "rows": rows,
        "more_rows": (rows or 0) >= sample_rows,
        "columns": entry.columns if entry else None,
    }
    return answer if hit.alignment is None else {**answer, "alignment": hit.alignment.to_dict()}


def _explain(service: Service, query: Table, hits: list[Hit]) -> list[Hit]:
    """Hits with alignments; of a table that cannot be read any more, the alignment says so."""
    from gentus.align.matcher import align_each

    def read(name: str) -> Table:
        try:
            return service.handle.index.read(service.handle.source(name))
        except (Unreadable, ApiError) as error:
            raise Unreadable(service.redact_paths(error.reason)) from error

    alignments = align_each(query, [hit.table for hit in hits], read)
    return [replace(hit, alignment=one) for hit, one in zip(hits, alignments, strict=True)]
