"""Arrow data: IPC and Feather files, streams and the tables of data-frame libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.lake.base import Unreadable
from gentus.lake.files import opened, size_of
from gentus.lake.formats.arrow_mend import known_table, validated
from gentus.lake.formats.typed import Chosen, relation_table, session
from gentus.lake.location import Location
from gentus.table import Limits, Table, evenly_spaced

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = b"ARROW1"
_LACKING = re.compile(r"\b(?:month|day_time)_interval")
_RUNS = 8  # runs of rows that are taken of a large file


def read_arrow(path: Location, name: str, limits: Limits) -> Table:
    """Read rows spread over an Arrow IPC (Feather) file, or the first ones of a stream."""
    import pyarrow as pa

    with opened(path) as file, _stream(path, file, limits) as stream:
        reader, note = arrow_reader(stream)
        if isinstance(reader, pa.RecordBatchReader):
            return replace(from_batches(reader, name, limits), reading=note)
        room = limits.typed_bytes
        pieces = []
        for piece in _runs(reader, limits.rows):
            pieces.append(piece)
            room -= piece.nbytes if piece.num_rows else 0  # of none, pyarrow 26 crashes on a sparse union
            if room < 0:
                break
        sampled = pa.Table.from_batches(pieces, reader.schema)
        top, complete = _top(reader, limits) if room >= 0 else (None, False)
        return replace(arrow_table(sampled, name, limits, top, complete), reading=note)


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
        pieces.append(validated(batch.slice(0, limits.rows - rows)))
        rows += pieces[-1].num_rows
    return arrow_table(
        pa.Table.from_batches(pieces, batches.schema), name, limits, complete=rows < limits.rows
    )


def arrow_table(
    data: pa.Table, name: str, limits: Limits, top: pa.Table | None = None, complete: bool = True
) -> Table:
    """Turn an Arrow table into text, its rows spread if there are too many.

    If it was sampled already, `top` has the first rows; `complete` says that all rows are in either of them.
    """
    if not data.num_rows:
        raise Unreadable("it has columns and no rows")
    if data.num_rows > limits.rows:
        top, complete = data.slice(0, limits.head), complete and data.num_rows <= limits.head
        data = data.take(list(evenly_spaced(data.num_rows, limits.rows)))
    header = list(data.column_names)
    plain = [f"c{number}" for number in range(len(header))]  # names may repeat
    with session(limits) as duck:
        duck.register("frame", known_table(duck, data.rename_columns(plain)))
        if top is not None:
            duck.register("top", known_table(duck, top.rename_columns(plain)))
        chosen = Chosen(top=None if top is None else "top", complete=complete)
        table = relation_table("frame", name, limits, chosen, header)
        duck.unregister("frame")
        if top is not None:
            duck.unregister("top")
        return table


def arrow_reader(
    stream: pa.NativeFile,
) -> tuple[pa.RecordBatchFileReader | pa.RecordBatchStreamReader, str]:
    """The reader of an IPC file or stream, and a note on columns of unknown types, which are left out."""
    import pyarrow as pa

    # In a stream, these bytes would be a length of a gigabyte.
    open_reader = pa.ipc.open_file if stream.read(len(_MARK)) == _MARK else pa.ipc.open_stream
    stream.seek(0)
    reader = open_reader(stream)
    kinds = [(field.name, str(field.type)) for field in reader.schema]
    lacking = [at for at, (_, kind) in enumerate(kinds) if _LACKING.search(kind)]
    if not lacking:
        return reader, ""
    if len(lacking) == len(kinds):
        raise Unreadable(f"pyarrow lacks the types of all of its columns, such as {kinds[0][1]}")
    stream.seek(0)
    options = pa.ipc.IpcReadOptions(included_fields=[at for at in range(len(kinds)) if at not in lacking])
    names = ", ".join("{} ({})".format(*kinds[at]) for at in lacking)
    return open_reader(stream, options=options), f"left out, as pyarrow lacks their type: {names}"


def _stream(path: Location, file: BinaryIO, limits: Limits) -> pa.NativeFile:
    """Map a large file, so that only the sampled rows are read; small ones are safer to copy."""
    import pyarrow as pa

    large = isinstance(path, Path) and size_of(file) > limits.typed_bytes
    return pa.memory_map(str(path)) if large else pa.PythonFile(file, mode="r")


def _runs(reader: pa.RecordBatchFileReader, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield evenly spread runs of rows, about as many rows in all as wanted."""
    numbers = evenly_spaced(reader.num_record_batches, _RUNS)
    wanted = -(-rows // max(1, len(numbers)))  # of each batch
    for number in numbers:
        batch = reader.get_batch(number)
        runs = 1 if batch.num_rows <= wanted else max(1, min(wanted, _RUNS // len(numbers)))
        length = min(batch.num_rows, wanted // runs)
        for run in range(runs):
            yield validated(batch.slice((batch.num_rows - length) * run // max(1, runs - 1), length))


def _top(reader: pa.RecordBatchFileReader, limits: Limits) -> tuple[pa.Table, bool]:
    """The first rows of the first batches, and whether there are no others."""
    import pyarrow as pa

    pieces: list[pa.RecordBatch] = []
    room, total = limits.head, 0
    for number in range(reader.num_record_batches):
        if room <= 0:
            break
        batch = reader.get_batch(number)
        total += batch.num_rows
        pieces.append(validated(batch.slice(0, room)))
        room -= pieces[-1].num_rows
    complete = len(pieces) == reader.num_record_batches and total <= limits.head
    return pa.Table.from_batches(pieces, reader.schema), complete
