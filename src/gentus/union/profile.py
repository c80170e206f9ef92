"""What the cells of a table's columns look like, over all of its rows: DuckDB counts their shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gentus.lake.formats.typed import text_of
from gentus.lake.full.rows import FullTable, Tally
from gentus.union.convert import bare, trimmed, typed_shape, unless_empty
from gentus.union.infer import Facts
from gentus.union.types import is_number, known_type

if TYPE_CHECKING:
    import duckdb

_FIRST = 10_000  # rows that are looked at before all the others


@dataclass(slots=True)
class Profile:
    """What was found out about a table."""

    rows: int | None = None  # None: nobody had to read all of them
    columns: dict[int, Facts] = field(default_factory=dict)  # by place

    def __contains__(self, place: int) -> bool:
        """Whether a column was looked at."""
        return place in self.columns


def kind_of(whole: FullTable, place: int) -> str:
    """The type of a column as far as a union knows types; everything else is text."""
    return known_type(whole.types[place]) or "VARCHAR"


def look_through(
    duck: duckdb.DuckDBPyConnection,
    whole: FullTable,
    places: Sequence[int],
    known: Profile,
    pure: Collection[int] = (),
) -> None:
    """Add to what is known about columns. One in `pure` is text as soon as one of its cells is.

    Most columns of text show that in their first rows, and need not be looked at to their end.
    """
    wanted = [place for place in places if place not in known]
    texts = [place for place in wanted if kind_of(whole, place) == "VARCHAR"]
    typed = [place for place in wanted if place not in texts]
    if typed:
        known.rows, found = _count_typed(duck, whole, typed)
        known.columns.update(found)
    if texts:
        rows, found = _count_texts(duck, whole, texts, _FIRST)
        if rows < _FIRST:
            known.rows = rows
        for place, facts in found.items():
            text = "t" in facts.kinds or len(facts.kinds - {"b"}) > 1  # but 1 may stand beside yes
            if rows < _FIRST or (text and place in pure and whole.written):
                known.columns[place] = facts
        if left := [place for place in texts if place not in known]:
            known.rows, found = _count_texts(duck, whole, left)
            known.columns.update(found)


def _count_typed(
    duck: duckdb.DuckDBPyConnection, whole: FullTable, places: Sequence[int]
) -> tuple[int, dict[int, Facts]]:
    kinds = {place: kind_of(whole, place) for place in places}
    counts = [
        f"histogram({typed_shape(f'c{place}', kind)}), {_largest(f'c{place}') if is_number(kind) else 'NULL'}"
        for place, kind in kinds.items()
    ]
    with whole.scan(duck, places, Tally()) as relation:
        ((count, *values),) = duck.execute(f"SELECT count(*), {', '.join(counts)} FROM {relation}").fetchall()
    facts = {
        place: Facts(kind, whole.written, Counter(shapes or {}), largest)
        for (place, kind), shapes, largest in zip(kinds.items(), values[::2], values[1::2], strict=True)
    }
    return count, facts


def _count_texts(
    duck: duckdb.DuckDBPyConnection, whole: FullTable, places: Sequence[int], rows: int | None = None
) -> tuple[int, dict[int, Facts]]:
    """Count shapes of all cells in one column, their places beside: DuckDB prepares for notations once."""
    cells = ", ".join(
        f"c{place}" if whole.types[place] == "VARCHAR" else text_of(f"c{place}", whole.types[place])
        for place in places
    )
    limit = "" if rows is None else f" LIMIT {rows}"
    date = "gentus_date_shape(t, day_first, month_first, zoned)"
    with whole.scan(duck, places, Tally()) as relation:
        sql = f"SELECT unnest([{', '.join(map(str, places))}]) AS place, unnest([{cells}]) AS t"
        sql = f"{sql} FROM (SELECT * FROM {relation}{limit})"
        for step in (  # each in a query around the last, so that nothing is computed twice
            f"place, {trimmed('t', 'VARCHAR')} AS t",
            f"place, {unless_empty('t')} AS t",
            f"*, {bare('t')} AS bare, gentus_like_a_date(t) AS dated",
            "*, CASE WHEN dated THEN gentus_stamp(t, true) END AS day_first,"
            " CASE WHEN dated THEN gentus_stamp(t, false) END AS month_first,"
            " CASE WHEN dated THEN gentus_zoned(t, true) END AS zoned",
            f"place, t, gentus_shape(t, {date}, gentus_dressed_shape(t, bare)) AS shape",
        ):
            sql = f"SELECT {step} FROM ({sql})"
        found = duck.execute(
            f"SELECT place, shape, count(*), {_largest('t')} FROM ({sql}) GROUP BY ALL"
        ).fetchall()
    shapes = {place: Counter[str]() for place in places}
    largest: dict[int, float] = {}
    count = 0
    for place, shape, times, number in found:
        count += times if place == places[0] else 0
        if shape is not None:
            shapes[place][shape] = times
        if number is not None:
            largest[place] = max(number, largest.get(place, 0.0))
    facts = {place: Facts("VARCHAR", whole.written, shapes[place], largest.get(place)) for place in places}
    return count, facts


def _largest(value: str) -> str:
    return f"max(abs(TRY_CAST({value} AS DOUBLE)))"
