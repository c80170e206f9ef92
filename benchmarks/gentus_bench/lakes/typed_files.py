"""Parquet and Arrow files with columns of every type, and with the values at which types end."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_ROWS, _COLUMNS = 300, 12
_FAR = re.compile("timestamp (s|ms|us) ")
_ALONE = ("run ends", "dense union")  # which pyarrow does not join


def make_typed_files(out: Path, count: int, seed: int = 0) -> None:
    """Write files with columns and values drawn from those of `arrow_arrays`; every third has INT96 times."""
    chance = random.Random(seed)
    out.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        as_parquet = bool(number % 3)
        int96 = number % 3 == 2  # whose times pyarrow itself reads as nanoseconds: no year 1 or 9999
        arrays = {name: one for name, one in arrow_arrays().items() if not as_parquet or parquet_can(one)}
        names = [name for name in arrays if name not in _ALONE and not (int96 and _FAR.match(name))]
        chosen = chance.sample(names, _COLUMNS)
        columns = [_drawn(arrays[name], chance) for name in chosen]
        table = pa.table(columns, chosen)
        if as_parquet:
            pq.write_table(table, out / f"{number}.parquet", use_deprecated_int96_timestamps=int96)
            continue
        with (
            pa.OSFile(str(out / f"{number}.arrow"), "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table)


def _drawn(array: pa.Array, chance: random.Random) -> pa.Array:
    """Values of an array, drawn with repetitions."""
    cells = [array.slice(at, 1) for at in range(len(array))]
    return pa.concat_arrays(chance.choices(cells, k=_ROWS))


def _ints(bits: int, signed: bool) -> list[int | None]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [2**24 + 1, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**63 + 1, 999, 1234]
    return [0, 1, None, low, low + 1, high, high - 1, *(one for one in near if low <= one <= high)]


def counted(kind: pa.DataType, values: Sequence[int | None], width: type = np.int64) -> pa.Array:
    """An array of a type, given the numbers that it holds."""
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
    found = {"null": pa.nulls(3), **_numbers(), **_dates(), **_texts()}
    return {**found, **_nested(found)}


def _numbers() -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
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
    return found


def _dates() -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    found["date32"] = counted(
        pa.date32(), [0, None, 1, -719_162, 2_932_896, 18_262, 2**31 - 2, -(2**30)], np.int32
    )
    found["date64"] = counted(
        pa.date64(), [0, None, 86_400_000, -719_162 * 86_400_000, 2_932_896 * 86_400_000]
    )
    for kind, width in (
        (pa.time32("s"), np.int32),
        (pa.time32("ms"), np.int32),
        (pa.time64("us"), np.int64),
        (pa.time64("ns"), np.int64),
    ):
        per = 10**9 // _NS[kind.unit]
        found[str(kind)] = counted(kind, [0, None, 1, 86_399 * per, 86_400 * per - 1, 3600 * per], width)
    for unit, zone in product(("s", "ms", "us", "ns"), (None, "UTC", "Europe/Paris")):
        found[f"timestamp {unit} {zone}"] = counted(pa.timestamp(unit, zone), _times(unit))
        found[f"late timestamp {unit} {zone}"] = counted(
            pa.timestamp(unit, zone), [0, None, 1_577_836_800 * 10**9 // _NS[unit]]
        )
    for unit in ("s", "ms", "us", "ns"):
        found[f"duration {unit}"] = counted(
            pa.duration(unit), [0, None, 1, -1, 90_061 * 10**9 // _NS[unit], 2**63 - 1]
        )
    spans = [(1, 2, 3000), (0, 0, 1), None, (-1, 0, -1), (14, 0, 3_600_000_000_000)]
    found["month_day_nano"] = pa.array(spans, pa.month_day_nano_interval())
    return found


def _texts() -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    bytes_ = [b"", b"abc", None, b"\xff\x00", "é".encode(), b"\\x41", b"12"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        found[str(kind)] = pa.array(bytes_, kind)
    found["fixed binary"] = pa.array([b"ab", None, b"\xff\x00", b"12"], pa.binary(2))
    texts = ["", " ", "abc", None, "12", "1.5", "2020-01-31", "true", "\\x41", "é", "9007199254740993"]
    texts += ["12:00:00", "a\nb", '"']
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        found[str(kind)] = pa.array(texts, kind)
    found["number strings"] = pa.array(["1", "2.5", None, "9007199254740993", "0.1", "1e3", "-0"])
    found["dictionary"] = pa.array(["a", None, "1", "a"]).dictionary_encode()
    found["dictionary of ints"] = pa.array([2**53 + 1, None, 2]).dictionary_encode()
    return found


def _nested(plain: dict[str, pa.Array]) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
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
        values = plain[inner].slice(0, 6)
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


def parquet_can(array: pa.Array) -> bool:
    """Whether Parquet holds columns of a type."""
    try:
        pq.write_table(pa.table({"c": array}), pa.BufferOutputStream())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True
