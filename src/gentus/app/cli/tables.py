"""`gentus tables` and `gentus describe`: the tables of an index, and one of them closely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import (
    TABLES,
    AsJson,
    IndexPath,
    Quiet,
    console,
    emit,
    empty_grid,
    open_index,
    say,
    size_words,
)
from gentus.app.cli.complete import table_names
from gentus.terminal import markup, write_line

if TYPE_CHECKING:
    from gentus.index.description import TableDescription


def tables(
    index: IndexPath,
    like: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            rich_help_panel=TABLES,
            help="Only tables with all of these words in their names.",
        ),
    ] = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the tables of an index by name, with their sampled rows and their columns.

    Examples:
        gentus tables my.index
        gentus tables my.index --like "sales 2020"   # both words, in any case
    """
    with open_index(index) as opened:
        found, total = opened.entries(like), len(opened)
    if as_json:
        emit({"total": total, "tables": [entry.to_dict() for entry in found]})
        return
    if found:
        write_line(f"{'rows':>6}  {'columns':>7}  table")
    for entry in found:
        write_line(f"{_rows(entry.rows, entry.more_rows):>6}  {entry.columns:>7,}  {entry.name}")
    say(f"{len(found):,} of {total:,} tables" if like else f"{total:,} tables")


def describe(
    index: IndexPath,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table of the index, by its name.", autocompletion=table_names
        ),
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show where a table of the index is, its shape and identifier, and what its columns contain.

    Examples:
        gentus describe my.index sales/2020.csv
    """
    with open_index(index) as opened:
        described = opened.describe(table)
    if described.missing is not None:
        say(f"{table}: {described.missing}")
    if as_json:
        emit(described.to_dict())
        return
    for name, value in _lines(described).items():
        write_line(f"{name:<12}{value}")
    if described.columns:
        _show_columns(described)


def _rows(rows: int, more: bool) -> str:
    return f"{rows:,}+" if more else f"{rows:,}"


def _lines(described: TableDescription) -> dict[str, str]:
    part = {} if described.part is None else {"inside": described.part}
    return {
        "table": described.name,
        "file": described.path,
        **part,
        "size": "unknown" if described.size is None else size_words(described.size),
        "rows": _rows(described.rows, described.more_rows)
        + (" (the sample is full; there may be more)" if described.more_rows else ""),
        "columns": f"{described.column_count:,}",
        **({} if described.header == "auto" else {"header": described.header}),
        **({"header": f"auto; {described.doubt}"} if described.doubt else {}),
        **({"read": described.reading} if described.reading else {}),
        "identifier": described.sid or "none",
    }


def _show_columns(described: TableDescription) -> None:
    grid = empty_grid()
    grid.add_column("column", style="bold", overflow="fold")
    grid.add_column("type", no_wrap=True)
    grid.add_column("filled", justify="right")
    grid.add_column("distinct", justify="right")
    grid.add_column("most frequent values", style="dim", overflow="fold")
    for column in described.columns:
        grid.add_row(
            markup(column.name),
            markup(column.type),
            f"{column.filled:.0%}",
            f"{column.distinct:,}",
            markup(" | ".join(map(_clipped, column.examples))),
        )
    console().print(grid)


def _clipped(cell: str, most: int = 24) -> str:
    line = " ".join(cell.split())
    return line if len(line) <= most else line[: most - 1] + "…"
