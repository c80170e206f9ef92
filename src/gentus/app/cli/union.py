"""`gentus union`: the rows of tables under those of a query, in one file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gentus.app.cli.common import AsJson, emit, open_index, say, titled_grid

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from gentus.progress import Progress
    from gentus.union import PlannedTable, UnionPlan
    from gentus.union.report import UnionReport


def union(
    index: Annotated[
        Path | None, typer.Argument(metavar="INDEX", help="An index folder. Not needed with --plan.")
    ] = None,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="The table that others are put under.")
    ] = None,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="", hidden=True, help="Further tables, after --tables.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Where the rows go: .csv, .tsv, .parquet, .duckdb or .db."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Take the best k tables of a search. Default: 5.")
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE...", help="Take these tables: names of the index, or files."),
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="Run a plan, as --dry-run --json prints it.")
    ] = None,
    keep_extra: Annotated[
        bool, typer.Option("--keep-extra", help="Add the columns that the query does not have.")
    ] = False,
    no_provenance: Annotated[
        bool, typer.Option("--no-provenance", help="Without the columns _source_table and _source_row.")
    ] = False,
    distinct: Annotated[bool, typer.Option("--distinct", help="Only the first of equal rows.")] = False,
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Whether column names count in alignment.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
    table_name: Annotated[
        str | None, typer.Option(help="What the table in a DuckDB file is called. Default: unioned.")
    ] = None,
    guard_formulas: Annotated[
        bool,
        typer.Option("--guard-formulas", help="In CSV, put ' before text that spreadsheets would run."),
    ] = False,
    memory: Annotated[str, typer.Option(help="What DuckDB may use of it before it uses the disk.")] = "576MB",
    as_json: AsJson = False,
) -> None:
    """Put the rows of unionable tables under yours: the query's columns and types, in one file."""
    from gentus.progress import terminal_progress
    from gentus.union.output import TABLE, Output
    from gentus.union.session import check_memory
    from gentus.union.union import Union

    check_memory(memory)
    if out is None and not dry_run:
        raise typer.BadParameter("say where the rows go", param_hint="-o")
    output = None if out is None else Output.by_name(out, table_name or TABLE, guard_formulas, force)
    if output is not None and not dry_run:
        output.check_path()
    progress = terminal_progress()
    with _stoppable(out):
        if plan_file is not None:
            plan = _from_file(plan_file, query, (k, tables, more, keep_extra))
            plan = replace(
                plan, provenance=plan.provenance and not no_provenance, distinct=plan.distinct or distinct
            )
            if dry_run:
                plan = Union(plan).resolved_plan(progress)
        else:
            options = {
                "keep_extra": keep_extra,
                "provenance": not no_provenance,
                "distinct": distinct,
                "names": names,
            }
            plan = _asked(index, query, k, [*(tables or []), *(more or [])], bool(tables), options, progress)
        for note in plan.notes:
            say(note)
        if dry_run or output is None:
            _show_plan(plan, as_json)
            return
        report = Union(plan, memory=memory).write(output, progress)
    if as_json:
        emit(report.to_dict())
    _show_report(report)


def add_union(app: typer.Typer) -> None:
    """Let an app have this command."""
    app.command()(union)


def _from_file(path: Path, query: str | None, others: tuple[Any, ...]) -> UnionPlan:
    from gentus.lake.location import absolute, as_location
    from gentus.union import UnionPlan

    if any(others):
        raise typer.BadParameter("a plan says itself which tables and columns it takes", param_hint="--plan")
    plan = UnionPlan.load(path)
    if query is None:
        return plan
    place = as_location(query)
    part = plan.query.part if plan.query.path and place.name == as_location(plan.query.path).name else None
    return replace(plan, query=replace(plan.query, name=place.name, path=absolute(place), part=part))


