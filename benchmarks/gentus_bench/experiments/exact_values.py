"""Values as exact as their source has them, and whether one of a union is the same: slow and obvious.

Integers and decimals are fractions, times are nanoseconds, text is read as what its source was.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Value = tuple[str, Any] | None  # a kind (number, time, ...), and an exact value of it
_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9


def exact(column: pa.Array | pa.ChunkedArray) -> list[Value]:
    """The values of an Arrow column, exactly."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ExtensionArray):
        kind = str(column.type)
        column = column.storage
        if "uuid" in kind:
            return [None if one is None else ("text", str(UUID(bytes=one))) for one in column.to_pylist()]
        if "json" in kind:
            return [None if one is None else ("nested", nested(one)) for one in column.to_pylist()]
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column, pa.RunEndEncodedArray):
        column = pc.run_end_decode(column)
    if isinstance(column, pa.UnionArray):
        return [("text", str(one)) for one in column.to_pylist()]
    of = _reader(column.type)
    return [of(scalar) if scalar.is_valid else None for scalar in column]


def _reader(kind: pa.DataType) -> Callable[[Any], Value]:
    is_ = pa.types
    if is_.is_boolean(kind):
        return lambda one: ("boolean", one.as_py())
    if is_.is_integer(kind) or is_.is_decimal(kind):
        return lambda one: ("number", Fraction(one.as_py()))
    if is_.is_floating(kind):
        bits = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
        return lambda one: ("float", bits(one.as_py()))
    if is_.is_date32(kind):
        return lambda one: ("time", one.value * _DAY)
    if is_.is_date64(kind):
        return lambda one: ("time", one.value * 10**6)
    if is_.is_timestamp(kind):
        return lambda one: ("zoned" if kind.tz else "time", one.value * _NS[kind.unit])
    if is_.is_time(kind):
        return lambda one: ("clock", one.value * _NS[kind.unit])
    if is_.is_duration(kind):
        return lambda one: ("interval", (0, 0, one.value * _NS[kind.unit]))
    if kind == pa.month_day_nano_interval():
        return lambda one: ("interval", tuple(one.as_py()))
    if (
        is_.is_binary(kind)
        or is_.is_large_binary(kind)
        or is_.is_fixed_size_binary(kind)
        or str(kind) == "binary_view"
    ):
        return lambda one: ("bytes", one.as_py())
    if is_.is_nested(kind):
        return lambda one: ("nested", _plain(one))
    return lambda one: ("text", one.as_py())


