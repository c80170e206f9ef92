"""The union plan: which columns of which tables go into which columns of the result.

It is small JSON that people can read, edit and run. `resolve` finds what it leaves out from the rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gentus.align.notation import DAY_FIRST, MONTH_FIRST, What
from gentus.arrow_export import ArrowExport
from gentus.display import counted
from gentus.files import write_file
from gentus.lake.location import is_url
from gentus.sent import Sent
from gentus.table import HEADERS, Header
from gentus.union.decision import (
    CHOICE_KEYS,
    NO_CHOICES,
    Choices,
    Decision,
    decided_from_json,
)
from gentus.union.errors import PlanError, did_you_mean
from gentus.union.plan_reader import JsonObject
from gentus.union.plan_table import plan_html
from gentus.union.sql_types import known_type

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
AS_WRITTEN, FRACTION = "as written", "fraction"

_PLAN_KEYS = (
    *("gentus_union_plan", "query", "columns", "tables", "provenance", "distinct", "strict"),
    *("left_out", "notes", *CHOICE_KEYS),
)
_COLUMN_KEYS = ("name", "type", "likely_type", "note")
_TABLE_KEYS = (
    *("name", "path", "part", "header", "encoding", "rows", "score", "fit", "found", "columns", "left_out"),
    *CHOICE_KEYS,
)
_PLACEMENT_KEYS = ("from", "into", "score", "reason", "read", "decided", "note")
_READING_KEYS = ("decimal", "dates", "percent", "booleans")


@dataclass(frozen=True, slots=True)
class Reading(Sent):
    """How the text of a column is parsed where there are several ways."""

    decimal: str = "."  # or ",": then 1.234 is one thousand two hundred and thirty-four
    dates: str = MONTH_FIRST  # or day first: what 3/4/2020 is
    percent: str = AS_WRITTEN  # 12 % is 12; as a fraction it is 0.12
    booleans: bool = False  # in a column of numbers, yes is 1 and no is 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what is the default."""
        usual = Reading()
        return {key: getattr(self, key) for key in _READING_KEYS if getattr(self, key) != getattr(usual, key)}

    def choose(self, what: What, value: str) -> Reading:
        """With another notation."""
        return replace(self, decimal=value) if what == "decimal" else replace(self, dates=value)

    @classmethod
    def from_json(cls, read: JsonObject) -> Reading:
        """From JSON; raises `PlanError`, as the other classes do."""
        return cls(
            read.choice("decimal", (".", ",")),
            read.choice("dates", (MONTH_FIRST, DAY_FIRST)),
            read.choice("percent", (AS_WRITTEN, FRACTION)),
            read.get("booleans", bool, False),
        )


@dataclass(frozen=True, slots=True)
class OutputColumn(Sent):
    """A column of the result."""

    name: str
    type: str | None = None  # DuckDB's name; None: inferred from the values, the query's above all
    note: str = ""  # why the type is not simply the query's, or what could not be decided
    sampled: bool = False  # the type is that of the first rows; all rows decide when the plan is run

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        key = "likely_type" if self.sampled else "type"
        return _filled({"name": self.name, key: self.type, "note": self.note})

    @classmethod
    def from_json(cls, one: JsonObject) -> OutputColumn:
        """From JSON; only types that a union can have are accepted."""
        given = one.get("type", str, None)
        kind = None if given is None else known_type(given)
        if given is not None and kind is None:
            raise PlanError(
                f"{one.where}: there is no type {given!r}; use VARCHAR, BIGINT, DOUBLE, DECIMAL(10,2), "
                "BOOLEAN, DATE, TIMESTAMP or another type of DuckDB's"
            )
        return cls(one.get("name", str), kind, one.get("note", str, ""))


