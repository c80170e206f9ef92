"""Every type under every other: a value is equal in the union, or null and counted; nothing is silent.

The reference is slow and obvious: what was written is held as exact Python values, the output is read back by
another reader, and every value is compared. With `strict`, all of them are equal or the union is an error.
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product, zip_longest
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gentus.lake import Limits, Source, read
from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, UnionPlan
from gentus.union.local import LocalUnion
from gentus.union.output import Output
from gentus.union.report import UnionReport
from gentus.union.session import MEMORY

Value = tuple[str, Any] | None  # a kind (number, time, ...), and an exact value of it
_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
FORMATS = ("csv", "parquet", "arrow", "duckdb", "int96")
TOGETHER = 40  # pairs of columns in one union


# --- exact values --------------------------------------------------------------------------------------


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
            return [None if one is None else ("nested", _json(one)) for one in column.to_pylist()]
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


def _json(text: str) -> Any:
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
    found = _CLOCK.fullmatch(text)
    if not found:
        return None
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
    return (-1 if found[1] else 1) * (seconds * 10**9 + int((found[5] or "").ljust(9, "0")))


def interval(text: str) -> tuple[int, int, int] | None:
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
            return _json(text)
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
        return into == "text" and _same_nested(value, _json(other))
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


# --- columns -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column to write: as text, as Arrow, or as DuckDB has it."""

    name: str
    format: str  # csv, parquet, arrow or duckdb
    cells: Any  # texts, an Arrow array, or a type of DuckDB and texts that it is cast from
    values: Sequence[Value]


def _ints(bits: int, signed: bool) -> list[int | None]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [2**24 + 1, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**63 + 1, 999, 1234]
    return [0, 1, None, low, low + 1, high, high - 1, *(one for one in near if low <= one <= high)]


def _buffer_array(kind: pa.DataType, values: Sequence[int | None], width: type = np.int64) -> pa.Array:
    whole = pa.array(values, pa.from_numpy_dtype(width))
    return whole.view(kind)


def _times(unit: str) -> list[int | None]:
    """Counts of a unit since 1970: years 1 and 9999, the ends of 64 bits, and smallest steps."""
    per = 10**9 // _NS[unit]
    far = [-62_135_596_800 * per, 253_402_300_799 * per, 9_214_646_400 * per, -9_223_286_400 * per]
    return [
        0,
        None,
        1,
        -1,
        1_577_836_800 * per,
        1_577_836_800 * per + 1,
        86_399 * per,
        *(one for one in far if abs(one) < 2**63),
    ]


FLOATS = [0.0, -0.0, 1.0, 0.5, None, -2.5, 0.1, float("nan"), float("inf"), -float("inf"), 123.0]
WIDE = [2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e22, 5e-324, 1.7976931348623157e308, 1e-7, 16_777_217.0]


def _decimals(precision: int, scale: int) -> list[Any]:
    from decimal import Context, Decimal

    exact_ = Context(prec=100)
    most = Decimal(10**precision - 1).scaleb(-scale, exact_)
    found = [
        Decimal(0),
        Decimal(1),
        None,
        most,
        -most,
        Decimal(1).scaleb(-scale, exact_),
        Decimal("1.5"),
        Decimal(9007199254740993),
        Decimal("0.1"),
    ]
    step = Decimal(1).scaleb(-scale, exact_)
    return [
        one if one is None else one.quantize(step, context=exact_)
        for one in found
        if one is None or (abs(one) <= most and one == one.quantize(step, context=exact_))
    ]


