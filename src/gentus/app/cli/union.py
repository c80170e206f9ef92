"""`gentus union`: append the rows of tables to those of a query, in one file."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gentus.app.cli.common import (
    OUTPUT,
    READING,
    TABLES,
    AsJson,
    EncodingOption,
    HeaderOption,
    Quiet,
    emit,
    open_index,
    progress,
)
from gentus.app.cli.complete import tables_and_files
from gentus.app.cli.query import QUERY_HELP, STDIN, named_argument
from gentus.app.cli.stopping import stoppable
from gentus.app.cli.union_files import SideFiles
from gentus.app.cli.union_summary import say_notes, show_plan, show_report

if TYPE_CHECKING:
    from gentus.index.hits import Hit
    from gentus.index.queries import NamedQuery
    from gentus.index.union_plan import UnionOptions
    from gentus.table import Table
    from gentus.union import UnionPlan

_ROWS = "Which rows and columns"


def union(
    index: Annotated[
        Path | None, typer.Argument(metavar="INDEX", help="An index folder. Not needed with --plan.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help=QUERY_HELP, autocompletion=tables_and_files),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="",
            hidden=True,
            help="Further tables, after --tables.",
            autocompletion=tables_and_files,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=1,
            metavar="N",
            rich_help_panel=TABLES,
            help="Append the best k tables that fit. Default: 5.",
        ),
    ] = None,
    fit: Annotated[
        Literal["full", "partial", "any"] | None,
        typer.Option(
            metavar="full|partial|any",
            rich_help_panel=TABLES,
            help="With -k: how far a table has to fit. Default: partial.",
        ),
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SCORE",
            rich_help_panel=TABLES,
            help="With -k: the score that a table has to have, 0 to 1.",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE...",
            rich_help_panel=TABLES,
            help="Append these tables: names of the index, or files.",
            autocompletion=tables_and_files,
        ),
    ] = None,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            rich_help_panel=TABLES,
            help="Run a plan that --dry-run --json has printed.",
        ),
    ] = None,
    keep_extra: Annotated[
        bool,
        typer.Option(
            "--keep-extra", rich_help_panel=_ROWS, help="Keep columns that the query does not have."
        ),
    ] = False,
    no_provenance: Annotated[
        bool,
        typer.Option(
            "--no-provenance",
            rich_help_panel=_ROWS,
            help="Leave out the columns _source_table and _source_row.",
        ),
    ] = False,
    distinct: Annotated[
        bool, typer.Option("--distinct", rich_help_panel=_ROWS, help="Keep only the first of equal rows.")
    ] = False,
    names: Annotated[
        bool,
        typer.Option(
            "--names/--no-names",
            rich_help_panel=READING,
            help="Align by column names and cells, or by cells alone.",
        ),
    ] = True,
    header: HeaderOption = None,
    encoding: EncodingOption = None,
    decimal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLE[:COLUMN]=]MARK",
            rich_help_panel=READING,
            help="The decimal mark, . or , where cells like 1,234 leave it open; of a column that is named, "
            "whatever its cells. Can be repeated.",
        ),
    ] = None,
    dates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLE[:COLUMN]=]ORDER",
            rich_help_panel=READING,
            help="What comes first in dates like 3/4/2020: day or month. As --decimal.",
        ),
    ] = None,
    null_values: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            rich_help_panel=READING,
            help="Cells that are null in every column, such as -999. Can be repeated.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            rich_help_panel=READING,
            help="Fail where only a default decides how cells are read, or where values do not convert.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The file to write: .csv, .tsv, .jsonl, .parquet, .xlsx, .sqlite or .duckdb; - is stdout.",
        ),
    ] = None,
    format: Annotated[
        Literal["csv", "tsv", "jsonl", "parquet", "xlsx", "sqlite", "duckdb"] | None,
        typer.Option(
            metavar="FORMAT",
            rich_help_panel=OUTPUT,
            help="csv, tsv, jsonl, parquet, xlsx, sqlite or duckdb. Default: by the end of the file's name; "
            "csv on stdout.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=OUTPUT, help="Show the plan and write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Overwrite an existing file.")
    ] = False,
    table_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=OUTPUT,
            help="The name of the table in a database, or of the sheet. Default: unioned.",
        ),
    ] = None,
    guard_formulas: Annotated[
        bool,
        typer.Option(
            "--guard-formulas",
            rich_help_panel=OUTPUT,
            help="In CSV, put ' before text that spreadsheets would run as a formula.",
        ),
    ] = False,
    sql: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Write the union as SQL that DuckDB runs without gentus; - is stdout.",
        ),
    ] = None,
    dbt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=OUTPUT, help="Write the same SQL as a model of dbt-duckdb."
        ),
    ] = None,
    lineage: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Write an OpenLineage event: which columns each column comes from.",
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory of DuckDB before it uses the disk.")
    ] = "576MB",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Append the rows of unionable tables to yours, in its columns and types, in one file.

    Examples:
        gentus union my.index my_table.csv -o all.parquet            # the best 5 tables that fit
        gentus union my.index my_table.csv --dry-run                 # which columns go where, and why
        gentus union my.index my_table.csv --tables a.csv b.csv -o all.csv
        gentus union my.index my_table.csv --dry-run --json > plan.json
        gentus union --plan plan.json -o all.xlsx                    # after editing the plan
    """
    from gentus.lake.sandbox.jobs import prepare_job

    prepare_job("gentus.union.planning", "duckdb")  # while the rest is imported and the index is opened
    from gentus.union.choices import apply_choices
    from gentus.union.output import STDOUT, TABLE, Output
    from gentus.union.session import check_memory
    from gentus.union.union import Union

    check_memory(memory)
    files = SideFiles(sql, dbt, lineage)
    if out is None and not dry_run and not files.wants_sql:
        raise typer.BadParameter("name the file to write", param_hint="-o")
    if query == STDIN and files.wants_sql:
        raise typer.BadParameter("SQL reads files; save your table as one", param_hint="--sql and --dbt")
    if dry_run and (files.wants_sql or lineage is not None):
        raise typer.BadParameter(
            "it writes nothing; leave out --sql, --dbt and --lineage", param_hint="--dry-run"
        )
    if STDOUT in (out, sql) and as_json and not dry_run:
        raise typer.BadParameter("only one thing can go to stdout; name a file", param_hint="--json")
    output = None
    if out is not None:
        output = Output.by_name(out, table_name or TABLE, guard_formulas, force, format)
    if output is not None and not dry_run:
        output.check_path()
    files.check(out, force)
    bars = progress()
    with stoppable(out), ExitStack() as stack:
        given = None if query is None else stack.enter_context(named_argument(query))
        if plan_file is not None:
            given_before = (k, fit, min_score, tables, more, keep_extra, header, encoding)
            plan = _load_plan(plan_file, index, given, given_before)
            plan = replace(
                apply_choices(plan, decimal or (), dates or (), null_values or ()),
                provenance=plan.provenance and not no_provenance,
                distinct=plan.distinct or distinct,
                strict=plan.strict or strict,
            )
            if dry_run:
                plan = Union(plan).resolved_plan(bars)
        else:
            if more and not tables:
                raise typer.BadParameter(f"{more[0]}: name further tables after --tables")
            options: UnionOptions = {
                "keep_extra": keep_extra,
                "provenance": not no_provenance,
                "distinct": distinct,
                "names": names,
                "header": header,
                "encoding": encoding,
                "progress": bars,
                "fit": fit or "partial",
                "min_score": min_score or 0.0,
                "decimal": decimal or (),
                "dates": dates or (),
                "null_values": null_values or (),
                "strict": strict,
            }
            searched = k is not None or fit is not None or min_score is not None
            plan = _make_plan(index, given, k if searched else 0, [*(tables or []), *(more or [])], options)
        if files.wants_sql:
            files.write_sql(Union(plan, memory=memory))
        if output is None and not dry_run:
            say_notes(plan.notes, plan.left_out)
            return
        if dry_run or output is None:
            show_plan(_lasting(plan, query), as_json)
            return
        united = Union(plan, memory=memory)
        report = united.write(output, bars)
        files.write_lineage(_lasting(united.ran or plan, query), output, report)
    if as_json:
        emit(report.to_dict())
    if not quiet:
        show_report(report)


