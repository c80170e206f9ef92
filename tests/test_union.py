"""Unions end to end: from a search or a plan to rows in a file, whole or not at all."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, genes, partly_fish, rows_of, write_table
from test_cli import Run, run

import gentus
from gentus.align.alignment import Alignment, ColumnPair, ColumnRef
from gentus.align.notation import Evidence
from gentus.index.index import Index
from gentus.index.union_plan import plan_union
from gentus.lake import Limits, Source, only_table, read
from gentus.table import Column, Table
from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, Reading, Union, UnionPlan
from gentus.union.decision import Decision
from gentus.union.errors import OutputError
from gentus.union.output import Output

__all__ = ["run"]

FISH = ("deep/er/fish_1.csv", "semi/fish_2.semicolon.csv", "typed/fish_3.parquet", "typed/lines/fish_4.jsonl")


def table_of(path: Path, table: str = "unioned") -> list[tuple[Any, ...]]:
    """All rows of a result, whatever it was written as."""
    with closing(duckdb.connect(":memory:")) as duck:
        if path.suffix in (".duckdb", ".db"):
            duck.execute(f"ATTACH '{path}' AS result (READ_ONLY)")
            return duck.execute(f'SELECT * FROM result."{table}"').fetchall()
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                return database.execute(f'SELECT * FROM "{table}"').fetchall()
        if path.suffix == ".xlsx":
            return list(openpyxl.load_workbook(path)[table].iter_rows(min_row=2, values_only=True))
        kind = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "json"}[path.suffix]
        return duck.execute(f"SELECT * FROM read_{kind}('{path}')").fetchall()


def planned(folder: Path, *tables: Sequence[Sequence[str]], **options: Any) -> UnionPlan:
    """A plan for tables whose columns belong together by their place; the first is the query."""
    sources = []
    for number, rows in enumerate(tables):
        path = folder / f"t{number}.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        placed = tuple(Placement(own, name) for own, name in zip(rows[0], tables[0][0], strict=True))
        sources.append(PlannedTable(path.name, str(path), None, placed))
    columns = tuple(OutputColumn(name) for name in tables[0][0])
    return UnionPlan(sources[0], tuple(sources[1:]), columns, **options)


def taken(plan: UnionPlan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Union(plan).to_arrow().to_pylist()
    return found


# --- from the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".duckdb", ".db", ".sqlite", ".xlsx"]
)
def test_search_and_union(run: Run, index_path: Path, lake: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"all the fish{suffix}"
    ran = run("union", index_path, lake / "fish_0.csv", "-o", out, "-k", 5, "--json")
    report = ran.json()
    assert (report["rows"], report["columns"], report["unconverted"], report["notes"]) == (72, 6, 0, [])
    assert {table["table"] for table in report["tables"]} > {"fish_0.csv", *FISH}
    assert [table["rows"] for table in report["tables"]] == [12] * 6
    assert f"72 rows and 6 columns in {out}" in ran.err
    rows = table_of(out)
    assert len(rows) == 72
    expected = [(*row[:2], float(row[2]), int(row[3])) for row in rows_of("fish", 0)[1:]]
    assert [row[:4] for row in rows[:12]] == expected
    assert [row[4:] for row in rows[:12]] == [("fish_0.csv", number) for number in range(1, 13)]
    for table in {row[4] for row in rows} & set(FISH):
        seed = int(table.split("fish_")[1][0])
        expected = [(*row[:2], float(row[2]), int(row[3])) for row in rows_of("fish", seed)[1:]]
        assert [row[:4] for row in rows if row[4] == table] == expected
    assert os.listdir(tmp_path) == [out.name]


def test_only_tables_that_fit_are_appended(run: Run, index_path: Path, tmp_path: Path) -> None:
    unlike, out = write_table(tmp_path / "genes.csv", genes()), tmp_path / "out.csv"
    ran = run("union", index_path, unlike, "-o", out)
    assert (ran.code, out.exists()) == (1, False)
    assert (
        "No table in this lake fits yours. To append tables all the same, name them with --tables" in ran.err
    )
    partial = write_table(tmp_path / "partly.csv", partly_fish())
    plan = run("union", index_path, partial, "-k", 2, "--dry-run", "--json").json()
    (answer,) = run("search", index_path, partial, "-k", 2, "--fit", "partial", "--json").json()["queries"]
    hits = [(hit["table"], hit["score"]) for hit in answer["results"]]  # one score everywhere
    assert [(table["name"], table["score"]) for table in plan["tables"]] == hits


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An index of sales, and a query for it; prices and dates of the lake can be read in two ways."""
    folder = tmp_path_factory.mktemp("sales")
    lake = folder / "lake"
    goods = [["lamp", "bright"], ["chair", "oak"], ["desk", "N/A"], ["sofa", "soft"]] * 3
    for number in range(3):
        body = [
            [name, note, f'"{1 + at},{100 + 7 * at + number}"', f"{1 + at % 5}/{6 + at % 6}/2020"]
            for at, (name, note) in enumerate(goods)
        ]
        write_table(lake / f"sales_{number}.csv", [["item", "remark", "price", "sold"], *body])
    shutil.copy(lake / "sales_1.csv", lake / "copy.csv")
    write_table(lake / "part.csv", [["item", "remark", "weight"], *([*row, "3"] for row in goods)])
    write_table(lake / "genes.csv", genes())
    mine = [[name, note, f"{100 * at}.5", f"2020-01-{at + 10}"] for at, (name, note) in enumerate(goods)]
    mine[0][2] = "NA"
    query = write_table(folder / "mine.csv", [["item", "remark", "price", "sold"], *mine])
    gentus.build(lake, folder / "index", settings=QUICK, workers=1).close()
    return folder / "index", query


