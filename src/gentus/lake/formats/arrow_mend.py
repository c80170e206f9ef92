"""Arrow columns that DuckDB does not take as they are: such types become others, invalid UTF-8 is mended.

So a column costs at most its type, and never the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gentus.lake.base import Unreadable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Count = Callable[[int], None]
_LOSSY = re.compile(r"duration\[|_interval|decimal256")  # of which DuckDB keeps microseconds, or a DOUBLE
LONG_DECIMAL = "LONG DECIMAL"  # no type of DuckDB: decimals of up to 76 digits, which are text there
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def validated(batch: pa.RecordBatch, undecoded: Count = lambda count: None) -> pa.RecordBatch:
    """Check every offset of a batch, since following a damaged one would crash the process.

    Bytes of text that are invalid UTF-8 become U+FFFD and are counted.
    """
    import pyarrow as pa

    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return pa.record_batch([_mended(column, undecoded) for column in batch.columns], batch.schema)
    return batch


def _mended(column: pa.Array, undecoded: Count) -> pa.Array:
    import pyarrow as pa

    try:
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type)
        if as_bytes is None:
            raise
    raw = pa.Array.from_buffers(as_bytes, len(column), column.buffers(), offset=column.offset)
    raw.validate(full=True)
    texts = [None if cell is None else cell.decode("utf-8", "replace") for cell in raw.to_pylist()]
    undecoded(sum(text.count("\ufffd") for text in texts if text))
    return pa.array(texts, column.type)


def replaced_types(duck: duckdb.DuckDBPyConnection, schema: pa.Schema) -> dict[int, pa.DataType]:
    """What columns become whose types DuckDB lacks, or reads with a loss, by their position.

    256-bit decimals, dense unions, durations (it keeps microseconds) and the like become text.
    """
    import pyarrow as pa

    found = {}
    known = _is_known(duck, schema)
    for at, field in enumerate(schema):
        kind = field.type
        if pa.types.is_float16(kind):
            found[at] = pa.float32()
        elif pa.types.is_timestamp(kind) and kind.tz and kind.unit in ("s", "ms"):
            found[at] = pa.timestamp("us", kind.tz)
        elif _LOSSY.search(str(kind)) or not (known or _is_known(duck, pa.schema([field.with_name("c")]))):
            found[at] = pa.string()
    return found


def _is_known(duck: duckdb.DuckDBPyConnection, schema: pa.Schema) -> bool:
    import duckdb as api
    import pyarrow as pa

    try:
        duck.register("gentus_types", schema.empty_table())
        duck.execute("SELECT * FROM gentus_types").fetchall()
    except (api.NotImplementedException, api.InvalidInputException, pa.ArrowNotImplementedError):
        return False  # of unions, pyarrow makes no empty arrays
    finally:
        duck.unregister("gentus_types")
    return True


def replaced(column: pa.Array | pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array:
    """The values of a column as another type; text is as a person would write it, nested values are JSON."""
    import pyarrow as pa

    if column.type == kind:
        return column
    if kind != pa.string():
        try:
            return column.cast(kind)
        except pa.ArrowInvalid as error:
            raise Unreadable(f"its column {name!r} has times beyond the year 294246") from error
    texts = map(_plain, column)
    return pa.array([one if one is None or isinstance(one, str) else json.dumps(one) for one in texts], kind)


def _plain(value: Any) -> Any:
    """An Arrow scalar as JSON has it; what JSON lacks is exact text."""
    import pyarrow as pa

    if isinstance(value, pa.UnionScalar):
        value = value.value
    if value is None or not value.is_valid:
        return None
    kind = value.type
    if isinstance(value, pa.MapScalar):
        return {str(_plain(one["key"])): _plain(one["value"]) for one in value.values}
    if isinstance(value, pa.StructScalar):
        return {name: _plain(value[name]) for name in value}
    if pa.types.is_nested(kind):
        return list(map(_plain, value.values))
    if pa.types.is_duration(kind):
        return _interval(0, 0, value.value * _NANOSECONDS[kind.unit])
    if kind == pa.month_day_nano_interval():
        return _interval(*value.as_py())
    if pa.types.is_decimal(kind):
        return f"{value.as_py():f}"
    if pa.types.is_temporal(kind):
        return value.cast(pa.string()).as_py()
    found = value.as_py()
    return found if isinstance(found, str | int | float) else str(found)


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """A span of time as DuckDB writes it, to the nanosecond."""
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    clock = f"{'-' if nanoseconds < 0 else ''}{clock}{f'.{rest:09}'.rstrip('0') if rest else ''}"
    counts = ((months, "month"), (days, "day"))
    parts = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in counts if count]
    return " ".join([*parts, clock] if nanoseconds or not parts else parts)


def text_type(kind: pa.DataType) -> str:
    """How DuckDB's type is called where values of an Arrow type are text."""
    import pyarrow as pa

    if pa.types.is_duration(kind) or kind == pa.month_day_nano_interval():
        return "INTERVAL"
    return LONG_DECIMAL if pa.types.is_decimal(kind) else "VARCHAR"


def known_table(duck: duckdb.DuckDBPyConnection, data: pa.Table) -> pa.Table:
    """A table with such columns replaced."""
    for at, kind in replaced_types(duck, data.schema).items():
        name = data.column_names[at]
        data = data.set_column(at, name, replaced(data.column(at), kind, name))
    return data
