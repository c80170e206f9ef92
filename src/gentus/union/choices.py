"""What a person decides of notations, as texts: `,` for all tables, `sales.csv=,` or `sales.csv:price=,`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gentus.align.notation import VALUES, What
from gentus.union.decision import Decision
from gentus.union.errors import PlanError, did_you_mean
from gentus.union.plan import Placement, PlannedTable, UnionPlan
from gentus.union.sql_types import is_date, is_number

_WORDS = {"day": "day first", "month": "month first"}
_OPEN = (
    "other columns",
    "delimiter",
    "query",
    "tables",
    "default",
)  # a choice for a table comes before these


def apply_choices(
    plan: UnionPlan,
    decimal: str | Sequence[str] = (),
    dates: str | Sequence[str] = (),
    null_values: str | Sequence[str] = (),
) -> UnionPlan:
    """A plan with choices for all of its tables, for one, or for a column; raises `PlanError`.

    `:price=,` is a choice for the columns of all tables that go into `price`.
    """
    nulls = tuple(dict.fromkeys((*plan.choices.null_values, *_listed(null_values))))
    plan = replace(plan, choices=replace(plan.choices, null_values=nulls))
    given: dict[What, str | Sequence[str]] = {"decimal": decimal, "dates": dates}
    for what, texts in given.items():
        for text in _listed(texts):
            plan = _apply(plan, what, text)
    return plan


def _listed(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


def _apply(plan: UnionPlan, what: What, text: str) -> UnionPlan:
    key, equals, value = text.rpartition("=")
    value = _WORDS.get(value, value)
    if value not in VALUES[what]:
        choices = "day or month" if what == "dates" else "'.' or ','"
        raise PlanError(
            f"{what} {text!r}: it is {choices}, or TABLE={value or '..'}, or TABLE:COLUMN={value or '..'}"
        )
    if not equals:
        chosen = plan.choices.choose(what, value)
        return _decided(
            replace(plan, choices=chosen), what, value, lambda table, column: _is_open(column, what)
        )
    if key.startswith(":"):
        _check(key[1:], [column.name for column in plan.columns], f"{what} {text!r}: the union has no column")
        return _decided(plan, what, value, lambda table, column: column.into == key[1:])
    table, source = _named(plan, what, text, key)
    if source is not None:
        return _decided(plan, what, value, lambda one, column: one is table and column.source == source)
    changed = replace(table, choices=table.choices.choose(what, value))
    query, *tables = (changed if one is table else one for one in plan.sources)
    plan = replace(plan, query=query, tables=tuple(tables))
    return _decided(plan, what, value, lambda one, column: one is changed and _is_open(column, what))


def _is_open(column: Placement, what: What) -> bool:
    """Whether a plan already reads a column in a way that its cells do not force."""
    found = None if column.read is None else column.decision(what)
    return found is not None and found.source in _OPEN


def _decided(
    plan: UnionPlan, what: What, value: str, meant: Callable[[PlannedTable, Placement], bool]
) -> UnionPlan:
    """A plan with a person's decision on some columns; their types are inferred again."""
    changed = set()

    def placed(table: PlannedTable, column: Placement) -> Placement:
        if not meant(table, column):
            return column
        changed.add(column.into)
        others = tuple(one for one in column.decided if one.what != what)
        read = column.read and column.read.choose(what, value)
        return replace(column, read=read, decided=(*others, Decision(what, value, "person")))

    query, *tables = (
        replace(table, columns=tuple(placed(table, column) for column in table.columns))
        for table in plan.sources
    )
    concerned = is_number if what == "decimal" else is_date
    columns = tuple(
        replace(column, type=None) if column.name in changed and concerned(column.type or "") else column
        for column in plan.columns
    )
    return replace(plan, query=query, tables=tuple(tables), columns=columns)


def _named(plan: UnionPlan, what: What, text: str, key: str) -> tuple[PlannedTable, str | None]:
    """The table, and the column if there is one, that a choice names; a table by its last name, too."""
    names = [(name, table) for table in plan.sources for name in (table.name, table.name.rpartition("/")[2])]
    for name, table in names:
        if key == name:
            return table, None
    for name, table in sorted(names, key=lambda one: -len(one[0])):
        if key.startswith(f"{name}:"):
            column = key[len(name) + 1 :]
            known = [placed.source for placed in table.columns]
            _check(column, known, f"{what} {text!r}: {table.name} gives the union no column")
            return table, column
    wanted = key.partition(":")[0]
    tables = [table.name for table in plan.sources]
    near = did_you_mean(wanted, tables) or f"; it has {', '.join(tables[:10])}"
    raise PlanError(f"{what} {text!r}: the union has no table {wanted!r}{near}")


def _check(name: str, known: Sequence[str], message: str) -> None:
    if name not in known:
        raise PlanError(f"{message} {name!r}{did_you_mean(name, known)}")
