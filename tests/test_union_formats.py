"""Excel, SQLite and standard output: every value is kept, or said to have changed."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import types
import xml.etree.ElementTree as ET
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import openpyxl
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gentus.extras import install
from gentus.index.hits import Hits
from gentus.index.index import Index
from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, Union, UnionPlan, excel
from gentus.union.errors import OutputError
from gentus.union.output import STREAMS, Output

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def parquet(path: Path, sql: str) -> UnionPlan:
    """The plan of a union of one typed table."""
    with closing(duckdb.connect()) as duck:
        duck.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
        names = [row[0] for row in duck.execute(f"DESCRIBE FROM '{path}'").fetchall()]
    placed = tuple(Placement(name, name) for name in names)
    columns = tuple(OutputColumn(name) for name in names)
    return UnionPlan(PlannedTable(path.name, str(path), None, placed), (), columns, provenance=False)


def values(*cells: str) -> str:
    """SQL of a table with a column for every value, and a row of nulls above them."""
    columns = ", ".join(f"{cell} AS c{at}" for at, cell in enumerate(cells))
    nulls = ", ".join(f"CASE WHEN i THEN c{at} END AS c{at}" for at in range(len(cells)))
    return f"SELECT {nulls} FROM (SELECT {columns}), (VALUES (false), (true)) v(i) ORDER BY i"


def test_excel_keeps_values_and_says_what_is_text(tmp_path: Path) -> None:
    cells = {
        "12345::BIGINT": 12345,
        "-999999999999999::BIGINT": -999999999999999,
        "1234567890123456::BIGINT": "1234567890123456",
        "0.1::DOUBLE + 0.2": 0.1 + 0.2,
        "1e300::DOUBLE": 1e300,
        "'inf'::DOUBLE": "inf",
        "-12.50::DECIMAL(18,2)": -12.5,
        "1234567890123456.78::DECIMAL(18,2)": "1234567890123456.78",
        "true": True,
        "DATE '2020-02-29'": datetime.datetime(2020, 2, 29),
        "DATE '1899-12-31'": "1899-12-31",
        "TIMESTAMP '2020-02-29 23:59:59'": datetime.datetime(2020, 2, 29, 23, 59, 59),
        "TIME '06:30:00'": datetime.time(6, 30),
        "TIMESTAMPTZ '2020-01-01 10:00:00+02'": "2020-01-01 08:00:00+00",
        **{f"'{text}'": text for text in ("=1+1", "#N/A", "http://a.b", "-1", "007", "a  b", "a\r\nb\tc")},
        "'<b>&amp;</b>\"'": '<b>&amp;</b>"',
    }
    report = Union(parquet(tmp_path / "q.parquet", values(*cells))).write_excel(tmp_path / "o.xlsx", "A & B")
    sheet = openpyxl.load_workbook(tmp_path / "o.xlsx")["A & B"]
    header, nothing, row = sheet.iter_rows()
    assert [cell.value for cell in header] == [f"c{at}" for at in range(len(cells))]
    assert [cell.value for cell in row] == list(cells.values())
    assert {cell.data_type for cell in row} == {"n", "b", "d", "s"}  # neither formulas nor errors
    assert [cell.value for cell in nothing] == [None] * len(cells)
    text = {2: "have more than 15 digits", 5: "are infinite or NaN", 7: "have more than 15 digits"}
    text |= {10: "are not between March 1900 and 9999", 13: "have a zone"}
    assert report.notes == [f"1 values of 'c{at}' {why} and are text in Excel" for at, why in text.items()]


def test_excel_escapes_what_xml_has_not(tmp_path: Path) -> None:
    plan = parquet(tmp_path / "q.parquet", values("chr(1) || 'a'", "'_x0041_'", "'_x_'"))
    Union(plan).write_excel(tmp_path / "o.xlsx")
    with zipfile.ZipFile(tmp_path / "o.xlsx") as archive:
        assert archive.testzip() is None
        sheet = ET.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    cells = [cell.text or "" for cell in sheet.iter(f"{MAIN}t")][3:]
    unescaped = [re.sub("_x([0-9A-F]{4})_", lambda found: chr(int(found[1], 16)), cell) for cell in cells]
    assert unescaped == ["\x01a", "_x0041_", "_x_"]


@pytest.mark.usefixtures("in_this_process")
def test_what_a_sheet_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "o.xlsx"
    long = parquet(tmp_path / "long.parquet", "SELECT repeat('é', 32768) AS t")
    many = parquet(tmp_path / "many.parquet", "SELECT i FROM range(100) r(i)")
    wide = parquet(tmp_path / "wide.parquet", "SELECT 1 AS a, 2 AS b")
    monkeypatch.setattr(excel, "MOST_ROWS", 100)
    monkeypatch.setattr(excel, "MOST_COLUMNS", 1)
    for said, plan, sheet in (
        ("row 1 of 't' has 32,768 characters, a cell of Excel at most 32,767; write .csv", long, "s"),
        ("more rows than a sheet, 100; write .csv, .parquet or .sqlite instead", many, "s"),
        ("has 2 columns, a sheet at most 1; write .csv", wide, "s"),
        ("a sheet cannot be called 'a/b'", many, "a/b"),
    ):
        with pytest.raises(OutputError, match=re.escape(said)):
            Union(plan).write_excel(out, sheet)
    assert sorted(os.listdir(tmp_path)) == ["long.parquet", "many.parquet", "wide.parquet"]
    monkeypatch.setattr(excel, "MOST_ROWS", 101)
    assert Union(many).write_excel(out).rows == 100


def test_sqlite_keeps_values(tmp_path: Path) -> None:
    cells = {
        "9223372036854775807::BIGINT": ("INTEGER", 9223372036854775807),
        "9223372036854775808::UBIGINT": ("TEXT", "9223372036854775808"),
        "true": ("INTEGER", 1),
        "0.1::DOUBLE": ("REAL", 0.1),
        "12.50::DECIMAL(9,2)": ("REAL", 12.5),
        "1234567890123456.78::DECIMAL(18,2)": ("TEXT", "1234567890123456.78"),
        "DATE '1066-10-14'": ("TEXT", "1066-10-14"),
        "TIMESTAMP '2020-01-01 10:00:00.5'": ("TEXT", "2020-01-01 10:00:00.5"),
        "TIMESTAMPTZ '2020-01-01 10:00:00+02'": ("TEXT", "2020-01-01 08:00:00+00:00"),
        "'\\x00\\xFF'::BLOB": ("BLOB", b"\0\xff"),
        "'007'": ("TEXT", "007"),
    }
    plan = parquet(tmp_path / "q.parquet", values(*cells))
    report = Union(plan).write_sqlite(tmp_path / "o.sqlite", 'my "table"')
    said = "'c{}' is {}, which SQLite lacks, and is text there"
    assert report.notes == [said.format(1, "UBIGINT"), said.format(5, "DECIMAL(18,2)")]
    with closing(sqlite3.connect(tmp_path / "o.sqlite")) as database:
        types = [row[2] for row in database.execute("PRAGMA table_info('my \"table\"')")]
        rows = database.execute('SELECT * FROM "my ""table"""').fetchall()
    assert types == [kind for kind, _ in cells.values()]
    assert rows == [(None,) * len(cells), tuple(value for _, value in cells.values())]


