"""From a query and tables of an index to the plan of their union; tables that cannot be used are left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gentus.align.alignment import Alignment
from gentus.index.hits import Hit
from gentus.index.lookup import Lookup
from gentus.index.queries import QueryInput
from gentus.lake import Remote, Source, Unreadable, name_in_errors
from gentus.lake.location import absolute, identity
from gentus.lake.rules import is_delimited
from gentus.progress import Progress
from gentus.table import Header, Table
from gentus.union.draft import draft_plan
from gentus.union.errors import PlanError
from gentus.union.plan import PlannedTable, UnionPlan
from gentus.union.resolve import resolve_plan
from gentus.union.session import open_session
from gentus.union.sources import SourceTable, TableError, header_doubts, open_table

if TYPE_CHECKING:
    import duckdb


class UnionOptions(TypedDict, total=False):
    """What can be chosen of a union."""

    names: bool  # column names count in the alignment; default true
    header: Header | None  # of the query, and of tables that are not in the index; default: as known, or auto
    keep_extra: bool  # add the columns that the query does not have; default false
    provenance: bool  # add the file that each row is from; default true
    distinct: bool  # leave out equal rows; default false
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table that is to be in a union."""

    source: Source
    alignment: Alignment | None  # if it was made before
    is_hit: bool  # of a search, rather than named by a person: then it may be left out


def plan_union(
    lookup: Lookup,
    query: QueryInput,
    tables: Sequence[str | os.PathLike[str] | Hit | Source],
    **options: Unpack[UnionOptions],
) -> UnionPlan:
    """Align tables with a query and plan their union. Types are inferred from all rows."""
    names, progress = options.get("names", True), options.get("progress") or Progress()
    header = options.get("header")
    sample, own, frame = _query(lookup, query, header)
    notes: list[str] = []
    candidates = list(_candidates(lookup, own, tables, options, notes))
    with _reading_session() as duck, progress.stage("looking at columns", 2 * len(candidates) + 1) as tick:
        with name_in_errors(own.name):
            opened_query = open_table(own, duck, frame, lookup.limits)
        opened: list[tuple[SourceTable, Alignment]] = []
        for one in candidates:
            try:
                opened.append(_opened(lookup, sample, one, names, duck))
            except Unreadable as error:
                if not one.is_hit:
                    raise PlanError(f"{one.source.name}: {error.reason}") from error
                notes.append(f"{one.source.name} was left out: {error.reason}")
            tick(1)
        while True:
            if not opened:
                raise PlanError("; ".join(["there is no table to union with", *notes]))
            try:
                plan = draft_plan(opened_query, opened, duck, options.get("keep_extra", False))
                for (read, _), table in zip(opened, plan.tables, strict=True):
                    read.planned = table
                opened_query.planned = plan.query
                plan = resolve_plan(
                    plan, [opened_query, *(read for read, _ in opened)], duck, lambda: tick(1)
                )
                break
            except TableError as error:  # one that breaks off behind its sample
                hits = {one.source.name for one in candidates if one.is_hit}
                if error.table.name not in hits or error.table.name == own.name:
                    raise
                notes.append(f"{error.table.name} was left out: {error.reason}")
                opened = [pair for pair in opened if pair[0].planned.name != error.table.name]
    return replace(
        plan,
        provenance=options.get("provenance", True),
        distinct=options.get("distinct", False),
        notes=(*notes, *header_doubts([opened_query, *(read for read, _ in opened)])),
    )


@contextmanager
def _reading_session() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_session() as session, session.connect("reading", macros=True) as duck:
        yield duck


def _query(lookup: Lookup, query: QueryInput, header: Header | None) -> tuple[Table, PlannedTable, Any]:
    """A query as it is searched with, as a plan names it, and the frame if it is one."""
    if isinstance(query, Table):
        raise ValueError("a sampled table has not all of its rows; give the file, or a data frame")
    if isinstance(query, str | os.PathLike | Remote | Source):
        with name_in_errors(query):
            query = lookup.find(query, header=header)
    if isinstance(query, Source):
        with name_in_errors(query.name):
            sample = lookup.read(query)
        return sample, _planned(query), None
    return lookup.read(query), PlannedTable("query", None), query


def _candidates(
    lookup: Lookup, query: PlannedTable, tables: Sequence[Any], options: UnionOptions, notes: list[str]
) -> Iterator[Candidate]:
    """The tables meant, each once, and never the query itself."""
    seen: set[tuple[str, str | None]] = set()
    own = None if query.path is None else (identity(query.path), query.part)
    for table in tables:
        is_hit = isinstance(table, Hit)
        name = table.table if is_hit else table
        alignment = table.alignment if is_hit and options.get("names", True) else None
        source = table if isinstance(table, Source) else lookup.source(str(name))
        if source is None:
            with name_in_errors(name):
                source = replace(lookup.find(name, header=options.get("header")), name=str(name))
        key = identity(source.path), source.part
        if key == own:
            notes.append(f"{source.name} is the query itself and was left out")
        elif key in seen:
            notes.append(f"{source.name} is named twice and was taken once")
        else:
            seen.add(key)
            yield Candidate(source, alignment, is_hit)


def _opened(
    lookup: Lookup, query: Table, one: Candidate, names: bool, duck: duckdb.DuckDBPyConnection
) -> tuple[SourceTable, Alignment]:
    """A table, opened and aligned; one without a column under the query's is no use."""
    alignment = one.alignment
    if alignment is None or alignment.missing is not None:
        alignment = lookup.align(query, one.source, names)
    if not alignment.pairs:
        raise Unreadable("none of its columns belongs under one of the query's")
    return open_table(_planned(one.source), duck, None, lookup.limits), alignment


def _planned(source: Source) -> PlannedTable:
    header = source.header if is_delimited(source) else "auto"
    return PlannedTable(source.name, absolute(source.path), source.part, header=header)
