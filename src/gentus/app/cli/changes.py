"""`gentus add`, `remove`, `sync`, `compact` and `check`: keep an index up to date."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import (
    RUNNING,
    AsJson,
    EncodingOption,
    ExcludeOption,
    HeaderOption,
    IndexPath,
    Quiet,
    emit,
    open_index,
    other_kinds,
    progress,
    say,
)
from gentus.app.cli.complete import table_names
from gentus.app.cli.headers import header_hints
from gentus.shell import command
from gentus.terminal import write_line

if TYPE_CHECKING:
    from pathlib import Path

    from gentus.index.updater import Changes, Kind

SHOWN = 10  # names listed per kind of change


def add(
    index: IndexPath,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Tables, or folders of them; paths or URLs.")
    ],
    header: HeaderOption = None,
    encoding: EncodingOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add tables. They can be found at once; a table of the index is replaced if it has changed.

    Examples:
        gentus add my.index new.csv more/*.parquet
        gentus add my.index exports/ --header no     # a folder of files without a header row
    """
    started = time.perf_counter()
    with open_index(index) as opened:
        changes = opened.add(files, header=header, encoding=encoding, progress=progress())
        lake = opened.config.lake
    _print_changes(changes, time.perf_counter() - started, as_json, named=True)
    _print_doubts(changes, lake, index)
    if changes.taken_back:
        say(f"Excluded until now, and kept from now on: {_some(changes.taken_back)}")
    if changes.unreadable:
        raise typer.Exit(1)


def remove(
    index: IndexPath,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME", help="Tables, by their names in search results.", autocompletion=table_names
        ),
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove tables by name: all of them, or none if one is not in the index. Files stay as they are.

    Examples:
        gentus remove my.index sales/2020.csv sales/2021.csv
    """
    started = time.perf_counter()
    with open_index(index) as opened:
        changes = opened.remove(names)
        left = len(opened)
    seconds = time.perf_counter() - started
    if as_json:
        emit({**changes.to_dict(), "tables": left, "seconds": round(seconds, 3)})
        return
    _print_names(changes)
    for name, reason in changes.unreadable.items():
        say(f"{name} was not in the index ({reason}). It is no longer listed as skipped.")
    say(f"{len(changes.removed):,} removed, {left:,} left ({seconds:.2f} s)")
    if changes.returning:
        say(
            f"Still in the lake: {_some(changes.returning)}. {command('sync', index)} would add "
            f"{'it' if len(changes.returning) == 1 else 'them'} again."
        )


def sync(
    index: IndexPath,
    lake: Annotated[
        str | None,
        typer.Argument(metavar="LAKE", help="The lake, if it has moved. Default: that of the build."),
    ] = None,
    header: HeaderOption = None,
    encoding: EncodingOption = None,
    exclude: ExcludeOption = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", rich_help_panel=RUNNING, help="Show what would change, and change nothing."
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", rich_help_panel=RUNNING, help="Go on even if most tables are missing from the lake."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Synchronise with the lake: add new files, replace changed ones, remove deleted ones.

    Examples:
        gentus sync my.index
        gentus sync my.index --dry-run     # what would change
        gentus sync my.index /new/place    # the lake has moved
    """
    started = time.perf_counter()
    with open_index(index) as opened:
        before = opened.config.lake
        changes = opened.sync(
            lake,
            header=header,
            encoding=encoding,
            exclude=exclude or (),
            dry_run=dry_run,
            force=force,
            progress=progress(),
        )
        after, drift = opened.config.lake, opened.info()["drift"]
    _print_changes(changes, time.perf_counter() - started, as_json, dry_run)
    _print_doubts(changes, after, index)
    if after != before:
        say(f"The lake of this index is now {after}; it was {before}.")
    if changes.needs_force and not force:
        say("Most tables are missing, so sync would refuse it without --force. Is the lake mounted?")
    if drift["refit_advised"] and not dry_run:
        say(f"A refit is advised: {'; '.join(drift['reasons'])}. Run: {command('refit', index)}")


def compact(index: IndexPath, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Write all identifiers as one new prefix tree. It is automatic after many changes.

    Examples:
        gentus compact my.index
    """
    started = time.perf_counter()
    with open_index(index) as opened:
        done = opened.compact()
        tables = len(opened)
    seconds = time.perf_counter() - started
    say(f"{tables:,} tables in one snapshot, {seconds:.2f} s." if done else "Nothing to do.")
    if as_json:
        emit({"compacted": done, "tables": tables, "seconds": round(seconds, 3)})


def check(
    index: IndexPath,
    repair: Annotated[
        bool,
        typer.Option("--repair", rich_help_panel=RUNNING, help="Rebuild damaged files where possible."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Verify every file of an index against its checksum, and the files against each other.

    Examples:
        gentus check my.index
        gentus check my.index --repair
    """
    from gentus.index.check import check as verify

    problems = verify(index, repair, progress())
    if as_json:
        emit({"problems": [problem.to_dict() for problem in problems]})
    else:
        for problem in problems:
            outcome = "repaired" if problem.repaired else f"to repair it: {problem.cure}"
            write_line(f"{problem.file}: {problem.what} ({outcome})")
    left = sum(not problem.repaired for problem in problems)
    say(f"{left:,} problems left." if left else "The index is intact.")
    if left:
        raise typer.Exit(1)


def _print_changes(
    changes: Changes, seconds: float, as_json: bool, dry_run: bool = False, named: bool = False
) -> None:
    """Print added, replaced and removed names on stdout, unreadable files and a summary on stderr.

    That a file that was `named` cannot be read is an error. Of others, those are named that could be read
    before, or that could not for another reason.
    """
    if as_json:
        emit({**changes.to_dict(), "seconds": round(seconds, 3)})
        return
    _print_names(changes)
    new = changes.count("unreadable") - (0 if named else changes.still_unreadable)
    for name, reason in islice(changes.unreadable.items(), new):
        say(f"{name}: {reason}", always=named)
    kinds: tuple[Kind, ...] = ("added", "replaced", "removed")
    would = "would be " if dry_run else ""
    counts = [f"{changes.count(kind):,} {would}{kind}" for kind in kinds]
    if reread := changes.count("reread"):
        counts.append(f"{reread:,} {would}read again in another way")
    counts.append(f"{changes.unchanged:,} unchanged")
    if changes.excluded:
        counts.append(f"{changes.excluded:,} excluded")
    if changes.others:
        counts.append(other_kinds(changes.others))
    if new:
        counts.append(f"{new:,} unreadable")
    if still := changes.count("unreadable") - new:
        counts.append(f"{still:,} unreadable as before" + (", which sync would try again" if dry_run else ""))
    say(f"{', '.join(counts)} ({seconds:.2f} s)")
    if dry_run:
        unsure = changes.added or changes.replaced
        say(f"Nothing was changed.{' Only reading shows whether a file is readable.' if unsure else ''}")


def _print_names(changes: Changes) -> None:
    kinds: dict[Kind, str] = {"added": "+", "replaced": "~", "reread": "~", "removed": "-"}
    for kind, sign in kinds.items():
        shown, why = getattr(changes, kind)[:SHOWN], " (read in another way)" if kind == "reread" else ""
        for name in shown:
            write_line(f"{sign} {name}{why}")
        if more := changes.count(kind) - len(shown):
            write_line(f"{sign} and {more:,} more{why}")


def _some(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _print_doubts(changes: Changes, lake: str, index: Path) -> None:
    for line in header_hints(list(changes.doubts.items()), lake, index):
        say(line)
