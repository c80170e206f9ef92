"""A union plan: which columns of which tables go where. Small, for a person to read, edit and run."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gentus.files import write_file
from gentus.lake.location import is_url

VERSION = 1
MONTH_FIRST, DAY_FIRST = "month first", "day first"
AS_WRITTEN, FRACTION = "as written", "fraction"


class PlanError(ValueError):
    """A plan that cannot be run; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the text of a column is understood, where there are several ways."""

    decimal: str = "."  # or ",": then 1.234 is a thousand and more
    dates: str = MONTH_FIRST  # or day first: what 3/4/2020 is
    percent: str = AS_WRITTEN  # 12 % is 12; as a fraction it is 0.12
    booleans: bool = False  # in a column of numbers, yes is 1 and no is 0


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result."""

    name: str
    type: str | None = None  # as DuckDB calls it; None: what the values are, of the query above all
    note: str = ""  # why it is not simply the query's, or what could not be decided


@dataclass(frozen=True, slots=True)
class Placement:
    """A column of a table, and the column of the result that it goes into."""

    source: str
    into: str
    read: Reading | None = None  # None: to be found out
    score: float | None = None
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table whose rows are taken."""

    name: str
    path: str | None  # None: a data frame, which no file holds
    part: str | None = None  # the table or sheet inside the file
    columns: tuple[Placement, ...] = ()
    rows: int | None = None  # how many it had when the plan was made
    score: float | None = None
    left_out: tuple[str, ...] = ()  # columns that go nowhere


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """The query, the tables whose rows come under its own, and the columns of the result."""

    query: PlannedTable
    tables: tuple[PlannedTable, ...]
    columns: tuple[OutputColumn, ...]
    provenance: bool = True
    distinct: bool = False
    notes: tuple[str, ...] = ()  # such as tables that were left out

    @property
    def sources(self) -> tuple[PlannedTable, ...]:
        """All tables in the order of their rows; the query comes first."""
        return (self.query, *self.tables)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        from gentus.union.plan_json import plan_to_dict

        return plan_to_dict(self)

    @classmethod
    def from_dict(cls, document: Any) -> UnionPlan:
        """Take a plan from JSON; raises `PlanError` that says what is wrong with it, and where."""
        from gentus.union.plan_json import plan_from_dict

        return plan_from_dict(document)

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
            raise PlanError(f"{path} is not a plan: it is no text in UTF-8") from error
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from error
        folder = path.absolute().parent
        query, *tables = (_at(folder, table) for table in plan.sources)
        return replace(plan, query=query, tables=tuple(tables))

    def check(self) -> None:
        """See that everything in it fits together; whether files and columns exist shows when it is run."""
        names = [column.name for column in self.columns]
        if not names:
            raise PlanError("it has no columns")
        for name, other in _twice(names, str.casefold):
            raise PlanError(
                f"two columns of the result are called {name!r}"
                if name == other
                else f"columns {other!r} and {name!r} differ only in case; give one of them another name"
            )
        for table in self.sources:
            for column in table.columns:
                if column.into not in names:
                    raise PlanError(
                        f"{table.name}: {column.source!r} goes into {column.into!r}, which is no column of"
                        f" the result{hint(column.into, names)}"
                    )
            for into, _ in _twice([column.into for column in table.columns]):
                both = [repr(column.source) for column in table.columns if column.into == into]
                raise PlanError(f"{table.name}: {' and '.join(both)} both go into {into!r}; only one can")
        for table in self.tables:
            if table.path is None:
                raise PlanError(f"{table.name}: it lacks 'path', the file that it is in")
        for (name, part), _ in _twice([(table.path, table.part) for table in self.tables]):
            raise PlanError(f"the table {name}{f' ({part})' if part else ''} is there twice")


def _at(folder: Path, table: PlannedTable) -> PlannedTable:
    here = table.path is None or is_url(table.path)
    return table if here else replace(table, path=str(folder / str(table.path)))


def _twice(items: Iterable[Any], key: Any = None) -> Iterable[tuple[Any, Any]]:
    seen: dict[Any, Any] = {}
    for item in items:
        own = key(item) if key else item
        if own in seen:
            yield item, seen[own]
        seen[own] = item


def hint(name: str, known: Iterable[str]) -> str:
    """What may have been meant."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