def test_what_is_undecided_is_said_and_decided_by_flags(
    run: Run, sales: tuple[Path, Path], tmp_path: Path
) -> None:
    index, query = sales
    arguments = ("union", index, query, "--tables", "sales_1.csv", "copy.csv", "part.csv")
    out = tmp_path / "out.parquet"
    ran = run(*arguments, "-o", out, "--json")
    report = ran.json()
    assert "copy.csv: same rows as sales_1.csv" in report["notes"]
    assert "copy.csv: same rows as sales_1.csv" in ran.err
    own, one, _, part = report["tables"]
    (price,) = (column for column in one["columns"] if column["into"] == "sold")
    assert price["decided"][0] == {
        **{"what": "dates", "as": "month first", "from": "default", "undecided": True},
        "examples": ["1/10/2020"],
    }
    assert "sales_1.csv: 'sold': undecided: dates like 1/10/2020 are read month first, by default" in ran.err
    assert "mine.csv: 'price': 1 'NA' taken as null" in ran.err
    assert "sales_1.csv: 'remark': 3 'N/A' kept as text" in ran.err
    assert part["matched"] == [2, 4]
    assert "part.csv: no column for 'price', 'sold': null in all 12 rows" in ran.err
    assert {column["into"]: column["nulls"] for column in part["columns"] if column["nulls"]} == {
        **{"price": 12, "sold": 12}
    }
    assert (own["columns"][1]["nulls"], own["columns"][1]["taken_as_null"]) == (1, {"NA": 1})

    ran = run(*arguments, "-o", tmp_path / "no.csv", "--strict")
    assert (ran.code, (tmp_path / "no.csv").exists()) == (1, False)
    assert "sales_1.csv: column 'sold' has '1/10/2020'; decide with --dates 'sales_1.csv:sold=..'" in ran.err
    decided = ("--dates", "day", "--decimal", "sales_1.csv=,", "--decimal", "copy.csv:price=.", "--strict")
    ran = run(*arguments, "-o", out, "--force", *decided, "--null-values", "sofa")
    assert ran.code == 0, ran.err
    rows = pq.read_table(out).to_pylist()
    first = {row["_source_table"]: row for row in reversed(rows)}
    assert (first["sales_1.csv"]["price"], first["copy.csv"]["price"]) == (1.101, 1101.0)
    assert first["sales_1.csv"]["sold"] == datetime.date(2020, 6, 1)
    assert {row["item"] for row in rows} == {"lamp", "chair", "desk", None}
    assert "as decided by a person" in ran.err
    wrong = {
        "the union has no table 'sale_1.csv'; did you mean 'sales_1.csv'?": "sale_1.csv=,",
        "copy.csv gives the union no column 'prize'; did you mean 'price'?": "copy.csv:prize=,",
        "the union has no column 'prize'; did you mean 'price'?": ":prize=,",
        "it is '.' or ',', or TABLE=": "x",
    }
    for said, flag in wrong.items():
        ran = run(*arguments, "-o", tmp_path / "no.csv", "--decimal", flag)
        assert (ran.code, said in ran.err) == (1, True), ran.err
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(run(*arguments, "--dry-run", "--json").json()))
    ran = run(
        "union", "--plan", plan, "-o", out, "--force", "--dates", "day", "--decimal", ":price=,", "--json"
    )
    row = pq.read_table(out).to_pylist()[12]
    assert (row["price"], row["sold"]) == (1.101, datetime.date(2020, 6, 1))


def test_hits_that_do_not_fit_are_left_out(run: Run, sales: tuple[Path, Path], tmp_path: Path) -> None:
    index, query = sales
    ran = run("union", index, query, "-o", tmp_path / "a.csv", "-k", 6, "--json")
    report = ran.json()
    assert "genes.csv" not in {table["table"] for table in report["tables"]}
    left_out = {one["table"]: one["why"] for one in report["left_out"]}
    assert left_out["genes.csv"].startswith("it does not fit: ")
    assert f"left out: genes.csv ({left_out['genes.csv']})" in ran.err
    assert all(table["fit"] in ("full", "partial") for table in report["tables"][1:])
    full = run("union", index, query, "-o", tmp_path / "b.csv", "-k", 6, "--fit", "full", "--json").json()
    assert {table["fit"] for table in full["tables"][1:]} == {"full"}
    assert left_out["part.csv"] == "it does not fit: `item` and `remark` match; `price` and `sold` do not"
    every = run("union", index, query, "-o", tmp_path / "c.csv", "-k", 6, "--fit", "any", "--json").json()
    assert ("part.csv", "none") in {(table["table"], table.get("fit")) for table in every["tables"]}
    ran = run("union", index, query, "-o", tmp_path / "d.csv", "--min-score", 1)
    assert (ran.code, "fits yours with a score of at least 1." in ran.err) == (1, True)
    with gentus.open(index) as opened:  # in Python, too
        hits = opened.search(str(query), k=6)
        assert {one.table for one in opened.union_plan(str(query), hits).left_out} == set(left_out)
        plan = opened.union_plan(str(query), hits, min_score=0.6, fit="any", strict=False)
        assert all(one.why.endswith(", less than 0.6") for one in plan.left_out)


