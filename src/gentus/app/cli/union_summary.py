"""What `gentus union` prints: the plan of a dry run, and the summary of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gentus.app.cli.common import console, emit, empty_grid, print_grid, say
from gentus.terminal import markup

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from gentus.union.plan import LeftOut, OutputColumn, Placement, PlannedTable, UnionPlan
    from gentus.union.report import TableReport, UnionReport

_MOST = 12  # remarks on a table, and tables that were left out
_MOST_COLUMNS = 100  # of a table in a plan, those with a note above all


def show_plan(plan: UnionPlan, as_json: bool) -> None:
    """Print a plan, as JSON or as tables."""
    say_notes(plan.notes, plan.left_out)
    if as_json:
        emit(plan.to_dict())
        return
    page = console()
    more = len(plan.columns) - _MOST_COLUMNS
    for table in plan.sources:
        print_grid(page, _plan_title(plan, table), _plan_grid(plan, table))
        if more > 0:
            page.print(f"[dim]and {more:,} more columns; --json has all[/dim]\n")
        if table.left_out:
            page.print(f"[dim]left out: {markup(_listed(table.left_out))}[/dim]\n")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_COLUMNS
    return ", ".join(names[:_MOST_COLUMNS]) + (f" and {more:,} more; --json has all" if more > 0 else "")


def _shown(plan: UnionPlan, placed: Mapping[str, Placement]) -> list[OutputColumn]:
    """The columns of a plan that are printed, in its order: all, or of a wide one those with a note first."""
    noted = [
        bool(column.note or ((found := placed.get(column.name)) and found.note)) for column in plan.columns
    ]
    chosen = sorted(range(len(noted)), key=lambda at: not noted[at])[:_MOST_COLUMNS]
    return [plan.columns[at] for at in sorted(chosen)]


def _plan_title(plan: UnionPlan, table: PlannedTable) -> str:
    """The name of a table, and what is known of it."""
    facts = (
        []
        if table is plan.query
        else [f"{table.fit} fit" if table.fit else "", "{} of {} columns".format(*plan.matched(table))]
    )
    facts += ["" if table.rows is None else f"{table.rows:,} rows"]
    facts += ["" if table.score is None else f"score {table.score:.3f}"]
    return f"{markup(table.name)}  [dim]{'  '.join(filter(None, facts))}[/dim]"


def _plan_grid(plan: UnionPlan, table: PlannedTable) -> Grid:
    """Which columns of one table go into which columns of the result."""
    query = table is plan.query
    grid = empty_grid()
    grid.add_column("column", style="bold", overflow="fold")
    grid.add_column("type")
    if not query:
        grid.add_column("from", overflow="fold")
        grid.add_column("score", justify="right")
    grid.add_column("" if query else "because", style="dim", overflow="fold")
    placed = {column.into: column for column in table.columns}
    for column in _shown(plan, placed):
        found = placed.get(column.name)
        if query and found is not None:
            why = "; ".join(filter(None, (column.note, found.note)))
            grid.add_row(markup(column.name), markup(column.type or "?"), markup(why))
        elif not query:
            score = "" if found is None or found.score is None else f"{found.score:.3f}"
            why = "" if found is None else "; ".join(filter(None, (found.reason, found.note)))
            source = "-" if found is None else markup(found.source)
            grid.add_row(markup(column.name), markup(column.type or "?"), source, score, markup(why))
    return grid


def show_report(report: UnionReport) -> None:
    """Print a summary: a line per table, remarks on each, what was left out, and the output."""
    grid = empty_grid()
    grid.add_column("table", style="bold", overflow="fold")
    grid.add_column("fit")
    grid.add_column("columns", justify="right")
    grid.add_column("rows", justify="right")
    for table in report.tables:
        matched = "" if table.matched is None else "{} of {}".format(*table.matched)
        fit = table.fit or ("query" if table.matched is None else "")
        grid.add_row(markup(table.table), fit, matched, f"{table.rows:,}")
    console(stderr=True).print(grid)
    for column in report.result:
        if column.note:
            say(_typed(column))
    for table in report.tables:
        for remark in _few(table):
            say(f"{table.table}: {remark}")
    say_notes(report.notes, report.left_out)
    removed = f", {report.duplicates_removed:,} equal rows removed" if report.distinct else ""
    where = "on stdout" if report.bytes is None else f"in {report.output}"
    size = "" if report.bytes is None else f"{report.bytes:,} bytes, "
    say(
        f"{report.rows:,} rows and {report.columns:,} columns {where}{removed} ({size}{report.seconds:.1f} s)"
    )


def _typed(column: OutputColumn) -> str:
    return f"{column.name!r} is {column.type}: {column.note}"


def _few(table: TableReport) -> list[str]:
    remarks = list(table.remarks())
    more = [f"and {len(remarks) - _MOST:,} more remarks; --json has all"] if len(remarks) > _MOST else []
    return remarks[:_MOST] + more


def say_notes(notes: Iterable[str], left_out: Iterable[LeftOut]) -> None:
    """Print the notes of a plan, and the tables that it leaves out."""
    for note in notes:
        say(note)
    for one in left_out:
        say(f"left out: {one.table} ({one.why})")
