"""Tables read whole, cell beside cell.

What the rest of the project sees of a table is a sample without its empty cells, in which rows cannot be told
apart any more. To cut a table into others one needs its rows, so they are read here, by the same rules of
what a file is and how text is cut into cells.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from gentus.lake.base import EMPTY, Source, Unreadable, clean_names, failure_reason
from gentus.lake.files import SQLITE, magic, opened, sample_bytes, to_text
from gentus.lake.formats.detect import Format, detect_format
from gentus.lake.formats.json_text import cell_text, records_of
from gentus.lake.formats.text import guess_dialect, parse
from gentus.lake.formats.typed import quoted
from gentus.table import Limits

_BYTES = 256 << 20  # of text; what is longer is cut off there
_ALONE: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@dataclass(frozen=True, slots=True)
class BaseTable:
    """A table by columns: every one as long as there are rows, empty cells as empty text."""

    name: str
    header: list[str]
    columns: list[list[str]]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.columns[0]) if self.columns else 0


def read_whole(source: Source, most_rows: int) -> BaseTable:
    """Read the first rows of a table, columns without any value left out; raises `Unreadable` only."""
    try:
        header, rows = _rows(source.file, source.part, most_rows)
        return _table(source.name, header, rows[:most_rows])
    except Unreadable:
        raise
    except Exception as error:  # as for all readers: what parsers raise is not to be foreseen
        raise Unreadable(failure_reason(error)) from error


def _table(name: str, header: Sequence[str], rows: Sequence[Sequence[str | None]]) -> BaseTable:
    names = clean_names(header, Limits())
    columns = [[_cell(row[at]) if at < len(row) else "" for row in rows] for at in range(len(names))]
    kept = [at for at, column in enumerate(columns) if any(column)]
    return BaseTable(name, [names[at] for at in kept], [columns[at] for at in kept])


def _cell(value: str | None) -> str:
    cell = "" if value is None else " ".join(value.split())  # a cell of several lines is no use in a slice
    return "" if cell.lower() in EMPTY else cell


def _rows(path: Path, part: str | None, most: int) -> tuple[list[str], Sequence[Sequence[str | None]]]:
    match detect_format(path, magic(path)), part:
        case Format.TEXT | Format.PROSE, _:
            text, _ = to_text(sample_bytes(path, _BYTES, _BYTES).head)
            header, *body = parse(text, guess_dialect(text).dialect, most + 1) or [[]]
            return header, body
        case Format.JSON, _:
            taken = sample_bytes(path, _BYTES, _BYTES)
            return _of_records(records_of(to_text(taken.head)[0], taken.complete)[0][: most + 1])
        case Format.PARQUET, _:
            import pyarrow.parquet as pq

            with opened(path) as file:
                data = pq.ParquetFile(file)
                return _of_batches(data.schema_arrow.names, data.iter_batches(8192), most)
        case Format.ARROW, _:
            import pyarrow as pa

            with opened(path) as file:
                try:
                    reader = pa.ipc.open_file(pa.PythonFile(file, mode="r"))
                    batches: Iterable[Any] = map(reader.get_batch, range(reader.num_record_batches))
                except pa.ArrowInvalid:
                    file.seek(0)
                    batches = reader = pa.ipc.open_stream(pa.PythonFile(file, mode="r"))
                return _of_batches(reader.schema.names, batches, most)
        case Format.EXCEL, str():
            return _sheet(path, part, most)
        case Format.DATABASE, str():
            return _query(path, part, most)
    raise Unreadable("it holds several tables, and none was named")


def _of_records(records: list[Any]) -> tuple[list[str], list[list[str | None]]]:
    if records and all(isinstance(record, list) for record in records):
        first, *body = [[cell_text(value) for value in record] for record in records]
        return [name or "" for name in first], body
    objects = [record if isinstance(record, dict) else {"value": record} for record in records]
    header = list(dict.fromkeys(str(key) for record in objects for key in record))
    return header, [[cell_text(record.get(key)) for key in header] for record in objects]


def _of_batches(
    header: list[str], batches: Iterable[Any], most: int
) -> tuple[list[str], list[list[str | None]]]:
    rows: list[list[str | None]] = []
    for batch in batches:
        columns = [[_value(value) for value in column.to_pylist()] for column in batch.columns]
        rows += map(list, zip(*columns, strict=True))
        if len(rows) >= most:
            break
    return header, rows[:most]


def _sheet(path: Path, part: str, most: int) -> tuple[list[str], list[list[str | None]]]:
    try:
        import openpyxl
    except ImportError as error:
        raise Unreadable("reading Excel files needs openpyxl: pip install 'gentus[excel]'") from error
    with opened(path) as file:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        try:
            found = islice(book[part].iter_rows(values_only=True), most + 1)
            rows = [
                [_value(value) for value in row] for row in found if any(value is not None for value in row)
            ]
        finally:
            book.close()
    return [name or "" for name in rows[0]] if rows else [], rows[1:]


def _query(path: Path, part: str, most: int) -> tuple[list[str], list[list[str | None]]]:
    if magic(path) == SQLITE:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            cursor = database.execute(f"SELECT * FROM {quoted(part)} LIMIT {most}")
            header = [str(column[0]) for column in cursor.description]
            return header, [[_value(value) for value in row] for row in cursor]
    import duckdb

    with closing(duckdb.connect(str(path), read_only=True, config=_ALONE)) as duck:
        table = part if "." in part or '"' in part else quoted(part)  # those are quoted already
        found = duck.execute(f"SELECT * FROM {table} LIMIT {most}")
        header = [str(column[0]) for column in found.description or []]
        return header, [[_value(value) for value in row] for row in found.fetchall()]


def _value(value: Any) -> str | None:
    match value:
        case bytes():
            return None
        case datetime.datetime():
            return value.isoformat(" ").removesuffix(" 00:00:00")
        case None | str() | bool() | int() | float() | list() | dict():
            return cell_text(value)
    return str(value)
