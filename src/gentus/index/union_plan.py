"""From a query and tables of an index to the plan of their union; tables that cannot be used are left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gentus.align.alignment import Alignment
from gentus.align.matched_columns import MatchedColumns
from gentus.align.verdict import Fit
from gentus.index.explain import align_tables
from gentus.index.hits import Hit
from gentus.index.lookup import Lookup
from gentus.index.queries import QueryInput, is_named
from gentus.index.row_overlap import rows_in_words, tell_duplicates
from gentus.index.second_look import AtLeast, fits_at_least
from gentus.lake import Limits, Source, Unreadable, arrow_of, name_in_errors, read
from gentus.lake.location import absolute, identity
from gentus.lake.rules import is_delimited
from gentus.progress import Progress
from gentus.settings import refuse_unknown
from gentus.table import Header, Table
from gentus.union.choices import apply_choices
from gentus.union.draft import draft_plan
from gentus.union.errors import PlanError
from gentus.union.plan import LeftOut, PlannedTable, UnionPlan
from gentus.union.resolve import resolve_plan
from gentus.union.session import open_session
from gentus.union.sources import (
    SourceTable,
    TableError,
    header_doubts,
    open_table,
    reading_notes,
    tell_reading,
)
from gentus.union.worker import (
    CrashedTableError,
    EmittedProgress,
    in_worker,
    naming_tables,
    opened_frame,
    runs_here,
    shared_frame,
)

if TYPE_CHECKING:
    import duckdb


class UnionOptions(TypedDict, total=False):
    """What can be chosen of a union."""

    names: bool  # column names count in the alignment; default true
    header: Header | None  # of the query, and of tables that are not in the index; default: as known, or auto
    keep_extra: bool  # add the columns that the query does not have; default false
    provenance: bool  # add the file that each row is from; default true
    distinct: bool  # leave out equal rows; default false
    fit: AtLeast  # hits that fit less are left out; default partial. Tables that are named are always taken
    min_score: float  # hits with a smaller score are left out; default 0
    decimal: str | Sequence[str]  # where a cell can be read in two ways; see `apply_choices`
    dates: str | Sequence[str]
    null_values: str | Sequence[str]  # cells that are null in every column
    strict: bool  # what only a default decides, and values that do not convert, are errors; default false
    sample: Table  # of the query, if it was read before
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
    """Align tables with a query and plan their union. Types are inferred from the first rows."""
    refuse_unknown(options, UnionOptions)
    progress = options.pop("progress", None) or Progress()
    sample, own, frame = _query(lookup, query, options)
    notes: list[str] = []
    left_out: list[LeftOut] = []
    candidates = list(_candidates(lookup, own, tables, options, (notes, left_out)))
    options["names"] = options.get("names", True) and lookup.names
    planned = [own, *(_planned(one.source) for one in candidates)]
    with shared_frame(frame) as shared:
        while True:
            job = _PlanJob(sample, own, shared, candidates, options, lookup.limits, notes, left_out)
            if runs_here(planned):
                return _plan(job, progress)
            try:
                return in_worker(_plan_there, job, progress=progress)
            except CrashedTableError as error:
                if not any(one.is_hit and one.source.name == error.table for one in candidates):
                    raise
                left_out.append(LeftOut(str(error.table), error.reason))
                candidates = [one for one in candidates if one.source.name != error.table]


@dataclass(frozen=True, slots=True)
class _PlanJob:
    """What a plan needs in another process."""

    sample: Table  # of the query
    query: PlannedTable
    frame: Any  # of the query, if it is no file
    candidates: list[Candidate]
    options: UnionOptions
    limits: Limits
    notes: list[str]
    left_out: list[LeftOut]


def _plan_there(job: _PlanJob, emit: Callable[[Any], None]) -> UnionPlan:
    with naming_tables(emit):
        return _plan(job, EmittedProgress(emit))


def _plan(job: _PlanJob, progress: Progress) -> UnionPlan:
    own, options, candidates = job.query, job.options, job.candidates
    notes, left_out = list(job.notes), list(job.left_out)
    with _reading_session() as duck, progress.stage("looking at columns", 2 * len(candidates) + 1) as tick:
        tell_reading(own.name)
        with name_in_errors(own.name):
            opened_query = open_table(own, duck, opened_frame(job.frame), job.limits)
        opened: list[_Opened] = []
        for one in candidates:
            tell_reading(one.source.name)
            try:
                opened.append(_opened(job, one, duck))
            except Unreadable as error:
                if not one.is_hit:
                    raise PlanError(f"{one.source.name}: {error.reason}") from error
                left_out.append(LeftOut(one.source.name, error.reason))
            tick(1)
        while True:
            if not opened:
                reasons = [*notes, *(f"{one.table} was left out: {one.why}" for one in left_out)]
                raise PlanError("; ".join(["there is no table to union with", *reasons]))
            sources = [opened_query, *(one.source for one in opened)]
            try:
                plan = _drafted(opened_query, opened, duck, options)
                for source, table in zip(sources, plan.sources, strict=True):
                    source.place(table)
                    source.shapes.sampled = True  # a run reads all rows
                plan = resolve_plan(plan, sources, duck, lambda: tick(1))
                break
            except TableError as error:  # one that breaks off behind its sample
                hits = {one.source.name for one in candidates if one.is_hit}
                if error.table.name not in hits or error.table.name == own.name:
                    raise
                left_out.append(LeftOut(error.table.name, error.reason))
                opened = [one for one in opened if one.source.planned.name != error.table.name]
    notes += [*_copies(job.sample, opened), *header_doubts(sources), *reading_notes(sources)]
    return replace(plan, notes=tuple(notes), left_out=tuple(left_out))


def _drafted(
    query: SourceTable, opened: Sequence[_Opened], duck: duckdb.DuckDBPyConnection, options: UnionOptions
) -> UnionPlan:
    """The plan without types, with the choices of a person."""
    tables = [(one.source, one.alignment) for one in opened]
    plan = replace(
        draft_plan(query, tables, duck, options.get("keep_extra", False)),
        provenance=options.get("provenance", True),
        distinct=options.get("distinct", False),
        strict=options.get("strict", False),
    )
    notations = options.get("decimal", ()), options.get("dates", ())
    return apply_choices(plan, *notations, options.get("null_values", ()))


def _copies(query: Table, opened: Sequence[_Opened]) -> Iterator[str]:
    """Which tables have the rows of the query, or of a table before them."""
    names = ["the query", *(one.source.planned.name for one in opened)]
    sketches = {at: sketch for at, one in enumerate(opened, 1) if (sketch := one.sample.row_sketch)}
    for at, same in enumerate(tell_duplicates(query.row_sketch, range(1, len(names)), sketches), 1):
        if same is not None:
            complete = sketches[at].complete
            told = rows_in_words(same.kind, same.share, names[same.rank])
            yield f"{names[at]}: {told}{'' if complete else ' (the first rows were compared)'}"


@contextmanager
def _reading_session() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_session() as session, session.connect("reading", thirds=3, macros=True) as duck:
        yield duck


def _query(lookup: Lookup, query: QueryInput, options: UnionOptions) -> tuple[Table, PlannedTable, Any]:
    """A query as it is searched with, as a plan names it, and the frame if it is one."""
    if isinstance(query, Table):
        raise ValueError("a sampled table has not all of its rows; give the file, or a data frame")
    if not is_named(query):
        frame = arrow_of(query)  # a stream can be read once
        return lookup.read(frame), PlannedTable("query", None), frame
    with name_in_errors(query):
        source = lookup.find(query, header=options.get("header"))
    with name_in_errors(source.name):
        return options.pop("sample", None) or lookup.read(source), _planned(source), None


def _candidates(
    lookup: Lookup,
    query: PlannedTable,
    tables: Sequence[Any],
    options: UnionOptions,
    others: tuple[list[str], list[LeftOut]],
) -> Iterator[Candidate]:
    """The tables meant, each once, never the query itself; `others` gets notes and hits that do not fit."""
    notes, left_out = others
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
            try:
                if is_hit:
                    _check_fit(table.fit, table.score, table.columns, options)
            except Unreadable as error:
                left_out.append(LeftOut(source.name, error.reason))
            else:
                yield Candidate(source, alignment, is_hit)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A table, opened and aligned."""

    source: SourceTable
    alignment: Alignment
    sample: Table