@cache
def arrow_arrays() -> dict[str, pa.Array]:
    """Columns of every Arrow type, with the values at which types end."""
    found: dict[str, pa.Array] = {"null": pa.nulls(3)}
    found["bool"] = pa.array([True, False, None])
    for bits in (8, 16, 32, 64):
        found[f"int{bits}"] = pa.array(_ints(bits, True), getattr(pa, f"int{bits}")())
        found[f"uint{bits}"] = pa.array(_ints(bits, False), getattr(pa, f"uint{bits}")())
    found["small int64"] = pa.array([1, 2, None, 3])
    found["float16"] = pa.array(
        [None if one is None else np.float16(one) for one in [*FLOATS, 65504.0]], pa.float16()
    )
    found["float32"] = pa.array([*FLOATS, 16_777_216.0, 1e38, 1.17549435e-38], pa.float32())
    found["float64"] = pa.array([*FLOATS, *WIDE])
    found["whole float64"] = pa.array([1.0, 2.0, None, 2.0**53])
    for kind in (
        pa.decimal32(5, 2),
        pa.decimal64(15, 3),
        pa.decimal128(38, 9),
        pa.decimal128(38, 0),
        pa.decimal128(38, 38),
        pa.decimal128(20, 3),
        pa.decimal256(76, 20),
        pa.decimal256(60, 3),
        pa.decimal256(20, 5),
    ):
        found[str(kind)] = pa.array(_decimals(kind.precision, kind.scale), kind)
    found["date32"] = _buffer_array(
        pa.date32(), [0, None, 1, -719_162, 2_932_896, 18_262, 2**31 - 2, -(2**30)], np.int32
    )
    found["date64"] = _buffer_array(
        pa.date64(), [0, None, 86_400_000, -719_162 * 86_400_000, 2_932_896 * 86_400_000]
    )
    for kind, width in (
        (pa.time32("s"), np.int32),
        (pa.time32("ms"), np.int32),
        (pa.time64("us"), np.int64),
        (pa.time64("ns"), np.int64),
    ):
        per = 10**9 // _NS[kind.unit]
        found[str(kind)] = _buffer_array(
            kind, [0, None, 1, 86_399 * per, 86_400 * per - 1, 3600 * per], width
        )
    for unit, zone in product(("s", "ms", "us", "ns"), (None, "UTC", "Europe/Paris")):
        found[f"timestamp {unit} {zone}"] = _buffer_array(pa.timestamp(unit, zone), _times(unit))
        found[f"late timestamp {unit} {zone}"] = _buffer_array(
            pa.timestamp(unit, zone), [0, None, 1_577_836_800 * 10**9 // _NS[unit]]
        )
    for unit in ("s", "ms", "us", "ns"):
        found[f"duration {unit}"] = _buffer_array(
            pa.duration(unit), [0, None, 1, -1, 90_061 * 10**9 // _NS[unit], 2**63 - 1]
        )
    spans = [(1, 2, 3000), (0, 0, 1), None, (-1, 0, -1), (14, 0, 3_600_000_000_000)]
    found["month_day_nano"] = pa.array(spans, pa.month_day_nano_interval())
    bytes_ = [b"", b"abc", None, b"\xff\x00", "é".encode(), b"\\x41", b"12"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        found[str(kind)] = pa.array(bytes_, kind)
    found["fixed binary"] = pa.array([b"ab", None, b"\xff\x00", b"12"], pa.binary(2))
    texts = [
        "",
        " ",
        "abc",
        None,
        "12",
        "1.5",
        "2020-01-31",
        "true",
        "\\x41",
        "é",
        "9007199254740993",
        "12:00:00",
        "a\nb",
        '"',
    ]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        found[str(kind)] = pa.array(texts, kind)
    found["number strings"] = pa.array(["1", "2.5", None, "9007199254740993", "0.1", "1e3", "-0"])
    found["dictionary"] = pa.array(["a", None, "1", "a"]).dictionary_encode()
    found["dictionary of ints"] = pa.array([2**53 + 1, None, 2]).dictionary_encode()
    found["list"] = pa.array([[1, None, 2**53 + 1], [], None])
    found["large list"] = pa.array([["a", '"'], None], pa.large_list(pa.string()))
    found["list view"] = pa.array([[1], None, [2, 3]], pa.list_view(pa.int64()))
    found["fixed list"] = pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    found["struct"] = pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "é"}])
    found["map"] = pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64()))
    for name, inner in (
        ("timestamp ns UTC", "timestamp ns UTC"),
        ("duration ns", "duration ns"),
        ("decimal256", "decimal256(76, 20)"),
        ("float64", "float64"),
        ("time ns", "time64[ns]"),
        ("binary", "binary"),
        ("decimal", "decimal128(38, 9)"),
        ("date", "date32"),
        ("month_day_nano", "month_day_nano"),
    ):
        values = found[inner].slice(0, 6)
        found[f"list of {name}"] = pa.ListArray.from_arrays(
            pa.array([0, len(values) - 1, len(values)], pa.int32()), values
        )
    found["uuid"] = pa.array([UUID(int=1).bytes, None, UUID(int=2**127 + 5).bytes], pa.uuid())
    found["json"] = pa.array(['{"a": [1, 2.5]}', None, '"x"'], pa.json_(pa.string()))
    found["run ends"] = pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 3], pa.int32()), pa.array([7, 2**53 + 1])
    )
    found["dense union"] = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([5]), pa.array(["x"])]
    )
    return found


