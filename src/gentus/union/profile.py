"""What the cells of a table's columns look like, over all of its rows: DuckDB counts their shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gentus.lake.whole import Tally, Whole
from gentus.union.convert import bare, trimmed, typed_shape, unless_empty
from gentus.union.infer import Facts
from gentus.union.macros import literal
from gentus.union.types import is_number, known_type

if TYPE_CHECKING:
    import duckdb

_FIRST = 10_000  # rows that are looked at before all the others
_DATE, _NUMBER = "d::", "n::?"  # shapes of what was not looked at closely
_VAGUE = {_DATE, _NUMBER}


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

    The first rows tell which columns are text, and which have dates and numbers that are to be looked at
    closely: DuckDB takes longer to prepare for all notations than to go through a small table.
    """
    wanted = [place for place in places if place not in known]
    if not wanted:
        return
    rows, first = _count(duck, whole, wanted, {}, _FIRST)
    if rows < _FIRST:
        known.rows = rows
    closely: dict[int, set[str]] = {}
    for place, facts in first.items():
        vague = facts.shapes.keys() & _VAGUE
        closely[place] = {shape[0] for shape in vague}
        text = "t" in facts.kinds or len(facts.kinds - {"b"}) > 1  # 1 may stand beside yes
        if (text and place in pure and whole.written) or (rows < _FIRST and not vague):
            known.columns[place] = facts
    for again in (False, True):  # what shows only further down is looked at once more
        left = {place: {"n", "d"} if again else closely[place] for place in wanted if place not in known}
        if left:
            known.rows, found = _count(duck, whole, list(left), left)
            sure = (place for place, facts in found.items() if again or not facts.shapes.keys() & _VAGUE)
            known.columns.update((place, found[place]) for place in sure)


def _count(
    duck: duckdb.DuckDBPyConnection,
    whole: Whole,
    places: Sequence[int],
    closely: Mapping[int, Collection[str]],
    rows: int | None = None,
) -> tuple[int, dict[int, Facts]]:
    """Count shapes; of numbers (n) and dates (d) in other than plain notation only where it is asked for."""
    kinds = {place: kind_of(whole, place) for place in places}
    texts = [place for place, kind in kinds.items() if kind == "VARCHAR"]
    numbers = [place for place in texts if "n" in closely.get(place, ())]
    dates = [place for place in texts if "d" in closely.get(place, ())]
    steps = [  # each in a query around the last, so that nothing is computed twice
        ("*", [f"{bare(f't{place}')} AS b{place}" for place in numbers]),
        ("*", [f"gentus_like_a_date(t{place}) AS l{place}" for place in dates]),
        ("*", [moment for place in dates for moment in _moments(place)]),
    ]
    shapes = [_shape(place, kind, place in numbers, place in dates) for place, kind in kinds.items()]
    counts = [
        f"histogram({shape}), {_largest(f't{place}', kind)}"
        for shape, (place, kind) in zip(shapes, kinds.items(), strict=True)
    ]
    limit = "" if rows is None else f" LIMIT {rows}"
    with whole.scan(duck, places, Tally()) as relation:
        cells = ", ".join(f"{cell(whole, place)} AS t{place}" for place in places)
        sql = f"SELECT {cells} FROM (SELECT * FROM {relation}{limit})"
        filled = ", ".join(f"{unless_empty(f't{place}')} AS t{place}" for place in texts)
        sql = f"SELECT * REPLACE ({filled}) FROM ({sql})" if filled else sql
        for all_before, more in steps:
            sql = f"SELECT {', '.join([all_before, *more])} FROM ({sql})" if more else sql
        ((count, *values),) = duck.execute(f"SELECT count(*), {', '.join(counts)} FROM ({sql})").fetchall()
    facts = {
        place: Facts(kind, whole.written, Counter(shapes or {}), largest)
        for (place, kind), shapes, largest in zip(kinds.items(), values[::2], values[1::2], strict=True)
    }
    return count, facts


def _moments(place: int) -> list[str]:
    """What a cell is as a date, in three ways."""
    ways = {"p": f"gentus_stamp(t{place}, true)", "q": f"gentus_stamp(t{place}, false)"}
    ways["z"] = f"gentus_zoned(t{place}, true)"
    return [f"CASE WHEN l{place} THEN {way} END AS {name}{place}" for name, way in ways.items()]


def _shape(place: int, kind: str, number: bool, date: bool) -> str:
    text = f"t{place}"
    if kind != "VARCHAR":
        return typed_shape(text, kind)
    dates = f"gentus_date_shape({text}, p{place}, q{place}, z{place})" if date else literal(_DATE)
    numbers = f"gentus_dressed_shape({text}, b{place})" if number else literal(_NUMBER)
    return f"gentus_shape({text}, {dates}, {numbers})"


def _largest(value: str, kind: str) -> str:
    if kind == "VARCHAR" or is_number(kind):
        return f"max(abs(TRY_CAST({value} AS DOUBLE)))"
    return "NULL"
