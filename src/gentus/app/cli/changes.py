"""`gentus add`, `remove`, `sync`, `compact`, `check` and `refit`: the life of an index after its build."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import AsJson, IndexPath, emit, open_index, say

if TYPE_CHECKING:
    from gentus.index.updater import Changes

SHOWN = 10  # names listed of each kind of change


def add(
    index: IndexPath,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Tables, or folders of them; paths or URLs.")
    ],
    as_json: AsJson = False,
) -> None:
    """Add tables; they can be found at once. One that is there already is replaced if it has changed."""
    from gentus.progress import terminal_progress

    started = time.perf_counter()
    with open_index(index) as opened:
        changes = opened.add(files, progress=terminal_progress())
    _report(changes, time.perf_counter() - started, as_json)
    if changes.unreadable:
        raise typer.Exit(1)


def remove(
    index: IndexPath,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Tables, as a search names them.")],
    as_json: AsJson = False,
) -> None:
    """Remove tables by name: all of them, or none if one is not there."""
    from gentus.lake import as_location, exists

    started = time.perf_counter()
    with open_index(index) as opened:
        lake = as_location(opened.config.lake)
        changes = opened.remove(names)
    _report(changes, time.perf_counter() - started, as_json)
    if any(exists(lake / name) for name in changes.removed):
        say(f"Files of them are still in {lake}: gentus sync would add them again.")


def sync(
    index: IndexPath,
    lake: Annotated[
        str | None, typer.Argument(help="The lake, if it has moved. Default: where it was.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also if most of the tables have vanished from the lake.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a lake: add new files, replace changed ones, remove those that have vanished."""
    from gentus.progress import terminal_progress

    started = time.perf_counter()
    with open_index(index) as opened:
        changes = opened.sync(lake, dry_run=dry_run, force=force, progress=terminal_progress())
        drift = opened.info()["drift"]
    _report(changes, time.perf_counter() - started, as_json, dry_run)
    if drift["refit_advised"] and not dry_run:
        say(f"A refit is advised: {'; '.join(drift['reasons'])}. Run: gentus refit {index}")


def compact(index: IndexPath, as_json: AsJson = False) -> None:
    """Write all identifiers as one new snapshot. It happens by itself when much has changed."""
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
    repair: Annotated[bool, typer.Option("--repair", help="Rebuild what can be rebuilt.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify every file of an index against its checksum, and the files against each other."""
    from gentus.index.check import check as verify
    from gentus.progress import terminal_progress

    problems = verify(index, repair, terminal_progress())
    if as_json:
        emit({"problems": [problem.to_dict() for problem in problems]})
    else:
        for problem in problems:
            told = "mended" if problem.mended else f"what helps: {problem.cure}"
            print(f"{problem.file}: {problem.what} ({told})")
    left = sum(not problem.mended for problem in problems)
    say(f"{left:,} problems left." if left else "The index is in order.")
    if left:
        raise typer.Exit(1)


def refit(
    index: IndexPath,
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV of query_table,candidate_table. Default: those of the build, if any."),
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(min=0, help="Minutes that training the generator may take at most.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn codes and generator anew from the tables there are now, and switch over when done."""
    from gentus.index.build import assisted
    from gentus.index.build import refit as fit_anew
    from gentus.progress import terminal_progress

    started = time.perf_counter()
    if assisted():  # the first of several processes learns, and speaks
        return
    try:
        fitted = fit_anew(
            index,
            labels,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=terminal_progress(),
        )
    except KeyboardInterrupt:
        say("\nStopped. The index is as it was; run the same command to go on.")
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    with fitted:
        facts = fitted.info()
    say(f"{facts['tables']:,} tables learnt anew in {seconds:.1f} s; all have new identifiers.")
    if as_json:
        emit({**facts, "seconds": round(seconds, 2)})


def add_changes(app: typer.Typer) -> None:
    """Let an app have these commands."""
    for command in (add, remove, sync, compact, check, refit):
        app.command()(command)


def _report(changes: Changes, seconds: float, as_json: bool, dry_run: bool = False) -> None:
    """What came, went, and could not be read: names on stdout, the summary for people on stderr."""
    if as_json:
        emit({**changes.to_dict(), "seconds": round(seconds, 3)})
        return
    added, replaced, removed = (changes.count(kind) for kind in ("added", "replaced", "removed"))
    kinds = {"+": (changes.added, added), "~": (changes.replaced, replaced), "-": (changes.removed, removed)}
    for sign, (names, count) in kinds.items():
        shown = names[:SHOWN]
        for name in shown:
            print(f"{sign} {name}")
        if count > len(shown):
            print(f"{sign} and {count - len(shown):,} more")
    for name, reason in changes.unreadable.items():
        say(f"{name}: {reason}")
    would = "would be " if dry_run else ""
    unreadable = f", {changes.count('unreadable'):,} unreadable" if changes.unreadable else ""
    say(
        f"{added:,} {would}added, {replaced:,} {would}replaced, {removed:,} {would}removed, "
        f"{changes.unchanged:,} unchanged{unreadable} ({seconds:.2f} s)"
    )
