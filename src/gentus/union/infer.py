"""From the shapes of a column's cells to its type, and to how its cells are to be read.

Where a column can be read in two ways, all of its rows decide; where they do not, it is said in a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gentus.union.plan import DAY_FIRST, FRACTION, MONTH_FIRST, Reading
from gentus.union.types import INTEGERS, ZONED, is_date, is_number, kept_type

_PAIRS = (("yes", "no"), ("t", "f"), ("y", "n"))
_POINT = ("point", "commas", "commas.", "spaces.")  # these tell that the point is decimal
_COMMA = ("comma", "points", "points,", "spaces,")
_BROKEN = {".": ("point", "point3", "commas.", "spaces."), ",": ("comma", "comma3", "points,", "spaces,")}
_EXACT = 2**53  # whole numbers up to this are exact as floats
_PLAIN = Reading()
_ROOM = {kind: 2 ** (8 << (at % 5)) // (1 if kind.startswith("U") else 2) for at, kind in enumerate(INTEGERS)}


@dataclass(frozen=True, slots=True)
class Facts:
    """What all cells of a column look like."""

    kind: str  # its type in the table
    written: bool  # it is text because everything in the table is
    shapes: Counter[str]  # see `macros`
    largest: float | None = None  # the largest of its plain numbers, without sign
    numbers: Counter[str] = field(init=False)  # how they are grouped
    signs: set[str] = field(init=False)  # currencies and percent, "" for none
    orders: Counter[str] = field(init=False)  # of day and month
    clocks: set[str] = field(init=False)  # "", time or zone
    words: set[str] = field(init=False)  # yes, no, ..
    kinds: set[str] = field(init=False)  # n, d, b and t: numbers, dates, booleans, text

    def __post_init__(self) -> None:
        """Take the shapes apart."""
        numbers, orders = Counter[str](), Counter[str]()
        signs, clocks, words, kinds = set[str](), set[str](), set[str](), set[str]()
        for shape, count in self.shapes.items():
            kind, how, more = shape.split(":", 2)
            kinds.add(kind)
            if kind == "n":
                numbers[more] += count
                signs.add(how)
            elif kind == "d":
                orders[how] += count
                clocks.add(more)
            elif kind == "b":
                words.add(how)
        parts = {"numbers": numbers, "signs": signs, "orders": orders, "clocks": clocks, "words": words}
        for name, value in {**parts, "kinds": kinds}.items():
            object.__setattr__(self, name, value)

    @property
    def bits(self) -> bool:
        """Whether all numbers are 0 or 1."""
        return set(self.numbers) <= {"bit"}


@dataclass(frozen=True, slots=True)
class Found:
    """A type, how to read it, and what is to be said about it."""

    type: str
    read: Reading = _PLAIN
    note: str = ""
    open: bool = False  # the tables may decide what the query does not


def infer(facts: Facts) -> Found:
    """The type that all cells of a column have; text if one of them has not."""
    if not facts.written or facts.kind != "VARCHAR":
        return Found(kept_type(facts.kind))
    kinds = facts.kinds
    if kinds == {"b"} or (kinds == {"b", "n"} and facts.bits):
        if _sure(facts.words):
            return Found("BOOLEAN")
        return Found("VARCHAR", open=True)  # a column of nothing but "f" may be about something else
    if kinds == {"n"}:
        return _infer_number(facts)
    if kinds == {"d"}:
        return _infer_date(facts)
    return Found("VARCHAR")


def _sure(words: set[str]) -> bool:
    """Whether words that can mean true and false do."""
    return bool(words & {"true", "false"}) or any(words >= set(pair) for pair in _PAIRS)


def _infer_number(facts: Facts) -> Found:
    numbers = facts.numbers
    if numbers["id"]:
        return Found("VARCHAR", note="text: leading zeros or many digits, so these are identifiers")
    if numbers["phone"] * 10 >= numbers.total() * 9:
        return Found("VARCHAR", note="text: groups of three digits everywhere, as in telephone numbers")
    if len(facts.signs - {""}) > 1:
        return Found("VARCHAR", note=f"text: several currencies or units ({_listed(facts.signs)})")
    if "%" in facts.signs and len(facts.signs) > 1:
        return Found("VARCHAR", note="text: some numbers are percentages and some are not")
    decimal, clear = _decimal(numbers)
    if decimal is None:
        return Found("VARCHAR", note="text: point and comma are both used as decimal mark")
    broken = any(numbers[core] for core in _BROKEN[decimal])
    note = "" if clear else _undecided_number(numbers)
    return Found("DOUBLE" if broken else "BIGINT", Reading(decimal=decimal), note, not clear)


def _decimal(numbers: Counter[str]) -> tuple[str | None, bool]:
    """The decimal mark, None if cells contradict each other, and whether there is no doubt about it."""
    point, comma = (sum(numbers[core] for core in cores) for cores in (_POINT, _COMMA))
    if point and comma:
        return None, False
    if point or comma:
        return "." if point else ",", True
    return ".", not (numbers["comma3"] or numbers["point3"])


def _undecided_number(numbers: Counter[str]) -> str:
    if numbers["comma3"]:
        return "undecided: numbers like 1,234 are read as thousands, not as 1.234"
    return "undecided: numbers like 1.234 are read with a decimal point, not as thousands"


def _infer_date(facts: Facts) -> Found:
    order, clear = _order(facts.orders)
    if order is None:
        return Found("VARCHAR", note="text: in some dates the day comes first, in others the month")
    if "zone" in facts.clocks:
        if facts.clocks != {"zone"}:
            return Found("VARCHAR", note="text: some times have a time zone and some have none")
        return Found(ZONED, Reading(dates=order))
    note = "" if clear else f"undecided: dates like {_ambiguous(facts.orders)} are read {order}"
    return Found("TIMESTAMP" if "time" in facts.clocks else "DATE", Reading(dates=order), note, not clear)


def _order(orders: Counter[str]) -> tuple[str | None, bool]:
    """The order of day and month, None if cells contradict each other, and whether there is no doubt."""
    if orders["day"] and orders["month"]:
        return None, False
    if orders["day"] or orders["month"]:
        return DAY_FIRST if orders["day"] else MONTH_FIRST, True
    usual = DAY_FIRST if orders["either."] > orders["either/"] else MONTH_FIRST  # as such dates mostly are
    return usual, not (orders["either."] or orders["either/"])


def _ambiguous(orders: Counter[str]) -> str:
    return "3.4.2020" if orders["either."] > orders["either/"] else "3/4/2020"


def _listed(signs: Iterable[str]) -> str:
    return ", ".join(sorted(sign or "none" for sign in signs))


# --- other tables under the query ----------------------------------------------------------------------


def settle_open(found: Found, facts: Facts, others: Sequence[Facts]) -> Found:
    """Decide by the tables what the query leaves open, if they agree."""
    if not found.open:
        return found
    if "b" in facts.kinds:
        words = facts.words.union(*(other.words for other in others))
        if _sure(words) and all(other.kinds <= {"b", "n"} and other.bits for other in others):
            return Found("BOOLEAN")
    if is_date(found.type):
        orders = {_order(other.orders) for other in others if other.orders["day"] or other.orders["month"]}
        if len(orders) == 1 and (order := orders.pop()[0]):
            read = replace(found.read, dates=order)
            note = f"dates like {_ambiguous(facts.orders)} are read {order}, as in the tables"
            return Found(found.type, read, note)
    if is_number(found.type):
        told = (other.numbers for other in others if any(other.numbers[core] for core in _POINT + _COMMA))
        marks = {_decimal(numbers)[0] for numbers in told}
        if len(marks) == 1 and (mark := marks.pop()):
            broken = any(facts.numbers[core] for core in _BROKEN[mark])
            note = f"the decimal mark is taken to be {mark!r}, as in the tables"
            return Found("DOUBLE" if broken else "BIGINT", Reading(decimal=mark), note)
    return found


def widened(kind: str, own: Facts | None, others: Sequence[Facts]) -> tuple[str, str]:
    """The query's type, or one of the same sort that also holds what the tables have; and why."""
    digits = [other for other in others if other.kinds == {"n"} and other.numbers["id"]]
    if kind in INTEGERS and any(set(other.numbers) <= {"bit", "int", "id"} for other in digits):
        return "VARCHAR", "text: a table has leading zeros or many digits there, so these are identifiers"
    if kind in INTEGERS:
        largest = max((other.largest or 0 for other in others), default=0)
        broken = any(
            other.numbers[core] for other in others for core in _BROKEN[_decimal(other.numbers)[0] or "."]
        )
        if broken and (own is None or (own.largest or 0) <= _EXACT):
            return "DOUBLE", "whole numbers in the query, fractions in a table"
        if largest >= _ROOM[kind] and largest < _ROOM["BIGINT"]:
            return "BIGINT", f"{kind} in the query, larger numbers in a table"
    if kind == "FLOAT" and any(other.kind != "FLOAT" for other in others):
        return "DOUBLE", "FLOAT in the query, more digits in a table"
    if kind == "DATE" and any(other.clocks & {"time", "zone"} for other in others):
        return "TIMESTAMP", "dates in the query, times of day in a table"
    return kind, ""


