"""Rules from the shapes of a column's cells, and from what its notation was decided to be, to its type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gentus.align.notation import What
from gentus.union.column_shapes import ColumnShapes
from gentus.union.decision import Decision
from gentus.union.plan import AS_WRITTEN, FRACTION, Reading
from gentus.union.sql_types import EXACT, FLOATS, INTEGERS, ZONED, is_date, is_number, is_zoned, union_type

Decided: TypeAlias = Mapping[What, Decision]  # on the notations of a column
_BOOLEAN_PAIRS = (("yes", "no"), ("t", "f"), ("y", "n"))
_PLAIN = Reading()
_FRACTIONS = {".": ("point", "point3", "commas.", "spaces."), ",": ("comma", "comma3", "points,", "spaces,")}
_LIMITS = {  # of every type of integers, exclusive
    kind: 2 ** (8 << (at % 5)) // (1 if kind.startswith("U") else 2) for at, kind in enumerate(INTEGERS)
}


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of a column, how its text is parsed, and a note for the reader of the plan."""

    type: str
    read: Reading = _PLAIN
    note: str = ""
    booleans: bool = False  # perhaps: the tables may show it


def infer_type(shapes: ColumnShapes, decided: Decided) -> InferredType:
    """The type that all cells of a column have; text if there is none."""
    if not shapes.untyped or shapes.type != "VARCHAR":
        return _kept_type(shapes)
    classes = shapes.classes
    if classes == {"b"} or (classes == {"b", "n"} and shapes.only_bits):
        if _are_booleans(shapes.booleans):
            return InferredType("BOOLEAN")
        return InferredType("VARCHAR", booleans=True)  # "f" alone may mean something else
    if classes == {"n"}:
        return _infer_number(shapes, decided["decimal"])
    if classes == {"d"}:
        return _infer_date(shapes, decided["dates"])
    return InferredType("VARCHAR")


def _kept_type(shapes: ColumnShapes) -> InferredType:
    """The type of a typed column, or the nearest one that all formats hold: few have integers of 128 bits."""
    kind, largest = union_type(shapes.type), shapes.largest or 0
    if shapes.type == kind or shapes.type not in INTEGERS:
        return InferredType(kind)
    if largest < _LIMITS["BIGINT"]:
        return InferredType("BIGINT")
    return InferredType(kind) if largest < 10**38 else InferredType("VARCHAR", note="text: over 38 digits")


def _are_booleans(booleans: frozenset[str]) -> bool:
    """Whether words that can mean true and false do: both of a pair are there."""
    return bool(booleans & {"true", "false"}) or any(booleans >= set(pair) for pair in _BOOLEAN_PAIRS)


def _infer_number(shapes: ColumnShapes, decimal: Decision) -> InferredType:
    numbers = shapes.numbers
    if numbers["id"]:
        return InferredType("VARCHAR", note="text: leading zeros or many digits, so these are identifiers")
    if numbers["phone"] * 10 >= numbers.total() * 9:
        return InferredType("VARCHAR", note="text: groups of three digits, as in telephone numbers")
    if len(shapes.units - {""}) > 1:
        return InferredType("VARCHAR", note=f"text: several currencies or units ({_listed(shapes.units)})")
    if "%" in shapes.units and len(shapes.units) > 1:
        return InferredType("VARCHAR", note="text: some numbers are percentages and some are not")
    if decimal.source == "majority":
        return InferredType("VARCHAR", note="text: point and comma are both used as decimal mark")
    has_fractions = _has_fractions(numbers, decimal.value)
    return InferredType("DOUBLE" if has_fractions else "BIGINT", Reading(decimal=decimal.value))


def _infer_date(shapes: ColumnShapes, order: Decision) -> InferredType:
    if order.source == "majority":
        return InferredType("VARCHAR", note="text: in some dates the day comes first, in others the month")
    read = Reading(dates=order.value)
    if "zone" in shapes.times:
        if shapes.times != {"zone"}:
            return InferredType("VARCHAR", note="text: some times have a time zone and some have none")
        return InferredType(ZONED, read)
    return InferredType("TIMESTAMP" if "time" in shapes.times else "DATE", read)


def _has_fractions(numbers: Counter[str], decimal: str) -> bool:
    """Whether digits follow the decimal mark in any number."""
    return any(numbers[shape] for shape in _FRACTIONS[decimal])


def _listed(units: Iterable[str]) -> str:
    return ", ".join(sorted(unit or "none" for unit in units))


# --- with the tables -----------------------------------------------------------------------------------


def booleans_by_tables(
    found: InferredType, shapes: ColumnShapes, others: Sequence[ColumnShapes]
) -> InferredType:
    """Let the tables show whether words of the query, such as f, mean true and false."""
    if not found.booleans:
        return found
    booleans = shapes.booleans.union(*(other.booleans for other in others))
    alike = all(other.classes <= {"b", "n"} and other.only_bits for other in others)
    return InferredType("BOOLEAN") if alike and _are_booleans(booleans) else found