DUCKDB = {
    "HUGEINT": [str(2**127 - 1), str(-(2**127)), "9007199254740993", "1"],
    "HUGEINT of 38 digits": ["99999999999999999999999999999999999999", "18446744073709551616", "-5"],
    "small HUGEINT": ["1", "9007199254740993", "9223372036854775807"],
    "UHUGEINT": ["340282366920938463463374607431768211455", "0"],
    "BIGNUM": ["123456789012345678901234567890123456789012345678901", "1"],
    "UBIGINT": ["18446744073709551615", "0"],
    "DECIMAL(38,9)": ["12345678901234567890123456789.123456789", "0.1"],
    "TIMESTAMP_S": ["2020-01-01 00:00:01", "0001-01-01 00:00:00", "9999-12-31 23:59:59"],
    "TIMESTAMP_MS": ["2020-01-01 00:00:00.001", "9999-12-31 23:59:59.999"],
    "TIMESTAMP": ["2020-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999", "0044-03-15 (BC) 00:00:00"],
    "TIMESTAMP_NS": ["2020-01-01 00:00:00.000000001", "2262-04-11 00:00:00", "2020-01-01 00:00:00"],
    "TIMESTAMPTZ": ["2020-01-01 00:00:00.000001+00", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59+00"],
    "TIMESTAMPTZ_NS": ["2020-01-01 00:00:00.000000001+00", "2020-01-01 12:00:00+00", "2020-01-01+00"],
    "TIME": ["00:00:00", "23:59:59.999999", "24:00:00"],
    "TIME_NS": ["00:00:00.000000001", "12:00:00"],
    "TIMETZ": ["12:00:00+02", "12:00:00+00", "23:59:59.999999-15:59"],
    "DATE": ["0001-01-01", "9999-12-31", "2020-01-31", "0044-03-15 (BC)"],
    "INTERVAL": ["1 month 2 days 00:00:00.000003", "-1 days", "00:00:01", "1 year"],
    "BIT": ["0101", "1"],
    "BLOB": [r"\xFF\x00", "abc", "12"],
    "UUID": ["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-00000000000f"],
    "ENUM('a', 'b', '1')": ["a", "b", "1"],
    "BIGINT[]": ["[1, 9007199254740993]", "[]"],
    "TIMESTAMPTZ_NS[]": ["['2020-01-01 00:00:00.000000001+00']"],
    "HUGEINT[]": ["[170141183460469231731687303715884105727]"],
    "STRUCT(a DECIMAL(38,9), b VARCHAR)": ["{'a': 12345678901234567890123456789.123456789, 'b': x}"],
    "MAP(VARCHAR, TIME_NS)": ["{k=00:00:00.000000001}"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["0.1", "-0.0", "inf", "nan", "1e300"],
    "FLOAT": ["0.1", "16777216"],
}  # fmt: skip
_KINDS = {"BLOB": "bytes", "BOOLEAN": "boolean", "INTERVAL": "interval", "DOUBLE": "float", "FLOAT": "float"}

TEXTS = {
    "whole": ["1", "-20", "", "30"],
    "fractions": ["0.5", "1.5", ""],
    "decimal comma": ["0,5", "1,25"],
    "dates": ["2020-01-31", "", "2021-12-01"],
    "times": ["2020-01-31 10:00:00", "2020-02-01 11:30:00"],
    "zoned times": ["2020-01-31T10:00:00Z", "2020-01-31T10:00:00+02:00"],
    "booleans": ["yes", "no", ""],
    "ids": ["007", "008"],
    "words": ["abc", "", "x y"],
    "long fractions": ["0.1234567890123456789", "1.5"],
    "nanoseconds": ["2020-01-01 00:00:00.123456789", "2020-01-01 00:00:00"],
}


def _duckdb_value(kind: str, text: str) -> Value:
    if kind.startswith("FLOAT"):
        return "float", np.float32(text)
    if kind in _KINDS:
        value = bytes([255, 0]) if text.startswith("\\") else parsed(text, _KINDS[kind], 0.0)
        return _KINDS[kind], (0, -1, 0) if text == "-1 days" else value
    if re.match("U?HUGEINT$|HUGEINT of|small HUGEINT|BIGNUM|UBIGINT|DECIMAL", kind):
        return "number", Fraction(text)
    if kind in ("TIME", "TIME_NS"):
        return "clock", clock(text)
    if kind.endswith("[]") or kind.startswith(("STRUCT", "MAP")):
        value = re.sub(r"([{ ])(\w+)=", r"\1'\2': ", text).replace("'", '"')
        value = re.sub(r": (x|[\d:]{8}\.\d+)(?=[,}])", r': "\1"', value)
        return "nested", _tagged(_json(value))
    if kind.startswith(("TIMESTAMP", "DATE")):
        return ("zoned" if "TZ" in kind else "time"), instant(text)
    return "text", text


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tagged(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(_tagged, value))
    return ("number", value) if isinstance(value, Fraction) else ("text", value)


def _parquet_can(array: pa.Array) -> bool:
    try:
        pq.write_table(pa.table({"c": array}), pa.BufferOutputStream())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


@cache
def columns() -> dict[str, list[Column]]:
    """All columns by the format that they are written in."""
    arrays = arrow_arrays()
    found: dict[str, list[Column]] = {format: [] for format in FORMATS}
    for name, texts in TEXTS.items():
        values = [("text", text) if text else None for text in texts]
        if name == "decimal comma":
            values = [("text", text.replace(",", ".")) for text in texts]
        found["csv"].append(Column(name, "csv", texts, values))
    for name, array in arrays.items():
        values = exact(array)
        found["arrow"].append(Column(name, "arrow", array, values))
        if _parquet_can(array):
            found["parquet"].append(Column(name, "parquet", array, values))
    for name in ("timestamp ns None", "timestamp us None", "late timestamp ns None"):
        array = arrays[name]
        found["int96"].append(Column(f"INT96 {name}", "int96", array, exact(array)))
    for kind, texts in DUCKDB.items():
        values = [_duckdb_value(kind, text) for text in texts]
        found["duckdb"].append(
            Column(kind, "duckdb", (kind.split(" of ")[0].removeprefix("small "), texts), [*values, None])
        )
    return found


def write(folder: Path, name: str, some: Sequence[Column]) -> PlannedTable:
    """A table of columns c0, c1, .., as long as its longest."""
    format = some[0].format
    path = folder / f"{name}.{ {'int96': 'parquet'}.get(format, format) }"
    path.unlink(missing_ok=True)
    header = [f"c{at}" for at in range(len(some))]
    longest = max(len(one.values) for one in some)
    part = None
    if format == "csv":
        with path.open("w", newline="") as file:
            rows = zip_longest(*(one.cells for one in some), fillvalue="")
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
                [[*header, "x"], *([*row, "x"] for row in rows)]
            )
    elif format == "duckdb":
        part = "t"
        with duckdb.connect(str(path)) as base:
            base.execute("SET TimeZone = 'UTC'")
            base.execute(
                f"CREATE TABLE t ({', '.join(f'c{at} {one.cells[0]}' for at, one in enumerate(some))})"
            )
            for row in range(longest):
                cells = (one.cells[1][row] if row < len(one.cells[1]) else None for one in some)
                casts = (
                    f"CAST({_quoted(cell)} AS {one.cells[0]})" for cell, one in zip(cells, some, strict=True)
                )
                base.execute(f"INSERT INTO t SELECT {', '.join(casts)}")
    else:
        padded = [_padded(one.cells, longest) for one in some]
        table = pa.table(padded, header)
        if format == "arrow":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        else:
            pq.write_table(table, path, use_deprecated_int96_timestamps=format == "int96")
    placed = tuple(Placement(one, one) for one in header)
    return PlannedTable(path.stem, str(path), part, placed, header="yes" if format == "csv" else "auto")


def _quoted(cell: str | None) -> str:
    return "NULL" if cell is None else "'" + cell.replace("'", "''") + "'"


def _padded(array: pa.Array, rows: int) -> pa.Array:
    if len(array) == rows:
        return array
    if isinstance(array, pa.RunEndEncodedArray):
        ends = [*array.run_ends.to_pylist(), rows]
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(ends, pa.int32()), pa.concat_arrays([array.values, pa.nulls(1, array.values.type)])
        )
    if isinstance(array, pa.UnionArray):
        more = rows - len(array)
        ids = pa.array([*array.type_codes.to_pylist(), *([0] * more)], pa.int8())
        offsets = pa.array([*array.offsets.to_pylist(), *([1] * more)], pa.int32())
        return pa.UnionArray.from_dense(ids, offsets, [pa.array([5, None]), pa.array(["x"])])
    if isinstance(array, pa.ExtensionArray):
        storage = pa.concat_arrays([array.storage, pa.nulls(rows - len(array), array.storage.type)])
        return pa.ExtensionArray.from_storage(array.type, storage)
    return pa.concat_arrays([array, pa.nulls(rows - len(array), array.type)])


