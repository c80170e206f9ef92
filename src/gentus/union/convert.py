"""Cells to values of a type, as SQL expressions; what is no such value, or would lose something, is null."""

from __future__ import annotations

from gentus.lake.base import EMPTY
from gentus.lake.formats.typed import text_of
from gentus.union.macros import FALSE, TRUE, WHITE, among, literal
from gentus.union.plan import DAY_FIRST, FRACTION, Reading
from gentus.union.types import FLOATS, INTEGERS, ZONED, is_date, is_decimal, is_number

_EDGES = rf"^[{WHITE}]|[{WHITE}]$"
_DRESSED = r"[^\d.,+\- :/]"
_WHOLE = r"[+-]?\d+"
_LONG = r"[+-]?\d{16,}"
_EXACT = 2**53  # whole numbers up to this are exact as floats


def trimmed(value: str, kind: str) -> str:
    """A cell as text without blanks around it; most have none, and trimming a set of characters is slow."""
    text = value if kind == "VARCHAR" else text_of(value, kind)
    loose = f"regexp_matches({text}, {literal(_EDGES)})"
    return f"CASE WHEN {loose} THEN trim({text}, {literal(WHITE)}) ELSE {text} END"


def unless_empty(text: str) -> str:
    """A text, or null if it only says that there is nothing."""
    nothing = f"strlen({text}) <= {max(map(len, EMPTY))} AND {among(text, sorted(EMPTY))}"
    return f"CASE WHEN {nothing} THEN NULL ELSE {text} END"


def bare(text: str) -> str:
    """A text without currency, percent sign and the like; most have none, and need no replacing."""
    return f"CASE WHEN regexp_matches({text}, {literal(_DRESSED)}) THEN gentus_bare({text}) ELSE {text} END"


def typed_shape(value: str, kind: str) -> str:
    """The shape of a cell (see `macros`) that has a type of its own."""
    whole = f"CASE WHEN {value} = trunc({value}) THEN 'n::int' ELSE 'n::point' END"
    midnight = f"CASE WHEN {value} = date_trunc('day', {value}) THEN 'd:any:' ELSE 'd:any:time' END"
    if kind in INTEGERS:
        found = f"CASE WHEN {value} = 0 OR {value} = 1 THEN 'n::bit' ELSE 'n::int' END"
    elif kind in FLOATS:
        found = f"CASE WHEN NOT isnan({value}) THEN {whole} END"
    elif is_decimal(kind):
        found = whole
    elif kind == "BOOLEAN":
        found = f"'b:' || CAST({value} AS VARCHAR) || ':'"
    elif kind == ZONED:
        found = "'d:any:zone'"
    elif is_date(kind):
        found = midnight
    else:
        found = "'t::'"
    return f"CASE WHEN {value} IS NOT NULL THEN {found} END"


def direct(value: str, kind: str, wanted: str) -> str | None:
    """A typed value, not NaN, as one of another type without a detour over text; None if there is no way."""
    if kind in FLOATS and wanted in FLOATS:
        return f"CAST({value} AS {wanted})"
    if kind in FLOATS and wanted in INTEGERS:
        exact = f"{value} = trunc({value}) AND abs({value}) <= {_EXACT}"
        return f"CASE WHEN {exact} THEN TRY_CAST({value} AS {wanted}) END"
    if kind == "VARCHAR":
        return None  # text has other ways to say that there is nothing
    if kind == wanted:
        return value
    if kind in INTEGERS and (wanted in INTEGERS or wanted == "DOUBLE" or is_decimal(wanted)):
        return f"TRY_CAST({value} AS {wanted})"
    if (is_decimal(kind) and wanted == "DOUBLE") or (kind, wanted) == ("DATE", "TIMESTAMP"):
        return f"CAST({value} AS {wanted})"
    return None


# From text to a value it takes steps, each in a query around the last, so that nothing is computed twice.


def middle(text: str, bare: str, wanted: str, read: Reading) -> str:
    """What stands between a text and a value: the digits of a number, the moment of a date."""
    if is_number(wanted):
        digits = f"gentus_digits({bare}, {'true' if read.decimal == ',' else 'false'})"
        if read.percent == FRACTION:
            digits = f"({digits} || CASE WHEN suffix({text}, '%') THEN 'e-2' ELSE '' END)"
        if read.booleans:
            ones = f"WHEN {among(text, TRUE)} THEN '1' WHEN {among(text, FALSE)} THEN '0'"
            digits = f"CASE {ones} ELSE {digits} END"
        return digits
    if is_date(wanted):
        return f"gentus_zoned({text}, {'true' if read.dates == DAY_FIRST else 'false'})"
    return "NULL"


def last(text: str, middle: str, wanted: str) -> str:
    """The value of a type; null if the text is none, or if something would be lost."""
    if wanted == "VARCHAR":
        return text
    if wanted == "BOOLEAN":
        return f"CASE WHEN {among(text, TRUE)} THEN true WHEN {among(text, FALSE)} THEN false END"
    if is_number(wanted):
        return _number(middle, wanted)
    if wanted == ZONED:
        return middle
    if wanted == "DATE":
        return f"CASE WHEN {middle} = date_trunc('day', {middle}) THEN CAST({middle} AS DATE) END"
    if is_date(wanted):
        return f"CAST({middle} AT TIME ZONE 'UTC' AS {wanted})"
    return f"TRY_CAST({text} AS {wanted})"


def _number(digits: str, wanted: str) -> str:
    double = f"TRY_CAST({digits} AS DOUBLE)"
    value = f"TRY_CAST({digits} AS {wanted})"
    if wanted in FLOATS:
        long = f"regexp_full_match({digits}, {literal(_LONG)})"  # an identifier, rather than a measurement
        inexact = f"{long} AND TRY_CAST({double} AS HUGEINT) IS DISTINCT FROM TRY_CAST({digits} AS HUGEINT)"
        return f"CASE WHEN isfinite({double}) AND NOT ({inexact}) THEN {value} END"
    if is_decimal(wanted):
        return f"CASE WHEN CAST({value} AS DOUBLE) = {double} THEN {value} END"
    exact = f"{double} = trunc({double}) AND abs({double}) <= {_EXACT}"
    whole = f"CASE WHEN {exact} THEN TRY_CAST({double} AS {wanted}) END"
    return f"CASE WHEN regexp_full_match({digits}, {literal(_WHOLE)}) THEN {value} ELSE {whole} END"
