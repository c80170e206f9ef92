"""The demo on the console: make the lake, index it, search it, and show the results."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from gentus import terminal
from gentus.app.cli.common import empty_grid, print_grid
from gentus.app.demo.lake import Demo, make_lake
from gentus.index.hits import Hit, best_fit, verdict
from gentus.shell import quoted
from gentus.terminal import markup

if TYPE_CHECKING:
    from rich.console import Console


def run(
    folder: Path | None = None, *, k: int = 10, seed: int = 7, console: Console | None = None
) -> dict[str, Any]:
    """Make the lake, index it, search it; show it on the console if there is one, and return the facts."""
    import gentus

    folder = folder or Path("demo")
    screen = console or terminal.console(quiet=True)
    seconds = {}

    with screen.status("Slicing real tables into a lake"):
        start = time.perf_counter()
        demo = make_lake(folder, seed)
        seconds["lake"] = time.perf_counter() - start
    _show_lake(screen, demo)
    _show_rows(screen, f"Your table, [b]{_marked(demo.query)}[/b]", demo.query)

    with screen.status("Building the index"):
        start = time.perf_counter()
        built = gentus.build(demo.lake, folder / "index")
        seconds["build"] = time.perf_counter() - start
    start = time.perf_counter()
    hits = built.search(demo.query, k=k)
    seconds["search"] = time.perf_counter() - start
    unrelated = built.search(demo.unrelated, k=k)

    results = [_result(hit, demo) for hit in hits]
    facts: dict[str, Any] = {
        "lake": str(demo.lake),
        "index": str(folder / "index"),
        "query": str(demo.query),
        "tables": len(demo.subjects),
        "subjects": len(set(demo.subjects.values())),
        "k": k,
        "unionable": len(demo.truth),
        "found": sum(r["correct"] for r in results),
        "seconds": {step: round(s, 4) for step, s in seconds.items()},
        "fit": best_fit(hits),
        "results": results,
        "unrelated": {
            "query": str(demo.unrelated),
            "fit": best_fit(unrelated),
            "verdict": verdict(unrelated),
        },
        "next": _next_commands(folder, demo),
    }
    _show_results(screen, facts)
    if results:
        best = results[0]["table"]
        _show_rows(screen, f"The first result, [b]{best}[/b]", demo.lake / best)
    screen.print(
        f"And for [b]{_marked(demo.unrelated)}[/b], some German recipes: {verdict(unrelated)}\n",
        highlight=False,
    )
    screen.print("Try next", style="bold")
    for command in facts["next"]:
        screen.print(f"  {command}", style="cyan", soft_wrap=True, markup=False, highlight=False)
    return facts


def _result(hit: Hit, demo: Demo) -> dict[str, Any]:
    return {
        "rank": hit.rank,
        "table": hit.table,
        "score": hit.score,
        "fit": hit.fit,
        "columns": hit.columns.counts(),
        "sid": hit.sid,
        "subject": demo.subjects[hit.table],
        "correct": hit.table in demo.truth,
    }


def _shown(path: Path) -> str:
    """A path as it is typed in a shell of this folder."""
    whole, here = path.resolve(), Path.cwd()
    return quoted(whole.relative_to(here) if whole.is_relative_to(here) else whole)


def _marked(path: Path) -> str:
    return markup(_shown(path))


def _next_commands(folder: Path, demo: Demo) -> list[str]:
    script = Path(sys.executable).with_name("gentus")
    unfound = script.exists() and shutil.which("gentus") != str(
        script
    )  # the virtual environment is not activated
    gentus = _shown(script) if unfound else "gentus"
    index = _shown(folder / "index")
    other = min(path for path, subject in demo.subjects.items() if subject == "airports")
    return [
        f"{gentus} search {index} {_shown(demo.query)} -k 5 --json",
        f"{gentus} search {index} {_shown(demo.lake / other)}",
        f"{gentus} search {index} {_shown(demo.unrelated)}",
        f"{gentus} info {index}",
        f"{gentus} index YOUR_FOLDER -o my.index",
    ]


def _show_lake(console: Console, demo: Demo) -> None:
    counts = Counter(path.partition(".")[2] for path in demo.subjects)
    formats = ", ".join(f"{n} {form}" for form, n in counts.most_common())
    size = sum((demo.lake / path).stat().st_size for path in demo.subjects) / 1e6
    subjects = sorted(set(demo.subjects.values()), key=str.lower)
    about = f"{formats}; {size:.1f} MB"
    console.print(
        f"\n[b]A lake[/b] of {len(demo.subjects)} tables ({about}) in [b]{_marked(demo.lake)}[/b], "
        f"slices of real ones on {len(subjects)} subjects:",
        highlight=False,
    )
    console.print(", ".join(subjects) + ".", style="dim")
    console.print(
        "File names and half of the headers are meaningless. Which tables can be appended to yours?\n"
    )


def _show_rows(console: Console, title: str, path: Path, rows: int = 4, columns: int = 6) -> None:
    literal = str(path).replace("'", "''")
    with duckdb.connect() as db:
        found = db.execute(f"select * from '{literal}' limit {rows}")
        header = [column[0] for column in found.description or []]
        lines = [["" if cell is None else str(cell) for cell in row] for row in found.fetchall()]
    lines = [line[:columns] for line in [header, *lines]]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    while sum(widths) + 3 * len(widths) > console.width:  # shorten the widest column first
        widths[widths.index(max(widths))] -= 1
    grid = empty_grid()
    for name, width in zip(lines[0], widths, strict=True):
        grid.add_column(markup(name), no_wrap=True, max_width=width)
    for line in lines[1:]:
        grid.add_row(*map(markup, line))
    print_grid(console, title, grid)


def _show_results(console: Console, facts: dict[str, Any]) -> None:
    grid = empty_grid()
    grid.add_column("#", justify="right")
    grid.add_column("table", style="bold", no_wrap=True)
    grid.add_column("fit", no_wrap=True)
    grid.add_column("columns", no_wrap=True)
    grid.add_column("score", justify="right")
    grid.add_column("slice of", no_wrap=True)
    grid.add_column("")
    for hit in facts["results"]:
        tick = "[green]✓[/]" if hit["correct"] else "[red]✗[/]"
        columns = f"{hit['columns']['matched']} of {hit['columns']['query']}"
        grid.add_row(
            *(str(hit["rank"]), hit["table"], hit["fit"], columns),
            *(f"{hit['score']:.3f}", hit["subject"], tick),
        )
    print_grid(console, "Results", grid)
    seconds = facts["seconds"]
    console.print(
        f"[b]{facts['found']} of {len(facts['results'])}[/b] results are slices of the source of your table; "
        f"the lake has {facts['unionable']} of them.\nLake made in {seconds['lake']:.1f} s, "
        f"index built in {seconds['build']:.1f} s, searched in {seconds['search'] * 1000:.0f} ms.\n",
        highlight=False,
    )
