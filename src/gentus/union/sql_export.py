"""A union as SQL that DuckDB runs without gentus.

Every table is read and converted by the simplest expressions that give the values that gentus itself gives:
both are computed over all rows, and their hashes compared. What has no simple expression is converted as
gentus does it, with its macros.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gentus import __version__
from gentus.align.notation import DAY_FIRST
from gentus.lake import Limits
from gentus.lake.formats.typed import literal, quoted
from gentus.lake.full.rows import Tally
from gentus.union.output import result_columns
from gentus.union.plan import OutputColumn, Placement, Reading, UnionPlan
from gentus.union.sources import SourceTable, as_table_error
from gentus.union.sql_layout import laid_out
from gentus.union.sql_macros import macros_sql
from gentus.union.sql_relations import Relation, no_sql, relations
from gentus.union.sql_types import is_date, is_number

if TYPE_CHECKING:
    import duckdb

_UTC = "SET TimeZone = 'UTC'"
_ORDER = ("gentus_table", "gentus_row")  # the order of rows, where equal ones are removed
_DAY_FIRST = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y")
_MONTH_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m.%d.%Y")


@dataclass(frozen=True, slots=True)
class UnionSQL:
    """Statements that have to come first, and the query."""

    setup: list[str]
    query: str
    about: str  # which tables it unites, for a comment

    def script(self) -> str:
        """For DuckDB: the query is the last statement."""
        about = f"-- {self.about}\n-- It gives the values of gentus for the files as they were then."
        return "\n\n".join([about, *(f"{one};" for one in self.setup), f"{self.query};"]) + "\n"

    def dbt_model(self) -> str:
        """As a model of dbt-duckdb."""
        parts = [_raw(f"-- {self.about}"), "{{ config(materialized='table') }}"]
        if self.setup:
            header = _raw("".join(f"{one};\n" for one in self.setup))
            parts.append(f"{{% call set_sql_header(config) %}}\n{header}{{% endcall %}}")
        return "\n\n".join([*parts, _raw(self.query)]) + "\n"


def _raw(sql: str) -> str:
    """SQL that Jinja leaves as it is."""
    special = re.search(r"\{[{%#]|[}%#]\}", sql)
    return f"{{% raw %}}{sql}{{% endraw %}}" if special else sql


def export_sql(
    plan: UnionPlan, sources: Sequence[SourceTable], duck: duckdb.DuckDBPyConnection, limits: Limits
) -> UnionSQL:
    """The SQL of a plan with all types; raises `PlanError` for a table that DuckDB cannot read by itself."""
    paths = [source.planned.path for source in sources]
    branches = []
    attached: dict[str, None] = {}
    for number, source in enumerate(sources):
        with as_table_error(source.planned):
            branch = _Branch(plan, source, number)
            branches.append(branch.sql(duck, limits, f"source_{paths.index(source.planned.path) + 1}"))
        if branch.attach:
            attached[branch.attach] = None
    query = "\n\nUNION ALL BY NAME\n\n".join(branches)
    if plan.distinct:
        query = _distinct(plan, query)
    macros = _used_macros(query)
    zone = [_UTC] if "gentus_zoned" in macros or "TIME ZONE" in query else []
    tables = f"{len(sources) - 1} {'table' if len(sources) == 2 else 'tables'}"
    about = _one_line(f"{plan.query.name} and {tables}, united by gentus {__version__}")
    return UnionSQL([*zone, *attached, *macros.values()], laid_out(query), about)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _used_macros(query: str) -> dict[str, str]:
    """The macros that a query uses, directly or not, in an order in which they can be defined."""
    macros, wanted = macros_sql(), set(re.findall(r"\bgentus_\w+(?=\()", query))
    for name in reversed(macros):
        if name in wanted:
            wanted |= set(re.findall(r"\bgentus_\w+(?=\()", macros[name].partition(" AS ")[2]))
    return {name: sql for name, sql in macros.items() if name in wanted}


def _distinct(plan: UnionPlan, query: str) -> str:
    """The first of equal rows."""
    columns = ", ".join(quoted(column.name) for column in plan.columns)
    order = ", ".join(_ORDER)
    return (
        f"SELECT * EXCLUDE ({order})\nFROM ({query})\n"
        f"QUALIFY row_number() OVER (PARTITION BY {columns} ORDER BY {order}) = 1\nORDER BY {order}"
    )


@dataclass(slots=True)
class _Branch:
    """The rows of one table."""

    plan: UnionPlan
    source: SourceTable
    number: int
    attach: str = ""
    columns: list[OutputColumn] = field(init=False)  # of the result that the table has
    placed: dict[str, Placement] = field(init=False)

    def __post_init__(self) -> None:
        """Find the columns of the table."""
        self.placed = {column.into: column for column in self.source.planned.columns}
        self.columns = [column for column in self.plan.columns if column.name in self.placed]

    def sql(self, duck: duckdb.DuckDBPyConnection, limits: Limits, alias: str) -> str:
        """A query with the values that gentus gives."""
        import duckdb as api

        table, full = self.source.planned, self.source.full
        with full.scan(duck, self.source.shapes.placed, Tally()) as own:
            expected = _hashes(
                duck,
                self.source.conversion(self.columns, own).sql,
                [f"d{at}" for at in range(len(self.columns))],
            )
        reason = "DuckDB reads other rows or cells in it than gentus does"
        for relation in relations(self.source, duck, limits, alias):
            self.attach = relation.attach
            try:
                values = self._simple(duck, relation, expected)
                if None not in values:
                    return self._select([str(value) for value in values], relation.row, relation.sql)
                cells, rows = self._mixed(relation, values)
                named = ", ".join(f"{cell} AS e{at}" for at, cell in enumerate(cells))
                each = [f"e{at}" for at in range(len(cells))]
                if _hashes(duck, f"SELECT {named}, r FROM {rows}", each) == expected:
                    return self._select(cells, "r", rows)
            except api.Error as error:
                reason = _one_line((str(error).splitlines() or [""])[0])
        raise no_sql(table, reason)

    def _mixed(self, relation: Relation, values: Sequence[str | None]) -> tuple[list[str], str]:
        """The expressions of all columns over a query that converts those that have none."""
        full = self.source.full
        open_ones = [column for column, value in zip(self.columns, values, strict=True) if value is None]
        sources = {full.positions[self.placed[column.name].source] for column in open_ones}
        cells = [f"{quoted(relation.names[at])} AS c{at}" for at in sorted(sources)]
        simple = {f"s{at}": value for at, value in enumerate(values) if value is not None}
        cells += [f"{value} AS {name}" for name, value in simple.items()]
        inner = f"(SELECT {', '.join([*cells, f'{relation.row} AS row'])} FROM {relation.sql})"
        rows = self.source.conversion(open_ones, inner).sql.partition(" FROM ")[
            2
        ]  # without what is only counted
        rows = rows.replace(f" FROM {inner}", "".join(f", {name}" for name in simple) + f" FROM {inner}")
        numbers = iter(range(len(open_ones)))
        named = [f"s{at}" if value else f"d{next(numbers)}" for at, value in enumerate(values)]
        return named, rows

    def _simple(
        self, duck: duckdb.DuckDBPyConnection, relation: Relation, expected: Sequence[int]
    ) -> list[str | None]:
        """For every column the first simple expression that gives the expected values."""
        full = self.source.full
        tried: list[tuple[int, str]] = []
        for at, column in enumerate(self.columns):
            placed = self.placed[column.name]
            position = full.positions[placed.source]
            raw, kinds = quoted(relation.names[position]), (full.types[position], column.type or "VARCHAR")
            tried += [(at, one) for one in _candidates(raw, *kinds, placed.read or Reading())]
        cells = ", ".join(f"{value} AS e{number}" for number, (_, value) in enumerate(tried))
        rows = f"SELECT {', '.join(filter(None, (f'{relation.row} AS r', cells)))} FROM {relation.sql}"
        count, *found = _hashes(duck, rows, [f"e{number}" for number in range(len(tried))])
        chosen: list[str | None] = [None] * len(self.columns)
        for (at, value), one in zip(tried, found, strict=True):
            if chosen[at] is None and one == expected[at + 1] and count == expected[0]:
                chosen[at] = value
        return self._guarded(duck, relation, chosen)

    def _guarded(
        self, duck: duckdb.DuckDBPyConnection, relation: Relation, values: Sequence[str | None]
    ) -> list[str | None]:
        """The values, each computed where it is written.

        DuckDB moves a cast of a column into the reader of CSV files. There, TRY_CAST fails on a cell that is
        not of the type, instead of giving null.
        """
        positions = self.source.full.positions
        raws = [quoted(relation.names[positions[self.placed[one.name].source]]) for one in self.columns]
        casts = [at for at, raw in enumerate(raws) if (values[at] or "").startswith(f"TRY_CAST({raw} AS")]
        if not casts:
            return list(values)
        pairs = ", ".join(f"{raws[at]} AS x{at}, {values[at]} AS y{at}" for at in casts)
        lost = (f"count(*) FILTER (WHERE r > 0 AND x{at} IS NOT NULL AND y{at} IS NULL)" for at in casts)
        rows = f"SELECT {pairs}, {relation.row} AS r FROM {relation.sql}"
        (counts,) = duck.execute(f"SELECT {', '.join(lost)} FROM ({rows})").fetchall()
        guarded = list(values)
        for at, count in zip(casts, counts, strict=True):
            if count:
                guarded[at] = (values[at] or "").replace(raws[at], f"nullif({raws[at]}, '')", 1)
        return guarded

    def _select(self, values: Sequence[str], row: str, relation: str) -> str:
        """The query of a table, given the expressions of its columns; the first lists all columns."""
        known = dict(zip((column.name for column in self.columns), values, strict=True))
        items = []
        for column in self.plan.columns:
            value = known.get(column.name)
            if value is None and self.number == 0:
                value = f"CAST(NULL AS {column.type or 'VARCHAR'})"
            if value is not None:
                name = quoted(column.name)
                items.append(name if value == name else f"{value} AS {name}")
        if self.plan.provenance:
            table, number = result_columns(self.plan)[-2:]
            items.append(f"{literal(self.source.planned.name)} AS {quoted(table)}")
            items.append(f"{row} AS {quoted(number)}")
        if self.plan.distinct:
            items += [f"{self.number} AS {_ORDER[0]}", f"{row} AS {_ORDER[1]}"]
        return f"SELECT {', '.join(items)} FROM {relation}"


def _hashes(duck: duckdb.DuckDBPyConnection, rows: str, columns: Sequence[str]) -> list[int]:
    """The number of rows, and a hash of every column that depends on all values and their rows (r)."""
    hashes = [f"bit_xor(hash(r, {column}))" for column in columns]
    (found,) = duck.execute(f"SELECT {', '.join(['count(*)', *hashes])} FROM ({rows})").fetchall()
    return list(found)


def _candidates(raw: str, native: str, target: str, read: Reading) -> list[str]:
    """Expressions that may convert a column, the simplest first."""
    casts = [f"TRY_CAST({raw} AS {target})"]
    if native == target:
        casts = [raw, *([f"nullif({raw}, '')"] if native == "VARCHAR" else [])]
    elif native == "VARCHAR" and is_number(target):
        plain = (
            (f"replace({raw}, ',', '.')", f"replace(replace({raw}, '.', ''), ',', '.')")
            if read.decimal == ","
            else (f"replace({raw}, ',', '')",)
        )
        casts += [f"TRY_CAST({one} AS {target})" for one in plain]
    elif native == "VARCHAR" and is_date(target):
        formats = _DAY_FIRST if read.dates == DAY_FIRST else _MONTH_FIRST
        casts += [f"CAST(try_strptime({raw}, {literal(one)}) AS {target})" for one in formats]
    return casts
