"""Files that crash their parser: the error names them, and everything else goes on."""

from __future__ import annotations

import io
import os
import signal
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, make_lake, rows_of, write_pairs
from data.workbooks import xlsx
from served import Served, served
from test_cli import Run, run

import gentus
from gentus.lake import Limits, only_table
from gentus.lake import read as read_here
from gentus.lake.sandbox import named
from gentus.progress import Progress, Step

__all__ = ["run"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSEGV")


def write_parquet(path: Path, seed: int) -> Path:
    header, *rows = rows_of("fish", seed)
    pq.write_table(pa.table(dict(zip(header, zip(*rows, strict=True), strict=True))), path)
    return path


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crashing")
    lake = make_lake(folder / "lake", ["cities", "fish"], 3)
    write_parquet(lake / "bad.parquet", 50)
    write_parquet(lake / "good.parquet", 51)
    write_parquet(folder / "bad.parquet", 52)
    write_parquet(folder / "good.parquet", 53)
    gentus.build(lake, folder / "my.index", settings=QUICK, workers=1).close()
    return folder


def read_or_crash(source: Any, limits: Limits) -> Any:
    """A parser that a certain file crashes."""
    if source.path.name == "bad.parquet":
        os.kill(os.getpid(), signal.SIGSEGV)
    return read_here(source, limits)


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "read", read_or_crash)


DIED = "the process opening it died (exit code -11)"


@pytest.mark.usefixtures("crashing")
def test_search_and_align(here: Path, run: Run) -> None:
    bad, good, index = here / "bad.parquet", here / "good.parquet", here / "my.index"
    ran = run("search", index, bad, good, "--json")
    first, second = ran.json()["queries"]
    assert (ran.code, first["results"]) == (1, [])
    assert DIED in first["error"]
    assert f"{bad}: {DIED}" in ran.err
    assert second["results"]
    for query, table in ((bad, "good.parquet"), (good, "bad.parquet"), (good, bad)):
        ran = run("align", index, query, table)
        assert (ran.code, ran.out) == (1, "")
        assert f"bad.parquet: {DIED}" in ran.err
        assert "write it again" in ran.err
    ran = run("search", index, good, "--explain", "-k", 20)  # a table of the lake that crashes its parser
    assert ran.code == 0
    assert DIED in ran.out


@pytest.mark.usefixtures("crashing")
def test_in_python(here: Path) -> None:
    with gentus.open(here / "my.index") as index:
        with pytest.raises(gentus.Unreadable, match="died"):
            index.search(here / "bad.parquet")
        with pytest.raises(gentus.Unreadable, match="died"):
            index.read("bad.parquet")
        assert index.describe("bad.parquet").missing
        assert index.search(here / "good.parquet", k=3)


