"""Only the first of equal rows, in their order, however many there are.

Rows wait in a file while DuckDB finds the first of each by a fingerprint: a sort or a hash table of whole
rows would need memory for all of them. Fingerprints have 128 bits and are salted: nobody can make two alike.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gentus.union.macros import literal
from gentus.union.types import FLOATS

if TYPE_CHECKING:
    import duckdb

FINGERPRINT = ("h0", "h1")
_ROW_BITS = 40  # of a number that orders all rows: the number of the table stands before them


def fingerprint_sql(types: Sequence[str]) -> str:
    """SQL of the columns that tell rows with other data apart; nulls are equal, and so are 0 and -0."""
    cells = []
    for at, kind in enumerate(types):
        text = f"CAST({f'd{at} + 0' if kind in FLOATS else f'd{at}'} AS VARCHAR)"
        cells.append(f"coalesce(strlen({text}) || ':' || {text}, '-')")  # so that ab, c is not a, bc
    row = f"concat({literal(secrets.token_hex(16))}, {', '.join(cells)})"
    return f"md5_number_lower({row}) AS h0, md5_number_upper({row}) AS h1"


def first_of_equal(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, duck: duckdb.DuckDBPyConnection, scratch: Path
) -> Generator[pa.RecordBatch, None, None]:
    """The batches, without the rows whose fingerprint was there before, and without fingerprints."""
    path = scratch / "rows.arrow"
    narrow = pa.schema([(name, pa.uint64()) for name in FINGERPRINT] + [("n", pa.int64())])

    def waiting() -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as stream:
            for batch in batches:
                stream.write_batch(batch.select(schema.names))
                prints = [batch.column(name) for name in FINGERPRINT]
                yield pa.record_batch([*prints, pa.array(_order(batch))], narrow)

    duck.register("prints", pa.RecordBatchReader.from_batches(narrow, waiting()))
    first = duck.sql(f"SELECT min(n) AS n FROM prints GROUP BY {', '.join(FINGERPRINT)} ORDER BY n")
    kept = _Numbers(first.to_arrow_reader(1 << 16))
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            order = _order(batch)
            chosen = np.isin(order, kept.until(int(order[-1])), assume_unique=True)
            if chosen.any():
                yield batch.filter(pa.array(chosen))


def _order(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for every row; it grows from row to row and from table to table."""
    table, row = (batch.column(name).to_numpy().astype(np.int64) for name in ("s", "r"))
    return np.asarray((table << _ROW_BITS) + row)


class _Numbers:
    """A sorted stream of numbers, taken in turns."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches, self.held = iter(batches), np.zeros(0, np.int64)

    def until(self, last: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Those up to the last one, which are not given again."""
        while not len(self.held) or self.held[-1] <= last:
            batch = next(self.batches, None)
            if batch is None:
                break
            self.held = np.concatenate([self.held, batch.column("n").to_numpy()])
        at = int(np.searchsorted(self.held, last, side="right"))
        taken, self.held = self.held[:at], self.held[at:]
        return taken
