"""Planning a union where its tables are read, in a process of its own: samples out, alignments in.

The process that asks searches and aligns meanwhile. It is told the sample of the query and of every table,
and is asked twice: which tables there are, and which of their columns belong under which of the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gentus.lake import Limits, Source, Unreadable, as_location, name_in_errors, read
from gentus.lake.sandbox.process import bounded_memory
from gentus.progress import Progress
from gentus.table import Table
from gentus.union.choices import apply_choices
from gentus.union.draft import AlignedTable, draft_plan
from gentus.union.errors import PlanError
from gentus.union.plan import LeftOut, PlannedTable, UnionPlan
from gentus.union.resolve import count_columns, resolve_plan
from gentus.union.session import open_session
from gentus.union.sources import (
    SourceTable,
    TableError,
    header_doubts,
    open_table,
    reading_notes,
    tell_reading,
)
from gentus.union.worker import EmittedProgress, Message, naming_tables, opened_frame

if TYPE_CHECKING:
    import duckdb

    from gentus.align.table_profile import TableProfile
    from gentus.lake.sandbox.process import Channel

WIDE = 256  # columns from which a table is profiled here, and its types are inferred before it is asked for
Tell: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class PlanJob:
    """What a plan needs in another process."""

    query: PlannedTable
    frame: Any  # of the query, if it is no file
    sampled: bool  # the process that asks has the sample of the query
    limits: Limits
    bounds: Limits | None  # of memory while the query is opened
    provenance: bool
    distinct: bool
    strict: bool
    keep_extra: bool
    choices: tuple[Any, Any, Any]  # decimal, dates, null values: see `apply_choices`


class QuerySampled(NamedTuple):
    """The sample of the query, unless the process that asks has it."""

    table: Table | None


class Sampled(NamedTuple):
    """The sample of a table, or why it cannot be read; of a wide one its profile, without the cells."""

    table: Table | None
    reason: str = ""
    profile: TableProfile | None = None


class WhichTables(NamedTuple):
    """Asks for the tables of the union."""


class ReadingTables(NamedTuple):
    """The tables are opened now: the process that asks has time to make the query ready for alignment."""


class WhichColumns(NamedTuple):
    """Asks for an `AlignedTable` per table, None if it is left out; and for what to say of those."""


def plan_in_worker(job: PlanJob, channel: Channel) -> UnionPlan:
    """Plan a union in this process, for another one."""

    def tell(about: object) -> None:
        channel(Message(about))

    with naming_tables(channel):
        return plan_tables(job, tell, channel.ask, EmittedProgress(channel))


def plan_tables(job: PlanJob, tell: Tell, ask: Tell, progress: Progress) -> UnionPlan:
    """The plan, with the notes on how tables are read; tables that break off are left out."""
    with _reading_session() as duck:
        with name_in_errors(job.query.name), bounded_memory(job.bounds):
            query = open_table(job.query, duck, opened_frame(job.frame), job.limits)
            sample = None if job.sampled else _sample(query, job.limits)
        tell(QuerySampled(sample))
        _look_ahead(query, job, duck)  # while the other process searches
        sources: Sequence[PlannedTable] = ask(WhichTables())
        tell(ReadingTables())
        with progress.stage("looking at columns", 2 * len(sources) + 1) as tick:
            opened: list[SourceTable | None] = []
            for planned in sources:
                opened.append(_opened(planned, duck, job.limits, tell))
                tick(1)
            for source in filter(None, opened):
                _look_ahead(source, job, duck)
            aligned, reasons = ask(WhichColumns())
            found = [
                (source, pairs) for source, pairs in zip(opened, aligned, strict=True) if source and pairs
            ]
            return _planned(job, query, found, duck, (lambda: tick(1), reasons))


def _planned(
    job: PlanJob,
    query: SourceTable,
    found: list[tuple[SourceTable, AlignedTable]],
    duck: duckdb.DuckDBPyConnection,
    others: tuple[Callable[[], None], list[str]],
) -> UnionPlan:
    step, reasons = others
    left_out: list[LeftOut] = []
    while True:
        if not found:
            said = [*reasons, *(f"{one.table} was left out: {one.why}" for one in left_out)]
            raise PlanError("; ".join(["there is no table to union with", *said]))
        sources = [query, *(source for source, _ in found)]
        try:
            plan = draft_plan(query, found, duck, job.keep_extra)
            plan = replace(plan, provenance=job.provenance, distinct=job.distinct, strict=job.strict)
            plan = apply_choices(plan, *job.choices)
            for source, table in zip(sources, plan.sources, strict=True):
                source.place(table)
                source.shapes.sampled = True  # a run reads all rows
            plan = resolve_plan(plan, sources, duck, step)
        except TableError as error:  # one that breaks off behind its sample
            if not error.table.found or error.table.name == query.planned.name:
                raise
            left_out.append(LeftOut(error.table.name, error.reason))
            found = [one for one in found if one[0].planned.name != error.table.name]
        else:
            notes = (*header_doubts(sources), *reading_notes(sources))
            return replace(plan, notes=notes, left_out=tuple(left_out))


def _opened(
    planned: PlannedTable, duck: duckdb.DuckDBPyConnection, limits: Limits, tell: Tell
) -> SourceTable | None:
    """A table, of which the sample is told; None if it cannot be read."""
    tell_reading(planned.name)
    try:
        source = open_table(planned, duck, None, limits)
        sample = _sample(source, limits)
    except Unreadable as error:
        tell(Sampled(None, error.reason))
        return None
    # All at once: what a busy process does not receive blocks this one.
    tell(Sampled(sample, profile=_wide_profile(sample)))
    return source


def _sample(source: SourceTable, limits: Limits) -> Table:
    """The sample of a table, as a search reads it; text was sampled when it was opened."""
    planned = source.planned
    if source.full.sampled is not None:
        return source.full.sampled(planned.name)
    return read(Source(planned.name, as_location(str(planned.path)), planned.part, 0, 0), limits)


def _wide_profile(table: Table) -> TableProfile | None:
    """The profile of a wide table: the process that asks profiles the query meanwhile."""
    if len(table.columns) <= WIDE:
        return None
    from gentus.align.table_profile import profile_table

    return replace(profile_table(table), table=replace(table, columns=[]))


def _look_ahead(source: SourceTable, job: PlanJob, duck: duckdb.DuckDBPyConnection) -> None:
    """Look at the first cells of all columns of a wide table, most of which will be asked for."""
    if len(source.full.names) > WIDE:
        with suppress(TableError):  # it comes again, where it is handled
            source.shapes.sampled = True
            count_columns(source, job.choices[2], duck)


@contextmanager
def _reading_session() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_session() as session, session.connect("reading", thirds=3, macros=True) as duck:
        yield duck