def reading(wanted: str, facts: Facts, query: Facts | None, query_read: Reading) -> tuple[Reading, str]:
    """How the cells of a table's column are to be read, given what the query's look like; and what to say."""
    if facts.kind != "VARCHAR":
        return Reading(), ""
    if is_number(wanted):
        return _number_reading(facts, query, query_read)
    if is_date(wanted):
        order, clear = _order(facts.orders)
        counts = facts.orders
        if order is None:
            order = DAY_FIRST if counts["day"] >= counts["month"] else MONTH_FIRST
            return Reading(dates=order), f"day and month come in both orders; most have the {order}"
        if not clear and query is not None and (query.orders["day"] or query.orders["month"]):
            asked = _order(query.orders)[0] or order
            return Reading(dates=asked), f"dates like {_ambiguous(counts)} are read {asked}, as in the query"
        note = "" if clear else f"undecided: dates like {_ambiguous(counts)} are read {order}"
        if "zone" in facts.clocks and wanted != ZONED:
            note = "; ".join(filter(None, (note, "times with a zone become UTC")))
        return Reading(dates=order), note
    return Reading(), ""


def _number_reading(facts: Facts, query: Facts | None, query_read: Reading) -> tuple[Reading, str]:
    numbers, notes = facts.numbers, []
    decimal, clear = _decimal(numbers)
    if decimal is None:
        point = sum(numbers[core] for core in _POINT)
        decimal = "." if point >= sum(numbers[core] for core in _COMMA) else ","
        notes.append(f"point and comma are both used as decimal mark; mostly it is {decimal!r}")
    elif not clear and query is not None and any(query.numbers[core] for core in _POINT + _COMMA):
        decimal = query_read.decimal
        notes.append(f"the decimal mark is taken to be {decimal!r}, as in the query")
    elif not clear:
        notes.append(_undecided_number(numbers))
    own, asked = facts.signs - {""}, (query.signs if query else set()) - {""}
    read = Reading(decimal=decimal, booleans=bool(facts.words) and facts.kinds <= {"b", "n"} and facts.bits)
    if "%" in own and "%" not in asked and query is not None and _fractions(query):
        read = replace(read, percent=FRACTION)
        notes.append("12 % becomes 0.12: the query has fractions")
    elif "%" in asked and "%" not in own and (facts.largest or 0) <= 1 and numbers["point"]:
        notes.append("the query has percentages, these numbers are at most 1 and stay as they are")
    if own - {"%"} and asked - {"%"} and own != asked:
        notes.append(f"amounts in {_listed(own)} stay as they are; the query's are in {_listed(asked)}")
    return read, "; ".join(notes)


def _fractions(facts: Facts) -> bool:
    """Whether the numbers of a column, without percent signs, are parts of one."""
    return facts.largest is not None and facts.largest <= 1 and not facts.bits


def agreed(types: Iterable[str]) -> str:
    """The one type for columns of several tables that the query does not have."""
    found = set(types) or {"VARCHAR"}
    if len(found) == 1:
        return found.pop()
    if found <= {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if found == {"DATE", "TIMESTAMP"} else "VARCHAR"