def _opened(job: _PlanJob, one: Candidate, duck: duckdb.DuckDBPyConnection) -> _Opened:
    """Open and align a table; one without a column under the query's, or a hit that is no fit, is refused."""
    sample = read(one.source, job.limits)
    alignment = one.alignment
    if alignment is None or alignment.missing is not None:
        alignment = align_tables(job.sample, sample, job.options.get("names", True))
    if not alignment.pairs:
        raise Unreadable("none of its columns belongs under one of the query's")
    if one.is_hit and alignment.fit is not None and alignment.columns is not None:
        _check_fit(alignment.fit, alignment.score or 0.0, alignment.columns, job.options)
    planned = replace(_planned(one.source), found=one.is_hit)
    source = open_table(planned, duck, None, job.limits)
    return _Opened(source, alignment, sample)


def _check_fit(fit: Fit, score: float, columns: MatchedColumns, options: UnionOptions) -> None:
    """Raise `Unreadable` if a hit does not fit as far as it has to."""
    least, min_score = options.get("fit", "partial"), options.get("min_score", 0.0)
    if not fits_at_least(fit, least):
        raise Unreadable(
            f"it {'fits only partly' if fit == 'partial' else 'does not fit'}: {columns.why(fit)}"
        )
    if score < min_score:
        raise Unreadable(f"its score is {score:.3f}, less than {min_score:g}")


def _planned(source: Source) -> PlannedTable:
    header = source.header if is_delimited(source) else "auto"
    return PlannedTable(source.name, absolute(source.path), source.part, header=header)
