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
from gentus.app.cli.common import AsJson, Quiet, emit, say
from gentus.app.cli.duplicates import duplicates
from gentus.app.cli.groups import groups
from gentus.app.cli.help import Command, CommandGroup
from gentus.app.cli.info import evaluate, info
from gentus.app.cli.search import search
from gentus.app.cli.serve import mcp, serve
from gentus.app.cli.tables import describe, tables
from gentus.app.cli.union import union
from gentus.errors import GentusError
from gentus.terminal import console, guard_terminal, write_line

app = typer.Typer(
    name="gentus",
    cls=CommandGroup,
    help="""Table union search: find the tables of a data lake whose rows can be appended to yours.

    Examples:
        gentus index my_lake/ -o my.index                  # once; after Ctrl-C the same command resumes
        gentus search my.index my_table.csv                # which tables fit, best first
        gentus union my.index my_table.csv -o all.parquet  # append the rows of the best ones
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # errors as text: Typer's panels would go to the terminal as they are
)


def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="The folder of the demo.")] = Path(
        "demo"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a small lake of real tables, index it and search it, in a minute.

    Examples:
        gentus demo
        gentus demo --dir /tmp/demo
    """
    from gentus.app.demo.run import run

    facts = run(folder, console=None if as_json or quiet else console())
    if as_json:
        emit(facts)


GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (demo, index),
    "Find": (search, align, union, groups),
    "Keep an index up to date": (sync, add, remove, refit, compact, check),
    "Inspect": (info, tables, describe, duplicates),
    "Serve": (serve, mcp),
    "Research": (evaluate,),
}
for _title, _commands in GROUPS.items():
    for _command in _commands:
        _name = "eval" if _command is evaluate else None
        app.command(_name, cls=Command, rich_help_panel=_title)(_command)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        write_line(f"gentus {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; every expected failure is one clear sentence and exit code 1."""
    # GenTUS has threads of its own; those of BLAS would compete with them. To be set before NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["PYTHONSAFEPATH"] = "1"  # no Python that a library starts imports what the current folder has
    guarded(lambda: app(prog_name="gentus"))


def guarded(command: Callable[[], Any]) -> None:
    """Run a command; failures that a user can fix become a message instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that it cannot encode must not end the program
            stream.reconfigure(errors="backslashreplace")
    guard_terminal()
    try:
        try:
            command()
        finally:
            _flush()
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        # Stopped while it makes a class, as an import does, Python 3.11 raises a RuntimeError instead.
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt):
            say("Stopped.", always=True)
            raise SystemExit(130) from None
        message = _message(error)
        if message is None:
            raise
        first, *more = getattr(error, "lines", (message,))
        for line in (f"Error: {first}", *more):
            say(line, always=True)
        raise SystemExit(1) from None


def _message(error: Exception) -> str | None:
    """What to tell a user of an error; None for one that is a defect of gentus."""
    if isinstance(error, GentusError):  # some of them are of the system, too
        return str(error)
    if isinstance(error, OSError):
        known = error.strerror and error.filename
        return f"{error.filename}: {error.strerror}" if known else str(error)
    if isinstance(error, sqlite3.Error):
        return f"the catalogue of the index could not be read or written: {error}"
    return str(error) if isinstance(error, ValueError | ModuleNotFoundError) else None


def _flush() -> None:
    """Flush stdout; if its reader has closed it, make sure that no later flush fails as the program ends."""
    try:
        if sys.__stdout__ is not None:  # the original: Typer wraps it after a broken pipe
            sys.__stdout__.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
