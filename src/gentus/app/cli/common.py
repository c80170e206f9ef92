"""What the commands share: their output, and the options that mean the same everywhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from gentus.index.index import Index

IndexPath = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Beam width. Default: max(2k, 200), with a generator max(2k, 100)."),
]
Count = Annotated[int, typer.Option("-k", min=1, help="How many tables to return.")]
ResultOrder = Annotated[
    Literal["aligned", "generated"] | None,
    typer.Option(
        help="By generated score and matched columns, or by generated score alone. "
        "Default: aligned; generated for an index with labels."
    ),
]
HeaderOption = Annotated[
    Literal["yes", "no", "auto"] | None,
    typer.Option(
        "--header",
        help="Whether the first row of delimited text is a header. auto: it is, and you are told if it looks "
        "like data. Default: as in the index, or auto.",
    ),
]
TimeBudget = Annotated[float | None, typer.Option(min=0, help="The most minutes for training the generator.")]
PIPED_WIDTH = 140  # characters per line where there is no terminal


def say(text: str) -> None:
    """Print a message on stderr; stdout is for data."""
    print(text, file=sys.stderr)


def emit(document: Any) -> None:
    """Print one JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # an old terminal, or a file name that is not Unicode
        text = json.dumps(document, indent=2)
    print(text)


def open_index(path: Path) -> Index:
    """Open an index; imported here, because `--help` does not need it."""
    from gentus.index.index import Index

    return Index(path)


def one_of(value: str, choices: Any, name: str) -> Any:
    """A value of a `Literal`; raises with a list of them if it is none."""
    if value not in get_args(choices):
        raise typer.BadParameter(f"{name} is one of {', '.join(get_args(choices))}, not {value}")
    return value


def console(stderr: bool = False) -> Console:
    """A terminal, or a page of fixed width."""
    from rich.console import Console

    made = Console(stderr=stderr)
    if not made.is_terminal:
        made.width = PIPED_WIDTH
    return made


def titled_grid(title: str) -> Grid:
    """An empty table for people, under a title."""
    from rich import box
    from rich.table import Table as Grid

    return Grid(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