@pytest.mark.usefixtures("in_this_process")
def test_an_sqlite_file_that_is_in_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, out = parquet(tmp_path / "q.parquet", "SELECT 1 AS a"), tmp_path / "o.sqlite"
    with closing(sqlite3.connect(out)) as database:
        database.execute("CREATE TABLE mine AS SELECT 42 AS a")
        database.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("gentus.union.sqlite.SECONDS", 0.1)
        with pytest.raises(OutputError, match="another program is writing to it"):
            Union(plan).write_sqlite(out)
        database.rollback()
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]


# --- standard output -----------------------------------------------------------------------------------


def command(plan: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "gentus.app.cli.main", "union", "--plan", str(plan), *arguments]


@pytest.fixture(scope="module")
def long_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    parquet(folder / "q.parquet", "SELECT i, 'é ' || i AS t FROM range(200000) r(i)").save(
        folder / "plan.json"
    )
    return folder / "plan.json"


def shell(line: str, plan: Path, folder: Path, *, code: int = 0) -> bytes:
    """Run a line of a shell, in which `$G` is a union; returns stderr."""
    union = shlex.join(command(plan, "-q"))
    ran = subprocess.run(
        ["bash", "-c", line.replace("$G", union)], cwd=folder, capture_output=True, check=False, timeout=60
    )
    assert ran.returncode == code, ran.stderr
    return ran.stderr


@pytest.mark.parametrize("format", STREAMS)
def test_stdout_is_written_where_it_stands(long_plan: Path, tmp_path: Path, format: str) -> None:
    union = f"$G -o - --format {format}"
    Union(UnionPlan.load(long_plan)).write(Output.by_name(tmp_path / f"o.{format}"))
    file = (tmp_path / f"o.{format}").read_bytes()
    assert shell(f"{union} | cat > piped", long_plan, tmp_path) == b""
    assert (tmp_path / "piped").read_bytes() == file
    (tmp_path / "notes").write_bytes(b"kept\n")
    shell(f"{{ echo head; {union}; echo tail; }} >> notes", long_plan, tmp_path)
    assert (tmp_path / "notes").read_bytes() == b"kept\nhead\n" + file + b"tail\n"
    if format == "parquet":
        assert pq.read_table(tmp_path / "piped").equals(pq.read_table(tmp_path / "o.parquet"))
        assert pl.read_parquet(tmp_path / "piped").height == 200_000


