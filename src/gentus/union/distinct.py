"""Distinct rows: the first of equal ones, in their order, in bounded memory.

Rows wait in a file while DuckDB finds the first of each by a fingerprint: a sort or a hash table of whole
rows would need memory for all of them. Fingerprints have 128 bits and are salted, so that no data can be made
to collide.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gentus.lake.formats.typed import literal
from gentus.union.sql_types import FLOATS

if TYPE_CHECKING:
    import duckdb

FINGERPRINT = ("h0", "h1")
_ROW_BITS = 40  # the number of the table is in the bits above


def fingerprint_sql(types: Sequence[str]) -> str:
    """SQL of the fingerprint of a row's data; nulls are equal, and so are 0 and -0."""
    cells = []
    for at, kind in enumerate(types):
        text = f"CAST({f'd{at} + 0' if kind in FLOATS else f'd{at}'} AS VARCHAR)"
        cells.append(f"coalesce(strlen({text}) || ':' || {text}, '-')")  # so that ab, c is not a, bc
    row = f"concat({literal(secrets.token_hex(16))}, {', '.join(cells)})"
    return f"md5_number_lower({row}) AS h0, md5_number_upper({row}) AS h1"


def distinct_rows(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, duck: duckdb.DuckDBPyConnection, scratch: Path
) -> Generator[pa.RecordBatch, None, None]:
    """The batches, without the rows whose fingerprint was there before, and without fingerprints."""
    path = scratch / "rows.arrow"
    narrow = pa.schema([(name, pa.uint64()) for name in FINGERPRINT] + [("n", pa.int64())])

    def saved() -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as stream:
            for batch in batches:
                stream.write_batch(batch.select(schema.names))
                fingerprint = [batch.column(name) for name in FINGERPRINT]
                yield pa.record_batch([*fingerprint, pa.array(_row_numbers(batch))], narrow)

    duck.register("fingerprints", pa.RecordBatchReader.from_batches(narrow, saved()))
    first = duck.sql(f"SELECT min(n) AS n FROM fingerprints GROUP BY {', '.join(FINGERPRINT)} ORDER BY n")
    kept = _SortedStream(first.to_arrow_reader(1 << 16))
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            numbers = _row_numbers(batch)
            chosen = np.isin(numbers, kept.until(int(numbers[-1])), assume_unique=True)
            if chosen.any():
                yield batch.filter(pa.array(chosen))


def _row_numbers(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(n,) a number for every row that rises from row to row and from table to table."""
    table, row = (batch.column(name).to_numpy().astype(np.int64) for name in ("s", "r"))
    return np.asarray((table << _ROW_BITS) + row)


class _SortedStream:
    """A sorted stream of numbers, consumed step by step."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches, self.pending = iter(batches), np.zeros(0, np.int64)

    def until(self, last: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The next numbers up to the last one."""
        while not len(self.pending) or self.pending[-1] <= last:
            batch = next(self.batches, None)
            if batch is None:
                break
            self.pending = np.concatenate([self.pending, batch.column("n").to_numpy()])
        at = int(np.searchsorted(self.pending, last, side="right"))
        taken, self.pending = self.pending[:at], self.pending[at:]
        return taken
