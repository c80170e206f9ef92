"""From a query and tables of an index to the plan of their union; tables that cannot be used are left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict, Unpack

from gentus.align.alignment import Alignment
from gentus.align.matched_columns import MatchedColumns
from gentus.align.table_profile import TableProfile
from gentus.align.verdict import Fit
from gentus.features.weights import load_tokenizer, load_vectors
from gentus.index.explain import Aligner
from gentus.index.hits import Hit
from gentus.index.lookup import Lookup
from gentus.index.queries import QueryInput, is_named, read_query
from gentus.index.row_overlap import rows_in_words, tell_duplicates
from gentus.index.second_look import AtLeast, fits_at_least
from gentus.lake import Source, Unreadable, arrow_of, as_location, name_in_errors
from gentus.lake.formats.detect import is_plain
from gentus.lake.location import absolute, identity
from gentus.lake.rules import is_delimited
from gentus.lake.sandbox.named import is_server, seconds_for
from gentus.progress import Progress
from gentus.settings import refuse_unknown
from gentus.table import Header, Table
from gentus.union.draft import AlignedTable
from gentus.union.errors import PlanError
from gentus.union.plan import LeftOut, PlannedTable, UnionPlan
from gentus.union.planning import (
    PlanJob,
    QuerySampled,
    ReadingTables,
    Sampled,
    WhichColumns,
    WhichTables,
    plan_in_worker,
    plan_tables,
)
from gentus.union.worker import Asked, CrashedTableError, in_worker, runs_here, shared_frame

OneTable: TypeAlias = str | os.PathLike[str] | Hit | Source
Tables: TypeAlias = Sequence[OneTable] | Callable[[Table], Sequence[OneTable]]


class UnionOptions(TypedDict, total=False):
    """What can be chosen of a union."""

    names: bool  # column names count in the alignment; default true
    header: Header | None  # of the query, and of tables that are not in the index; default: as known, or auto
    encoding: str | None  # the same
    keep_extra: bool  # add the columns that the query does not have; default false
    provenance: bool  # add the file that each row is from; default true
    distinct: bool  # leave out equal rows; default false
    fit: AtLeast  # hits that fit less are left out; default partial. Tables that are named are always taken
    min_score: float  # hits with a smaller score are left out; default 0
    decimal: str | Sequence[str]  # where a cell can be read in two ways; see `apply_choices`
    dates: str | Sequence[str]
    null_values: str | Sequence[str]  # cells that are null in every column
    strict: bool  # what only a default decides, and values that do not convert, are errors; default false
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
    tables: Tables,
    **options: Unpack[UnionOptions],
) -> UnionPlan:
    """Align tables with a query and plan their union. Types are inferred from the first rows.

    Tables can be chosen by the sample of the query, which is read in the process that reads the tables.
    """
    refuse_unknown(options, UnionOptions)
    progress = options.pop("progress", None) or Progress()
    job, sample = _job(lookup, query, options)
    asked = _PlanAnswers(lookup, job.query, tables, options, sample)
    with shared_frame(job.frame) as shared:
        job = replace(job, frame=shared)
        while True:
            if runs_here([job.query, *asked.planned()]):
                return asked.noted(plan_tables(replace(job, bounds=None), asked, asked, progress))
            try:
                seconds = (
                    None if job.bounds is None else seconds_for(as_location(str(job.query.path)), job.bounds)
                )
                answers = Asked(asked, job.query.name, seconds, asked.load)
                return asked.noted(in_worker(plan_in_worker, job, progress=progress, asked=answers))
            except CrashedTableError as error:
                asked.leave_out(error)


def _job(lookup: Lookup, query: QueryInput, options: UnionOptions) -> tuple[PlanJob, Table | None]:
    """What is planned, as far as it does not depend on the tables; and the sample if it is read here."""
    if isinstance(query, Table):
        raise ValueError("a sampled table has not all of its rows; give the file, or a data frame")
    frame, own, sample, bounds = None, PlannedTable("query", None), None, None
    if is_named(query):
        with name_in_errors(query):
            source = lookup.find(query, text=options)
        own = _planned(source)
        if is_server(source.path):
            with name_in_errors(source.name):
                sample = read_query(source, lookup.limits)
        elif not is_plain(source):
            bounds = lookup.limits
    else:
        frame = arrow_of(query)  # a stream can be read once
        sample = lookup.read(frame)
    nulls = options.get("null_values", ())
    job = PlanJob(
        own,
        frame,
        sample is not None,
        lookup.limits,
        bounds,
        options.get("provenance", True),
        options.get("distinct", False),
        options.get("strict", False),
        options.get("keep_extra", False),
        (
            options.get("decimal", ()),
            options.get("dates", ()),
            [nulls] if isinstance(nulls, str) else list(nulls),
        ),
    )
    return job, sample


class _PlanAnswers:
    """Answers to the process that reads the tables: which tables there are, and how their columns align."""

    def __init__(
        self,
        lookup: Lookup,
        query: PlannedTable,
        tables: Tables,
        options: UnionOptions,
        sample: Table | None,
    ) -> None:
        self.lookup, self.query, self.options, self.sample = lookup, query, options, sample
        self.notes: list[str] = []
        self.left_out: list[LeftOut] = []
        self.choose = tables if callable(tables) else None
        self.candidates = [] if callable(tables) else self._candidates(tables)
        if sample is not None:
            self._take(sample)
        self._begin()

    def _candidates(self, tables: Sequence[OneTable]) -> list[Candidate]:
        return list(_candidates(self.lookup, self.query, tables, self.options, (self.notes, self.left_out)))

    def _begin(self) -> None:
        """Forget what an earlier process told."""
        self._samples: dict[str, Table] = {}
        self._aligned: list[AlignedTable | None] = []
        self._unfit: list[LeftOut] = []
        self._aligner: Aligner | None = None

    def _aligns(self) -> bool:
        """Whether any table is aligned here; hits of a search may have been."""
        return self.choose is not None or not all(map(_is_aligned, self.candidates))

    def load(self) -> None:
        """Load what alignments need."""
        if self._aligns():
            load_tokenizer()
            load_vectors()

    def _take(self, sample: Table) -> None:
        """The sample of the query, which may choose the tables."""
        self.sample = sample
        if self.choose is not None:
            self.candidates, self.choose = self._candidates(self.choose(sample)), None

    def planned(self) -> list[PlannedTable]:
        """The tables, without columns."""
        return [replace(_planned(one.source), found=one.is_hit) for one in self.candidates]

    def leave_out(self, error: CrashedTableError) -> None:
        """Leave out a table that crashed its parser, if a search found it; else the error is raised."""
        if not any(one.is_hit and one.source.name == error.table for one in self.candidates):
            raise error
        self.left_out.append(LeftOut(str(error.table), error.reason))
        self.candidates = [one for one in self.candidates if one.source.name != error.table]
        self._begin()

    def __call__(self, about: Any) -> Any:
        """Take what is told, or answer."""
        match about:
            case QuerySampled():
                if about.table is not None and self.sample is None:
                    self._take(about.table)
            case WhichTables():
                names = self.options.get("names", True) and self.lookup.names
                assert self.sample is not None
                self._aligner = Aligner(self.sample, names)
                return self.planned()
            case ReadingTables():
                if self._aligner is not None and self._aligns():
                    self._aligner.prepare()
            case Sampled():
                self._sampled(self.candidates[len(self._aligned)], about)
            case WhichColumns():
                reasons = [f"{one.table} was left out: {one.why}" for one in (*self.left_out, *self._unfit)]
                return self._aligned, [*self.notes, *reasons]
        return None

    def _sampled(self, one: Candidate, sampled: Sampled) -> None:
        """Align a table; one without a column under the query's, or a hit that is no fit, is left out."""
        if sampled.table is None:
            self._leave_out(one, sampled.reason)
            return
        self._samples[one.source.name] = sampled.table
        try:
            self._aligned.append(self._fitting(one, sampled.table, sampled.profile))
        except Unreadable as error:
            self._leave_out(one, error.reason)

    def _leave_out(self, one: Candidate, reason: str) -> None:
        """Leave out a table that a search found; one that was named is an error."""
        if not one.is_hit:
            raise PlanError(f"{one.source.name}: {reason}")
        self._aligned.append(None)
        self._unfit.append(LeftOut(one.source.name, reason))

    def _fitting(self, one: Candidate, table: Table, profile: TableProfile | None) -> AlignedTable:
        alignment = one.alignment if _is_aligned(one) else None
        if alignment is None:
            assert self._aligner is not None
            alignment = self._aligner.align(table, profile=profile)
        if not alignment.pairs:
            raise Unreadable("none of its columns belongs under one of the query's")
        if one.is_hit and alignment.fit is not None and alignment.columns is not None:
            _check_fit(alignment.fit, alignment.score or 0.0, alignment.columns, self.options)
        pairs = [(pair.query.name, pair.table.name, pair.score, pair.reason) for pair in alignment.pairs]
        return AlignedTable(pairs, alignment.score, alignment.fit)

    def noted(self, plan: UnionPlan) -> UnionPlan:
        """A plan with all notes, and all tables that were left out."""
        notes = (*self.notes, *self._copies([one.name for one in plan.tables]), *plan.notes)
        return replace(plan, notes=notes, left_out=(*self.left_out, *self._unfit, *plan.left_out))

    def _copies(self, tables: Sequence[str]) -> Iterator[str]:
        """Which tables have the rows of the query, or of a table before them."""
        names = ["the query", *tables]
        found = {at: self._samples[name].row_sketch for at, name in enumerate(tables, 1)}
        sketches = {at: sketch for at, sketch in found.items() if sketch}
        own = None if self.sample is None else self.sample.row_sketch
        for at, same in enumerate(tell_duplicates(own, range(1, len(names)), sketches), 1):
            if same is not None:
                complete = sketches[at].complete
                told = rows_in_words(same.kind, same.share, names[same.rank])
                yield f"{names[at]}: {told}{'' if complete else ' (the first rows were compared)'}"


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
        known = source is not None
        if source is None:
            with name_in_errors(name):
                source = replace(lookup.find(name, text=options), name=str(name))
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
                if known:
                    lookup.find(source)  # which refuses links out of the lake
            except Unreadable as error:
                if not is_hit:
                    raise PlanError(f"{source.name}: {error.reason}") from error
                left_out.append(LeftOut(source.name, error.reason))
            else:
                yield Candidate(source, alignment, is_hit)


def _is_aligned(one: Candidate) -> bool:
    return one.alignment is not None and one.alignment.missing is None


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
    planned = PlannedTable(source.name, absolute(source.path), source.part)
    if not is_delimited(source):
        return planned
    return replace(planned, header=source.header, encoding=source.encoding)