def test_a_file_is_replaced_as_the_shell_says(long_plan: Path, tmp_path: Path) -> None:
    (tmp_path / "group").write_bytes(b"old\n")
    shell("{ echo head; $G -o -; } > group", long_plan, tmp_path)
    assert (tmp_path / "group").read_bytes().startswith(b"head\ni,t\n0,\xc3\xa9 0\n")


@pytest.mark.parametrize("sql", ["--sql -", "--dry-run --json"])
def test_other_documents_are_appended_too(long_plan: Path, tmp_path: Path, sql: str) -> None:
    (tmp_path / "notes").write_bytes(b"kept\n")
    shell(f"$G {sql} >> notes", long_plan, tmp_path)
    assert (tmp_path / "notes").read_bytes().startswith(b"kept\n" + (b"--" if "sql" in sql else b"{"))


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_closed_pipe_ends_quietly(long_plan: Path, tmp_path: Path, format: str) -> None:
    line = f"$G -o - --format {format} | head -c 4 > some; exit ${{PIPESTATUS[0]}}"
    assert shell(line, long_plan, tmp_path) == b""
    assert (tmp_path / "some").stat().st_size == 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_stdout_without_room_is_called_that(long_plan: Path, tmp_path: Path) -> None:
    said = b"Error: standard output was not written: there is no room on the disk\n"
    assert shell("$G -o - > /dev/full", long_plan, tmp_path, code=1) == said
    assert b"there is no standard output" in shell("$G -o - >&-", long_plan, tmp_path, code=1)


def test_the_summary_is_on_stderr(long_plan: Path) -> None:  # with -q, as above, there is none
    ran = subprocess.run(command(long_plan, "-o", "-"), capture_output=True, check=True)
    assert b"200,000 rows and 2 columns on stdout (" in ran.stderr


def test_what_cannot_go_to_stdout(long_plan: Path) -> None:
    for said, arguments in {
        "xlsx cannot be written to standard output; name a file": ["--format", "xlsx"],
        "only one thing can go to stdout": ["--json"],
    }.items():
        ran = subprocess.run(command(long_plan, "-o", "-", *arguments), capture_output=True, check=False)
        assert (ran.returncode > 0, ran.stdout) == (True, b"")
        assert said in " ".join(ran.stderr.decode().replace("│", " ").split())


# --- Arrow ---------------------------------------------------------------------------------------------


def test_hits_plans_and_unions_are_arrow(index: Index, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = index.search(lake / "fish_0.csv", k=3)
    plan = index.union_plan(lake / "fish_0.csv", hits)
    union = Union(plan)
    found = pa.RecordBatchReader.from_stream(hits).read_all()
    assert found.equals(hits.to_arrow())
    assert found.column("table").to_pylist() == [hit.table for hit in hits]
    assert found.column("pairs")[0].as_py()[0] == dict(
        zip(("query", "table"), hits[0].columns.pairs[0], strict=True)
    )
    assert Hits().to_arrow().schema == found.schema
    placements = pl.DataFrame(plan)
    assert placements.columns[:7] == ["table", "path", "part", "column", "into", "type", "score"]
    assert placements.height == sum(len(table.columns) for table in plan.sources)
    rows = pa.table(union)
    assert union.report is not None
    assert union.report.rows == rows.num_rows == 48
    assert rows.equals(union.to_arrow())
    assert union.to_pandas().shape == union.to_polars().shape == rows.shape
    with closing(duckdb.connect()) as duck:
        duck.register("every_row", union)
        assert duck.execute("SELECT count(DISTINCT _source_table) FROM every_row").fetchall() == [(4,)]

    made: list[pa.Table] = []
    package = types.ModuleType("datasets")
    vars(package)["Dataset"] = lambda table: made.append(table)
    monkeypatch.setitem(sys.modules, "datasets", package)
    union.to_dataset()
    assert made[0].equals(rows)
    monkeypatch.setitem(sys.modules, "datasets", None)
    hint = re.escape(f"datasets is not installed. Run: {install('datasets')}")
    with pytest.raises(ModuleNotFoundError, match=hint):
        hits.to_dataset()


def test_a_union_streams_in_bounded_memory(long_plan: Path, tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_stream(Union(UnionPlan.load(long_plan)))
    before = pa.total_allocated_bytes()
    first = next(iter(reader))
    assert first.num_rows <= 2048
    assert pa.total_allocated_bytes() - before < 4 << 20  # of 4 MB in all that the rows take
    del reader, first  # what was opened is closed
    plan = UnionPlan.load(long_plan)
    (tmp_path / "broken.parquet").write_bytes(Path(plan.query.path or "").read_bytes()[:-9])
    gone = replace(plan, query=replace(plan.query, path=str(tmp_path / "broken.parquet")))
    with pytest.raises(PlanError, match=r"q\.parquet: "):
        Union(gone).to_arrow()
