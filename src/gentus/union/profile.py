"""What the cells of a table's columns look like, over all of its rows: DuckDB counts their shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gentus.lake.whole import Tally, Whole
from gentus.union.convert import bare, shape, trimmed, unless_empty
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


def kind_of(whole: Whole, place: int) -> str:
    """The type of a column as far as a union knows types; everything else is text."""
    return known_type(whole.types[place]) or "VARCHAR"


def cell(whole: Whole, place: int) -> str:
    """A column for use in SQL: a typed value as it is, anything else as trimmed text."""
    typed = kind_of(whole, place) != "VARCHAR"
    return f"c{place}" if typed else trimmed(f"c{place}", whole.types[place])


def look_through(
    duck: duckdb.DuckDBPyConnection,
    whole: Whole,
    places: Sequence[int],
    known: Profile,
    pure: Collection[int] = (),
) -> None:
    """Add to what is known about columns. One in `pure` is text as soon as one of its cells is.

    Most columns of text show that in their first rows, and need not be looked at to their end.
    """
    wanted = [place for place in places if place not in known]
    if any(place in pure for place in wanted) and whole.written:
        _, first = _count(duck, whole, [place for place in wanted if place in pure], _FIRST)
        for place, facts in first.items():
            if len(facts.kinds) > 1 or "t" in facts.kinds:
                known.columns[place] = facts
    wanted = [place for place in wanted if place not in known]
    if wanted:
        known.rows, found = _count(duck, whole, wanted)
        known.columns.update(found)


def _count(
    duck: duckdb.DuckDBPyConnection, whole: Whole, places: Sequence[int], rows: int | None = None
) -> tuple[int, dict[int, Facts]]:
    kinds = {place: kind_of(whole, place) for place in places}
    texts = [place for place, kind in kinds.items() if kind == "VARCHAR"]
    counts = [
        f"histogram({shape(f't{place}', f'b{place}', kind)}), {_largest(f't{place}', kind)}"
        for place, kind in kinds.items()
    ]
    limit = "" if rows is None else f" LIMIT {rows}"
    with whole.scan(duck, places, Tally()) as relation:
        cells = ", ".join(f"{cell(whole, place)} AS t{place}" for place in places)
        sql = f"SELECT {cells} FROM (SELECT * FROM {relation}{limit})"
        if texts:
            filled = ", ".join(f"{unless_empty(f't{place}')} AS t{place}" for place in texts)
            plain = ", ".join(f"{bare(f't{place}')} AS b{place}" for place in texts)
            sql = f"SELECT * REPLACE ({filled}) FROM ({sql})"
            sql = f"SELECT *, {plain} FROM ({sql})"
        ((count, *values),) = duck.execute(f"SELECT count(*), {', '.join(counts)} FROM ({sql})").fetchall()
    facts = {
        place: Facts(kind, whole.written, Counter(shapes or {}), largest)
        for (place, kind), shapes, largest in zip(kinds.items(), values[::2], values[1::2], strict=True)
    }
    return count, facts


def _largest(value: str, kind: str) -> str:
    if kind == "VARCHAR" or is_number(kind):
        return f"max(abs(TRY_CAST({value} AS DOUBLE)))"
    return "NULL"