@dataclass(frozen=True, slots=True)
class DecidedColumn:
    """A column of a table: the shapes of its cells, and what was decided of its notations."""

    shapes: ColumnShapes
    decided: Decided

    @property
    def has_fractions(self) -> bool:
        """Whether any of its numbers is not whole."""
        decimal = self.decided.get("decimal")
        return _has_fractions(self.shapes.numbers, decimal.value if decimal else ".")


def widen_type(kind: str, own: ColumnShapes | None, tables: Sequence[DecidedColumn]) -> tuple[str, str]:
    """The query's type, or a wider one that also holds the values of the tables, and why."""
    others = [one.shapes for one in tables]
    digits = [other for other in others if other.classes == {"n"} and other.numbers["id"]]
    if kind in INTEGERS and any(set(other.numbers) <= {"bit", "int", "id"} for other in digits):
        return "VARCHAR", "text: a table has leading zeros or many digits in it, so these are identifiers"
    if kind in INTEGERS:
        largest = max((other.largest or 0 for other in others), default=0)
        whole = [one.shapes for one in tables if not one.has_fractions and one.shapes.type not in FLOATS]
        exact = all((one.largest or 0) < EXACT for one in (*whole, *filter(None, [own])))
        if exact and any(one.has_fractions for one in tables):
            return "DOUBLE", "whole numbers in the query, fractions in a table"
        if largest >= _LIMITS[kind] and largest < _LIMITS["BIGINT"]:
            return "BIGINT", f"{kind} in the query, larger numbers in a table"
    if kind == "FLOAT" and any(other.type != "FLOAT" for other in others):
        return "DOUBLE", "FLOAT in the query, more digits in a table"
    if kind == "DATE" and any(other.times & {"time", "zone"} for other in others):
        return "TIMESTAMP", "dates in the query, times of day in a table"
    return kind, ""


def infer_reading(
    target_type: str, column: DecidedColumn, query: ColumnShapes | None
) -> tuple[Reading, list[str]]:
    """How a column is parsed, given the shapes of the query's if it is a table's; and notes."""
    if is_number(target_type) and "decimal" in column.decided:
        return _number_reading(column.shapes, column.decided["decimal"].value, query)
    if is_date(target_type) and "dates" in column.decided:
        return Reading(dates=column.decided["dates"].value), zone_notes(target_type, column.shapes)
    return Reading(), []


def zone_notes(target_type: str, shapes: ColumnShapes) -> list[str]:
    """What is said where times have a zone, and the column has none, or the other way round."""
    if is_zoned(target_type) and shapes.times - {"zone"}:
        return ["times without a zone are taken as UTC"]
    zoned = "zone" in shapes.times and is_date(target_type) and not is_zoned(target_type)
    return ["times with a zone become UTC"] if zoned else []


def _number_reading(
    shapes: ColumnShapes, decimal: str, query: ColumnShapes | None
) -> tuple[Reading, list[str]]:
    notes, percent = [], AS_WRITTEN
    own, query_units = shapes.units - {""}, (query.units if query else frozenset[str]()) - {""}
    booleans = bool(shapes.booleans) and shapes.classes <= {"b", "n"} and shapes.only_bits
    if "%" in own and "%" not in query_units and query is not None and _at_most_one(query):
        percent = FRACTION
        notes.append("12 % becomes 0.12: the query has fractions")
    elif "%" in query_units and "%" not in own and (shapes.largest or 0) <= 1 and shapes.numbers["point"]:
        notes.append("the query has percentages, these numbers are at most 1 and stay as they are")
    if own - {"%"} and query_units - {"%"} and own != query_units:
        notes.append(f"amounts in {_listed(own)} stay as they are; the query's are in {_listed(query_units)}")
    return Reading(decimal=decimal, percent=percent, booleans=booleans), notes


def _at_most_one(shapes: ColumnShapes) -> bool:
    """Whether the numbers of a column are fractions of one."""
    return shapes.largest is not None and shapes.largest <= 1 and not shapes.only_bits


def common_type(columns: Iterable[tuple[str, ColumnShapes]]) -> str:
    """The type of a column that several tables have and the query has not, given the type in each."""
    found, largest = set[str](), 0.0
    for kind, shapes in columns:
        found.add(kind)
        largest = max(largest, (shapes.largest or 0) if kind == "BIGINT" else 0)
    if len(found) <= 1:
        return found.pop() if found else "VARCHAR"
    if found <= {"BIGINT", "DOUBLE"}:
        return "DOUBLE" if largest < EXACT else "VARCHAR"
    return "TIMESTAMP" if found == {"DATE", "TIMESTAMP"} else "VARCHAR"