# --- the net -------------------------------------------------------------------------------------------


def run(
    folder: Path, pairs: Sequence[tuple[Column, Column]], strict: bool = False
) -> tuple[pa.Table, UnionReport, UnionPlan]:
    """The union of a query and of a table with columns in pairs, read back by pyarrow."""
    query, table = (write(folder, name, [pair[at] for pair in pairs]) for at, name in enumerate("qt"))
    outputs = tuple(OutputColumn(f"c{at}") for at in range(len(pairs)))
    union = LocalUnion(UnionPlan(query, (table,), outputs, strict=strict), None, Limits(), MEMORY)
    report = union.write(Output(folder / "out.parquet", "parquet", force=True))
    assert union.ran is not None
    return pq.ParquetFile(folder / "out.parquet").read(), report, union.ran


def compare(
    pairs: Sequence[tuple[Column, Column]], ran: tuple[pa.Table, UnionReport, UnionPlan]
) -> tuple[list[str], set[str]]:
    """Silent differences in words, and the columns in which values are lost and counted."""
    rows, report, plan = ran
    silent, lossy = [], set()
    for side, name in enumerate("qt"):
        half = rows.filter(pc.equal(rows["_source_table"], name))
        told = {one.into: one for one in report.tables[side].columns}
        for at, pair in enumerate(pairs):
            column, into = pair[side], f"c{at}"
            found = exact(half[into])
            both = " + ".join(f"{one.format} {one.name}" for one in pair)
            where = f"{both}, {name}, {told[into].type}"
            lost = 0
            for source, other in zip_longest(column.values, found):
                if source is None or other is None:
                    lost += source is not None and not (column.format == "csv" and source == ("text", ""))
                    if source is None and other is not None:
                        silent.append(f"{where}: null became {other}")
                elif not agrees(source, other):
                    silent.append(f"{where}: {source} became {other}")
            counted = told[into].unconverted + told[into].taken_as_null.total()
            blank = sum(
                value is not None and value[0] in ("text", "bytes") and not value[1].strip()
                for value in column.values
            )
            if not counted <= lost <= counted + (blank if told[into].type != "VARCHAR" else 0):
                silent.append(f"{where}: {lost} values are null and {counted} are counted")
            if told[into].unconverted:
                lossy.add(f"{name}: {told[into].loss()}")
            kinds = {value[0] for value in column.values if value} | {value[0] for value in found if value}
            if kinds == {"time", "zoned"} and lost < len(list(filter(None, column.values))):
                notes = f"{told[into].note} {plan.columns[at].note}"
                if "UTC" not in notes:
                    silent.append(f"{where}: nothing says that times are in UTC")
    return silent, lossy


