"""`gentus align`: which columns of two tables match, and how an alignment is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import (
    READING,
    AsJson,
    EncodingOption,
    HeaderOption,
    IndexPath,
    Quiet,
    console,
    emit,
    empty_grid,
    open_index,
    print_grid,
)
from gentus.app.cli.complete import tables_and_files
from gentus.app.cli.query import QueryText, named_argument, prepare_reading
from gentus.terminal import markup

if TYPE_CHECKING:
    from rich.console import Console

    from gentus.align.alignment import Alignment, ColumnRef


def align(
    index: IndexPath,
    query: QueryText,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A table of the index, by its name in search results, or a file.",
            autocompletion=tables_and_files,
        ),
    ],
    names: Annotated[
        bool,
        typer.Option(
            "--names/--no-names",
            rich_help_panel=READING,
            help="Compare column names and cells, or cells alone.",
        ),
    ] = True,
    header: HeaderOption = None,
    encoding: EncodingOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Match the columns of your table with those of another, one to one, with reasons.

    Examples:
        gentus align my.index my_table.csv sales/2020.csv
        gentus align my.index my_table.csv sales/2020.csv --no-names   # by their cells alone
        gentus align my.index my_table.csv other.parquet --json        # a file that is not in the index
    """
    prepare_reading(query, table)
    with open_index(index) as opened, named_argument(query) as given:
        alignment = opened.align(given, table, names, header=header, encoding=encoding)
    if as_json:
        emit(alignment.to_dict())
        return
    show_alignment(alignment, console())


def show_alignment(alignment: Alignment, page: Console, rank: int | None = None) -> None:
    """Print the pairs as a table, then the unmatched columns of either side.

    With the rank of a hit, its verdict stands in the list of hits already.
    """
    number = "" if rank is None else f"{rank}  "
    title = f"{number}[bold]{markup(alignment.table)}[/bold]"
    if rank is None and alignment.score is not None:
        title += f"  [dim]fit {alignment.fit}, {alignment.columns} columns, score {alignment.score:.3f}[/dim]"
    if alignment.missing is not None:
        kept = "Its columns are compared by what the index keeps of them."
        page.print(f"{title}: {markup(alignment.missing)}. {kept}\n", highlight=False, soft_wrap=True)
        return
    grid = empty_grid()
    grid.add_column("yours", style="bold", overflow="fold")
    grid.add_column("theirs", overflow="fold")
    grid.add_column("score", justify="right")
    grid.add_column("why", style="dim", overflow="fold")
    for pair in alignment.pairs:
        grid.add_row(
            markup(pair.query.name),
            markup(pair.table.name),
            f"{pair.score:.2f}",
            markup(pair.reason),
        )
    if alignment.pairs:
        print_grid(page, title, grid)
    else:
        page.print(f"{title}  [dim]no column matches one of yours[/dim]", highlight=False, soft_wrap=True)
    for side, columns in (("yours", alignment.query_only), ("theirs", alignment.table_only)):
        if columns:
            page.print(f"[dim]only {side}:[/dim] {markup(_listed(columns))}")
    page.print()


def _listed(columns: list[ColumnRef], most: int = 30) -> str:
    """The first names, separated by commas."""
    more = f" and {len(columns) - most:,} more" if len(columns) > most else ""
    return ", ".join(column.name for column in columns[:most]) + more
