"""`gentus align`: which columns of two tables belong together, and how an alignment is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import AsJson, IndexPath, emit, open_index, titled_grid

if TYPE_CHECKING:
    from rich.console import Console

    from gentus.align.alignment import Alignment, ColumnRef

PIPED = 140  # characters of a line where nobody's window decides what is cut


def align(
    index: IndexPath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Your table.")],
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table of the index, as a search names it, or a file.")
    ],
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Whether column names count, or cells alone.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Match the columns of your table with those of another, one to one, and say why."""
    with open_index(index) as opened:
        alignment = opened.align(query, table, names)
    if as_json:
        emit(alignment.to_dict())
        return
    show(alignment, console())


def add_align(app: typer.Typer) -> None:
    """Let an app have this command."""
    app.command()(align)


def console() -> Console:
    """A terminal, or a page of its own width."""
    from rich.console import Console

    made = Console()
    if not made.is_terminal:
        made.width = PIPED
    return made


def show(alignment: Alignment, console: Console, rank: int | None = None) -> None:
    """Pairs as a table, then what is left over on either side; of a hit of a search, under its rank."""
    from rich.markup import escape

    number = "" if rank is None else f"{rank}  "
    title = f"{number}[bold]{escape(alignment.table)}[/bold]"
    if alignment.missing is not None:
        console.print(f"{title}: {escape(alignment.missing)}\n")
        return
    total = len(alignment.pairs) + len(alignment.query_only)
    matched = f"{len(alignment.pairs)} of {total} columns, {alignment.score:.2f}"
    grid = titled_grid(f"{title}  [dim]{matched}[/dim]")
    grid.add_column("yours", style="bold", overflow="fold")
    grid.add_column("theirs", overflow="fold")
    grid.add_column("score", justify="right")
    grid.add_column("why", style="dim", overflow="fold")
    for pair in alignment.pairs:
        grid.add_row(
            escape(pair.query.name), escape(pair.table.name), f"{pair.score:.2f}", escape(pair.reason)
        )
    if alignment.pairs:
        console.print(grid)
    else:
        console.print(f"{title}  [dim]no column belongs to one of yours[/dim]")
    for side, columns in (("yours", alignment.query_only), ("theirs", alignment.table_only)):
        if columns:
            console.print(f"[dim]only {side}:[/dim] {escape(_listed(columns))}")
    console.print()


def _listed(columns: list[ColumnRef], most: int = 30) -> str:
    """Names in a row, not hundreds of them."""
    more = f" and {len(columns) - most:,} more" if len(columns) > most else ""
    return ", ".join(column.name for column in columns[:most]) + more
