"""All rows of a table as a DuckDB relation: a union reads them, where a search reads a sample.

The columns are those of the sample: the same dialect, header and names. Columns are matched by name, since a
sample leaves out columns without a name and without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gentus.lake.base import Unreadable, clean_names
from gentus.table import Limits, Rows, Table

if TYPE_CHECKING:
    import duckdb

AT_ONCE = 2048  # rows that go from Python to DuckDB at once: the size of its own vectors; more are slower
_NUMBERS = count()


@dataclass(slots=True)
class Tally:
    """Counts of a read: rows, and what could not be put into the table."""

    rows: int = 0
    beyond: int = 0  # cells to the right of the last column, or under keys that no sampled record has
    rejected: int = 0  # records that are no JSON, or that have no columns
    comments: int = 0  # lines that are comments
    stray_quotes: int = 0  # quotes that never close: their row is read as if quotes were ordinary characters
    blanks: int = 0  # rows with blanks before a quote: blanks that their cells begin with are left out
    undecoded: int = 0  # bytes that are invalid in the encoding of the file
    binary: int = 0  # cells that are no text

    def add_comment(self) -> None:
        """Count a line."""
        self.comments += 1

    def add_undecoded(self, some: int) -> None:
        """Count bytes."""
        self.undecoded += some

    def add(self, other: Tally) -> None:
        """Count what another read has counted."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


Piece = tuple[int, list[pa.Array]]  # how many rows, and their cells column by column
Scan = Callable[["duckdb.DuckDBPyConnection", Sequence[int], Tally], AbstractContextManager[str]]


Held = Callable[["duckdb.DuckDBPyConnection"], "pa.Table | None"]


@dataclass(frozen=True, slots=True)
class FullTable:
    """A table that can be selected from."""

    names: list[str]  # of its columns, cleaned
    named: list[bool]  # whether the table itself names a column
    types: list[str]  # of DuckDB
    written: bool  # all columns are text, and their types have to be inferred
    scan: Scan = field(repr=False)  # gives a relation with columns c0, c1, .. and `row`
    # The same rows, read by DuckDB itself: faster, but it refuses files with faults. None: no such way.
    strict: FullTable | None = field(default=None, repr=False)
    is_plain: Callable[[], bool] = field(default=lambda: True, repr=False)  # whether `strict` can be trusted
    doubt: str = ""  # why its header looks like data; empty: it does not
    reading: str = ""  # what is not usual in how it is read; empty: nothing
    guess: str = ""  # of it, that the encoding is a guess
    left_out: bool = False  # columns that nothing reads, which `reading` names
    delimiter: str | None = None  # of delimited text, where a missing value is an empty cell
    first: Rows = field(default=(), repr=False)  # the first rows, if they were read already
    sampled: Callable[[str], Table] | None = field(default=None, repr=False)  # its sample, if that was read
    held: Held = field(default=lambda duck: None, repr=False)  # all cells (c0, c1, ..), if kept in memory

    positions: dict[str, int] = field(init=False, repr=False)  # of the columns, by name

    def __post_init__(self) -> None:
        """Number the columns once: wide tables are asked for every one."""
        object.__setattr__(self, "positions", {name: at for at, name in enumerate(self.names)})


def first_rows(relation: str, limit: int | None) -> str:
    """A relation, or its first rows."""
    return relation if limit is None else f"(SELECT * FROM {relation} LIMIT {limit})"


# --- from Python to DuckDB -----------------------------------------------------------------------------


def full_from_text(
    header: Sequence[str],
    rows: Callable[[Sequence[int], Tally], Iterator[Piece]],
    limits: Limits,
) -> FullTable:
    """A table that Python reads as text: `rows` gives arrays of some columns, some rows at a time."""
    if not header:
        raise Unreadable("it has no columns")

    def scan(
        duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally
    ) -> AbstractContextManager[str]:
        names = [f"c{at}" for at in positions]
        schema = pa.schema([(name, pa.string()) for name in names] + [("row", pa.int64())])
        return streamed(duck, schema, rows(positions, tally), tally)

    named = [bool(name.strip()) for name in header]
    return FullTable(clean_names(header, limits), named, ["VARCHAR"] * len(named), True, scan)


@contextmanager
def streamed(
    duck: duckdb.DuckDBPyConnection, schema: pa.Schema, pieces: Iterator[Piece], tally: Tally
) -> Iterator[str]:
    """Stream arrays into DuckDB, rows numbered from 1; an error of the stream is raised unchanged."""
    failures: list[BaseException] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for rows, arrays in pieces:
                numbers = pa.array(range(tally.rows + 1, tally.rows + rows + 1), pa.int64())
                tally.rows += rows
                yield pa.record_batch([*arrays, numbers], schema)
        except BaseException as error:
            failures.append(error)
            raise

    name = f"stream_{next(_NUMBERS)}"
    with closing(batches()) as generator:  # type: ignore[type-var]
        duck.register(name, pa.RecordBatchReader.from_batches(schema, generator))
        try:
            yield name
        except Exception as error:
            if failures:
                raise failures[0] from error
            raise
        finally:
            with suppress(Exception):  # a connection that has failed, or was stopped, may refuse
                duck.unregister(name)


def whole_numbers(numbers: NDArray[np.integer[Any]]) -> pa.Array:
    """Numbers as Arrow has them; `pa.array` would import pandas, where that is installed."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def text_array(cells: Sequence[str | None]) -> pa.Array:
    """Cells as Arrow has them; several times faster than `pa.array` where none is missing."""
    try:
        joined = "".join(cells)  # type: ignore[arg-type]
        parts: Sequence[str | bytes] = cells if joined.isascii() else [cell.encode() for cell in cells]  # type: ignore
        data = joined.encode() if parts is cells else b"".join(parts)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):  # None, or a lone surrogate
        clean = [None if cell is None else cell.encode("utf-8", "replace").decode() for cell in cells]
        return pa.array(clean, pa.string())
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=ends[1:])
    if len(data) >= 1 << 31:
        return pa.array(cells, pa.large_string()).cast(pa.string())
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(parts), buffers)