def check(folder: Path, pairs: Sequence[tuple[Column, Column]]) -> None:
    """No silent difference; a strict union has all values, or names every column that loses some."""
    silent, lossy = compare(pairs, run(folder, pairs))
    assert not silent, "\n".join(silent)
    if not lossy:
        assert compare(pairs, run(folder, pairs, strict=True)) == ([], set())
        return
    with pytest.raises(PlanError) as caught:
        run(folder, pairs, strict=True)
    assert [loss for loss in lossy if loss not in str(caught.value)] == []


SIDES = [pair for pair in product(FORMATS, repeat=2) if pair != ("csv", "csv")]


@pytest.mark.parametrize(("query", "table"), random.Random(3).sample(SIDES, 7))
def test_types_under_each_other(tmp_path: Path, query: str, table: str) -> None:
    """Some pairs of some formats, seeded."""
    pairs = list(product(columns()[query], columns()[table]))
    check(tmp_path, random.Random(f"{query} {table}").sample(pairs, min(TOGETHER, len(pairs))))


@pytest.mark.slow
@pytest.mark.parametrize(("query", "table"), SIDES)
def test_all_types_under_each_other(tmp_path: Path, query: str, table: str) -> None:
    """Minutes for two formats."""
    pairs = list(product(columns()[query], columns()[table]))
    for begin in range(0, len(pairs), TOGETHER):
        check(tmp_path, pairs[begin : begin + TOGETHER])


