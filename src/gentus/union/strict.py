"""Strict unions: what only a default decides, and values that do not convert, are errors."""

from __future__ import annotations

from collections.abc import Iterable

from gentus.union.decision import Decision
from gentus.union.errors import PlanError
from gentus.union.plan import Placement, PlannedTable, UnionPlan
from gentus.union.report import UnionReport
from gentus.union.sources import SourceTable


def check_readings(plan: UnionPlan) -> None:
    """Raise `PlanError` if a strict plan has columns that only a default decides; it lists all of them."""
    if not plan.strict:
        return
    undecided = [
        _undecided(table, column, found)
        for table in plan.sources
        for column in table.columns
        for found in column.decided
        if found.undecided
    ]
    if undecided:
        raise PlanError("cells can be read in two ways, and --strict wants a decision:", *undecided)


def check_encodings(plan: UnionPlan, sources: Iterable[SourceTable]) -> None:
    """Raise `PlanError` if a strict plan has tables whose encoding is a guess; it lists all of them."""
    guessed = [f"  {one.planned.name}: {one.full.guess}" for one in sources if one.full.guess]
    if plan.strict and guessed:
        decide = "; decide with --encoding, or with a rule in gentus.toml:"
        raise PlanError(f"encodings are a guess, and --strict allows none{decide}", *guessed)


def check_columns(plan: UnionPlan, sources: Iterable[SourceTable]) -> None:
    """Raise `PlanError` if columns or cells of the tables of a strict plan cannot be read."""
    lost = []
    for source in sources:
        if source.full.left_out:
            lost.append(f"  {source.planned.name}: {source.full.reading}")
        if source.shapes.binary:
            lost.append(f"  {source.planned.name}: {source.shapes.binary:,} cells are not text")
    if plan.strict and lost:
        raise PlanError("not all can be read, and --strict allows no loss:", *lost)


def _undecided(table: PlannedTable, column: Placement, found: Decision) -> str:
    cells = ", ".join(map(repr, found.examples))
    choices = "day or month" if found.what == "dates" else ". or ,"
    flag = f"--{found.what} '{table.name}:{column.source}=..'"
    return f"  {table.name}: column {column.source!r} has {cells}; decide with {flag} ({choices})"


def check_values(plan: UnionPlan, report: UnionReport) -> None:
    """Raise `PlanError` if values of a strict union did not convert; it lists the columns."""
    if not plan.strict or not report.unconverted:
        return
    lost = [
        f"  {table.table}: {column.loss()}"
        for table in report.tables
        for column in table.columns
        if column.unconverted
    ]
    raise PlanError("values do not convert, and --strict allows no loss:", *lost)
