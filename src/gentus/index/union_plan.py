"""From a query and tables of an index to a plan: who is asked, what they answer, who is left out and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gentus.align.alignment import Alignment
from gentus.lake import Remote, Source, Unreadable, as_location, exists, name_in_errors, only_table
from gentus.lake.location import absolute, identity
from gentus.progress import Progress
from gentus.table import Table
from gentus.union.draft import draft_plan
from gentus.union.errors import PlanError
from gentus.union.plan import PlannedTable, UnionPlan
from gentus.union.resolve import resolve_plan
from gentus.union.session import open_session
from gentus.union.sources import SourceTable, TableError, open_table

if TYPE_CHECKING:
    import duckdb

    from gentus.index.index import Hit, Index


@dataclass(frozen=True, slots=True)
class Asked:
    """A table that somebody wants in a union."""

    source: Source
    alignment: Alignment | None  # if it was made before
    found: bool  # by a search, rather than named by a person: then it may be left out


def plan_union(
    index: Index,
    query: Any,
    tables: Sequence[str | os.PathLike[str] | Hit | Source],
    *,
    names: bool = True,
    keep_extra: bool = False,
    provenance: bool = True,
    distinct: bool = False,
    progress: Progress | None = None,
) -> UnionPlan:
    """Align tables with a query and plan their union. Types are found by a look at all rows."""
    sample, own, frame = _query(index, query)
    notes: list[str] = []
    asked = list(_asked(index, own, tables, names, notes))
    progress = progress or Progress()
    with _desk() as duck, progress.stage("looking at columns", 2 * len(asked) + 1) as tick:
        with name_in_errors(own.name):
            opened_query = open_table(own, duck, frame, index.limits)
        opened: list[tuple[SourceTable, Alignment]] = []
        for one in asked:
            try:
                opened.append(_opened(index, sample, one, names, duck))
            except Unreadable as error:
                if not one.found:
                    raise PlanError(f"{one.source.name}: {error.reason}") from error
                notes.append(f"{one.source.name} was left out: {error.reason}")
            tick(1)
        while True:
            if not opened:
                raise PlanError("; ".join(["there is no table to union with", *notes]))
            try:
                plan = draft_plan(opened_query, opened, duck, keep_extra)
                for (read, _), table in zip(opened, plan.tables, strict=True):
                    read.planned = table
                opened_query.planned = plan.query
                plan = resolve_plan(
                    plan, [opened_query, *(read for read, _ in opened)], duck, lambda: tick(1)
                )
                break
            except TableError as error:  # one that breaks off behind its sample
                found = {one.source.name for one in asked if one.found}
                if error.table.name not in found or error.table.name == own.name:
                    raise
                notes.append(f"{error.table.name} was left out: {error.reason}")
                opened = [pair for pair in opened if pair[0].planned.name != error.table.name]
    return replace(plan, provenance=provenance, distinct=distinct, notes=tuple(notes))


@contextmanager
def _desk() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_session() as session, session.connect("reading", macros=True) as duck:
        yield duck


def _query(index: Index, query: Any) -> tuple[Table, PlannedTable, Any]:
    """A query as it is searched with, as a plan names it, and the frame if it is one."""
    if isinstance(query, Table):
        raise ValueError("a sampled table has not all of its rows; give the file, or a data frame")
    if isinstance(query, str | os.PathLike | Remote):
        with name_in_errors(query):
            query = only_table(query, index.limits)
    if isinstance(query, Source):
        with name_in_errors(query.name):
            sample = index.read(query)
        return sample, PlannedTable(query.name, absolute(query.path), query.part), None
    return index.read(query), PlannedTable("query", None), query


def _asked(
    index: Index, query: PlannedTable, tables: Sequence[Any], names: bool, notes: list[str]
) -> Iterator[Asked]:
    """The tables meant, each once, and never the query itself."""
    from gentus.index.index import Hit

    seen: set[tuple[str, str | None]] = set()
    own = None if query.path is None else (identity(query.path), query.part)
    for table in tables:
        found = isinstance(table, Hit)
        name = table.table if found else table
        alignment = table.alignment if found and names else None
        source = table if isinstance(table, Source) else index.source(str(name))
        if source is None:
            if not exists(as_location(name)):
                raise ValueError(index.unknown(str(name)))
            with name_in_errors(name):
                source = only_table(name, index.limits)
            source = replace(source, name=str(name))
        key = identity(source.path), source.part
        if key == own:
            notes.append(f"{source.name} is the query itself and was left out")
        elif key in seen:
            notes.append(f"{source.name} is named twice and was taken once")
        else:
            seen.add(key)
            yield Asked(source, alignment, found)


def _opened(
    index: Index, query: Table, one: Asked, names: bool, duck: duckdb.DuckDBPyConnection
) -> tuple[SourceTable, Alignment]:
    """A table, opened and aligned; one without a column under the query's is no use."""
    alignment = one.alignment
    if alignment is None or alignment.missing is not None:
        alignment = index.align(query, one.source, names)
    if not alignment.pairs:
        raise Unreadable("none of its columns belongs under one of the query's")
    planned = PlannedTable(one.source.name, absolute(one.source.path), one.source.part)
    return open_table(planned, duck, None, index.limits), alignment