@dataclass(frozen=True, slots=True)
class Placement(Sent):
    """A column of a table, and the column of the result that it goes into."""

    source: str
    into: str
    read: Reading | None = None  # None: inferred
    score: float | None = None
    reason: str = ""
    note: str = ""
    decided: tuple[Decision, ...] = ()  # what decided the reading; a person's decision needs no reading
    sampled: bool = False  # the reading is that of the first rows; all rows decide when the plan is run

    def decision(self, what: What) -> Decision | None:
        """The decision on a notation. A reading without one, or with another, was written by a person."""
        found = next((one for one in self.decided if one.what == what), None) if self.decided else None
        given = None if self.read is None else getattr(self.read, what)
        if given is None or (found is not None and found.value == given):
            return found
        return Decision(what, given, "person")

    def to_dict(self, text: bool) -> dict[str, Any]:
        """As JSON; text needs no reading."""
        return {
            "from": self.source,
            "into": self.into,
            **_filled({"score": self.score, "reason": self.reason}),
            **({} if self.read is None or text or self.sampled else {"read": self.read.to_dict()}),
            **({"decided": [one.to_dict() for one in self.decided]} if self.decided and not text else {}),
            **_filled({"note": self.note}),
        }

    @classmethod
    def from_json(cls, column: JsonObject) -> Placement:
        """From JSON."""
        given = column.values.get("read") is not None
        return cls(
            column.get("from", str),
            column.get("into", str),
            Reading.from_json(column.object("read", _READING_KEYS)) if given else None,
            column.get("score", float, None),
            column.get("reason", str, ""),
            column.get("note", str, ""),
            decided_from_json(column),
        )


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table whose rows are taken."""

    name: str
    path: str | None  # None: a data frame, which is in no file
    part: str | None = None  # the table or sheet inside the file
    columns: tuple[Placement, ...] = ()
    rows: int | None = None  # how many it had when the plan was made
    score: float | None = None
    left_out: tuple[str, ...] = ()  # columns that are not taken
    header: Header = "auto"  # of delimited text
    fit: str | None = None  # full, partial or none
    choices: Choices = NO_CHOICES
    encoding: str = ""  # of delimited text; empty: it is found out
    found: bool = False  # by a search: it is left out if it cannot be read to its end

    def to_dict(self, texts: set[str]) -> dict[str, Any]:
        """As JSON, given the columns of the result that are text."""
        return {
            "name": self.name,
            "path": self.path,
            **_filled({"part": self.part}),
            **({} if self.header == "auto" else {"header": self.header}),
            **({"encoding": self.encoding} if self.encoding else {}),
            **_filled({"rows": self.rows, "score": self.score, "fit": self.fit}),
            **({"found": True} if self.found else {}),
            **self.choices.to_dict(),
            "columns": [column.to_dict(column.into in texts) for column in self.columns],
            **({"left_out": list(self.left_out)} if self.left_out else {}),
        }

    @classmethod
    def from_json(cls, one: JsonObject) -> PlannedTable:
        """From JSON."""
        return cls(
            one.get("name", str),
            one.get("path", str, None),
            one.get("part", str, None),
            tuple(map(Placement.from_json, one.objects("columns", "column", _PLACEMENT_KEYS))),
            one.get("rows", int, None),
            one.get("score", float, None),
            one.strings("left_out"),
            cast(Header, one.choice("header", HEADERS)),
            one.get("fit", str, None),
            Choices.from_json(one),
            one.get("encoding", str, ""),
            one.get("found", bool, False),
        )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table that was found and is not in the union."""

    table: str
    why: str

    @classmethod
    def from_json(cls, one: JsonObject) -> LeftOut:
        """From JSON."""
        return cls(one.get("table", str), one.get("why", str))