def _plain(scalar: Any) -> Any:
    """A nested value as JSON has it; what JSON lacks is an exact value."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.MapScalar):
        return {str(one["key"].as_py()): _plain(one["value"]) for one in scalar.values}
    if isinstance(scalar, pa.ListScalar | pa.ListViewScalar):
        return [_plain(one) for one in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {name: _plain(scalar[name]) for name in scalar}
    return _reader(scalar.type)(scalar)


def nested(text: str) -> Any:
    """JSON, with exact numbers."""
    return json.loads(text, parse_float=Fraction, parse_int=Fraction)


_ISO = re.compile(
    r"([+-]?\d{4,})-(\d\d)-(\d\d)( \(BC\))?(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?"
)
_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_INTERVAL = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?(-?\d+:\d\d:\d\d(?:\.\d+)?)?"
)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the calendar of today, of any year."""
    era, shifted = divmod(year - (month < 3), 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + shifted * 365 + shifted // 4 - shifted // 100 + of_year - 719_468


def instant(text: str) -> int | None:
    """Nanoseconds since 1970 of a date or time as text."""
    found = _ISO.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(found[at] or 0) for at in (1, 2, 3, 5, 6, 7))
    zone = found[9] or "Z"
    away = 0
    if zone != "Z":
        away = (int(zone[1:3]) * 60 + int(zone[3:].strip(":") or 0)) * (-1 if zone[0] == "-" else 1)
    seconds = _days(1 - year if found[4] else year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    return (seconds - away * 60) * 10**9 + int((found[8] or "").ljust(9, "0"))


def clock(text: str) -> int | None:
    """Nanoseconds of a time of day, or of a span."""
    found = _CLOCK.fullmatch(text)
    if not found:
        return None
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
    return (-1 if found[1] else 1) * (seconds * 10**9 + int((found[5] or "").ljust(9, "0")))


def interval(text: str) -> tuple[int, int, int] | None:
    """Months, days and nanoseconds of a span."""
    found = _INTERVAL.fullmatch(text)
    if not found or not text:
        return None
    years, months, days = (int(part or 0) for part in found.groups()[:3])
    return years * 12 + months, days, clock(found[4]) or 0 if found[4] else 0


def parsed(text: str, kind: str, like: Any = None) -> Any:
    """A text, read as a value of a kind; `like` has the precision of a float."""
    match kind:
        case "number":
            return Fraction(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.I) else None
        case "float":
            return type(like)(text)
        case "boolean":
            return {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}.get(
                text.lower()
            )
        case "time" | "zoned":
            return instant(text)
        case "clock":
            return clock(text)
        case "interval":
            return interval(text)
        case "bytes":
            return text.encode()
        case "nested":
            return nested(text)
    return text


def agrees(source: Value, found: Value) -> bool:
    """Whether a value of the output is that of its source, though its type may be another."""
    assert source is not None
    assert found is not None
    (kind, value), (into, other) = source, found
    if kind == "bytes" and into not in ("bytes", "text"):  # old writers store text as bytes
        return agrees(("text", value.decode()), found)
    if into == "bytes" and kind != "bytes":
        return agrees(source, ("text", other.decode()))
    if kind == "nested":
        return into == "text" and _same_nested(value, nested(other))
    if kind == "float" and into == "float":
        return (bool(value == other) and math.copysign(1, value) == math.copysign(1, other)) or (
            value != value and other != other
        )
    if into == kind:
        return bool(value == other) or (other in ("0,5", "1,25") and value == other.replace(",", "."))
    if into == "text":
        read = parsed(other, kind, value)
        return read is not None and bool(read == value or (read != read and value != value))
    if kind == "text":
        value = {"yes": "1", "no": "0"}.get(value) or value
        if into == "float":
            return bool(float(value) == other) and (not value.isdigit() or int(value) == other)
        return bool(parsed(value, into) == other)
    match kind, into:
        case ("float", "number"):
            if not math.isfinite(value):
                return False
            return other in (Fraction(str(value)), Fraction(str(np.float32(value))), Fraction(float(value)))
        case ("number", "float"):
            return math.isfinite(other) and (Fraction(float(other)) == value or Fraction(str(other)) == value)
        case ("time", "zoned") | ("zoned", "time"):
            return bool(value == other)
        case ("boolean", "number") | ("number", "boolean"):
            return int(value) == int(other)
        case ("float", "boolean"):
            return float(value) == float(other)
    return False


def _same_nested(value: Any, other: Any) -> bool:
    if isinstance(value, dict):
        return (
            isinstance(other, dict)
            and value.keys() == other.keys()
            and all(_same_nested(value[k], other[k]) for k in value)
        )
    if isinstance(value, list):
        return isinstance(other, list) and len(value) == len(other) and all(map(_same_nested, value, other))
    if not isinstance(value, tuple):
        return bool(value == other) or str(value) == str(other)
    kind, inner = value
    if isinstance(other, bool) or kind == "boolean":
        return other is inner
    if kind == "bytes" and isinstance(other, str):  # JSON has no bytes: as DuckDB writes them
        return other == "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b"\\'\"" else f"\\x{byte:02X}" for byte in inner
        )
    if isinstance(other, str):
        return agrees(value, ("text", other))
    if kind == "float":
        return (
            Fraction(float(inner)) == other or Fraction(str(inner)) == other
            if math.isfinite(inner)
            else str(float(other)).lower().startswith(str(float(inner)).lower())
        )
    return bool(inner == other)