def _lasting(plan: UnionPlan, query: str | None) -> UnionPlan:
    """A plan without the file of standard input, which is gone when the command ends."""
    return replace(plan, query=replace(plan.query, path=None)) if query == STDIN else plan


def _load_plan(
    path: Path, index: Path | None, query: NamedQuery | None, others: tuple[Any, ...]
) -> UnionPlan:
    """A plan from a file; with another query, if one is given."""
    from gentus.lake import Source, name_in_errors
    from gentus.lake.location import absolute, as_location
    from gentus.union import UnionPlan

    if any(others):
        raise typer.BadParameter("a plan already names its tables and columns", param_hint="--plan")
    plan = UnionPlan.load(path)
    if query is None:
        return plan
    if isinstance(query, str) and index is not None and not Path(query).exists():
        with open_index(index) as opened, name_in_errors(query):
            query = opened.find(query)
    if isinstance(query, Source):
        named = replace(plan.query, name=query.name, path=absolute(query.path), part=query.part)
        return replace(plan, query=named)
    location = as_location(query)
    same = plan.query.path and location.name == as_location(plan.query.path).name
    part = plan.query.part if same else None
    return replace(plan, query=replace(plan.query, name=location.name, path=absolute(location), part=part))


def _make_plan(
    index: Path | None,
    query: NamedQuery | None,
    k: int | None,
    tables: list[str],
    options: UnionOptions,
) -> UnionPlan:
    """The plan for the tables that are named, or found by a search; `k` is 0 if no flag is about a search."""
    if index is None or query is None:
        raise typer.BadParameter("give INDEX and QUERY, or a plan with --plan")
    if tables and k != 0:
        raise typer.BadParameter("give either --tables, or -k, --fit and --min-score")
    from gentus.index.hits import verdict
    from gentus.index.second_look import fits_at_least
    from gentus.lake import Source, name_in_errors
    from gentus.table import tell_doubts
    from gentus.union.errors import PlanError

    fit, min_score = options["fit"], options["min_score"]
    with open_index(index) as opened:
        with name_in_errors(query.name if isinstance(query, Source) else query):
            source = opened.find(query, header=options.get("header"), encoding=options.get("encoding"))

        def fitting(sample: Table) -> list[Hit]:
            """The best tables that fit, and then the nearest: the plan says why they are left out."""
            (nearest,) = opened.search_as([source], [sample], k or 5)
            chosen = [hit for hit in nearest if fits_at_least(hit.fit, fit) and hit.score >= min_score]
            if len(chosen) < len(nearest) == (k or 5):  # further tables may fit
                found = opened.search_as([source], [sample], k or 5, fit=fit, min_score=min_score)
                chosen = list(found[0])
            if not chosen:
                tell_doubts([(source.name, sample.doubt)])
                all_the_same = "To append tables all the same, name them with --tables."
                raise PlanError(f"{verdict([], fit, min_score)} {all_the_same}")
            found_names = {hit.table for hit in chosen}
            return [*chosen, *(hit for hit in nearest if hit.table not in found_names)]

        return opened.union_plan(source, tables or fitting, **options)