@dataclass(frozen=True, slots=True, repr=False)
class UnionPlan(ArrowExport):
    """The query, the tables whose rows are appended to its rows, and the columns of the result.

    Example:
        >>> plan = index.union_plan("orders.csv", "orders-2024-03.csv")
        >>> plan
        <UnionPlan: orders.csv and 1 table, 4 columns>
        >>> plan.to_polars().select("column", "into").rows()[-3:]
        [('id', 'order'), ('date', 'day'), ('town', 'city')]
    """

    query: PlannedTable
    tables: tuple[PlannedTable, ...]
    columns: tuple[OutputColumn, ...]
    provenance: bool = True
    distinct: bool = False
    notes: tuple[str, ...] = ()  # such as tables with the same rows
    strict: bool = False  # what only a default decides, and values that do not convert, are errors
    choices: Choices = NO_CHOICES
    left_out: tuple[LeftOut, ...] = ()  # tables

    def __repr__(self) -> str:
        """The query, and how many tables and columns."""
        tables, columns = counted(len(self.tables), "table"), counted(len(self.columns), "column")
        return f"<UnionPlan: {self.query.name} and {tables}, {columns}>"

    def _repr_html_(self) -> str:
        types = [(column.name, (column.type or "").lower()) for column in self.columns]
        tables = [(one.name, {column.into: column.source for column in one.columns}) for one in self.sources]
        left_out = (f"left out: {one.table} ({one.why})" for one in self.left_out)
        return plan_html(repr(self)[1:-1], types, tables, [*self.notes, *left_out])

    @property
    def sources(self) -> tuple[PlannedTable, ...]:
        """All tables in the order of their rows; the query comes first."""
        return (self.query, *self.tables)

    def matched(self, table: PlannedTable) -> tuple[int, int]:
        """How many columns of the query a table has a column for, and how many the query has."""
        own = {column.into for column in self.query.columns}
        return sum(column.into in own for column in table.columns), len(own)

    def choice(self, table: PlannedTable, what: What) -> str | None:
        """What a person has decided for a table, or for all of them."""
        return table.choices.get(what) or self.choices.get(what)

    def null_values(self, table: PlannedTable) -> tuple[str, ...]:
        """The cells of a table that a person takes as null, besides empty ones."""
        return tuple(dict.fromkeys((*self.choices.null_values, *table.choices.null_values)))

    def without(self, table: PlannedTable, reason: str) -> UnionPlan:
        """The plan without a table that cannot be read."""
        tables = tuple(one for one in self.tables if one.name != table.name)
        left_out = (*self.left_out, LeftOut(table.name, reason))
        if not tables:
            reasons = (f"{one.table} was left out: {one.why}" for one in left_out)
            raise PlanError("; ".join(["there is no table to union with", *reasons]))
        return replace(self, tables=tables, left_out=left_out)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        texts = {column.name for column in self.columns if column.type == "VARCHAR"}
        return {
            "gentus_union_plan": VERSION,
            "query": self.query.to_dict(texts),
            "columns": [column.to_dict() for column in self.columns],
            "tables": [table.to_dict(texts) for table in self.tables],
            "provenance": self.provenance,
            "distinct": self.distinct,
            **({"strict": True} if self.strict else {}),
            **self.choices.to_dict(),
            **({"left_out": list(map(asdict, self.left_out))} if self.left_out else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def to_reader(self) -> pa.RecordBatchReader:
        """As Arrow: a row for every column of a table that goes into a column of the result."""
        import pyarrow as pa

        types = {column.name: column.type for column in self.columns}
        rows = [
            {
                **{"table": table.name, "path": table.path, "part": table.part},
                **{"column": one.source, "into": one.into, "type": types[one.into], "score": one.score},
                **{"reason": one.reason or None, "note": one.note or None},
                "read": None if one.read is None else json.dumps(one.read.to_dict(), ensure_ascii=False),
            }
            for table in self.sources
            for one in table.columns
        ]
        names = ("table", "path", "part", "column", "into", "type", "score", "reason", "note", "read")
        schema = pa.schema([(name, pa.float64() if name == "score" else pa.string()) for name in names])
        return pa.Table.from_pylist(rows, schema).to_reader()

    @classmethod
    def from_dict(cls, document: Any) -> UnionPlan:
        """From JSON; raises `PlanError` that says what is wrong, and where."""
        version = document.get("gentus_union_plan") if isinstance(document, dict) else None
        if isinstance(version, int) and version != VERSION:
            raise PlanError(f"it has version {version}, this gentus reads {VERSION}; make the plan again")
        top = JsonObject(document, "the plan", _PLAN_KEYS)
        top.get("gentus_union_plan", int)
        plan = cls(
            PlannedTable.from_json(top.object("query", _TABLE_KEYS)),
            tuple(map(PlannedTable.from_json, top.objects("tables", "table", _TABLE_KEYS))),
            tuple(map(OutputColumn.from_json, top.objects("columns", "column", _COLUMN_KEYS))),
            top.get("provenance", bool, True),
            top.get("distinct", bool, False),
            top.strings("notes"),
            top.get("strict", bool, False),
            Choices.from_json(top),
            tuple(map(LeftOut.from_json, top.objects("left_out", "table", ("table", "why"), True))),
        )
        plan.check()
        return plan

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, in one step."""
        write_file(Path(path), (json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> UnionPlan:
        """Read a plan that was saved or written by hand; paths in it may be relative to its folder."""
        path = Path(path)
        try:
            plan = cls.from_dict(json.loads(path.read_text("utf-8")))
        except json.JSONDecodeError as error:
            raise PlanError(f"{path} is not JSON: {error.msg} in line {error.lineno}") from error
        except UnicodeDecodeError as error:
            raise PlanError(f"{path} is not a plan: it is not text in UTF-8") from error
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from error
        folder = path.absolute().parent
        query, *tables = (_relative_to(folder, table) for table in plan.sources)
        return replace(plan, query=query, tables=tuple(tables))

    def check(self) -> None:
        """Check that all of it fits together; whether files and columns exist is checked when it is run."""
        names = [column.name for column in self.columns]
        if not names:
            raise PlanError("it has no columns")
        for name, other in _repeated(names, str.casefold):
            raise PlanError(
                f"two columns of the result are called {name!r}"
                if name == other
                else f"columns {other!r} and {name!r} differ only in case; give one of them another name"
            )
        for table in self.sources:
            for column in table.columns:
                if column.into not in names:
                    raise PlanError(
                        f"{table.name}: {column.source!r} goes into {column.into!r}, which is not a column"
                        f" of the result{did_you_mean(column.into, names)}"
                    )
            for into, _ in _repeated([column.into for column in table.columns]):
                both = [repr(column.source) for column in table.columns if column.into == into]
                raise PlanError(f"{table.name}: {' and '.join(both)} both go into {into!r}; only one can")
        for table in self.tables:
            if table.path is None:
                raise PlanError(f"{table.name}: it lacks 'path', the file that it is in")
        for (name, part), _ in _repeated([(table.path, table.part) for table in self.tables]):
            raise PlanError(f"the table {name}{f' ({part})' if part else ''} is in the plan twice")


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "")}


def _relative_to(folder: Path, table: PlannedTable) -> PlannedTable:
    absolute = table.path is None or is_url(table.path)
    return table if absolute else replace(table, path=str(folder / str(table.path)))


def _repeated(items: Iterable[Any], key: Callable[[Any], Any] = lambda item: item) -> Iterator[Any]:
    """Items whose key an earlier one has, each with that one."""
    seen: dict[Any, Any] = {}
    for item in items:
        if key(item) in seen:
            yield item, seen[key(item)]
        seen[key(item)] = item