def _asked(
    index: Path | None,
    query: str | None,
    k: int | None,
    tables: list[str],
    named: bool,
    options: dict[str, bool],
    progress: Progress,
) -> UnionPlan:
    """The plan for the tables that were named, or found."""
    if index is None or query is None:
        raise typer.BadParameter("give INDEX and QUERY, or a plan with --plan")
    if tables and not named:
        raise typer.BadParameter(f"{tables[0]} is one argument too many; tables are named after --tables")
    if tables and k is not None:
        raise typer.BadParameter("-k and --tables exclude each other")
    with open_index(index) as opened:
        from gentus.lake import name_in_errors

        with name_in_errors(query):
            chosen = tables or opened.search(query, k=k or 5)
        plan: UnionPlan = opened.union_plan(query, chosen, progress=progress, **options)
        return plan


@contextmanager
def _stoppable(out: Path | None) -> Iterator[None]:
    """End as by Ctrl-C when asked to terminate, so that nothing half done is left."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in _signals()}
    try:
        yield
    except KeyboardInterrupt:
        say("\nStopped." if out is None else f"\nStopped; {out} is as it was.")
        sys.stdout.flush()
        sys.stderr.flush()
        # All is cleared away. A thread of DuckDB that still waits for rows from Python would bring down an
        # interpreter that ends in an orderly way.
        os._exit(130)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> list[signal.Signals]:
    import threading

    if threading.current_thread() is not threading.main_thread():
        return []  # only there can they be handled
    return [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


# --- for people ----------------------------------------------------------------------------------------


def _show_plan(plan: UnionPlan, as_json: bool) -> None:
    if as_json:
        emit(plan.to_dict())
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    if not console.is_terminal:
        console.width = 140  # piped: nobody's window decides what is cut
    console.print(_plan_grid(plan, plan.query))
    for table in plan.tables:
        console.print(_plan_grid(plan, table))
        if table.left_out:
            console.print(f"[dim]not taken: {escape(', '.join(table.left_out))}[/dim]\n")


def _plan_grid(plan: UnionPlan, table: PlannedTable) -> Grid:
    """Where the columns of the result come from in one table."""
    from rich.markup import escape

    query = table is plan.query
    rows = "" if table.rows is None else f"  {table.rows:,} rows"
    score = "" if table.score is None else f"  score {table.score:.3f}"
    grid = titled_grid(f"{escape(table.name)}[dim]{rows}{score}[/dim]")
    grid.add_column("column", style="bold", overflow="fold")
    grid.add_column("type")
    if not query:
        grid.add_column("from", overflow="fold")
        grid.add_column("score", justify="right")
    grid.add_column("" if query else "because", style="dim", overflow="fold")
    placed = {column.into: column for column in table.columns}
    for column in plan.columns:
        found = placed.get(column.name)
        if query and found is not None:
            grid.add_row(escape(column.name), column.type or "?", escape(column.note))
        elif not query:
            score = "" if found is None or found.score is None else f"{found.score:.3f}"
            why = "" if found is None else "; ".join(filter(None, (found.reason, found.note)))
            source = "-" if found is None else escape(found.source)
            grid.add_row(escape(column.name), column.type or "?", source, score, escape(why))
    return grid


def _show_report(report: UnionReport) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not sys.stderr.isatty():
        console.width = 140
    grid = titled_grid("")
    grid.add_column("table", style="bold", overflow="fold")
    grid.add_column("rows", justify="right")
    remarks = [escape("\n".join(table.remarks())) for table in report.tables]
    if any(remarks):
        grid.add_column("what was left out or changed", overflow="fold")
    for table, remark in zip(report.tables, remarks, strict=True):
        grid.add_row(escape(table.table), f"{table.rows:,}", *([remark] if any(remarks) else []))
    console.print(grid)
    removed = f", {report.duplicates_removed:,} equal rows removed" if report.distinct else ""
    say(
        f"{report.rows:,} rows and {report.columns:,} columns in {report.output}{removed}"
        f" ({report.bytes or 0:,} bytes, {report.seconds:.1f} s)"
    )
