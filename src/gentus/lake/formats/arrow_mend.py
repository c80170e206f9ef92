"""Arrow columns that DuckDB does not take: types that it lacks become text, invalid UTF-8 is mended.

So a column costs at most its type, and never the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Count = Callable[[int], None]


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


def unknown_types(duck: duckdb.DuckDBPyConnection, schema: pa.Schema) -> set[int]:
    """The positions of columns whose types DuckDB does not have: 256-bit decimals, dense unions, .."""
    import pyarrow as pa

    if _is_known(duck, schema):
        return set()
    fields = [field.with_name("c") for field in schema]
    return {at for at, field in enumerate(fields) if not _is_known(duck, pa.schema([field]))}


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


def as_text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values of a column as text, as a person would write them; nested ones as JSON."""
    import pyarrow as pa

    return pa.array(map(_text, column.to_pylist()), pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str) if isinstance(value, dict | list | tuple | bool) else str(value)


def known_table(duck: duckdb.DuckDBPyConnection, data: pa.Table) -> pa.Table:
    """A table with the columns of unknown types as text."""
    for at in unknown_types(duck, data.schema):
        data = data.set_column(at, data.column_names[at], as_text(data.column(at)))
    return data
