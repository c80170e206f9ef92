"""The command line: all commands, and what happens when one fails."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gentus import __version__
from gentus.app.cli.align import align
from gentus.app.cli.build import index, refit
from gentus.app.cli.changes import add, check, compact, remove, sync
from gentus.app.cli.common import AsJson, emit, say
from gentus.app.cli.duplicates import duplicates
from gentus.app.cli.info import evaluate, info
from gentus.app.cli.records import records
from gentus.app.cli.search import search
from gentus.app.cli.serve import mcp, serve
from gentus.app.cli.tables import describe, tables
from gentus.app.cli.union import union

app = typer.Typer(
    name="gentus",
    help="Table union search: find the tables of a data lake whose rows can be appended to yours.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def demo(
    folder: Annotated[Path, typer.Option("--dir", help="The folder of the demo.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Make a small lake of real tables, index it and search it, in a minute."""
    from rich.console import Console

    from gentus.app.demo.run import run

    facts = run(folder, console=None if as_json else Console())
    if as_json:
        emit(facts)


_COMMANDS: tuple[Callable[..., None], ...] = (
    *(index, search, align, union),
    *(add, remove, sync, refit, compact, check),
    *(info, tables, describe, duplicates, evaluate, records, serve, mcp, demo),
)
for _command in _COMMANDS:
    app.command("eval" if _command is evaluate else None)(_command)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"gentus {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; every expected failure is one clear sentence and exit code 1."""
    # GenTUS has threads of its own; those of BLAS would compete with them. To be set before NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guarded(lambda: app(prog_name="gentus"))


def guarded(command: Callable[[], Any]) -> None:
    """Run a command; failures that a user can fix become a message instead of a traceback."""
    from gentus.features.weights import WeightsMissingError
    from gentus.index.folder import IndexFolderError
    from gentus.lake import Unreadable
    from gentus.scratch import NoRoomError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that it cannot encode must not end the program
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            command()
        finally:
            _flush()
    except KeyboardInterrupt:
        say("Stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except OSError as error:
        known = error.strerror and error.filename
        say(f"Error: {error.filename}: {error.strerror}" if known else f"Error: {error}")
        raise SystemExit(1) from None
    except (
        IndexFolderError,
        NoRoomError,
        WeightsMissingError,
        Unreadable,
        ValueError,
        ModuleNotFoundError,
    ) as error:
        say(f"Error: {error}")
        raise SystemExit(1) from None
    except sqlite3.Error as error:
        say(f"Error: the catalogue of the index could not be read or written: {error}")
        raise SystemExit(1) from None


def _flush() -> None:
    """Flush stdout; if its reader has closed it, make sure that no later flush fails as the program ends."""
    try:
        if sys.__stdout__ is not None:  # the original: Typer wraps it after a broken pipe
            sys.__stdout__.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
