"""`gentus search`: the tables whose rows can be appended to a query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gentus.app.cli.align import show_alignment
from gentus.app.cli.common import (
    TABLES,
    AsJson,
    Beam,
    Count,
    EncodingOption,
    HeaderOption,
    IndexPath,
    Quiet,
    ResultOrder,
    console,
    emit,
    empty_grid,
    open_index,
    say,
)
from gentus.app.cli.complete import tables_and_files
from gentus.app.cli.query import STDIN, prepare_reading, query_argument, shown_query
from gentus.terminal import markup

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from gentus.index.hits import Hit, Hits
    from gentus.index.index import Index
    from gentus.index.second_look import SearchOptions

_STYLES = {"full": "green", "partial": "yellow", "none": "dim"}  # of the words for a fit


def search(
    index: IndexPath,
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="Your tables: paths, URLs, names of tables of the index, or - for stdin.",
            autocompletion=tables_and_files,
        ),
    ],
    k: Count = 10,
    fit: Annotated[
        Literal["full", "partial", "any"],
        typer.Option(
            metavar="full|partial|any",
            rich_help_panel=TABLES,
            help="Only tables that fit: in full, or at least partly. any: the nearest.",
        ),
    ] = "any",
    min_score: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SCORE",
            rich_help_panel=TABLES,
            help="Only tables with at least this score, 0 to 1.",
        ),
    ] = 0.0,
    order: ResultOrder = None,
    header: HeaderOption = None,
    encoding: EncodingOption = None,
    beam: Beam = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show which columns match and why, identifiers, and parts of scores."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the tables whose rows can be appended to yours, best first, and say whether any fits.

    Examples:
        gentus search my.index my_table.csv
        gentus search my.index my_table.csv --fit partial --explain   # only what fits, and why
        gentus search my.index sales/2020.csv -k 3                    # a table of the index, by its name
        gentus search my.index queries/*.csv --json                   # many at once, for programs
        cat my_table.csv | gentus search my.index -                   # from stdin
    """
    prepare_reading(*queries)
    from gentus.index.hits import best_fit, verdict  # after that: it takes a while

    if queries.count(STDIN) > 1:
        raise typer.BadParameter("stdin can be read once: give - once", param_hint="QUERY")
    shown = [shown_query(query) for query in queries]
    options: SearchOptions = {"beam": beam, "order": order, "fit": fit, "min_score": min_score}
    options["header"], options["encoding"] = header, encoding
    answers: list[dict[str, Any]] = []
    failed = False
    found = _search_each(open_index(index), queries, k, explain, options)
    for query, (hits, milliseconds) in zip(shown, found, strict=True):
        if isinstance(hits, str):
            failed = True
            say(f"{query}: {hits}", always=True)
            answers.append({"query": query, "error": hits, "results": []})
            continue
        answer = {
            "query": query,
            "ms": round(milliseconds, 2),
            "fit": best_fit(hits),
            "verdict": verdict(hits, fit, min_score),
            "doubt": hits.doubt,
        }
        answers.append(answer | {"results": [hit.to_dict() for hit in hits]})
        if not as_json:
            _show_answer(answer, hits, explain, options)
    if as_json:
        emit({"queries": answers})
    if failed:
        raise typer.Exit(1)


def _search_each(
    opened: Index, queries: list[str], k: int, explain: bool, options: SearchOptions
) -> Iterator[tuple[Hits | str, float]]:
    """The hits of every query, or the reason why it cannot be read, and the milliseconds it took.

    Many queries are read in several processes; then it is the time since the previous answer.
    """
    from gentus.index.engine import FEW
    from gentus.lake import Skipped, Unreadable

    started = time.perf_counter()
    if len(queries) >= FEW and not explain and STDIN not in queries:
        for _, found in opened.search_many(queries, k, **options):
            now = time.perf_counter()
            yield found.reason if isinstance(found, Skipped) else found, (now - started) * 1000
            started = now
        return
    for query in queries:
        started = time.perf_counter()
        try:
            with query_argument(query) as given:
                hits: Hits | str = opened.search(given, k=k, explain=explain, **options)
        except Unreadable as error:
            hits = error.reason
        yield hits, (time.perf_counter() - started) * 1000


def _show_answer(answer: dict[str, Any], hits: Hits, explain: bool, options: SearchOptions) -> None:
    """The verdict, then the tables; where none fits, as the nearest."""
    page = console()
    title = f"{markup(answer['query'])}  {answer['verdict']}  [dim]{answer['ms']:.0f} ms[/dim]"
    page.print(title, highlight=False, soft_wrap=True)  # the grid would wrap it to its own width
    if not hits:
        page.print(_hint(options), style="dim", highlight=False)
        return
    if answer["fit"] == "none":
        page.print("The nearest, none of which fits:", highlight=False)
    page.print(_grid(hits, explain))
    for hit in hits:
        if hit.alignment is not None:
            show_alignment(hit.alignment, page, hit.rank)


def _hint(options: SearchOptions) -> str:
    """How to see tables where the options leave none."""
    any_fit = [] if options["fit"] == "any" else ["--fit any"]
    any_score = [] if options["min_score"] == 0 else ["--min-score 0"]
    given = " ".join(any_fit + any_score)
    return f"{given} shows the nearest." if given else "There is no other table in the index."


def _grid(hits: Hits, explain: bool) -> Grid:
    from gentus.identifiers.semantic_ids import short_sid

    grid = empty_grid()
    grid.add_column("#", justify="right")
    grid.add_column("table", overflow="fold")
    grid.add_column("fit")
    grid.add_column("columns", no_wrap=True)
    grid.add_column("score", justify="right")
    if explain:
        grid.add_column("generated", justify="right")
        grid.add_column("identifier", style="dim", overflow="ellipsis", no_wrap=True)
    for hit in hits:
        notes = (f"[dim]{markup(note)}[/dim]" for note in _notes(hit))
        grid.add_row(
            str(hit.rank),
            "\n".join([f"[bold]{markup(hit.table)}[/bold]", *notes]),
            f"[{_STYLES[hit.fit]}]{hit.fit}[/]",
            str(hit.columns),
            f"{hit.score:.3f}",
            *((f"{hit.generated:+.3f}", short_sid(hit.sid)) if explain else ()),
        )
    return grid


def _notes(hit: Hit) -> list[str]:
    """What is to be said of a hit; an alignment that is shown below says by itself which columns match."""
    aligned = hit.alignment is not None and hit.alignment.missing is None
    why = [] if hit.fit == "full" or aligned else [hit.why]
    return [str(hit.same_rows), *why] if hit.same_rows is not None else why
