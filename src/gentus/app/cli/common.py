"""What all commands share: how they speak, and the options that mean the same everywhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from gentus.index.index import Index

IndexPath = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Width of the search. Default: max(2k, 200), with a generator max(2k, 100)."),
]
Count = Annotated[int, typer.Option("-k", min=1, help="How many tables to return.")]


def say(text: str) -> None:
    """Tell people something; stdout stays clean for data."""
    print(text, file=sys.stderr)


def emit(document: Any) -> None:
    """One JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # an old terminal, or a file name that is no Unicode
        text = json.dumps(document, indent=2)
    print(text)


def open_index(path: Path) -> Index:
    """Open an index; imported late, because `--help` should not wait for it."""
    from gentus.index.index import Index

    return Index(path)


def titled_grid(title: str) -> Grid:
    """An empty table for people, under a title."""
    from rich import box
    from rich.table import Table as Grid

    return Grid(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
