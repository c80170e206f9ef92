"""Tables for clients: a profile of their columns, their first rows, and the alignment of two."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gentus.app.serve.query_input import ResolvedQuery, naming_the_table
from gentus.app.serve.service import Service
from gentus.index.description import describe_columns
from gentus.lake import Limits, Source, Unreadable
from gentus.lake.base import failure_reason
from gentus.lake.formats.typed import session, text_of
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally
from gentus.lake.sandbox.named import call_for
from gentus.table import EMPTY

if TYPE_CHECKING:
    from gentus.index.index import Index
    from gentus.lake.full.rows import FullTable

_MOST_CELLS = 100_000  # per response


def describe_table(service: Service, query: ResolvedQuery, rows: int) -> dict[str, Any]:
    """A table with the profile of its columns and its first rows: a `TableAnswer`."""
    index = service.handle.index
    with naming_the_table(query.source):
        read = index.read(query.source)
        names = [column.name for column in read.columns]
        sample = call_for(query.source, index.limits, first_rows, query.source, names, rows, index.limits)
    return {
        "name": query.source.name,
        "sid": index.sid(query.source.name) if query.of_lake else None,
        "rows": read.rows,
        "more_rows": read.may_have_more(index.limits),
        "doubt": read.doubt,
        "columns": [asdict(column) for column in describe_columns(read)],
        "sample": sample,
    }


def align_table(service: Service, query: ResolvedQuery, table: str, names: bool) -> dict[str, Any]:
    """Which columns of a query and of a table of the lake match: an `AlignAnswer`."""
    left, right = query.read(service), ResolvedQuery(service.handle.source(table)).read(service)
    return {
        **service.handle.index.align(left, right, names).to_dict(),
        "query_columns": [column.name for column in left.columns],
        "table_columns": [column.name for column in right.columns],
    }


def first_rows(source: Source, columns: list[str], rows: int, limits: Limits) -> list[list[str | None]]:
    """The first rows of a table, in the columns of its sample; cells as text, clipped."""
    import duckdb as api

    rows = min(rows, _MOST_CELLS // max(1, len(columns)))
    try:
        with session(limits) as shared:
            duck = shared.cursor()  # so that no other thread waits for this query
        with closing(duck):
            whole = open_full(source, duck, limits)
            places = [whole.positions[name] for name in columns if name in whole.positions]
            cells = ", ".join(_cell(whole, place, limits.cell_chars) for place in places)
            try:  # of typed data, DuckDB's own way reads no more than these rows
                way = whole if whole.written or whole.strict is None else whole.strict
                with way.scan(duck, places, Tally()) as relation:
                    found = duck.execute(f"SELECT {cells} FROM {relation} LIMIT {rows}").fetchall()
            except api.InvalidInputException:
                with whole.scan(duck, places, Tally()) as relation:
                    found = duck.execute(f"SELECT {cells} FROM {relation} LIMIT {rows}").fetchall()
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error
    by_name = {whole.names[place]: at for at, place in enumerate(places)}
    order = [by_name.get(name) for name in columns]
    return [[None if at is None else _shown(row[at]) for at in order] for row in found]


def _cell(whole: FullTable, place: int, chars: int) -> str:
    return f"left({text_of(f'c{place}', whole.types[place], 4 * chars)}, {chars})"


def _shown(cell: str | None) -> str | None:
    """A cell, or None where search treats it as empty."""
    if cell is None:
        return None
    text = cell.strip()
    return None if text.lower() in EMPTY else text


def duplicates_page(index: Index, min_share: float, offset: int, limit: int) -> dict[str, Any]:
    """A page of the groups of tables with the same rows."""
    found = index.duplicates(min_share)
    return {
        "tables": found.tables,
        "total": len(found.groups),
        "offset": offset,
        "exact_bytes": found.exact_bytes,
        "groups": [group.to_dict() for group in found.groups[offset : offset + limit]],
    }
