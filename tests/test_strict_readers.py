"""Every output format, read back by a strict reader that is not of the project that wrote it."""

from __future__ import annotations

import csv
import math
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import strict_json

from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, Union, UnionPlan
from gentus.union.output import Output

Rows = list[tuple[Any, ...]]
NAMES = ["t", 'a "b", c', "d e", "=f", "\U0001f41f \x01x"]
TEXTS = [
    '"',
    '""',
    'a"b',
    "a,b",
    "a\tb",
    "a\nb",
    "a\r\nb",
    "\r",
    "\n",
    "a\x00b",
    "\x01\x1f\x7f\x85",
    "=1+1",
    "+1",
]
TEXTS += [
    "-1",
    "@a",
    "'",
    "\\",
    "\\n",
    "\\u0041",
    "_x0041_",
    "#N/A",
    "null",
    "NaN",
    " ",
    " a ",
    "",
    "\u2028\u2029",
]
TEXTS += [
    "\ufeffa",
    "\ufffd\uffff",
    "\U0010ffff",
    "e\u0301",
    "\u202eabc",
    "</script>",
    "]]>",
    "&amp;",
    "{}",
    "[1]",
]
INTEGERS = [10**37, -(10**37), 2**63, 2**53 + 1, 10**15, 0, -1]
LONGS = [2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 0]
FLOATS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16, 123456789.123456789]
BYTES = [b"", b"\0\xff", b"\xed\xa0\x80"]  # the last one would be a lone surrogate


def hostile() -> tuple[UnionPlan, pa.Table]:
    """A union of one table of hostile values, nulls below them."""
    values: list[list[Any]] = [TEXTS, list(map(Decimal, INTEGERS)), LONGS, FLOATS, BYTES]
    types = [pa.string(), pa.decimal128(38, 0), pa.int64(), pa.float64(), pa.binary()]
    columns = [
        pa.array([*some, *[None] * (len(TEXTS) + 1 - len(some))], kind)
        for some, kind in zip(values, types, strict=True)
    ]
    placed = tuple(Placement(name, name) for name in NAMES)
    outputs = tuple(OutputColumn(name) for name in NAMES)
    plan = UnionPlan(PlannedTable("query", None, None, placed), (), outputs, provenance=False)
    return plan, pa.table(columns, NAMES)


def read_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
    return [tuple(header), *map(tuple, rows)]


def read_jsonl(path: Path) -> Rows:
    *lines, end = path.read_bytes().decode("utf-8").split("\n")
    assert end == ""
    records = [strict_json(line) for line in lines]
    return [tuple(records[0]), *(tuple(record.values()) for record in records)]


def read_parquet(path: Path) -> Rows:
    table = pq.read_table(path)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert same(pl.read_parquet(path).rows(), rows)
    return [tuple(table.column_names), *rows]


