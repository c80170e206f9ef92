"""Searches: several that wait are done at once, which takes less time than one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gentus.app.serve.errors import Refused
from gentus.lake import Unreadable

if TYPE_CHECKING:
    from gentus.app.serve.core import Core
    from gentus.app.serve.queries import Asked
    from gentus.index.catalogue import Entry
    from gentus.index.index import Hit
    from gentus.table import Table

Opening = Callable[[], AbstractContextManager["Asked"]]  # what gives the query, in a thread


def search(core: Core, k: int, opening: Opening, explain: bool = False) -> dict[str, Any]:
    """One search, as it is answered."""
    (answer,) = search_all(core, k, [opening], explain)
    if isinstance(answer, Exception):
        raise answer
    found: dict[str, Any] = answer
    return found


def search_all(core: Core, k: int, openings: Sequence[Opening], explain: bool = False) -> list[Any]:
    """Several searches; one that fails is answered by its exception, and the others are as if alone."""
    started = time.perf_counter()
    index = core.holder.index
    with ExitStack() as stack:
        queries: list[tuple[Asked, Table] | Exception] = []
        for opening in openings:
            try:
                asked = stack.enter_context(opening())
                queries.append((asked, asked.read(core)))
            except Exception as error:
                queries.append(error)
        read = [query for query in queries if not isinstance(query, Exception)]
        hits = index.search_as([asked.source for asked, _ in read], [table for _, table in read], k)
        if explain:
            hits = [explained(core, table, found) for (_, table), found in zip(read, hits, strict=True)]
        known = index.catalogue.entries({hit.table for found in hits for hit in found})
        milliseconds = round((time.perf_counter() - started) * 1000, 2)
        answers = iter(
            {
                "query": {
                    "name": asked.source.name,
                    "columns": [column.name for column in table.columns],
                    "upload": asked.upload,
                },
                "hits": [_told(hit, known.get(hit.table), index.limits.rows) for hit in found],
                "ms": milliseconds,
            }
            for (asked, table), found in zip(read, hits, strict=True)
        )
        return [query if isinstance(query, Exception) else next(answers) for query in queries]


def _told(hit: Hit, entry: Entry | None, sample: int) -> dict[str, Any]:
    rows = entry.rows if entry else None
    told = {
        "rank": hit.rank,
        "table": hit.table,
        "score": hit.score,
        "sid": hit.sid,
        "rows": rows,
        "more_rows": (rows or 0) >= sample,
        "columns": entry.columns if entry else None,
    }
    return told if hit.alignment is None else {**told, "alignment": hit.alignment.to_dict()}


def explained(core: Core, query: Table, hits: list[Hit]) -> list[Hit]:
    """Hits with alignments; a table that cannot be read any more does not stop the answer."""
    from gentus.align.aligner import align_each

    def read(name: str) -> Table:
        try:
            return core.holder.index.read(core.holder.source(name))
        except (Unreadable, Refused) as error:
            raise Unreadable(core.scrubbed(error.reason)) from error

    alignments = align_each(query, [hit.table for hit in hits], read)
    return [replace(hit, alignment=one) for hit, one in zip(hits, alignments, strict=True)]
