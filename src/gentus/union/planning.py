"""From alignments to a plan that can be run: types, how to read each column, and what else is to be said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gentus.align.alignment import Alignment
from gentus.union.infer import Facts, Found, agreed, infer, reading, settle_open, widened
from gentus.union.opening import Opened, told_of
from gentus.union.plan import OutputColumn, Placement, Reading, UnionPlan
from gentus.union.profile import look_through

if TYPE_CHECKING:
    import duckdb

Step = Callable[[], None]


def draft(
    query: Opened,
    tables: Sequence[tuple[Opened, Alignment]],
    duck: duckdb.DuckDBPyConnection,
    keep_extra: bool = False,
) -> UnionPlan:
    """The plan that alignments make: the query's columns, then extra ones. Types are still to be found."""
    names = [query.whole.names[place] for place in _filled(query, duck)]
    free = _Names(names)
    columns = [OutputColumn(free.own(name)) for name in names]
    into = {name: column.name for name, column in zip(names, columns, strict=True)}
    placed = tuple(Placement(name, into[name]) for name in names)
    extra: dict[str, str] = {}  # what the column of the result is called that takes such extra columns
    planned = []
    for opened, alignment in tables:
        own = [
            Placement(pair.table.name, into[pair.query.name], None, round(pair.score, 4), pair.reason)
            for pair in alignment.pairs
            if pair.query.name in into and pair.table.name in opened.whole.places
        ]
        used = {placement.source for placement in own}
        left = [
            opened.whole.names[place]
            for place in _filled(opened, duck)
            if opened.whole.names[place] not in used
        ]
        if keep_extra:
            for name in left:
                if name.casefold() not in extra:
                    extra[name.casefold()] = free.own(name)
                    columns.append(OutputColumn(extra[name.casefold()]))
            taken: set[str] = set()
            for name in left:
                target = extra[name.casefold()]
                if target in taken:  # two of one table that differ only in case
                    target = free.own(name)
                    columns.append(OutputColumn(target))
                taken.add(target)
                own.append(Placement(name, target, reason="not in the query"))
            left = []
        planned.append(
            replace(opened.table, columns=tuple(own), score=round(alignment.score, 4), left_out=tuple(left))
        )
    return UnionPlan(replace(query.table, columns=placed), tuple(planned), tuple(columns))


def _filled(opened: Opened, duck: duckdb.DuckDBPyConnection) -> list[int]:
    """The columns that have a name or any value; a trailing delimiter makes one that has neither."""
    whole = opened.whole
    unnamed = [place for place, named in enumerate(whole.named) if not named]
    with told_of(opened.table):
        look_through(duck, whole, unnamed, opened.profile, pure=unnamed)
    return [place for place, named in enumerate(whole.named) if named or opened.profile.columns[place].shapes]


class _Names:
    """Names for columns of the result; DuckDB does not tell apart those that differ only in case."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.reserved = {name.casefold() for name in wanted}
        self.taken: set[str] = set()

    def own(self, name: str) -> str:
        """The name itself, or with a number if it is taken; no number makes a name that others ask for."""
        unique, number = name, 1
        while unique.casefold() in self.taken or (number > 1 and unique.casefold() in self.reserved):
            number += 1
            unique = f"{name}_{number}"
        self.taken.add(unique.casefold())
        return unique


# --- types and readings --------------------------------------------------------------------------------


def settle(
    plan: UnionPlan, opened: Sequence[Opened], duck: duckdb.DuckDBPyConnection, step: Step = lambda: None
) -> UnionPlan:
    """Find every type and reading that the plan leaves open, by a look at all rows where it takes one."""
    query, *tables = opened
    targets = {column.name: column for column in plan.columns}
    asked = [
        query.whole.places[column.source]
        for column in plan.query.columns
        if (kind := targets[column.into].type) is None or (column.read is None and kind != "VARCHAR")
    ]
    with told_of(query.table):
        look_through(duck, query.whole, asked, query.profile, pure=asked)
    step()
    own = {column.into: facts for column, facts in _known(query)}
    found = {name: infer(facts) for name, facts in own.items() if targets[name].type is None}
    for one in tables:
        _look_under(one, targets, found, duck)
        step()
    under: dict[str, list[Facts]] = {name: [] for name in targets}
    for one in tables:
        for column, facts in _known(one):
            under[column.into].append(facts)
    columns: dict[str, OutputColumn] = {}
    for name, target in targets.items():
        if name in found:
            found[name] = settle_open(found[name], own[name], under[name])
        columns[name] = _typed(target, found.get(name), own.get(name), under[name])

    def read(column: Placement, facts: Facts | None, is_query: bool) -> Placement:
        kind = columns[column.into].type
        if column.read is not None or facts is None or kind in (None, "VARCHAR"):
            return column  # text is text, however it is read
        first = found.get(column.into)
        if is_query and first is not None:
            return replace(column, read=first.read)
        query_facts = None if is_query else own.get(column.into)
        how, note = reading(kind, facts, query_facts, first.read if first else Reading())
        return replace(column, read=how, note=note)

    first, *others = (
        replace(
            one.table,
            columns=tuple(
                read(column, one.profile.columns.get(one.whole.places[column.source]), one is query)
                for column in one.table.columns
            ),
            rows=one.table.rows if one.profile.rows is None else one.profile.rows,
        )
        for one in opened
    )
    return replace(plan, query=first, tables=tuple(others), columns=tuple(columns.values()))


def _known(one: Opened) -> list[tuple[Placement, Facts]]:
    """Columns of a table and what is known of them."""
    facts = one.profile.columns
    places = ((column, one.whole.places[column.source]) for column in one.table.columns)
    return [(column, facts[place]) for column, place in places if place in facts]


def _look_under(
    one: Opened, targets: dict[str, OutputColumn], found: dict[str, Found], duck: duckdb.DuckDBPyConnection
) -> None:
    """Look at those columns of a table for which it matters what they hold."""
    places, pure = [], set()
    for column in one.table.columns:
        place = one.whole.places[column.source]
        given, asked = targets[column.into].type, found.get(column.into)
        if given is None and asked is None:  # the query has no such column: its type is found here
            pure.add(place)
        if given is None:
            matters = asked is None or asked.open or asked.type != "VARCHAR"
        else:
            matters = column.read is None and given != "VARCHAR"
        if matters:
            places.append(place)
    with told_of(one.table):
        look_through(duck, one.whole, places, one.profile, pure)


def _typed(column: OutputColumn, found: Found | None, own: Facts | None, under: list[Facts]) -> OutputColumn:
    """Give a column of the result its type."""
    if column.type is not None:
        return column
    if found is None:  # only tables have it
        return replace(column, type=agreed(infer(facts).type for facts in under))
    kind, why = widened(found.type, own, under)
    return replace(column, type=kind, note=why or found.note)
