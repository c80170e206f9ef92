"""`gentus search`: the tables whose rows can be appended to a query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gentus.app.cli.align import show_alignment
from gentus.app.cli.common import AsJson, Beam, Count, IndexPath, console, emit, open_index, say, titled_grid
from gentus.app.cli.query import STDIN, query_argument, shown_query

if TYPE_CHECKING:
    from gentus.index.hits import Hit
    from gentus.index.index import Index


def search(
    index: IndexPath,
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY", help="Your tables: paths, URLs, names of tables of the index, or - for stdin."
        ),
    ],
    k: Count = 10,
    beam: Beam = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show which columns match, identifiers, and the parts of each score."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the tables whose rows can be appended to yours, best first."""
    from gentus.index.hits import best_fit, verdict

    if queries.count(STDIN) > 1:
        raise typer.BadParameter("stdin can be read once: give - once", param_hint="QUERY")
    shown = [shown_query(query) for query in queries]
    answers: list[dict[str, Any]] = []
    failed = False
    found = _search_each(open_index(index), queries, k, beam, explain)
    for query, (hits, milliseconds) in zip(shown, found, strict=True):
        if isinstance(hits, str):
            failed = True
            say(f"{query}: {hits}")
            answers.append({"query": query, "error": hits, "results": []})
            continue
        answers.append(
            {
                "query": query,
                "ms": round(milliseconds, 2),
                "fit": best_fit(hits),
                "verdict": verdict(hits),
                "results": [hit.to_dict() for hit in hits],
            }
        )
        if not as_json:
            _show_hits(query, hits, milliseconds, explain)
    if as_json:
        emit({"queries": answers})
    if failed:
        raise typer.Exit(1)


def _search_each(
    opened: Index, queries: list[str], k: int, beam: int | None, explain: bool
) -> Iterator[tuple[list[Hit] | str, float]]:
    """The hits of every query, or the reason why it cannot be read, and the milliseconds it took.

    Many queries are read in several processes; then it is the time since the previous answer.
    """
    from gentus.index.engine import FEW
    from gentus.lake import Skipped, Unreadable

    started = time.perf_counter()
    if len(queries) >= FEW and not explain and STDIN not in queries:
        for _, found in opened.search_many(queries, k, beam=beam):
            now = time.perf_counter()
            yield found.reason if isinstance(found, Skipped) else found, (now - started) * 1000
            started = now
        return
    for query in queries:
        started = time.perf_counter()
        try:
            with query_argument(query) as given:
                hits: list[Hit] | str = opened.search(given, k=k, beam=beam, explain=explain)
        except Unreadable as error:
            hits = error.reason
        yield hits, (time.perf_counter() - started) * 1000


def _show_hits(query: str, hits: list[Hit], milliseconds: float, explain: bool) -> None:
    from rich.markup import escape

    from gentus.identifiers.semantic_ids import short_sid

    grid = titled_grid("")
    grid.add_column("#", justify="right")
    grid.add_column("table", style="bold", overflow="fold")
    grid.add_column("score", justify="right")
    if explain:
        grid.add_column("prior", justify="right")
        grid.add_column("generator", justify="right")
        grid.add_column("identifier", style="dim", overflow="ellipsis", no_wrap=True)
    for hit in hits:
        prior = hit.score if hit.generator is None else hit.prior  # without a generator it is the whole score
        parts = [_part(prior), _part(hit.generator), short_sid(hit.sid)] if explain else []
        grid.add_row(str(hit.rank), escape(hit.table), f"{hit.score:.3f}", *parts)
    page = console()
    found = "1 table" if len(hits) == 1 else f"{len(hits)} tables"
    title = f"{escape(query)}  [dim]{found} in {milliseconds:.0f} ms[/dim]"
    page.print(title, highlight=False, soft_wrap=True)  # the grid would wrap it to its own width
    page.print(grid)
    for hit in hits:
        if hit.alignment is not None:
            show_alignment(hit.alignment, page, hit.rank)


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
