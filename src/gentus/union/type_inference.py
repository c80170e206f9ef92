"""Rules from the shapes of a column's cells to its type and to how its text is parsed.

Where a column can be parsed in two ways, all of its rows decide; where they do not, a note says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gentus.union.plan import DAY_FIRST, FRACTION, MONTH_FIRST, Reading
from gentus.union.shapes import ColumnShapes
from gentus.union.sql_types import EXACT, INTEGERS, ZONED, is_date, is_number, union_type

_BOOLEAN_PAIRS = (("yes", "no"), ("t", "f"), ("y", "n"))
_POINT = ("point", "commas", "commas.", "spaces.")  # groupings of digits that show a decimal point ...
_COMMA = ("comma", "points", "points,", "spaces,")  # ... and a decimal comma
_FRACTIONS = {".": ("point", "point3", "commas.", "spaces."), ",": ("comma", "comma3", "points,", "spaces,")}
_PLAIN = Reading()
_LIMITS = {  # of every type of integers, exclusive
    kind: 2 ** (8 << (at % 5)) // (1 if kind.startswith("U") else 2) for at, kind in enumerate(INTEGERS)
}


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of a column, how its text is parsed, and a note for the reader of the plan."""

    type: str
    read: Reading = _PLAIN
    note: str = ""
    undecided: bool = False  # the tables may decide what the query does not


def infer_type(shapes: ColumnShapes) -> InferredType:
    """The type that all cells of a column have; text if there is none."""
    if not shapes.untyped or shapes.type != "VARCHAR":
        return InferredType(union_type(shapes.type))
    classes = shapes.classes
    if classes == {"b"} or (classes == {"b", "n"} and shapes.only_bits):
        if _are_booleans(shapes.booleans):
            return InferredType("BOOLEAN")
        return InferredType("VARCHAR", undecided=True)  # "f" alone may mean something else
    if classes == {"n"}:
        return _infer_number(shapes)
    if classes == {"d"}:
        return _infer_date(shapes)
    return InferredType("VARCHAR")


def _are_booleans(booleans: set[str]) -> bool:
    """Whether words that can mean true and false do: both of a pair are there."""
    return bool(booleans & {"true", "false"}) or any(booleans >= set(pair) for pair in _BOOLEAN_PAIRS)


def _infer_number(shapes: ColumnShapes) -> InferredType:
    numbers = shapes.numbers
    if numbers["id"]:
        return InferredType("VARCHAR", note="text: leading zeros or many digits, so these are identifiers")
    if numbers["phone"] * 10 >= numbers.total() * 9:
        return InferredType("VARCHAR", note="text: groups of three digits, as in telephone numbers")
    if len(shapes.units - {""}) > 1:
        return InferredType("VARCHAR", note=f"text: several currencies or units ({_listed(shapes.units)})")
    if "%" in shapes.units and len(shapes.units) > 1:
        return InferredType("VARCHAR", note="text: some numbers are percentages and some are not")
    decimal, clear = _decimal(numbers)
    if decimal is None:
        return InferredType("VARCHAR", note="text: point and comma are both used as decimal mark")
    has_fractions = _has(numbers, _FRACTIONS[decimal])
    note = "" if clear else _undecided_number(numbers)
    return InferredType("DOUBLE" if has_fractions else "BIGINT", Reading(decimal=decimal), note, not clear)


def _has(counts: Counter[str], shapes: Iterable[str]) -> bool:
    return any(counts[shape] for shape in shapes)


def _decimal(numbers: Counter[str]) -> tuple[str | None, bool]:
    """The decimal mark, None if cells contradict each other, and whether it is certain."""
    point, comma = _has(numbers, _POINT), _has(numbers, _COMMA)
    if point and comma:
        return None, False
    if point or comma:
        return "." if point else ",", True
    return ".", not _has(numbers, ("comma3", "point3"))