def arrow(name: str, array: pa.Array) -> Column:
    return Column(name, "arrow", array, exact(array))


def text_column(*cells: str) -> Column:
    return Column("text", "csv", cells, [("text", cell) for cell in cells])


def whole(*numbers: int) -> Column:
    return arrow("int64", pa.array(numbers, pa.int64()))


def test_whole_numbers_are_not_rounded(tmp_path: Path) -> None:
    """Under fractions, what a DOUBLE cannot hold is null, counted, and an error if strict."""
    fractions = text_column("0.5", "1.5")
    pairs = [
        (fractions, whole(2**53 + 1, 3)),
        (fractions, arrow("uint64", pa.array([2**64 - 1, 3], pa.uint64()))),
        (fractions, Column("decimal", "arrow", *_of_decimal("12345678901234567890123456789.123456789"))),
    ]
    for pair in pairs:
        check(tmp_path, [pair])
        rows, report, _ = run(tmp_path, [pair])
        assert rows["c0"].to_pylist()[:3] == [0.5, 1.5, None]
        assert report.tables[1].columns[0].unconverted == 1
    _, report, plan = run(tmp_path, [(whole(1), whole(2**53 + 1))])
    assert (plan.columns[0].type, report.unconverted) == ("BIGINT", 0)


def _of_decimal(text: str) -> tuple[pa.Array, list[Value]]:
    from decimal import Decimal

    array = pa.array([Decimal(text)], pa.decimal128(38, 9))
    return array, exact(array)


def test_text_is_not_rounded_to_whole_numbers(tmp_path: Path) -> None:
    cells = text_column("1.0000000000000000001", "9007199254740993.0", "1e3", "7.00")
    query, table = write(tmp_path, "q", [whole(1, 2)]), write(tmp_path, "t", [cells])
    plan = UnionPlan(query, (table,), (OutputColumn("c0", "BIGINT"),))
    report = LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.parquet", "parquet"))
    assert pq.read_table(tmp_path / "out.parquet")["c0"].to_pylist() == [1, 2, None, 2**53 + 1, 1000, 7]
    assert report.tables[1].columns[0].examples == ["1.0000000000000000001"]


def test_times_beyond_64_bits_name_their_column(tmp_path: Path) -> None:
    """No error of DuckDB or Arrow ends a union."""
    for unit, format in (("s", "arrow"), ("ms", "arrow"), ("ms", "parquet")):
        endless = Column(
            "endless", format, _buffer_array(pa.timestamp(unit, "UTC"), [0, 2**62 - 1]), [None] * 2
        )
        with pytest.raises(PlanError) as caught:
            run(tmp_path, [(text_column("2020-01-31"), endless)])
        assert str(caught.value) == "t: its column 'c0' has times beyond the year 294246"


