"""`gentus groups`: families of tables of a lake that can be appended to each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import (
    OUTPUT,
    TABLES,
    AsJson,
    IndexPath,
    Quiet,
    console,
    emit,
    empty_grid,
    open_index,
    progress,
    say,
)
from gentus.terminal import markup, write_line

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from gentus.index.groups import Group, Groups

_WRITERS = (".csv", ".parquet")


def groups(
    index: IndexPath,
    min_size: Annotated[
        int,
        typer.Option(min=2, metavar="N", rich_help_panel=TABLES, help="The fewest tables of a family."),
    ] = 2,
    limit: Annotated[
        int,
        typer.Option(
            "-n", "--limit", min=1, metavar="N", rich_help_panel=OUTPUT, help="How many families to show."
        ),
    ] = 30,
    members: Annotated[
        bool, typer.Option("--members", rich_help_panel=OUTPUT, help="List the tables of every family.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Write every table with its family to this .csv or .parquet file.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find families of tables that can be appended to each other, in the whole lake at once.

    No file of the lake is opened. A table that fits no other is in no family.

    Examples:
        gentus groups my.index
        gentus groups my.index --min-size 5 --members
        gentus groups my.index -o families.csv     # a row per table, with its family
    """
    if out is not None and out.suffix not in _WRITERS:
        raise typer.BadParameter(f"{out} ends in none of {', '.join(_WRITERS)}", param_hint="--out")
    found = open_index(index).groups(min_size, progress=progress())
    if out is not None:
        _write(found, out)
    if as_json:
        emit(found.to_dict())
        return
    shown = found[:limit]
    if members:
        for group in shown:
            write_line(f"{group.name} ({group.size:,} tables)")
            for table in group.tables:
                write_line(f"  {table}")
            write_line()
    elif shown:
        console().print(_grid(shown))
    say(f"{found}.")
    if len(found) > limit:
        say(f"{len(found) - limit:,} more families: --limit {len(found)} shows all, --out writes them.")


def _grid(shown: list[Group]) -> Grid:
    grid = empty_grid()
    grid.add_column("#", justify="right")
    grid.add_column("family", overflow="fold")
    grid.add_column("tables", justify="right")
    grid.add_column("for example", overflow="fold")
    for group in shown:
        grid.add_row(
            str(group.id),
            f"[bold]{markup(group.name)}[/bold]",
            f"{group.size:,}",
            markup(group.example),
        )
    return grid


def _write(found: Groups, out: Path) -> None:
    """One row per table: the number, name and size of its family, and its own name."""
    from pyarrow import csv, parquet

    from gentus.files import replacing

    table = found.to_arrow()
    with replacing(out) as path:
        if out.suffix == ".csv":
            csv.write_csv(table, path)
        else:
            parquet.write_table(table, path)
    say(f"{table.num_rows:,} tables and their families written to {out}")