def _undecided_number(numbers: Counter[str]) -> str:
    if numbers["comma3"]:
        return "undecided: numbers like 1,234 are read as thousands, not as 1.234"
    return "undecided: numbers like 1.234 are read with a decimal point, not as thousands"


def _infer_date(shapes: ColumnShapes) -> InferredType:
    order, clear = _order(shapes.orders)
    if order is None:
        return InferredType("VARCHAR", note="text: in some dates the day comes first, in others the month")
    if "zone" in shapes.times:
        if shapes.times != {"zone"}:
            return InferredType("VARCHAR", note="text: some times have a time zone and some have none")
        return InferredType(ZONED, Reading(dates=order))
    note = "" if clear else f"undecided: dates like {_ambiguous(shapes.orders)} are read {order}"
    return InferredType(
        "TIMESTAMP" if "time" in shapes.times else "DATE", Reading(dates=order), note, not clear
    )


def _order(orders: Counter[str]) -> tuple[str | None, bool]:
    """The order of day and month, None if cells contradict each other, and whether it is certain."""
    if orders["day"] and orders["month"]:
        return None, False
    if orders["day"] or orders["month"]:
        return DAY_FIRST if orders["day"] else MONTH_FIRST, True
    usual = DAY_FIRST if orders["either."] > orders["either/"] else MONTH_FIRST  # as such dates mostly are
    return usual, not (orders["either."] or orders["either/"])


def _ambiguous(orders: Counter[str]) -> str:
    return "3.4.2020" if orders["either."] > orders["either/"] else "3/4/2020"


def _listed(units: Iterable[str]) -> str:
    return ", ".join(sorted(unit or "none" for unit in units))


# --- with the tables -----------------------------------------------------------------------------------


def decide_by_tables(
    found: InferredType, shapes: ColumnShapes, others: Sequence[ColumnShapes]
) -> InferredType:
    """Let the tables decide what the query leaves undecided, if they agree."""
    if not found.undecided:
        return found
    if "b" in shapes.classes:
        booleans = shapes.booleans.union(*(other.booleans for other in others))
        if _are_booleans(booleans) and all(
            other.classes <= {"b", "n"} and other.only_bits for other in others
        ):
            return InferredType("BOOLEAN")
    if is_date(found.type):
        orders = {_order(other.orders) for other in others if _has(other.orders, ("day", "month"))}
        if len(orders) == 1 and (order := orders.pop()[0]):
            read = replace(found.read, dates=order)
            note = f"dates like {_ambiguous(shapes.orders)} are read {order}, as in the tables"
            return InferredType(found.type, read, note)
    if is_number(found.type):
        marks = {_decimal(other.numbers)[0] for other in others if _has(other.numbers, _POINT + _COMMA)}
        if len(marks) == 1 and (mark := marks.pop()):
            has_fractions = _has(shapes.numbers, _FRACTIONS[mark])
            note = f"the decimal mark is taken to be {mark!r}, as in the tables"
            return InferredType("DOUBLE" if has_fractions else "BIGINT", Reading(decimal=mark), note)
    return found


def widen_type(kind: str, own: ColumnShapes | None, others: Sequence[ColumnShapes]) -> tuple[str, str]:
    """The query's type, or a wider one that also holds the values of the tables, and why."""
    digits = [other for other in others if other.classes == {"n"} and other.numbers["id"]]
    if kind in INTEGERS and any(set(other.numbers) <= {"bit", "int", "id"} for other in digits):
        return "VARCHAR", "text: a table has leading zeros or many digits in it, so these are identifiers"
    if kind in INTEGERS:
        largest = max((other.largest or 0 for other in others), default=0)
        has_fractions = any(
            _has(other.numbers, _FRACTIONS[_decimal(other.numbers)[0] or "."]) for other in others
        )
        if has_fractions and (own is None or (own.largest or 0) <= EXACT):
            return "DOUBLE", "whole numbers in the query, fractions in a table"
        if largest >= _LIMITS[kind] and largest < _LIMITS["BIGINT"]:
            return "BIGINT", f"{kind} in the query, larger numbers in a table"
    if kind == "FLOAT" and any(other.type != "FLOAT" for other in others):
        return "DOUBLE", "FLOAT in the query, more digits in a table"
    if kind == "DATE" and any(other.times & {"time", "zone"} for other in others):
        return "TIMESTAMP", "dates in the query, times of day in a table"
    return kind, ""


