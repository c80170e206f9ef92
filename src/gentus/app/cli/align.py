"""`gentus align`: which columns of two tables match, and how an alignment is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import AsJson, HeaderOption, IndexPath, console, emit, open_index, titled_grid
from gentus.app.cli.query import QueryText, named_argument

if TYPE_CHECKING:
    from rich.console import Console

    from gentus.align.alignment import Alignment, ColumnRef


def align(
    index: IndexPath,
    query: QueryText,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table of the index, by its name in search results, or a file."
        ),
    ],
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Compare column names and cells, or cells alone.")
    ] = True,
    header: HeaderOption = None,
    as_json: AsJson = False,
) -> None:
    """Match the columns of your table with those of another, one to one, with reasons."""
    with open_index(index) as opened, named_argument(query) as given:
        alignment = opened.align(given, table, names, header)
    if as_json:
        emit(alignment.to_dict())
        return
    show_alignment(alignment, console())


def show_alignment(alignment: Alignment, page: Console, rank: int | None = None) -> None:
    """Print the pairs as a table, then the unmatched columns of either side.

    With the rank of a hit, its verdict stands in the list of hits already.
    """
    from rich.markup import escape

    number = "" if rank is None else f"{rank}  "
    title = f"{number}[bold]{escape(alignment.table)}[/bold]"
    if rank is None and alignment.score is not None:
        title += f"  [dim]fit {alignment.fit}, {alignment.columns} columns, score {alignment.score:.3f}[/dim]"
    if alignment.missing is not None:
        kept = "Its columns are compared by what the index keeps of them."
        page.print(f"{title}: {escape(alignment.missing)}. {kept}\n")
        return
    grid = titled_grid(title)
    grid.add_column("yours", style="bold", overflow="fold")
    grid.add_column("theirs", overflow="fold")
    grid.add_column("score", justify="right")
    grid.add_column("why", style="dim", overflow="fold")
    for pair in alignment.pairs:
        grid.add_row(
            escape(pair.query.name), escape(pair.table.name), f"{pair.score:.2f}", escape(pair.reason)
        )
    if alignment.pairs:
        page.print(grid)
    else:
        page.print(f"{title}  [dim]no column matches one of yours[/dim]")
    for side, columns in (("yours", alignment.query_only), ("theirs", alignment.table_only)):
        if columns:
            page.print(f"[dim]only {side}:[/dim] {escape(_listed(columns))}")
    page.print()


def _listed(columns: list[ColumnRef], most: int = 30) -> str:
    """The first names, separated by commas."""
    more = f" and {len(columns) - most:,} more" if len(columns) > most else ""
    return ", ".join(column.name for column in columns[:most]) + more
