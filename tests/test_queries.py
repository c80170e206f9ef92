"""Queries by name: files, tables of the index, tables inside files, and standard input."""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from conftest import QUICK, make_lake, rows_of, subject_of, write_table
from test_cli import Run, run

import gentus
from gentus.lake import Unreadable, name_in_errors
from gentus.lake.formats.detect import guess_ending

__all__ = ["run"]
Feed = Callable[[bytes], None]


def make_book(path: Path) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, subject in (("My fish", "fish"), ("cities", "cities")):
        sheet = book.create_sheet(title)
        for row in rows_of(subject, 21):
            sheet.append(row)
    book.save(path)
    return path


def make_database(path: Path) -> Path:
    with sqlite3.connect(path) as db:
        for subject in ("fish", "cities"):
            header, *rows = rows_of(subject, 22)
            db.execute(f"CREATE TABLE {subject} ({', '.join(header)})")
            db.executemany(f"INSERT INTO {subject} VALUES (?, ?, ?, ?)", rows)
    db.close()
    return path


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake and its index. Files of the lake may be hidden for a moment, not changed."""
    folder = tmp_path_factory.mktemp("named")
    lake = make_lake(folder / "lake", ["cities", "fish"], 3)
    make_book(lake / "book.xlsx")
    make_database(lake / "all.db")
    gentus.build(lake, folder / "my.index", settings=QUICK, workers=1).close()
    return folder


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Give bytes to standard input."""

    def feed(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return feed


def as_csv(subject: str, seed: int) -> bytes:
    return "".join(",".join(row) + "\n" for row in rows_of(subject, seed)).encode()


@pytest.mark.parametrize("name", ["fish_0.csv", "deep/er/fish_1.csv", "book.xlsx/My fish", "all.db/fish"])
def test_a_table_of_the_index(here: Path, name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with gentus.open(here / "my.index") as index:
        hits = index.search(name, k=20)
        source = index.sources()[name]
        assert hits == index.search(source, k=20)
        assert list(index.search_many([name], k=20, workers=1)) == [(name, hits)]
        assert index.align(name, hits[0]) == index.align(source, hits[0])
        assert index.union_plan(name, hits[:2]).query.name == name
        assert len(index) == len(hits) + 1
    assert name not in [hit.table for hit in hits]
    assert {subject_of(hit.table.replace("My fish", "fish").replace("all.db/", "")) for hit in hits[:4]} == {
        "fish"
    }
    (answer,) = run("search", here / "my.index", name, "-k", 20, "--json").json()["queries"]
    assert (answer["query"], answer["results"]) == (name, [hit.to_dict() for hit in hits])
    assert run("align", here / "my.index", name, "fish_0.csv", "--json").json()["query"] == name


@pytest.mark.parametrize("path", ["lake/book.xlsx/My fish", "other.xlsx/My fish", "other.db/fish"])
def test_a_table_inside_a_file(here: Path, path: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    make_book(here / "other.xlsx")
    if not Path("other.db").exists():
        make_database(here / "other.db")
    (answer,) = run("search", "my.index", path, "-k", 3, "--json").json()["queries"]
    assert answer["query"] == path
    tables = [hit["table"] for hit in answer["results"]]
    assert ("book.xlsx/My fish" in tables) is path.startswith("other.xlsx")  # of the lake, it is the query
    report = run("union", "my.index", path, "-o", "out.csv", "--force", "-k", 1, "--json").json()
    assert report["tables"][0]["table"] == path.removeprefix("lake/")
    assert report["tables"][0]["rows"] == 12


def test_a_file_that_holds_several_tables_says_how_to_name_one(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "lake")
    ran = run("search", here / "my.index", "book.xlsx", "all.db/none", "fish_0.csv/none")
    assert (ran.code, ran.out) == (1, "")
    assert "name one of them behind its path: 'book.xlsx/My fish'" in ran.err
    assert "all.db/none: there is no table none in all.db; it holds cities, fish" in ran.err
    assert "fish_0.csv/none: there is no table none in fish_0.csv; it is one table" in ran.err


def test_a_file_goes_before_another_table_of_that_name(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_table(tmp_path / "fish_0.csv", rows_of("cities", 33))
    (tmp_path / "cities_0.csv").mkdir()  # a folder that is no table is in nobody's way
    (tmp_path / "linked.csv").symlink_to(here / "lake" / "fish_0.csv")
    monkeypatch.chdir(tmp_path)
    with gentus.open(here / "my.index") as index, caplog.at_level(logging.WARNING):
        assert subject_of(index.search("cities_0.csv", k=1)[0].table) == "cities"
        assert "fish_0.csv" not in [hit.table for hit in index.search("linked.csv", k=20)]
        assert not caplog.messages
        hits = index.search("fish_0.csv", k=20)
    assert "fish_0.csv" in [hit.table for hit in hits]
    (said,) = caplog.messages
    assert said == (
        f"fish_0.csv is a file here and another table in the index ({here / 'lake' / 'fish_0.csv'}); "
        "the file is used."
    )


def test_names_that_lead_nowhere(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    ran = run("search", here / "my.index", "fihs_0.csv", "x" * 300, "-k", 2, "--json")
    assert ran.code == 1
    assert "fihs_0.csv: it is neither a table of the index nor a file. Did you mean fish_0.csv" in ran.err
    assert [answer["results"] for answer in ran.json()["queries"]] == [[], []]
    with gentus.open(here / "my.index") as index:
        ((_, skipped),) = index.search_many(["fihs_0.csv"], workers=1)
        assert skipped.reason == "it is neither a table of the index nor a file."  # type: ignore[union-attr]
    file = here / "lake" / "fish_0.csv"
    file.rename(here / "hidden.csv")
    try:
        with gentus.open(here / "my.index") as index, pytest.raises(Unreadable, match="no longer there"):
            index.search("fish_0.csv")
        for command in (("search",), ("union", "-o", here / "new.csv")):
            ran = run(command[0], here / "my.index", "fish_0.csv", *command[1:])
            assert ran.code == 1
            assert f"fish_0.csv: it is in the index, but its file {file} is no longer there" in ran.err
            assert f"gentus sync {here / 'my.index'}" in ran.err
    finally:
        (here / "hidden.csv").rename(file)


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "")  # where the password goes
    with pytest.raises(Unreadable) as refused, name_in_errors("postgresql://me:secret@host/db/fish"):
        raise Unreadable("it is empty")
    assert refused.value.reason == "postgresql://me@host/db/fish: it is empty"


# --- standard input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "xlsx"])
def test_standard_input(here: Path, kind: str, run: Run, feed: Feed, tmp_path: Path) -> None:
    rows, path = rows_of("fish", 55), tmp_path / f"mine.{kind}"
    if kind == "xlsx":
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    else:
        write_table(path, rows)
    expected = run("search", here / "my.index", path, "-k", 4, "--json").json()["queries"][0]["results"]
    feed(path.read_bytes())
    (answer,) = run("search", here / "my.index", "-", "-k", 4, "--json").json()["queries"]
    assert (answer["query"], answer["results"]) == ("stdin", expected)


def test_standard_input_of_align_and_union(
    here: Path, run: Run, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    feed(as_csv("fish", 55))
    aligned = run("align", here / "my.index", "-", "fish_0.csv", "--json").json()
    assert (aligned["query"], len(aligned["pairs"])) == ("stdin", 4)
    feed(as_csv("fish", 55))
    out = tmp_path / "out.csv"
    report = run("union", here / "my.index", "-", "-k", 2, "-o", out, "--json").json()
    assert [table["rows"] for table in report["tables"]] == [12, 12, 12]
    assert out.read_text().splitlines()[1].split(",")[4:] == ["stdin", "1"]

    feed(as_csv("fish", 55))
    plan = run("union", here / "my.index", "-", "-k", 2, "--dry-run", "--json").json()
    assert plan["query"]["path"] is None
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    run_plan = ("--plan", tmp_path / "plan.json", "-o", out, "--force", "--json")
    assert "name a file: gentus union INDEX QUERY --plan" in run("union", *run_plan).err
    feed(as_csv("fish", 55))
    assert run("union", here / "my.index", "-", *run_plan).json()["rows"] == report["rows"]
    assert run("union", here / "my.index", "fish_0.csv", *run_plan).json()["rows"] == report["rows"]
    assert {path.name for path in tmp_path.iterdir()} == {"out.csv", "plan.json"}  # nothing else is left


def test_standard_input_that_is_no_table(
    here: Path, run: Run, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content, words in (
        (b"", "stdin: it is empty"),
        (b"%PDF-1.4 junk", "a PDF document"),
        (make_book(here / "two.xlsx").read_bytes(), "name one of them: FILE/TABLE"),
    ):
        feed(content)
        ran = run("search", here / "my.index", "-", here / "lake" / "fish_0.csv", "-k", 1)
        assert (ran.code, "1 of 1 table fits" in ran.out, words in ran.err) == (1, True, True), ran.err
    feed(b"")
    assert "stdin: it is empty" in run("align", here / "my.index", "-", "fish_0.csv").err
    assert run("search", here / "my.index", "-", "-").code == 2
    monkeypatch.setattr("gentus.app.cli.query._MOST", 10)
    feed(as_csv("fish", 1))
    assert "stdin: it has more than" in run("search", here / "my.index", "-").err


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        (b'{"a": 1}\n{"a": 2}\n', ".json"),
        (b'\xef\xbb\xbf [ {"a": 1}]', ".json"),
        (b'[["a", "b"], [1, 2]]', ".json"),
        (b"[id],[name]\n1,2\n", ".csv"),
        (b"{id};{name}\n1;2\n", ".csv"),
        (b"a\tb\n1\t2\n", ".csv"),
    ],
)
def test_content_without_a_name(tmp_path: Path, content: bytes, ending: str) -> None:
    (tmp_path / "nameless").write_bytes(content)
    assert guess_ending(tmp_path / "nameless") == ending


# --- the tables of an index ----------------------------------------------------------------------------


def test_tables_are_listed(here: Path, run: Run) -> None:
    ran = run("tables", here / "my.index", "--like", "FISH .csv")
    assert (ran.code, ran.err) == (0, "3 of 10 tables\n")
    assert ran.out.splitlines() == [
        "  rows  columns  table",
        "    12        4  deep/er/fish_1.csv",
        "    12        4  fish_0.csv",
        "    12        4  semi/fish_2.semicolon.csv",
    ]
    listed = run("tables", here / "my.index", "--json").json()
    with gentus.open(here / "my.index") as index:
        assert [table["name"] for table in listed["tables"]] == index.tables()
        assert {table["name"]: table["sid"] for table in listed["tables"]} == {
            name: index.sid(name) for name in index.tables()
        }
    assert (listed["total"], "all.db/fish" in {table["name"] for table in listed["tables"]}) == (10, True)
    ran = run("tables", here / "my.index", "--like", "no such thing")
    assert (ran.code, ran.out, ran.err) == (0, "", "0 of 10 tables\n")


def test_a_full_sample_is_said_to_be_one(tmp_path: Path, run: Run) -> None:
    write_table(tmp_path / "lake" / "large.csv", rows_of("fish", 1, 600))
    write_table(tmp_path / "lake" / "small.csv", rows_of("fish", 2))
    gentus.build(tmp_path / "lake", tmp_path / "index", settings=QUICK, workers=1).close()
    assert "  512+        4  large.csv" in run("tables", tmp_path / "index").out.splitlines()
    assert (
        "512+ (the sample is full; there may be more)" in run("describe", tmp_path / "index", "large.csv").out
    )


def test_a_table_is_described(here: Path, run: Run) -> None:
    name = "book.xlsx/My fish"
    ran = run("describe", here / "my.index", name)
    assert (ran.code, ran.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in ran.out.splitlines()[:7])
    assert (lines["table"], lines["inside"], lines["rows"], lines["columns"]) == (name, "My fish", "12", "4")
    assert lines["file"] == str(here / "lake" / "book.xlsx")
    assert "size" in ran.out.partition("most frequent values")[2]
    told = run("describe", here / "my.index", name, "--json").json()
    with gentus.open(here / "my.index") as index:
        described = index.describe(name)
        assert told == described.to_dict()
        assert described.sid == lines["identifier"] == index.sid(name)
    rows = rows_of("fish", 21)
    assert [column.type for column in described.columns] == ["text", "text", "number", "number"]
    kinds = described.columns[1]
    assert (kinds.name, kinds.filled, kinds.distinct) == ("kind", 1, len({row[1] for row in rows[1:]}))
    ran = run("describe", here / "my.index", "book.xlsx/My fihs")
    assert (ran.code, ran.out) == (1, "")
    assert "there is no table of this name in the index. Did you mean book.xlsx/My fish" in ran.err


def test_a_table_is_described_without_its_file(here: Path, run: Run) -> None:
    file = here / "lake" / "fish_0.csv"
    whole = run("describe", here / "my.index", "fish_0.csv", "--json").json()
    file.rename(here / "hidden.csv")
    try:
        ran = run("describe", here / "my.index", "fish_0.csv", "--json")
        shown = run("describe", here / "my.index", "fish_0.csv")
    finally:
        (here / "hidden.csv").rename(file)
    told = ran.json()
    assert (ran.code, told["columns"]) == (0, [])
    assert f"its file {file} is no longer there" in told["missing"]
    assert f"fish_0.csv: {told['missing']}\n" == ran.err == shown.err
    assert {**told, "columns": whole["columns"], "missing": None} == whole
    assert "identifier" in shown.out
