"""Whole tables, row by row: what a union reads where a search is content with a sample.

The columns of a whole table are those of its sample: the same dialect, header and names. Names are what the
two have in common, since a sample leaves out columns without a name and without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gentus.lake.base import Source, Unreadable, clean_names, failure_reason
from gentus.lake.kinds import Format
from gentus.lake.location import Location, Remote
from gentus.lake.reader import format_at
from gentus.table import Limits

if TYPE_CHECKING:
    import duckdb

AT_ONCE = 2048  # rows that go from Python to DuckDB in one piece: its own, and more are slower
_NUMBERS = count()


@dataclass(slots=True)
class Tally:
    """What a read came across, and what of it has no place in the table."""

    rows: int = 0
    beyond: int = 0  # cells to the right of the last column, or under keys that no sampled record has
    rejected: int = 0  # records that are no JSON, or that have no columns
    stray_quotes: int = 0  # that never close: the row is read as if quotes were ordinary characters
    undecoded: int = 0  # bytes that are not of the file's encoding
    binary: int = 0  # cells that are no text

    def add_undecoded(self, some: int) -> None:
        """Count bytes."""
        self.undecoded += some


Piece = tuple[int, list[pa.Array]]  # how many rows, and their cells column by column
Scan = Callable[["duckdb.DuckDBPyConnection", Sequence[int], Tally], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class FullTable:
    """A table that can be selected from."""

    names: list[str]  # of its columns by place, cleaned
    named: list[bool]  # whether the table itself names a column
    types: list[str]  # what DuckDB calls them
    written: bool  # everything is text, and what it stands for has to be found out
    scan: Scan = field(repr=False)  # gives a relation with columns c0, c1, .. as asked for, and `row`

    @property
    def places(self) -> dict[str, int]:
        """Where the columns are, by name."""
        return {name: place for place, name in enumerate(self.names)}


def open_full(source: Source, duck: duckdb.DuckDBPyConnection, limits: Limits | None = None) -> FullTable:
    """Look at a table so that all of it can be read; raises `Unreadable` and nothing else."""
    limits = limits or Limits()
    try:
        return _open(source.location, source.part, duck, limits)
    except Unreadable:
        raise
    except Exception as error:  # as for all readers: what parsers raise is not to be foreseen
        raise Unreadable(failure_reason(error)) from error


def _open(path: Location, part: str | None, duck: duckdb.DuckDBPyConnection, limits: Limits) -> FullTable:
    from gentus.lake.full import typed

    kind = format_at(path)
    match kind, part:
        case (Format.DELTA | Format.ICEBERG, _):
            return typed.full_folder(path, kind, duck, limits)
        case (Format.POSTGRES, _):
            from gentus.lake.formats.postgres import full_postgres

            return full_postgres(Remote(str(path)), limits)
        case (Format.DATABASE, str()):
            return typed.full_database(path, part, duck, limits)
        case (Format.EXCEL, str()):
            return typed.full_sheet(path, part, limits)
        case (Format.DATABASE | Format.EXCEL, None):
            raise Unreadable("it holds several tables, and none was named")
        case (Format.PARQUET, _):
            return typed.full_parquet(path, duck, limits)
        case (Format.ARROW, _):
            return typed.full_arrow(path, duck, limits)
        case (Format.JSON, _):
            from gentus.lake.full.json_text import full_json

            return full_json(path, limits)
    from gentus.lake.full.text import full_text

    return full_text(path, limits, prose=kind is Format.PROSE)


# --- from Python to DuckDB -----------------------------------------------------------------------------


def full_from_text(
    header: Sequence[str],
    rows: Callable[[Sequence[int], Tally], Iterator[Piece]],
    limits: Limits,
) -> FullTable:
    """A table whose rows are read by Python, as text: arrays of the places asked for, some rows at a time."""

    def scan(
        duck: duckdb.DuckDBPyConnection, places: Sequence[int], tally: Tally
    ) -> AbstractContextManager[str]:
        names = [f"c{place}" for place in places]
        schema = pa.schema([(name, pa.string()) for name in names] + [("row", pa.int64())])
        return streamed(duck, schema, rows(places, tally), tally)

    named = [bool(name.strip()) for name in header]
    return FullTable(clean_names(header, limits), named, ["VARCHAR"] * len(named), True, scan)


@contextmanager
def streamed(
    duck: duckdb.DuckDBPyConnection, schema: pa.Schema, pieces: Iterator[Piece], tally: Tally
) -> Iterator[str]:
    """Let DuckDB read arrays as they come, rows numbered from 1; a failure of theirs is raised as it was."""
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


def text_array(cells: Sequence[str | None]) -> pa.Array:
    """Cells as Arrow has them; several times faster than `pa.array` where none is missing."""
    try:
        whole = "".join(cells)  # type: ignore[arg-type]
        parts: Sequence[str | bytes] = cells if whole.isascii() else [cell.encode() for cell in cells]  # type: ignore
        data = whole.encode() if parts is cells else b"".join(parts)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):  # None, or a lone surrogate
        clean = [None if cell is None else cell.encode("utf-8", "replace").decode() for cell in cells]
        return pa.array(clean, pa.string())
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=ends[1:])
    if len(data) >= 1 << 31:
        return pa.array(cells, pa.large_string()).cast(pa.string())
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(parts), buffers)