def infer_reading(
    target_type: str, shapes: ColumnShapes, query: ColumnShapes | None, query_read: Reading
) -> tuple[Reading, str]:
    """How a table's column is parsed, given the shapes of the query's column; and a note."""
    if shapes.type != "VARCHAR":
        return Reading(), ""
    if is_number(target_type):
        return _number_reading(shapes, query, query_read)
    if is_date(target_type):
        return _date_reading(target_type, shapes, query)
    return Reading(), ""


def _date_reading(target_type: str, shapes: ColumnShapes, query: ColumnShapes | None) -> tuple[Reading, str]:
    order, clear = _order(shapes.orders)
    if order is None:
        order = DAY_FIRST if shapes.orders["day"] >= shapes.orders["month"] else MONTH_FIRST
        return Reading(dates=order), f"day and month come in both orders; most have the {order}"
    example = _ambiguous(shapes.orders)
    if not clear and query is not None and _has(query.orders, ("day", "month")):
        order = _order(query.orders)[0] or order
        return Reading(dates=order), f"dates like {example} are read {order}, as in the query"
    notes = [] if clear else [f"undecided: dates like {example} are read {order}"]
    if "zone" in shapes.times and target_type != ZONED:
        notes.append("times with a zone become UTC")
    return Reading(dates=order), "; ".join(notes)


def _number_reading(
    shapes: ColumnShapes, query: ColumnShapes | None, query_read: Reading
) -> tuple[Reading, str]:
    numbers, notes = shapes.numbers, []
    decimal, clear = _decimal(numbers)
    if decimal is None:
        point = sum(numbers[grouping] for grouping in _POINT)
        decimal = "." if point >= sum(numbers[grouping] for grouping in _COMMA) else ","
        notes.append(f"point and comma are both used as decimal mark; mostly it is {decimal!r}")
    elif not clear and query is not None and _has(query.numbers, _POINT + _COMMA):
        decimal = query_read.decimal
        notes.append(f"the decimal mark is taken to be {decimal!r}, as in the query")
    elif not clear:
        notes.append(_undecided_number(numbers))
    own, query_units = shapes.units - {""}, (query.units if query else set()) - {""}
    booleans = bool(shapes.booleans) and shapes.classes <= {"b", "n"} and shapes.only_bits
    read = Reading(decimal=decimal, booleans=booleans)
    if "%" in own and "%" not in query_units and query is not None and _at_most_one(query):
        read = replace(read, percent=FRACTION)
        notes.append("12 % becomes 0.12: the query has fractions")
    elif "%" in query_units and "%" not in own and (shapes.largest or 0) <= 1 and numbers["point"]:
        notes.append("the query has percentages, these numbers are at most 1 and stay as they are")
    if own - {"%"} and query_units - {"%"} and own != query_units:
        notes.append(f"amounts in {_listed(own)} stay as they are; the query's are in {_listed(query_units)}")
    return read, "; ".join(notes)


def _at_most_one(shapes: ColumnShapes) -> bool:
    """Whether the numbers of a column are fractions of one."""
    return shapes.largest is not None and shapes.largest <= 1 and not shapes.only_bits


def common_type(types: Iterable[str]) -> str:
    """The type of a column that several tables have and the query has not."""
    found = set(types) or {"VARCHAR"}
    if len(found) == 1:
        return found.pop()
    if found <= {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if found == {"DATE", "TIMESTAMP"} else "VARCHAR"
