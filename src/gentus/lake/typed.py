"""Typed data (Parquet, Arrow, data frames, DuckDB tables): DuckDB casts, trims and clips it into text."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.lake.base import Limits, Unreadable, build, log, spread
from gentus.lake.files import opened
from gentus.table import Table

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa  # type: ignore[import-untyped]

_TURN = threading.RLock()
_WINDOWS = 8  # places of a large table that rows are taken from


@contextmanager
def session(limits: Limits) -> Iterator[duckdb.DuckDBPyConnection]:
    """Hold the one DuckDB connection of this process, which threads have to take turns with."""
    with _TURN:
        yield _connection(limits.memory)


@cache
def _connection(memory: str) -> duckdb.DuckDBPyConnection:
    """Connect to a DuckDB that never downloads or loads an extension."""
    import duckdb

    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": memory,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "temp_directory": "",  # spilling to disk is slower than refusing
        },
    )


def read_parquet(path: Path, name: str, limits: Limits) -> Table:
    """Read rows from places spread over a Parquet file."""
    with opened(path):
        pass  # refuses what is no regular file
    file = _literal(str(path.resolve()))
    with session(limits) as duck:
        found = duck.execute(f"SELECT num_rows FROM parquet_file_metadata({file})").fetchone()
        size = duck.execute(f"SELECT sum(total_uncompressed_size) FROM parquet_metadata({file})").fetchone()
    total = int(found[0]) if found else 0
    if not total:
        raise Unreadable("it has columns and no rows")
    wanted = _affordable(int(size[0] or 0) if size else 0, total, limits)
    relation = f"read_parquet({file}, file_row_number = true, hive_partitioning = false)"
    return relation_table(
        relation, name, limits, windows("file_row_number", total, wanted), hidden="file_row_number"
    )


def read_arrow(path: Path, name: str, limits: Limits) -> Table:
    """Read rows from batches spread over an Arrow IPC (Feather) file or stream."""
    import pyarrow as pa

    with opened(path) as file, _stream(path, file, limits) as stream:
        try:
            reader = pa.ipc.open_file(stream)
        except pa.ArrowInvalid:
            stream.seek(0)
            return from_batches(pa.ipc.open_stream(stream), name, limits)
        numbers = spread(reader.num_record_batches, _WINDOWS)
        each = -(-limits.rows // max(1, len(numbers)))
        pieces = []
        room = limits.typed_bytes
        for number in numbers:
            batch = _some(pa.Table.from_batches([reader.get_batch(number)]), each)
            room -= batch.nbytes
            pieces.append(batch)
            if room < 0:
                break
        if not pieces:
            raise Unreadable("it has columns and no rows")
        return arrow_table(pa.concat_tables(pieces), name, limits)


def _stream(path: Path, file: BinaryIO, limits: Limits) -> pa.NativeFile:
    """Map large files, of whose batches only the rows taken are then read; small ones are safer to copy."""
    import pyarrow as pa

    large = os.fstat(file.fileno()).st_size > limits.typed_bytes
    return pa.memory_map(str(path)) if large else pa.PythonFile(file, mode="r")


def from_batches(batches: Any, name: str, limits: Limits) -> Table:
    """Take the first rows of a stream of record batches."""
    import pyarrow as pa

    pieces: list[pa.RecordBatch] = []
    rows = 0
    while rows < limits.rows:
        try:
            batch = batches.read_next_batch()
        except StopIteration:
            break
        pieces.append(batch.slice(0, limits.rows - rows))
        rows += pieces[-1].num_rows
    if not rows:
        raise Unreadable("it has columns and no rows")
    return arrow_table(pa.Table.from_batches(pieces), name, limits)


def arrow_table(data: pa.Table, name: str, limits: Limits) -> Table:
    """Turn an Arrow table into text, its rows spread if there are too many."""
    data = _some(data, limits.rows)
    if not data.num_rows:
        raise Unreadable("it has columns and no rows")
    header = list(data.column_names)
    plain = data.rename_columns([f"c{number}" for number in range(len(header))])  # names may repeat
    with session(limits) as duck:
        duck.register("frame", plain)
        try:
            return relation_table("frame", name, limits, header=header)
        finally:
            duck.unregister("frame")


def relation_table(
    relation: str,
    name: str,
    limits: Limits,
    where: str = "true",
    hidden: str | None = None,
    header: list[str] | None = None,
) -> Table:
    """Read rows of anything DuckDB can select from, cells cast to text and clipped before fetching."""
    with session(limits) as duck:
        described = duck.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described if row[0] != hidden]
    names = header or [column for column, _ in columns]
    if len(columns) > limits.columns:
        log.info("%s: %d columns were left out", name, len(columns) - limits.columns)
        columns, names = columns[: limits.columns], names[: limits.columns]
    texts = ", ".join(_as_text(column, kind, limits.cell_chars) for column, kind in columns)
    with session(limits) as duck:
        rows = duck.execute(f"SELECT {texts} FROM {relation} WHERE {where} LIMIT {limits.rows}").fetchall()
    return build(name, names, rows, limits)


def windows(row_number: str, total: int, wanted: int) -> str:
    """Say in SQL which rows to take of `total`: all, or runs of them from evenly spread places."""
    if total <= wanted:
        return "true"
    runs = min(_WINDOWS, wanted)
    length = wanted // runs
    starts = [(total - length) * run // max(1, runs - 1) for run in range(runs)]
    return " OR ".join(f"{row_number} BETWEEN {start} AND {start + length - 1}" for start in starts)


def quoted(identifier: str) -> str:
    """Quote a name for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _affordable(size: int, total: int, limits: Limits) -> int:
    """Return how many rows to read so that cells of megabytes stay within the limits."""
    return max(1, min(limits.rows, limits.typed_bytes * total // max(1, size)))


def _some(data: pa.Table, rows: int) -> pa.Table:
    return data if data.num_rows <= rows else data.take(list(spread(data.num_rows, rows)))


def _literal(path: str) -> str:
    """Write a path as SQL text that DuckDB takes as that one file, whatever characters it has."""
    if re.search(r"[*?\[]", path):
        if "\\" in path:
            raise Unreadable("its path has both a backslash and one of * ? [ in it; rename it")
        path = re.sub(r"([*?\[])", r"[\1]", path)
    return "'" + path.replace("'", "''") + "'"


def _as_text(column: str, kind: str, chars: int) -> str:
    """Write the SQL that turns a column into text as a person would write it."""
    name = quoted(column)
    text = f"CAST({name} AS VARCHAR)"
    if kind in ("FLOAT", "DOUBLE"):
        text = f"regexp_replace({text}, '\\.0$', '')"  # whole numbers are floats only where some are missing
    elif kind.startswith("TIMESTAMP"):
        text = f"regexp_replace({text}, ' 00:00:00(\\+00)?$', '')"  # a date
    elif kind == "BLOB":
        # Old writers store text as bytes; what is no text, or long, is a picture or the like.
        text = f"CASE WHEN octet_length({name}) <= {4 * chars} THEN TRY(decode({name})) END"
    elif kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
        text = f"CAST(to_json({name}) AS VARCHAR)"
    return f"left(trim({text}), {chars})"