def test_tables_by_name(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    query, out = lake / "fish_0.csv", tmp_path / "out.csv"
    elsewhere = write_table(tmp_path / "more" / "other.csv", rows_of("fish", 9, 5))
    ran = run("union", index_path, query, "-o", out, "--tables", *FISH[:2], "fish_0.csv", FISH[0], elsewhere)
    assert ran.code == 0
    assert f"fish_0.csv is the query itself and was left out\n{FISH[0]} is named twice" in ran.err
    rows = (("fish_0.csv", 12), (FISH[0], 12), (FISH[1], 12), (str(elsewhere), 5))
    assert [row[4] for row in table_of(out)] == [name for name, count in rows for _ in range(count)]
    wrong: dict[str, list[object]] = {
        "deep/fish_1.csv: it is neither a table of the index nor a file. Did you mean deep/er/fish_1.csv": [
            *("--tables", "deep/fish_1.csv")
        ],
        "give either --tables, or -k, --fit and --min-score": ["--tables", FISH[0], "-k", 3],
        "stray.csv: name further tables after --tables": ["stray.csv"],
        "there is no table to union with": ["--tables", "fish_0.csv"],
    }
    for said, arguments in wrong.items():
        ran = run("union", index_path, query, "-o", tmp_path / "no.csv", *arguments)
        assert ran.code in (1, 2)
        assert said in " ".join(ran.err.replace("│", " ").split()), said
    assert not (tmp_path / "no.csv").exists()
    ran = run("union", index_path, tmp_path / "lost.csv", "-o", tmp_path / "no.csv")
    assert (ran.code, "lost.csv: it is neither a table" in ran.err) == (1, True)
    assert run("union", "-o", tmp_path / "no.csv").code == 2


def test_dry_run_and_an_edited_plan(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    arguments = ("union", index_path, lake / "fish_0.csv", "--tables", *FISH[:2], "--dry-run")
    ran = run(*arguments)
    assert ran.code == 0
    assert "deep/er/fish_1.csv" in ran.out
    assert "DOUBLE" in ran.out
    document = run(*arguments, "-o", tmp_path / "out.csv", "--json").json()
    assert os.listdir(tmp_path) == []
    assert [column["type"] for column in document["columns"]] == ["VARCHAR", "VARCHAR", "DOUBLE", "BIGINT"]

    document["columns"][3] = {"name": "made in", "type": "text"}
    for table in (document["query"], *document["tables"]):
        (year,) = (column for column in table["columns"] if column["into"] == "year")
        year["into"] = "made in"
    document["tables"].pop()
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(document))
    out = tmp_path / "out.parquet"
    report = run("union", "--plan", plan, "-o", out, "--no-provenance", "--json").json()
    assert (report["rows"], report["columns"]) == (24, 4)
    schema = pq.read_schema(out)
    assert (schema.names[3], schema.types[3]) == ("made in", pa.string())
    assert run("union", "--plan", plan, "-o", tmp_path / "a.csv", "-k", 2).code == 2
    assert "fish_0.csv" in run("union", "--plan", plan, "--dry-run").out


def test_what_is_there_is_not_overwritten(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    arguments = ("union", index_path, lake / "fish_0.csv", "--tables", FISH[0])
    out = tmp_path / "out.csv"
    out.write_text("mine")
    ran = run(*arguments, "-o", out)
    assert (ran.code, out.read_text()) == (1, "mine")
    assert "already exists; --force replaces it" in ran.err
    assert run(*arguments, "-o", out, "--force").code == 0
    assert len(table_of(out)) == 24
    copied = shutil.copy(lake / "fish_0.csv", tmp_path / "query.csv")
    for said, path in {
        "is read by this union": copied,
        "has to end in one of .csv": tmp_path / "out.docx",
        "there is no folder": tmp_path / "no" / "out.csv",
        "is not a file": tmp_path,
        "is not a DuckDB file": tmp_path / "text.db",
    }.items():
        (tmp_path / "text.db").write_text("mine")
        target = path if Path(path).suffix else Path(path).with_name(f"{Path(path).name}")
        ran = run("union", index_path, copied, "--tables", FISH[0], "-o", target, "--force")
        assert ran.code == 1
        assert said in ran.err or "has to end in" in ran.err
    assert Path(copied).read_text() == (lake / "fish_0.csv").read_text()
    assert run(*arguments, "-o", tmp_path / "a.parquet", "--guard-formulas").code == 1
    assert run(*arguments, "-o", tmp_path / "a.parquet", "--memory", "lots").code == 1
    assert not (tmp_path / "a.parquet").exists()


# --- what is in the rows -------------------------------------------------------------------------------


def test_what_goes_from_process_to_process_arrives() -> None:
    decided = Decision("decimal", ",", "delimiter", ("1,5",))
    placed = Placement("a", "b", Reading(decimal=","), 0.5, "same", "note", (decided,), True)
    for one in (placed, OutputColumn("b", "DOUBLE", "why", True), Column("c", ["1"], True), Evidence(1, 2)):
        arrived = pickle.loads(pickle.dumps(one))
        assert (type(arrived), arrived) == (type(one), one)
        assert repr(arrived) == repr(one)


def test_a_plan_is_the_same_in_this_process_and_in_another(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of wide tables, which are profiled there; the tables can be chosen by the sample of the query."""
    header = [f"{['price', 'size', 'day'][at % 3]} {at}" for at in range(300)]
    body = [[("1.5", f"{row} kg", f"{row + 1}/12/2020")[at % 3] for at in range(300)] for row in range(12)]
    query = write_table(tmp_path / "q.csv", [header, *body])
    other = write_table(tmp_path / "other.csv", [header[::-1], *(row[::-1] for row in body)])
    seen: list[Table] = []

    def choose(sample: Table) -> list[Path]:
        seen.append(sample)
        return [other]

    there = index.union_plan(query, choose)
    assert [(one.rows, len(one.columns)) for one in seen] == [(12, 300)]
    assert {column.into: column.source for column in there.tables[0].columns} == {one: one for one in header}
    for module in ("gentus.union.worker", "gentus.index.union_plan"):
        monkeypatch.setattr(f"{module}.runs_here", lambda tables: True)
    assert index.union_plan(query, choose) == there == index.union_plan(query, [other])


@pytest.mark.usefixtures("in_this_process")
def test_columns_that_do_not_align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = write_table(tmp_path / "q.csv", [["id", "name"], ["1", "x"]])
    one = write_table(tmp_path / "one.csv", [["who", "size", "Note"], ["y", "3", "a"]])
    two = write_table(tmp_path / "two.csv", [["name", "size", "note", "id"], ["z", "4.5", "7", "9"]])
    under = {str(one): {"name": "who"}, str(two): {"name": "name"}}

    class Known:
        """An index that knows which columns belong together."""

        limits, names = Limits(), True

        def source(self, name: str) -> None:
            return None

        def find(self, name: str, **_: object) -> Source:
            return only_table(name)

        def read(self, query: Any) -> Any:
            return read(query)

    def align(aligner: Any, table: Any, profile: None) -> Alignment:
        pairs = [
            ColumnPair(ColumnRef(0, own), ColumnRef(0, other), 0.9, "alike")
            for own, other in under[table.name].items()
        ]
        return Alignment("q", table.name, pairs, [], [], 0.9)

    monkeypatch.setattr("gentus.index.explain.Aligner.align", align)
    known: Any = Known()
    plan = plan_union(known, query, [str(one), str(two)])
    assert [table.left_out for table in plan.tables] == [("size", "Note"), ("size", "note", "id")]
    rows = taken(plan)
    assert [(row["id"], row["name"]) for row in rows] == [(1, "x"), (None, "y"), (None, "z")]

    plan = plan_union(known, query, [str(one), str(two)], keep_extra=True, provenance=False)
    assert [(column.name, column.type) for column in plan.columns] == [
        ("id", "BIGINT"),
        ("name", "VARCHAR"),
        ("size", "DOUBLE"),  # whole in one table, broken in the other
        ("Note", "VARCHAR"),  # text in one table, a number in the other
        ("id_2", "BIGINT"),
    ]
    assert [tuple(row.values()) for row in taken(plan)] == [
        (1, "x", None, None, None),
        (None, "y", 3.0, "a", None),
        (None, "z", 4.5, "7", 9),
    ]


def test_distinct_keeps_the_first(tmp_path: Path) -> None:
    one = [["a", "b"], ["x", "1"], ["y", ""], ["x", "1"], ["z", "3"]]
    two = [["c", "d"], ["z", "3.0"], ["y", "null"], ["new", "1"]]
    union = Union(planned(tmp_path, one, two, distinct=True))
    report = union.write_csv(tmp_path / "out.csv")
    assert (report.rows, report.duplicates_removed) == (4, 3)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1:] == ["x,1.0,t0.csv,1", "y,,t0.csv,2", "z,3.0,t0.csv,4", "new,1.0,t1.csv,3"]
    report = Union(replace(union.plan, provenance=False)).write_csv(tmp_path / "two.csv")
    assert (tmp_path / "two.csv").read_text().splitlines()[1] == "x,1.0"


def test_names_that_clash(tmp_path: Path) -> None:
    header = ["Name", "name", "_source_table", 'it\'s "so"; DROP TABLE x', "名前"]
    plan = planned(tmp_path, [header, ["a", "b", "c", "d", "e"]], [[f"{n}!" for n in header], ["f"] * 5])
    with pytest.raises(PlanError, match="differ only in case"):
        plan.check()
    header[1] = "name_2"
    plan = planned(tmp_path, [header, ["a", "b", "c", "d", "e"]], [[f"{n}!" for n in header], ["f"] * 5])
    table = Union(plan).to_arrow()
    assert table.column_names == [*header, "_source_table_2", "_source_row_2"]
    assert [list(row.values())[:5] for row in table.to_pylist()] == [["a", "b", "c", "d", "e"], ["f"] * 5]
    Union(plan).write_duckdb(tmp_path / "new.duckdb", 'a "table"')
    assert len(table_of(tmp_path / "new.duckdb", 'a ""table""')) == 2


def test_formulas_are_guarded(tmp_path: Path) -> None:
    cells = ["=1+1", "+cmd", "-5", "-x", "@sum", "+4.5", "plain", "-1,5 %", "'quoted", "a=b"]
    plan = planned(tmp_path, [["=name", "n"], *([cell, "-1"] for cell in cells)], [["x", "y"], ["=z", "2"]])
    Union(plan).write_csv(tmp_path / "out.csv", guard_formulas=True)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0][:2] == ["'=name", "n"]
    expected = ["'=1+1", "'+cmd", "-5", "'-x", "'@sum", "+4.5", "plain", "-1,5 %", "'quoted", "a=b", "'=z"]
    assert [row[0] for row in rows[1:]] == expected
    assert [row[1] for row in rows[1:]] == ["-1"] * 10 + ["2"]
    Union(plan).write_csv(tmp_path / "plain.csv")
    assert (tmp_path / "plain.csv").read_text().startswith("=name,n,_source_table,_source_row\n=1+1,-1")


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_nothing_that_a_spreadsheet_skips_hides_a_formula(tmp_path: Path, sign: str) -> None:
    skipped = ["", " ", "\t", "\r", "\n", "\r\n", "\x00", "\x0b", "\x1f", "\x7f", "\x85", "\xa0", "\xad"]
    skipped += ["\u2003", "\u200b", "\u200e", "\u2028", "\u202e", "\u2066", "\u3000", "\ufeff", " \n\ufeff\t"]
    cells = [f"{start}{sign}cmd|' /C calc'!A0" for start in skipped]
    name = f"\u200b{sign}a"
    frame = pa.table({name: [*cells, "\n1", " -5", "a\n=b", "5 - 3"]})
    own = PlannedTable("query", None, None, (Placement(name, name),))
    plan = UnionPlan(own, (), (OutputColumn(name),), provenance=False)
    for format in ("csv", "tsv"):
        Union(plan, frame).write(Output.by_name(tmp_path / f"out.{format}", guard_formulas=True))
        with (tmp_path / f"out.{format}").open(newline="") as file:
            header, *rows = csv.reader(file, delimiter="\t" if format == "tsv" else ",", strict=True)
        assert header == [f"'{name}"]
        assert [row[0] for row in rows] == [*("'" + cell for cell in cells), "'\n1", " -5", "a\n=b", "5 - 3"]


def test_many_rows_keep_their_order(tmp_path: Path) -> None:
    rows = [[str(number), f"{number % 28 + 1}.3.2020"] for number in range(20_000)]
    union = Union(Union(planned(tmp_path, [["n", "day"], *rows], [["m", "d"], *rows[:10]])).resolved_plan())
    for write, name in (
        (union.write_parquet, "a.parquet"),
        (union.write_csv, "a.csv"),
        (union.write_duckdb, "a.db"),
    ):
        write(tmp_path / name)
        assert [row[3] for row in table_of(tmp_path / name)] == [*range(1, 20_001), *range(1, 11)]


def test_every_type_comes_through(tmp_path: Path) -> None:
    values = {
        **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "-7"),
        **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "7"),
        **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL(10,2)"), "-1.5"),
        **dict.fromkeys(
            ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "2020-01-02 03:04:05"
        ),
        **{"BOOLEAN": "true", "DATE": "2020-01-02", "TIME": "03:04:05", "VARCHAR": "x", "BLOB": "\\x00\\xFF"},
        "UUID": "00000000-0000-0000-0000-000000000001",
    }
    others = {"TIMESTAMP_MS": ("2020-01-02 03:04:05", "TIMESTAMP"), "INTEGER[]": ("[1, 2]", "VARCHAR")}
    wide = {"HUGEINT": ("-7", "BIGINT"), "UHUGEINT": ("7", "BIGINT")}  # of which Parquet makes a DOUBLE
    others = {**wide, **others}
    given = {**values, **{kind: cell for kind, (cell, _) in others.items()}}
    kept = {**{kind: kind for kind in values}, **{kind: wanted for kind, (_, wanted) in others.items()}}
    columns = ", ".join(f"CAST('{cell}' AS {kind}) AS \"{kind}\"" for kind, cell in given.items())
    tables = []
    for name in ("one", "two"):
        with closing(duckdb.connect(str(tmp_path / f"{name}.db"))) as duck:
            duck.execute(
                f"CREATE TABLE t AS SELECT {columns} UNION ALL SELECT {', '.join(['NULL'] * len(given))}"
            )
        placed = tuple(Placement(kind, kind) for kind in given)
        tables.append(PlannedTable(name, str(tmp_path / f"{name}.db"), "t", placed))
    plan = UnionPlan(tables[0], (tables[1],), tuple(OutputColumn(kind) for kind in given), provenance=False)
    report = Union(plan).write_duckdb(tmp_path / "out.duckdb")
    assert (report.rows, report.unconverted) == (4, 0)
    with closing(duckdb.connect(str(tmp_path / "out.duckdb"))) as duck:
        described = {row[0]: row[1] for row in duck.execute("DESCRIBE unioned").fetchall()}
        assert described == kept
        texts = ", ".join(f'CAST("{kind}" AS VARCHAR)' for kind in given)
        rows = duck.execute(f"SELECT {texts} FROM unioned").fetchall()
    with closing(duckdb.connect(":memory:")) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        texts = ", ".join(f"CAST(CAST('{cell}' AS {kind}) AS VARCHAR)" for kind, cell in given.items())
        (expected,) = duck.execute(f"SELECT {texts}").fetchall()
    nothing = (None,) * len(given)
    assert [tuple(row)[:-1] for row in rows] == [expected[:-1], nothing[:-1]] * 2
    assert [row[-1] for row in rows] == ["[1,2]", None] * 2


def test_one_column_of_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path, [["a"], ["x"], [""]], [["b"], ["y"]], provenance=False)
    Union(plan).write_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        assert list(csv.reader(file)) == [["a"], ["x"], [""], ["y"]]


def test_wide_tables(tmp_path: Path) -> None:
    header = [f"column {number}" for number in range(150)]
    one, two = ([str(number), "2020-01-31", "x"] * 50 for number in range(2))
    rows = taken(planned(tmp_path, [header, one], [[f"{name}!" for name in header], two]))
    assert [row["column 147"] for row in rows] == [0, 1]
    assert {row["column 148"] for row in rows} == {datetime.date(2020, 1, 31)}


def test_columns_that_are_converted_together(tmp_path: Path) -> None:
    """A table of more columns than are looked at alone has the values and counts of a narrow one."""
    kinds = (["$1,200.50", "$7", "none"], ["31/1/2020", "3/4/2020", "x"], ["5", "", "7"])
    header = [f"column {number}" for number in range(300)]
    cells = [list(row) for row in zip(*(kinds[at % 3] for at in range(300)), strict=True)]
    query = [["$5.00", "30/1/2020", "4"][at % 3] for at in range(300)]
    wide = Union(planned(tmp_path, [header, query], [header, *cells]))
    rows = wide.to_arrow().to_pylist()
    april = datetime.date(2020, 4, 3)
    for at in (0, 99, 297):
        assert [row[f"column {at}"] for row in rows] == [5.0, 1200.5, 7.0, None]
        assert [row[f"column {at + 1}"] for row in rows][1:] == [datetime.date(2020, 1, 31), april, None]
        assert [row[f"column {at + 2}"] for row in rows] == [4, 5, None, 7]
    assert wide.report is not None
    money, dates, numbers = wide.report.tables[1].columns[-3:]
    assert (money.nulls, money.taken_as_null, money.unconverted) == (1, {"none": 1}, 0)
    assert (dates.nulls, dates.unconverted, dates.examples) == (1, 1, ["x"])
    assert (numbers.nulls, numbers.unconverted) == (1, 0)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])  # read by DuckDB and by Python
def test_the_preview_of_a_wide_table(tmp_path: Path, encoding: str) -> None:
    header = [f"column {number}" for number in range(300)]
    cells = [[f"{row}.5" if at % 2 else f"Straße {row} von {at}" for at in range(300)] for row in range(40)]
    plan = planned(tmp_path, [header, *cells[:12]], [header, *cells])
    for table in plan.sources:
        path = Path(str(table.path))
        path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    preview = Union(plan)
    rows = preview.preview(20).to_pylist()
    complete = Union(plan).to_arrow().to_pylist()
    assert rows == complete[:10] + complete[12:22]
    assert rows[-1]["column 1"] == 9.5
    assert preview.report is not None
    assert [table.rows for table in preview.report.tables] == [10, 10]


# --- in Python -----------------------------------------------------------------------------------------


def test_as_the_contract_has_it(index: Index, lake: Path, tmp_path: Path) -> None:
    query = str(lake / "birds_0.csv")
    hits = index.search(query, k=10)
    union = index.union(query, hits[:3])
    assert repr(union) == "<Union: birds_0.csv and 3 tables, 4 columns>"
    report = union.write_parquet(tmp_path / "out.parquet")
    assert report.rows == 48
    with pytest.raises(OutputError, match="already exists"):
        union.write_parquet(tmp_path / "out.parquet")
    assert union.write_parquet(tmp_path / "out.parquet", force=True).rows == 48
    assert union.preview(8).num_rows == 8
    assert len(set(union.preview(8)["_source_table"].to_pylist())) == 4
    assert union.to_polars().shape == (48, 6)
    assert UnionPlan.from_dict(union.plan.to_dict()) == union.plan


def test_frames_as_queries(index: Index, lake: Path, tmp_path: Path) -> None:
    header, *body = rows_of("metals", 7)
    data = {name: list(cells) for name, cells in zip(header, zip(*body, strict=True), strict=True)}
    typed = {
        **data,
        "size": [float(cell) for cell in data["size"]],
        "year": [int(cell) for cell in data["year"]],
    }
    for frame in (pd.DataFrame(typed), pl.DataFrame(typed), pa.table(typed)):
        union = index.union(frame, index.search(frame, k=2), distinct=True)
        table = union.to_arrow()
        assert table.schema.types[:4][2:] == [pa.float64(), pa.int64()]
        assert table.num_rows == 36
    union.plan.save(tmp_path / "plan.json")
    with pytest.raises(PlanError, match="made for a data frame"):
        Union(UnionPlan.load(tmp_path / "plan.json")).to_arrow()
    with pytest.raises(ValueError, match="has not all of its rows"):
        index.union(index.read(lake / "fish_0.csv"), "fish_1.csv")


# --- plans that cannot be run --------------------------------------------------------------------------


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    return planned(tmp_path, [["a", "b"], ["1", "x"]], [["c", "d"], ["2", "y"]]).to_dict()


def _change(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(document: Any) -> None:
        for step in way:
            document = document[step]
        if value is ...:
            del document[last]
        else:
            document[last] = value

    return change


BAD: dict[str, Callable[[dict[str, Any]], None]] = {
    "it has version 2, this gentus reads 1": _change("gentus_union_plan", 2),
    "the plan lacks 'gentus_union_plan'": _change("gentus_union_plan", ...),
    "the plan lacks 'tables'": _change("tables", ...),
    "'columns' must be a list, not 7": _change("columns", 7),
    "it has no columns": _change("columns", []),
    "an unknown key 'tabels'; did you mean 'tables'": _change("tabels", []),
    "there is no type 'INT); DROP TABLE x'": _change("columns", 0, "type", "INT); DROP TABLE x"),
    "two columns of the result are called 'a'": _change("columns", 1, "name", "a"),
    "t1.csv: 'c' goes into 'A', which is not a column of the result": _change(
        "tables", 0, "columns", 0, "into", "A"
    ),
    "t1.csv: 'c' and 'd' both go into 'a'; only one can": _change("tables", 0, "columns", 1, "into", "a"),
    "t1.csv has no column 'cc'; did you mean 'c'": _change("tables", 0, "columns", 0, "from", "cc"),
    "column 1 of table 1 (t1.csv) of the plan lacks 'from'": _change("tables", 0, "columns", 0, "from", ...),
    "t1.csv: it lacks 'path'": _change("tables", 0, "path", None),
    "t1.csv: it is no longer there": _change("tables", 0, "path", "gone.csv"),
    "'path' must be text, not 5": _change("tables", 0, "path", 5),
    "'decimal' must be one of '.', ',', not 'x'": _change(
        "tables", 0, "columns", 0, "read", {"decimal": "x"}
    ),
    "'distinct' must be true or false, not \"no\"": _change("distinct", "no"),
    "t0.csv is in the plan twice": lambda document: document["tables"].extend([document["query"]] * 2),
}


@pytest.mark.parametrize("said", BAD)
def test_bad_plans(run: Run, document: dict[str, Any], tmp_path: Path, said: str) -> None:
    BAD[said](document)
    (tmp_path / "plan.json").write_text(json.dumps(document))
    ran = run("union", "--plan", tmp_path / "plan.json", "-o", tmp_path / "out.csv")
    assert ran.code == 1
    assert said in ran.err
    assert not (tmp_path / "out.csv").exists()


def test_plans_that_are_none(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    for data, said in ((b"{", "is not JSON"), (b"[]", "must be an object"), (b"\xff", "not text in UTF-8")):
        plan.write_bytes(data)
        ran = run("union", "--plan", plan, "-o", tmp_path / "out.csv")
        assert (ran.code, said in ran.err) == (1, True)
    assert "No such file" in run("union", "--plan", tmp_path / "no.json", "-o", tmp_path / "out.csv").err


def test_a_plan_by_hand(tmp_path: Path) -> None:
    """Types and readings that it does not give are found; paths are relative to it."""
    write_table(tmp_path / "q.csv", [["a"], ["1.5"]])
    write_table(tmp_path / "t.semicolon.csv", [["x", "y"], ["1.234,5", "-"]])
    own = {"name": "q", "path": "q.csv", "columns": [{"from": "a", "into": "amount"}]}
    other = {"name": "t", "path": "t.semicolon.csv", "columns": [{"from": "x", "into": "amount"}]}
    by_hand = {"gentus_union_plan": 1, "query": own, "columns": [{"name": "amount"}], "tables": [other]}
    (tmp_path / "plan.json").write_text(json.dumps(by_hand))
    plan = UnionPlan.load(tmp_path / "plan.json")
    assert [row["amount"] for row in taken(plan)] == [1.5, 1234.5]
    other["columns"] = [{"from": "x", "into": "amount", "read": {}}]  # plainly, says the person
    (tmp_path / "plan.json").write_text(json.dumps(by_hand))
    assert [row["amount"] for row in taken(UnionPlan.load(tmp_path / "plan.json"))] == [1.5, None]


# --- tables that cannot be read ------------------------------------------------------------------------


def test_tables_that_vanish_or_break(run: Run, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number in range(4):
        write_table(lake / f"fish_{number}.csv", rows_of("fish", number))
    text = "".join(f"{','.join(row)}\n" for row in [*rows_of("fish", 5), *rows_of("fish", 6, 60_000)[1:]])
    (lake / "fish_5.csv.gz").write_bytes(gzip.compress(text.encode(), 0))
    index, out = tmp_path / "index", tmp_path / "out.csv"
    assert run("index", lake, "-o", index).code == 0
    (lake / "fish_1.csv").unlink()
    with (lake / "fish_5.csv.gz").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 100_000)
    ran = run("union", index, lake / "fish_0.csv", "-o", out, "-k", 4, "--json")
    assert ran.json()["rows"] == 36
    left_out = {one["table"]: one["why"] for one in ran.json()["left_out"]}
    assert left_out["fish_1.csv"].startswith("it is no longer there")
    assert left_out["fish_5.csv.gz"].startswith("the gzip data ends too early")
    assert all(f"left out: {table} ({why})" in ran.err for table, why in left_out.items())
    for name, said in (("fish_1.csv", "no longer there"), ("fish_5.csv.gz", "ends too early")):
        ran = run("union", index, lake / "fish_0.csv", "-o", tmp_path / "no.csv", "--tables", name)
        assert (ran.code, ran.err.count(f"Error: {name}: "), said in ran.err) == (1, 1, True)
    assert sorted(os.listdir(tmp_path)) == ["index", "lake", "out.csv"]


# --- a DuckDB file with other tables -------------------------------------------------------------------


def test_other_tables_of_a_database_stay(run: Run, document: dict[str, Any], tmp_path: Path) -> None:
    database, plan = tmp_path / "my.duckdb", tmp_path / "plan.json"
    plan.write_text(json.dumps(document))
    with closing(duckdb.connect(str(database))) as duck:
        duck.execute("CREATE TABLE mine AS SELECT 42 AS answer")
    arguments = ("union", "--plan", plan, "-o", database)
    assert run(*arguments).code == 0
    ran = run(*arguments)
    assert (ran.code, "already has a table 'unioned'" in ran.err) == (1, True)
    assert run(*arguments, "--table-name", "second").code == 0
    assert run(*arguments, "--force").code == 0
    assert (table_of(database, "mine"), len(table_of(database)), len(table_of(database, "second"))) == (
        [(42,)],
        2,
        2,
    )
    ran = run(*arguments, "--table-name", "MINE")
    assert (ran.code, table_of(database, "mine")) == (1, [(42,)])
    with closing(sqlite3.connect(tmp_path / "lite.db")) as lite:
        lite.execute("CREATE TABLE t (a)")
        lite.execute("INSERT INTO t VALUES (42)")
        lite.commit()
    arguments = ("union", "--plan", plan, "-o", tmp_path / "lite.db")  # SQLite by its content
    assert run(*arguments).code == 0
    shutil.copy(tmp_path / "lite.db", copied := tmp_path / "lite.sqlite")
    assert (table_of(copied, "t"), len(table_of(copied))) == ([(42,)], 2)
    assert "already has a table 'unioned'" in run(*arguments).err
    assert run(*arguments, "--force").code == 0
    assert "is not an SQLite file" in run("union", "--plan", plan, "-o", database, "--format", "sqlite").err


# --- full disks, little memory, and being stopped ------------------------------------------------------


@contextmanager
def largest_file(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # Python ignores the signal, so a write fails
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> UnionPlan:
    """Long rows that do not compress, 54 MB of them."""
    folder = tmp_path_factory.mktemp("large")
    chance = random.Random(0)
    rows = [[chance.randbytes(1500).hex(), str(chance.getrandbits(32))] for _ in range(9_000)]
    return Union(planned(folder, [["key", "number"], *rows], [["k", "n"], *rows[::-1]])).resolved_plan()


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.duckdb", "out.xlsx", "out.sqlite"])
@pytest.mark.usefixtures("in_this_process")  # whose files are limited
def test_a_full_disk(tmp_path: Path, name: str) -> None:
    chance = random.Random(0)
    rows = [["key"], *([chance.randbytes(100).hex()] for _ in range(3000))]
    union = Union(Union(planned(tmp_path, rows, rows)).resolved_plan())
    before = sorted(os.listdir(tmp_path))
    with largest_file(64 << 10), pytest.raises(OutputError, match="no room on the disk"):
        union.write(Output.by_name(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == before


def test_little_memory(large: UnionPlan, tmp_path: Path) -> None:
    """Rows that do not fit are kept on the disk meanwhile."""
    report = Union(replace(large, distinct=True), memory="132MB").write_parquet(tmp_path / "out.parquet")
    assert (report.rows, report.duplicates_removed) == (9_000, 9_000)
    assert pq.read_table(tmp_path / "out.parquet")["_source_row"].to_pylist() == list(range(1, 9_001))
    assert os.listdir(tmp_path) == ["out.parquet"]


@contextmanager
def writing(plan: UnionPlan, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes a union, as soon as it has begun to write."""
    plan.save(folder / "plan.json")
    command = [sys.executable, "-m", "gentus.app.cli.main", "union", "--plan", "plan.json", "-o", name]
    child = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        sign = "lock" if (folder / name).exists() else "new.*"
        while not any(folder.glob(f".{name}.part-*/{sign}")):
            assert child.poll() is None, child.stderr and child.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.005)
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped(large: UnionPlan, tmp_path: Path, number: int) -> None:
    with writing(large, tmp_path, "out.parquet") as child:
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, b"Stopped. out.parquet is unchanged.\n")
    assert os.listdir(tmp_path) == ["plan.json"]


def test_killed(large: UnionPlan, document: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("out.parquet", "out.duckdb"):
        with writing(large, folder, name) as child:
            child.kill()
            child.wait()
        assert not (folder / name).exists()
    left = [path for path in folder.iterdir() if path.name != "plan.json"]
    assert [path.name.split(".part-")[0] for path in sorted(left)] == [".out.duckdb", ".out.parquet"]
    again = Union(UnionPlan.from_dict(document))  # the next one to the same place clears it away
    again.write_parquet(folder / "out.parquet")
    again.write_duckdb(folder / "out.duckdb")
    assert sorted(os.listdir(folder)) == ["out.duckdb", "out.parquet", "plan.json"]


def connected_in_time(path: Path, seconds: float = 10) -> duckdb.DuckDBPyConnection:
    """A connection to a database as soon as nobody holds it: a killed process's worker ends after it."""
    until = time.monotonic() + seconds
    while True:
        try:
            return duckdb.connect(str(path))
        except duckdb.IOException:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def test_killed_while_adding_to_a_database(large: UnionPlan, tmp_path: Path) -> None:
    with closing(duckdb.connect(str(tmp_path / "my.duckdb"))) as duck:
        duck.execute("CREATE TABLE mine AS SELECT 42 AS answer")
    with writing(large, tmp_path, "my.duckdb") as child:
        time.sleep(0.7)
        child.kill()
        child.wait()
    with closing(connected_in_time(tmp_path / "my.duckdb")) as duck:
        assert duck.execute("SELECT * FROM mine").fetchall() == [(42,)]
        if duck.execute("SHOW TABLES").fetchall() != [("mine",)]:  # it was too quick
            assert duck.execute("SELECT count(*) FROM unioned").fetchall() == [(18_000,)]


def test_what_a_union_costs_is_measured(run: Run, tmp_path: Path) -> None:
    document = run("bench", "run", "union", "--set", "rows=1000", "--out", tmp_path, "--json").json()[0]
    assert document["what"] == {"rows": 1000, "tables": 5}
    for name in ("plain", "distinct"):
        measured = document["runs"][name]
        assert (measured["rows"], measured["unconverted"], measured["duplicates_removed"]) == (6000, 0, 0)
        assert 20 < measured["peak_mb"] < 1000
    assert "| plain | 6,000 |" in (tmp_path / "union.md").read_text()
