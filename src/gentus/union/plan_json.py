"""Union plans to JSON and back, with a message for everything that a person may get wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gentus.union.plan import (
    AS_WRITTEN,
    DAY_FIRST,
    FRACTION,
    MONTH_FIRST,
    VERSION,
    OutputColumn,
    Placement,
    PlanError,
    PlannedTable,
    Reading,
    UnionPlan,
    hint,
)
from gentus.union.types import known_type

_PLAN_KEYS = ("gentus_union_plan", "query", "columns", "tables", "provenance", "distinct", "notes")
_COLUMN_KEYS = ("name", "type", "note")
_TABLE_KEYS = ("name", "path", "part", "rows", "score", "columns", "left_out")
_PLACEMENT_KEYS = ("from", "into", "score", "reason", "read", "note")


def plan_to_dict(plan: UnionPlan) -> dict[str, Any]:
    """As JSON has it; what goes without saying is left out, such as how to read text as text."""
    texts = {column.name for column in plan.columns if column.type == "VARCHAR"}
    return {
        "gentus_union_plan": VERSION,
        "query": _table_to_dict(plan.query, texts),
        "columns": [
            _filled({"name": column.name, "type": column.type, "note": column.note})
            for column in plan.columns
        ],
        "tables": [_table_to_dict(table, texts) for table in plan.tables],
        "provenance": plan.provenance,
        "distinct": plan.distinct,
        **({"notes": list(plan.notes)} if plan.notes else {}),
    }


def plan_from_dict(document: Any) -> UnionPlan:
    """Take a plan from JSON; raises `PlanError`."""
    top = _Object(document, "the plan")
    version = top.get("gentus_union_plan", int)
    if version != VERSION:
        raise PlanError(f"it has version {version}, this gentus reads {VERSION}; make the plan again")
    top.refuse_others(_PLAN_KEYS)
    plan = UnionPlan(
        _table_from(top.object("query", _TABLE_KEYS)),
        tuple(_table_from(one) for one in top.objects("tables", "table", _TABLE_KEYS)),
        tuple(
            OutputColumn(one.get("name", str), _type(one), one.get("note", str, ""))
            for one in top.objects("columns", "column", _COLUMN_KEYS)
        ),
        top.get("provenance", bool, True),
        top.get("distinct", bool, False),
        tuple(top.strings("notes")),
    )
    plan.check()
    return plan


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "")}


def _table_to_dict(table: PlannedTable, texts: set[str]) -> dict[str, Any]:
    return {
        "name": table.name,
        "path": table.path,
        **_filled({"part": table.part, "rows": table.rows, "score": table.score}),
        "columns": [
            {
                "from": one.source,
                "into": one.into,
                **_filled({"score": one.score, "reason": one.reason}),
                **({} if one.read is None or one.into in texts else {"read": _reading_to_dict(one.read)}),
                **_filled({"note": one.note}),
            }
            for one in table.columns
        ],
        **({"left_out": list(table.left_out)} if table.left_out else {}),
    }


def _reading_to_dict(read: Reading) -> dict[str, Any]:
    usual = Reading()
    names = ("decimal", "dates", "percent", "booleans")
    return {name: getattr(read, name) for name in names if getattr(read, name) != getattr(usual, name)}


def _table_from(one: _Object) -> PlannedTable:
    return PlannedTable(
        one.get("name", str),
        one.get("path", str, None),
        one.get("part", str, None),
        tuple(
            Placement(
                column.get("from", str),
                column.get("into", str),
                _reading_from(column),
                column.get("score", float, None),
                column.get("reason", str, ""),
                column.get("note", str, ""),
            )
            for column in one.objects("columns", "column", _PLACEMENT_KEYS)
        ),
        one.get("rows", int, None),
        one.get("score", float, None),
        tuple(one.strings("left_out")),
    )


def _reading_from(column: _Object) -> Reading | None:
    if column.values.get("read") is None:
        return None
    read = column.object("read", ("decimal", "dates", "percent", "booleans"))
    return Reading(
        read.choice("decimal", (".", ",")),
        read.choice("dates", (MONTH_FIRST, DAY_FIRST)),
        read.choice("percent", (AS_WRITTEN, FRACTION)),
        read.get("booleans", bool, False),
    )


def _type(one: _Object) -> str | None:
    given = one.get("type", str, None)
    if given is None:
        return None
    kind = known_type(given)
    if kind is None:
        raise PlanError(
            f"{one.where}: there is no type {given!r}; such as VARCHAR, BIGINT, DOUBLE, DECIMAL(10,2), "
            "BOOLEAN, DATE and TIMESTAMP there are"
        )
    return kind


class _Object:
    """An object of the JSON, and where in it we are, for messages."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, Mapping):
            raise PlanError(f"{where} is to be an object in braces, not {_short(values)}")
        self.values, self.where = values, where

    def get(self, key: str, kind: type, *default: Any) -> Any:
        if key not in self.values and not default:
            raise PlanError(f"{self.where} lacks {key!r}")
        value = self.values.get(key, *default)
        if default and value is None:
            return default[0]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
            raise PlanError(f"{self.where}: {key!r} is to be {words[kind]}, not {_short(value)}")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value: str = self.get(key, str, choices[0])
        if value not in choices:
            raise PlanError(f"{self.where}: {key!r} is one of {', '.join(map(repr, choices))}, not {value!r}")
        return value

    def strings(self, key: str) -> list[str]:
        values = self.values.get(key) or []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise PlanError(f"{self.where}: {key!r} is to be a list of texts")
        return values

    def object(self, key: str, known: tuple[str, ...]) -> _Object:
        if key not in self.values:
            raise PlanError(f"{self.where} lacks {key!r}")
        inner = _Object(self.values[key], f"{key!r} of {self.where}")
        inner.refuse_others(known)
        return inner

    def objects(self, key: str, each: str, known: tuple[str, ...]) -> list[_Object]:
        if key not in self.values:
            raise PlanError(f"{self.where} lacks {key!r}")
        values = self.values[key]
        if not isinstance(values, list):
            raise PlanError(f"{self.where}: {key!r} is to be a list, not {_short(values)}")
        found = []
        for number, value in enumerate(values, 1):
            name = value.get("name", value.get("from")) if isinstance(value, Mapping) else None
            inner = _Object(value, f"{each} {number}{f' ({name})' if name else ''} of {self.where}")
            inner.refuse_others(known)
            found.append(inner)
        return found

    def refuse_others(self, known: tuple[str, ...]) -> None:
        for key in self.values:
            if key not in known:
                raise PlanError(f"{self.where} has {key!r}, which means nothing{hint(key, known)}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}.."
