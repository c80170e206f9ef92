"""What the commands share: their output, and the options that mean the same everywhere."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gentus import terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from gentus.index.index import Index
    from gentus.progress import Progress

# Groups of options in help pages
TABLES = "Which tables"
READING = "How tables are read"
LEARNING = "How it learns"
OUTPUT = "Output"
RUNNING = "How it runs"

IndexPath = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Beam = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=TABLES,
        help="Beam width. Default: max(2k, 200), of the paper's generator max(2k, 100).",
    ),
]
Count = Annotated[
    int,
    typer.Option("-k", min=1, metavar="N", rich_help_panel=TABLES, help="How many tables to return."),
]
ResultOrder = Annotated[
    Literal["aligned", "generated"] | None,
    typer.Option(
        metavar="aligned|generated",
        rich_help_panel=TABLES,
        help="By generated score and matched columns, or by generated score alone. "
        "Default: aligned; generated for an index with labels.",
    ),
]
HeaderOption = Annotated[
    Literal["yes", "no", "auto"] | None,
    typer.Option(
        "--header",
        metavar="yes|no|auto",
        rich_help_panel=READING,
        help="Whether the first row of delimited text is a header. auto: it is, and you are told if it looks "
        "like data. Default: as in the index, or auto.",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        rich_help_panel=READING,
        help="The encoding of delimited text, such as cp1252 or shift_jis. auto: UTF-8, plain western text "
        "or a guess, which gentus info --reading lists. Default: as in the index, or auto.",
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        rich_help_panel=READING,
        help="Leave out these files and folders, by patterns as in .gitignore: *.bak.csv, archive/, "
        "!archive/2024.csv. Can be repeated. It is remembered, and added to the lake's .gentusignore.",
    ),
]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="MINUTES",
        rich_help_panel=LEARNING,
        help="Minutes to train the paper's generator.",
    ),
]
PIPED_WIDTH = 10_000  # characters per line where there is no terminal: programs want one row per line
_quiet = False


def _set_quiet(value: bool) -> bool:
    global _quiet
    _quiet = value
    logging.getLogger("gentus").setLevel(logging.ERROR if value else logging.NOTSET)
    return value


Quiet = Annotated[
    bool,
    typer.Option(
        "-q", "--quiet", callback=_set_quiet, help="No progress and no messages but errors on stderr."
    ),
]


def say(text: str, always: bool = False) -> None:
    """Print a message on stderr; stdout is for data. With --quiet, only what must be said."""
    if always or not _quiet:
        terminal.write_line(text, stderr=True)


def say_stopped(more: str = "") -> None:
    """Print what Ctrl-C did; on a terminal the line begins with ^C."""
    if sys.stderr.isatty():
        say("", always=True)
    say(f"Stopped.{more}", always=True)


def progress(lines: bool = False) -> Progress:
    """Bars on a terminal, and `lines` on long stages where stderr goes elsewhere, unless --quiet is given."""
    from gentus.progress import Progress, terminal_progress

    return Progress() if _quiet else terminal_progress(lines)


def emit(document: Any) -> None:
    """Print one JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # an old terminal, or a file name that is not Unicode
        text = json.dumps(document, indent=2)
    terminal.write_json(text)


def size_words(count: int) -> str:
    """A number of bytes as people say it: `184 bytes`, `26.1 kB`, `1.9 MB`."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 99.95 else f"{size:.1f} {unit}"


def index_parts(facts: dict[str, Any]) -> dict[str, int]:
    """The parts of an index on disk, in bytes."""
    size = facts["bytes"]
    parts = {
        "prefix tree": size["trie"],
        "model": size["model"],
        "catalogue": size["catalogue"],
        "cache": size["cache"],
    }
    parts["other files"] = size["total"] - sum(parts.values())
    return {name: count for name, count in parts.items() if count > 0}


def open_index(path: Path) -> Index:
    """Open an index; imported here, because `--help` does not need it."""
    from gentus.index.index import Index

    return Index(path)


def other_kinds(endings: dict[str, int]) -> str:
    """How many files are of other kinds, in words; the most frequent endings are listed."""
    total, most = sum(endings.values()), list(endings.items())[:5]
    listed = ", ".join(f"{ending} {count:,}" for ending, count in most) + (", .." if len(endings) > 5 else "")
    return f"{total:,} {'file' if total == 1 else 'files'} of other kinds left out: {listed}"


def console(stderr: bool = False) -> Console:
    """A terminal, or a page of fixed width."""
    made = terminal.console(stderr)
    if not made.is_terminal:
        made.width = PIPED_WIDTH
    return made


def empty_grid() -> Grid:
    """A table for people, to be filled."""
    from rich import box
    from rich.table import Table as Grid

    return Grid(box=box.SIMPLE_HEAD, pad_edge=False)


def print_grid(page: Console, title: str, grid: Grid) -> None:
    """Print a table under a title, which may be wider: a name in it is never cut or broken."""
    page.print(title, highlight=False, soft_wrap=True)
    page.print(grid)