@pytest.mark.parametrize("unit", [0, 1])
def test_columns_of_unknown_types_are_left_out(tmp_path: Path, unit: int) -> None:
    """Intervals of months, or of days and milliseconds, which pyarrow can neither make nor read."""
    data = pa.table({"m": pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "n": [5]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    written = sink.getvalue().to_pybytes()
    changed = (
        written[:at] + bytes([unit]) + written[at + 1 :] for at, byte in enumerate(written) if byte == 2
    )
    one = next(one for one in changed if "_interval" in _kind_of(one) and "nano" not in _kind_of(one))
    (tmp_path / "t.arrow").write_bytes(one)
    query = write(tmp_path, "q", [text_column("1", "2")])
    table = PlannedTable("t", str(tmp_path / "t.arrow"), None, (Placement("n", "c0"),))
    plan = UnionPlan(query, (table,), (OutputColumn("c0"),))
    union = LocalUnion(plan, None, Limits(), MEMORY)
    report = union.write(Output(tmp_path / "out.parquet", "parquet"))
    assert pq.read_table(tmp_path / "out.parquet")["c0"].to_pylist() == [1, 2, 5]
    kind = ("month", "day_time")[unit]
    assert f"t: left out, as pyarrow lacks their type: m ({kind}_interval)" in report.notes
    with pytest.raises(PlanError, match=r"--strict allows no loss:\s+t: left out"):
        LocalUnion(replace(plan, strict=True), None, Limits(), MEMORY).preview()
    sampled = read(Source("t.arrow", tmp_path / "t.arrow", None, 0, 0))
    assert ([one.name for one in sampled.columns], kind in sampled.reading) == (["n"], True)


def _kind_of(stream: bytes) -> str:
    try:
        return str(pa.ipc.open_stream(stream).schema.field(0).type)
    except (pa.ArrowInvalid, OSError, KeyError, IndexError):
        return ""


def test_int96_times_that_nothing_holds_are_left_out(tmp_path: Path) -> None:
    """Nanoseconds and the year 9999 in one column; without either, DuckDB or Arrow holds them."""
    late = 253_402_300_799
    columns_ = {"far": (late * 10**6, 1, "us"), "exact": (1, 2, "ns"), "both": (late * 10**6, 7, "us")}
    arrays = [_buffer_array(pa.timestamp(unit), [one, two]) for one, two, unit in columns_.values()]
    path = tmp_path / "t.parquet"
    options: Any = {"use_deprecated_int96_timestamps": True, "use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table(arrays, list(columns_)), path, **options)
    seven = struct.pack("<q", 7000)  # nanoseconds of the day, which pyarrow writes only as it reads them
    path.write_bytes(path.read_bytes().replace(seven, struct.pack("<q", 7001)))
    query = write(tmp_path, "q", [text_column("2020-01-31 00:00:00")])
    table = PlannedTable("t", str(path), None, (Placement("far", "c0"), Placement("exact", "c1")))
    plan = UnionPlan(query, (table,), (OutputColumn("c0"), OutputColumn("c1")))
    report = LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.parquet", "parquet"))
    found = pq.read_table(tmp_path / "out.parquet")
    assert [one and one[1] for one in exact(found["c0"])] == [1_580_428_800 * 10**9, late * 10**9, 1000]
    assert [one and one[1] for one in exact(found["c1"])] == [None, 1, 2]
    assert report.unconverted == 0
    assert report.notes == ["t: left out, as their INT96 times fit no other type: both"]


def test_bytes_of_sqlite_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE t (c0)")
        base.executemany("INSERT INTO t VALUES (?)", [("a",), (b"\xff",)])
        base.commit()
    query = write(tmp_path, "q", [text_column("x")])
    table = PlannedTable("t", str(path), "t", (Placement("c0", "c0"),))
    plan = UnionPlan(query, (table,), (OutputColumn("c0"),))
    report = LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.parquet", "parquet"))
    assert report.tables[1].tally.binary == 1
    with pytest.raises(PlanError, match="--strict allows no loss:\n  t: 1 cells are not text"):
        LocalUnion(replace(plan, strict=True), None, Limits(), MEMORY).write(
            Output(tmp_path / "o.csv", "csv")
        )
    assert not (tmp_path / "o.csv").exists()


def test_csv_has_every_value(tmp_path: Path) -> None:
    """Read back by Python's csv: a column of each type, as text that is exactly its value."""
    some = [
        one for one in columns()["arrow"] if {value[0] for value in one.values if value} - {"text", "bytes"}
    ]
    query = write(tmp_path, "q", some)
    plan = UnionPlan(
        query, (replace(query, name="copy"),), tuple(map(OutputColumn, [one.into for one in query.columns]))
    )
    LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.csv", "csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    rows = rows[: len(rows) // 2]
    for at, column in enumerate(some):
        for value, row in zip(column.values, rows, strict=False):
            if value is None or (value[0] == "text" and not value[1]):
                assert row[at] == ""
            else:
                assert agrees(value, ("text", row[at])), (column.name, value, row[at])
