"""What a file says, cell by cell, as DuckDB, pyarrow, `csv`, `json`, openpyxl or SQLite read it.

Nothing of a union is used here. Of delimited text, dialect and encoding are those of the sample that a search
reads.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from gentus.lake import Limits, Source
from gentus.lake.files import stream
from gentus.lake.formats.detect import Format, format_at
from gentus.lake.formats.layout import Layout, table_rows
from gentus.lake.formats.text import TextSample, sample_text

Rows = list[list[str]]


class NoReferenceError(Exception):
    """A table that nothing but gentus reads as one."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A table as its file has it."""

    reader: str  # who read it
    columns: list[pa.Array | pa.ChunkedArray]  # by position in the file
    names: list[str] | None = None  # None: the union's columns are in the order of the file
    errors: bool = False  # the report of the union says that errors in cells are read as empty
    beyond: int = 0  # cells to the right of the last column

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0


def read_reference(source: Source, width: int, limits: Limits) -> Reference:
    """A table of so many columns, read without gentus."""
    path, known = Path(str(source.path)), format_at(source.path)
    if known is Format.PARQUET:
        import pyarrow.parquet as pq

        return _from_arrow("pyarrow", pq.ParquetFile(path).read())
    if known is Format.ARROW:
        return _from_arrow("pyarrow", _arrow(path))
    if known is Format.JSON:
        return _json(path)
    if known is Format.EXCEL:
        return _sheet(path, str(source.part), width)
    if known is Format.DATABASE:
        return _sqlite(path, str(source.part))
    if known in (None, Format.DELTA, Format.ICEBERG, Format.POSTGRES, Format.ZIP):
        raise NoReferenceError("no other reader")
    return _text(path, sample_text(source.path, limits, known is Format.PROSE, source.header), width)


def _from_arrow(reader: str, table: pa.Table) -> Reference:
    return Reference(reader, table.columns, table.column_names)


def _arrow(path: Path) -> pa.Table:
    from pyarrow import feather

    try:
        return feather.read_table(path)
    except pa.ArrowInvalid:
        with pa.ipc.open_stream(path) as reader:
            return reader.read_all()


def _text(path: Path, sample: TextSample, width: int) -> Reference:
    """Delimited text by DuckDB, in the dialect of the sample; where it refuses, by Python's `csv`."""
    text = b"".join(stream(path)).decode(sample.encoding, "replace").removeprefix("\ufeff")
    rows, skipped = _csv_rows(text, sample), _csv_rows(text, sample, skip_blanks=True)
    layout = re.compile(rf" +{re.escape(sample.dialect.quote or chr(34))}")  # blanks before a quote
    if any(layout.match(cell) for row in rows for cell in row) and len(rows) == len(skipped):
        rows = [
            without if any(map(layout.match, row)) else row
            for row, without in zip(rows, skipped, strict=True)
        ]
        return _reference("Python's csv", rows, rows, width, sample.layout)
    widest = max(map(len, rows), default=0)
    try:
        found, reader = _duckdb_rows(text, sample, max(widest, width)), "DuckDB"
    except Exception:  # it refuses what it cannot read
        found = []
    if len(found) != len(rows):
        found, reader = rows, "Python's csv"
    return _reference(reader, found, rows, width, sample.layout)


def _reference(reader: str, found: Rows, as_cut: Rows, width: int, layout: Layout) -> Reference:
    body = _body(found, as_cut, width, layout)
    beyond = sum(bool(cell.strip()) for row in body for cell in row[width:])
    return Reference(reader, _columns(body, width), None, beyond=beyond)


def _columns(rows: Rows, width: int) -> list[pa.Array]:
    """Rows of any length as so many columns."""
    cells = zip_longest(*(row[:width] for row in rows), fillvalue="")
    columns = [pa.array(column, pa.large_string()) for column in cells]
    return columns + [pa.array([""] * len(rows), pa.large_string())] * (width - len(columns))


def _csv_rows(text: str, sample: TextSample, skip_blanks: bool = False) -> Rows:
    dialect = sample.dialect
    csv.field_size_limit(1 << 30)
    lines = io.StringIO(text, newline="")
    if dialect.quote is None:
        found = csv.reader(lines, delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE)
    else:
        found = csv.reader(
            lines,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            escapechar=dialect.escape,
            skipinitialspace=skip_blanks,
        )
    return [row for row in found if row]


def _duckdb_rows(text: str, sample: TextSample, width: int) -> Rows:
    import duckdb

    dialect = sample.dialect
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect(config={"threads": 1}) as duck:
        duck.execute("SET enable_progress_bar = false")
        copy = Path(scratch) / "copy.csv"
        copy.write_text(text, encoding="utf-8", newline="")
        relation = duck.read_csv(
            str(copy),
            header=False,
            sep=dialect.delimiter,
            quotechar=dialect.quote or "",
            escapechar=dialect.escape or dialect.quote or "",
            columns={f"c{at}": "VARCHAR" for at in range(width)},
            auto_detect=False,
            null_padding=True,
            parallel=False,
        )
        return [[cell or "" for cell in row] for row in relation.fetchall()]


def _body(rows: Rows, as_cut: Rows, width: int, layout: Layout) -> Rows:
    """The rows of the table, without lines of nothing but blanks; `as_cut`: not padded."""
    numbered = ([*cut, str(at)] for at, cut in enumerate(as_cut))
    kept = (int(cut[-1]) for cut in table_rows(numbered, layout))
    return [rows[at] for at in kept if len(as_cut[at]) > 1 or width == 1 or as_cut[at][0].strip()]


def _json(path: Path) -> Reference:
    """An array of objects, or an object a line."""
    text = b"".join(stream(path)).decode("utf-8-sig")
    try:
        records = json.loads(text)
    except ValueError:
        try:
            records = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise NoReferenceError("it is not JSON as Python reads it") from error
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise NoReferenceError("it is neither an array of objects nor an object a line")
    names = list(dict.fromkeys(key for record in records for key in record))
    columns = [pa.array([_json_cell(record.get(name)) for record in records], pa.string()) for name in names]
    return Reference("Python's json", columns, names)


def _json_cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _sheet(path: Path, part: str, width: int) -> Reference:
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        load_workbook(path, read_only=True).close()
    except InvalidFileException as error:
        raise NoReferenceError("openpyxl reads no .xls") from error
    with closing(load_workbook(path, read_only=True, data_only=True)) as book:
        rows = [[_sheet_cell(cell) for cell in row] for row in book[part].iter_rows(values_only=True)]
    filled = [row for row in rows if any(cell for cell in row)]
    return Reference("openpyxl", _columns(filled[1:], width))


def _sheet_cell(value: Any) -> str:
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return str(value.date())  # a sheet has one type for dates and times, and midnight is a date
    return "" if value is None else str(value)


def _sqlite(path: Path, part: str) -> Reference:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            found = base.execute(f'SELECT * FROM "{part.replace(chr(34), chr(34) * 2)}"')
            names = [column[0] for column in found.description]
            rows: Sequence[Sequence[Any]] = found.fetchall()
    except sqlite3.Error as error:
        raise NoReferenceError(str(error)) from error
    columns = [pa.array([None if one is None else str(one) for one in c]) for c in zip(*rows, strict=True)]
    return Reference("sqlite3", columns, names)
