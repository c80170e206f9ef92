"""The query of a command: a file or URL, a table of the index by its name, or `-` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from gentus.app.cli.common import say
from gentus.app.cli.complete import tables_and_files

if TYPE_CHECKING:
    from gentus.lake import Remote, Source

QUERY_HELP = "Your table: a path or URL, the name of a table of the index, or - for stdin."
QueryText = Annotated[str, typer.Argument(metavar="QUERY", help=QUERY_HELP, autocompletion=tables_and_files)]
STDIN = "-"
STDIN_NAME = "stdin"  # of the table
_MOST = 1 << 30  # bytes of standard input
_PIECE = 1 << 20


def prepare_reading(*queries: str | None) -> None:
    """Start a process that reads these files if one needs a native parser, while the index is opened."""
    from gentus.lake.sandbox.named import prepare

    prepare(query for query in queries if query is not None and query != STDIN)


@contextmanager
def query_argument(text: str) -> Iterator[str | Remote | Source]:
    """The query that an argument names; standard input is kept in a private file inside the context."""
    from gentus.lake import Remote, as_location
    from gentus.scratch_folder import temporary_folder

    if text == STDIN:
        with temporary_folder("stdin") as folder:
            yield _read_stdin(folder)
        return
    location = as_location(text)
    yield location if isinstance(location, Remote) else text


@contextmanager
def named_argument(text: str) -> Iterator[str | Remote | Source]:
    """The same, where errors of reading standard input name it."""
    from gentus.lake import name_in_errors

    with ExitStack() as stack:
        with name_in_errors(STDIN_NAME):
            given = stack.enter_context(query_argument(text))
        yield given


def shown_query(text: str) -> str:
    """A query as it may be shown: a URL without its password. Raises for one that contains other secrets."""
    from gentus.lake import as_location

    return STDIN_NAME if text == STDIN else str(as_location(text))


def _read_stdin(folder: Path) -> Source:
    from gentus.lake import SeveralTables, Unreadable, only_named
    from gentus.lake.formats.detect import guess_ending

    if sys.stdin.isatty():
        say("Reading a table from the terminal; Ctrl-D ends it.", always=True)
    path = folder / STDIN_NAME
    with path.open("xb") as file:
        _copy(sys.stdin.buffer, file)
    path = path.rename(path.with_suffix(guess_ending(path)))
    try:
        return replace(only_named(path), name=STDIN_NAME)
    except SeveralTables as error:
        raise Unreadable(f"{error.found}; save it as a file and name one of them: FILE/TABLE") from error


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    from gentus.lake import Unreadable

    left = _MOST
    while piece := source.read(_PIECE):
        left -= len(piece)
        if left < 0:
            raise Unreadable(f"it has more than {_MOST >> 20:,} MB; save it as a file")
        target.write(piece)