def read_sqlite(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = database.execute("SELECT * FROM unioned ORDER BY rowid")
        return [tuple(column[0] for column in found.description), *found]


def read_duckdb(path: Path) -> Rows:
    with closing(duckdb.connect(path, read_only=True)) as database:
        found = database.execute("FROM unioned ORDER BY rowid")
        return [tuple(column[0] for column in found.description), *found.fetchall()]


def read_xlsx(path: Path) -> Rows:
    unescape = openpyxl.utils.escape.unescape  # of characters that XML lacks, which openpyxl leaves to others
    rows = openpyxl.load_workbook(path)["unioned"].iter_rows(values_only=True)
    return [tuple(unescape(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same type; all NaN are."""
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def bytes_of(text: str) -> bytes:
    """What DuckDB writes for bytes that no ASCII character stands for."""
    return bytes.fromhex(text.replace("\\x", ""))


READERS: dict[str, Callable[[Path], Rows]] = {
    **{"csv": read_csv, "tsv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet},
    **{"sqlite": read_sqlite, "duckdb": read_duckdb, "xlsx": read_xlsx},
}
# Numbers and bytes that a format has as text, or as numbers of another type.
TYPES: tuple[Callable[[Any], Any], ...] = (str, Decimal, int, float, bytes_of)
LACKING = {  # what no value of the format stands for
    "jsonl": ("3 values of '=f' are NaN or infinite, which JSON lacks, and became null", math.isfinite),
    "sqlite": ("1 value of '=f' is NaN, which SQLite lacks, and became null", lambda x: not math.isnan(x)),
}


@pytest.mark.parametrize("format", READERS)
def test_a_strict_reader_finds_the_values(tmp_path: Path, format: str) -> None:
    plan, frame = hostile()
    report = Union(plan, frame).write(Output.by_name(tmp_path / f"o.{format}"))
    header, *rows = READERS[format](tmp_path / f"o.{format}")
    assert list(header) == NAMES
    said, holds = LACKING.get(format, (None, lambda x: True))
    assert said is None or said in report.notes
    assert len(rows) == report.rows - (format == "xlsx")  # openpyxl passes over the last row, which is empty
    for row, values in zip(
        rows, zip(*(column.to_pylist() for column in frame.columns), strict=True), strict=False
    ):
        for cell, value, kind in zip(row, values, TYPES, strict=True):
            wanted = None if isinstance(value, float) and not holds(value) else value
            if format in ("csv", "tsv") and not wanted and not isinstance(wanted, int | float | Decimal):
                assert cell == ""  # text, bytes or null: a delimited file does not say which
            elif cell is None or isinstance(cell, bytes):
                assert same(cell, wanted)
            else:
                assert same(kind(cell), wanted), (cell, wanted)


@pytest.mark.parametrize("format", LACKING)
@pytest.mark.usefixtures("in_this_process")
def test_strict_refuses_what_a_format_lacks(tmp_path: Path, format: str) -> None:
    plan, frame = hostile()
    strict, output = replace(plan, strict=True), Output.by_name(tmp_path / f"o.{format}")
    with pytest.raises(PlanError, match=r"--strict allows no loss:\n.*'=f'"):
        Union(strict, frame).write(output)
    assert not output.path.exists()
    finite = frame.set_column(
        3, "=f", pa.array([None, 0.5] * (frame.num_rows // 2) + [None] * (frame.num_rows % 2))
    )
    assert (
        Union(strict, finite).write(output).notes
        == Union(plan, finite).write(replace(output, force=True)).notes
    )


def test_nulls_and_duplicates_are_not_counted_as_lost(tmp_path: Path) -> None:
    plan, _ = hostile()
    own = PlannedTable("query", None, None, (Placement("x", "x"),))
    plan = replace(plan, query=own, columns=(OutputColumn("x"),), distinct=True)
    frame = pa.table({"x": pa.array([None, math.nan, 1.0, None, math.nan, math.inf])})
    report = Union(plan, frame).write(Output.by_name(tmp_path / "o.jsonl"))
    assert report.notes == ["2 values of 'x' are NaN or infinite, which JSON lacks, and became null"]
    assert [row[0] for row in read_jsonl(tmp_path / "o.jsonl")[1:]] == [None, None, 1.0, None]


def test_a_lone_surrogate_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"a": "x\\ud800y", "b": "\\ud83d\\udc1f"}\n')
    placed = (Placement("a", "a"), Placement("b", "b"))
    own = PlannedTable("q.jsonl", str(tmp_path / "q.jsonl"), None, placed)
    plan = UnionPlan(own, (), (OutputColumn("a"), OutputColumn("b")), provenance=False)
    for format, read in READERS.items():
        Union(plan).write(Output.by_name(tmp_path / f"o.{format}"))
        text, fish = read(tmp_path / f"o.{format}")[1]
        assert (re.sub("[?\ufffd]", "", text), fish) == ("xy", "\U0001f41f"), format  # no surrogate is left