def test_the_sandbox_reads_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder: a process that was started in another one follows."""
    source = only_table(here / "good.parquet")
    assert named.read_named(source, Limits()) == read_here(source)
    monkeypatch.chdir(here)
    relative = only_table("good.parquet")
    assert named.read_named(relative, Limits()) == read_here(relative)
    monkeypatch.setenv("GENTUS_TEST", "now")
    assert named.call_for(source, Limits(), os.getenv, "GENTUS_TEST") == "now"
    assert named.call_for(source, Limits(), os.getpid) != os.getpid()
    assert named.call_for(only_table(here / "lake" / "fish_0.csv"), Limits(), os.getpid) == os.getpid()


def test_a_folder_that_is_a_table_is_not_plain(here: Path, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    assert named.call_for(only_table(tmp_path), Limits(), os.getpid) != os.getpid()


def write_far(path: Path) -> Path:
    """A workbook whose cells are so far from each other that calamine gives up, and ends its process."""
    made = io.BytesIO(xlsx([["name", "size"], ["trout", 1.0]]))
    with zipfile.ZipFile(made) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    far = b'<row r="1000000000"><c r="CV1000000000"><v>1</v></c></row></sheetData>'
    parts[sheet] = parts[sheet].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def test_a_real_file_that_crashes_its_parser(here: Path, run: Run, tmp_path: Path) -> None:
    bad, good, index, out = (
        write_far(tmp_path / "far.xlsx"),
        here / "good.parquet",
        here / "my.index",
        "o.csv",
    )
    died = "the process opening it died (exit code -6)"
    for command in (
        ("search", index, bad),
        ("align", index, good, bad),
        ("union", index, bad, "--tables", "good.parquet", "-o", tmp_path / out),
        ("union", index, good, "--tables", "good.parquet", bad, "-o", tmp_path / out, "--dry-run"),
    ):
        ran = run(*command)
        assert (ran.code, ran.out) == (1, ""), command
        assert f"{bad.name}: {died}" in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far.xlsx"]


def test_a_table_that_crashes_its_parser_while_rows_are_written(here: Path, tmp_path: Path) -> None:
    """One that a search found is left out; one that was named is an error."""
    good = tmp_path / "good.xlsx"
    header, *rows = rows_of("fish", 60)
    good.write_bytes(xlsx([header, *rows]))
    with gentus.open(here / "my.index") as index:
        plan = index.union_plan(here / "good.parquet", [good, "good.parquet"])
    write_far(good)
    out = tmp_path / "all.csv"
    with pytest.raises(gentus.PlanError, match=r"good\.xlsx: the process opening it died"):
        gentus.Union(plan).write_csv(out)
    assert [path.name for path in tmp_path.iterdir()] == ["good.xlsx"]
    found = tuple(replace(table, found=True) for table in plan.tables)
    union = gentus.Union(replace(plan, tables=found))
    report = union.write_csv(out)
    assert [one.table for one in report.left_out] == [str(good)]
    assert "died" in report.left_out[0].why
    assert report.rows == union.to_arrow().num_rows == union.preview(10_000).num_rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.csv", "good.xlsx"]


def test_a_frame_goes_to_the_process_and_rows_come_back(here: Path) -> None:
    header, *rows = rows_of("fish", 70)
    frame = pa.table(dict(zip(header, zip(*rows, strict=True), strict=True)))
    large = pa.concat_tables([frame] * 2000)
    with gentus.open(here / "my.index") as index:
        for given in (frame, large):
            union = index.union(given, "good.parquet")
            assert union.to_arrow()["_source_table"].to_pylist().count("query") == given.num_rows
            assert union.report is not None
    reader = union.to_reader()  # one that is dropped before its end
    next(reader)
    del reader
    assert union.preview(4).num_rows == 4


@pytest.fixture(scope="module")
def api(here: Path) -> Iterator[Served]:
    with served(here / "my.index") as client:
        yield client


@pytest.mark.usefixtures("crashing")
def test_the_server_goes_on(api: Served) -> None:
    answer = api.get("/api/table", params={"name": "bad.parquet"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(f"bad.parquet: {DIED}")
    queries = [{"query": {"table": f"{name}.parquet"}, "k": 3} for name in ("bad", "good")]
    assert [api.post_json("/api/search", one).status_code for one in queries] == [422, 200]
    aligned = {"query": {"table": "good.parquet"}, "table": "bad.parquet"}
    assert api.post_json("/api/align", aligned).status_code == 422
    assert api.table("good.parquet")["sample"]


def test_a_labelled_query_that_crashes_its_parser(tmp_path: Path) -> None:
    """It was read well before: the build goes on without it, and says so."""
    lake = make_lake(tmp_path / "lake", ["cities", "fish"], 6)
    header, *rows = rows_of("fish", 60)
    (lake / "book.xlsx").write_bytes(xlsx([header, *rows]))
    tables = sorted(path.name for path in lake.glob("fish_*"))
    pairs = [(query, table) for query in ["book.xlsx/Sheet1", *tables] for table in tables if query != table]
    write_pairs(tmp_path / "labels.csv", pairs)

    class Spoiling(Progress):
        @contextmanager
        def stage(self, title: str, *rest: Any, **more: Any) -> Iterator[Step]:
            if title == "Reading labelled queries":
                write_far(lake / "book.xlsx")
            with super().stage(title, *rest, **more) as tick:
                yield tick

    out, labels = tmp_path / "my.index", tmp_path / "labels.csv"
    with gentus.build(lake, out, labels, settings=QUICK, workers=1, progress=Spoiling()) as index:
        (reason,) = index.info()["labels"]["ranking"]["unreadable"]
        assert reason.startswith("book.xlsx/Sheet1: the process opening it died")
        assert index.search(lake / tables[0], k=3)
