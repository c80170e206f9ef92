"""A union as SQL: DuckDB alone gives the cells that gentus gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import Run, run

from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, Union, UnionPlan
from gentus.union.sql_layout import laid_out

__all__ = ["run"]

QUERY = '''title,year,price,when,seen,ok,code
A,2001,1.5,2020-01-02,2020-01-02 10:00:00Z,yes,007
"B, ""b""",,2,2021-03-04,2020-01-02T11:30:00Z,no,NA
C,2003,,,2020-01-02 12:00:00+02:00,,x y
'''
TABLE = """t0;r;cost;day;at;fine;id
D;2001;1.234,5;25.06.2024;3 May 2020 5:30 pm;ja;1
E;2,0;12;01.02.2023;;yes; 2
F;$3;NA;x;2020-02-03;n;none
"""
COLUMNS = ("title", "year", "price", "when", "seen", "ok", "code")


def table(path: Path, names: Sequence[str], part: str | None = None, **more: Any) -> PlannedTable:
    """A table whose columns go into those of the result, in their order; None leaves one out."""
    placed = tuple(Placement(own, into) for own, into in zip(names, COLUMNS, strict=False) if own)
    return PlannedTable(path.name, str(path), part, placed, **more)


@pytest.fixture
def plan(tmp_path: Path) -> UnionPlan:
    """Text in two notations, latin-1, ragged rows, no header, JSON, Parquet, and two tables of a database."""
    (tmp_path / "q's.csv").write_text(QUERY)
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "latin.csv").write_bytes("name,y\nÉva,1999\nÅsa,2000\n".encode("latin-1"))
    (tmp_path / "short.csv").write_text("name,y,p\nx,1\ny,2,3.5\nz,3,4.5\n")
    (tmp_path / "bare.csv").write_text("G,2011\nH,2012\nI,2013\n")
    (tmp_path / "lines.jsonl").write_text('{"n": "J", "y": 7}\n{"n": "K \\"k\\"", "y": null}\n')
    with closing(duckdb.connect(str(tmp_path / "my.duckdb"))) as duck:
        typed = "SELECT 'L' AS n, 5::INTEGER AS y, 2.5::FLOAT AS p, DATE '1999-12-31' AS d"
        duck.execute(f"CREATE TABLE one AS {typed}")
        duck.execute(f'CREATE SCHEMA s; CREATE TABLE s."two ""2""" AS {typed}')
        duck.execute(f"COPY (FROM one UNION ALL SELECT 'M', 6, 'nan', NULL) TO '{tmp_path / 'p.parquet'}'")
        parts = [row[0] for row in duck.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    assert parts == ["one", 'two "2"']
    tables = (
        table(tmp_path / "t.csv", ("t0", "r", "cost", "day", "at", "fine", "id")),
        table(tmp_path / "latin.csv", ("name", "y")),
        table(tmp_path / "short.csv", ("name", "y", "p")),
        table(tmp_path / "bare.csv", ("column_1", "column_2"), header="no"),
        table(tmp_path / "lines.jsonl", ("n", "y")),
        table(tmp_path / "p.parquet", ("n", "y", "p", "d")),
        table(tmp_path / "my.duckdb", ("n", "y", "p", "d"), "one"),
        table(tmp_path / "my.duckdb", ("n", "y", "p", "d"), 's."two ""2"""'),
    )
    return UnionPlan(table(tmp_path / "q's.csv", COLUMNS), tables, tuple(map(OutputColumn, COLUMNS)))


def cells_of(found: pa.Table) -> list[str]:
    return [str(found.schema.names), *(str(list(row.values())) for row in found.to_pylist())]


def run_alone(script: str) -> list[str]:
    """What a DuckDB somewhere else in the world makes of it."""
    with closing(duckdb.connect()) as duck:
        duck.execute("SET TimeZone = 'America/New_York'")
        *setup, query = duck.extract_statements(script)
        for one in setup:
            duck.execute(one)
        return cells_of(duck.sql(query.query).to_arrow_table())


@pytest.mark.parametrize("change", ["", "no provenance", "distinct"])
def test_duckdb_alone_gives_the_same_cells(plan: UnionPlan, change: str) -> None:
    plan = replace(plan, provenance=change != "no provenance", distinct=change == "distinct")
    if plan.distinct:
        plan = replace(plan, tables=(*plan.tables, replace(plan.query, name="again")))
    script = Union(plan).to_sql().script()
    assert run_alone(script) == cells_of(Union(plan).to_arrow())
    assert "CREATE OR REPLACE TEMP MACRO gentus_digits" in script
    assert "gentus_shape" not in script  # only what is used
    assert 'TRY_CAST("year" AS DOUBLE) AS "year"' in script


def test_plain_columns_are_plain_sql(tmp_path: Path) -> None:
    with closing(duckdb.connect()) as duck:
        duck.execute(f"COPY (SELECT 1::BIGINT AS id, 'x' AS name) TO '{tmp_path / 'a.parquet'}'")
    (tmp_path / "b.csv").write_text("number,who\n1,ann\n2,bob\n")
    columns = (OutputColumn("id"), OutputColumn("name"))
    query = PlannedTable(
        "a.parquet", str(tmp_path / "a.parquet"), None, (Placement("id", "id"), Placement("name", "name"))
    )
    other = PlannedTable("b.csv", str(tmp_path / "b.csv"), None, (Placement("number", "id"),))
    sql = Union(UnionPlan(query, (other,), columns, provenance=False)).to_sql()
    assert sql.setup == []
    assert (
        sql.query
        == f"""SELECT
    "id",
    "name"
FROM read_parquet('{tmp_path / "a.parquet"}', file_row_number = true, hive_partitioning = false)

UNION ALL BY NAME

SELECT
    TRY_CAST("number" AS BIGINT) AS "id"
FROM read_csv(
    '{tmp_path / "b.csv"}',
    auto_detect = false, header = true, strict_mode = true, null_padding = false,
    delim = ',', quote = '"', escape = '"',
    columns = {{'number': 'VARCHAR', 'who': 'VARCHAR'}}
)"""
    )


def test_a_column_alone_has_the_same_values(tmp_path: Path) -> None:
    rows = "".join(f"{at},{'x' if at == 7 else 'true'}\n" for at in range(9))
    (tmp_path / "q.csv").write_text(f"n,ok\n{rows}")
    placed = (Placement("n", "n"), Placement("ok", "ok"))
    query = PlannedTable("q.csv", str(tmp_path / "q.csv"), None, placed)
    columns = (OutputColumn("n", "BIGINT"), OutputColumn("ok", "BOOLEAN"))
    sql = Union(UnionPlan(query, (), columns)).to_sql()
    assert sql.setup == []
    with closing(duckdb.connect()) as duck:
        duck.execute(f"CREATE VIEW v AS {sql.query}")
        assert duck.execute("SELECT ok FROM v").fetchall() == [
            (None if at == 7 else True,) for at in range(9)
        ]


def test_from_the_command_line(run: Run, plan: UnionPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    arguments = ("union", "--plan", tmp_path / "plan.json")
    ran = run(*arguments, "--sql", "-", "--dbt", tmp_path / "all.dbt.sql", "-o", tmp_path / "all.parquet")
    assert ran.code == 0
    written = cells_of(pq.read_table(tmp_path / "all.parquet"))
    assert run_alone(ran.out) == written

    headers: list[str] = []
    configured: list[dict[str, Any]] = []

    def config(**given: Any) -> str:
        configured.append(given)
        return ""

    def set_sql_header(config: Any, caller: Callable[[], str]) -> str:
        headers.append(caller())
        return ""

    text = (tmp_path / "all.dbt.sql").read_text("utf-8")
    model = jinja2.Template(text).render(config=config, set_sql_header=set_sql_header)
    assert configured == [{"materialized": "table"}]
    with closing(duckdb.connect()) as duck:
        duck.execute(f"{headers[0]} CREATE TABLE made AS ({model})")
        assert cells_of(duck.sql("FROM made").to_arrow_table()) == written

    for said, more in {
        "only one thing can go to stdout": ("--sql", "-", "-o", "-"),
        "--force replaces it": ("--dbt", tmp_path / "all.dbt.sql"),
        "is written by another option": ("--sql", tmp_path / "x.sql", "--dbt", tmp_path / "x.sql"),
        "it writes nothing": ("--dry-run", "--sql", "-"),
        "give -o": ("--sql", "-", "--lineage", tmp_path / "l.json"),
    }.items():
        ran = run(*arguments, *more)
        assert (ran.code, ran.out) == (2, "")
        assert said in " ".join(ran.err.replace("│", " ").split()), said


def test_what_duckdb_cannot_read_is_said(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["title"])
    book.active.append(["x"])
    book.save(tmp_path / "b.xlsx")
    with (tmp_path / "odd.csv").open("w") as file:
        file.write("title,n\n" + '"a, b",1\n' * 20 + '"never closed,1\nb,2\nc,3\n')
    said = {
        "b.xlsx": "DuckDB reads Excel files only with an extension",
        "odd.csv": "cannot be read by SQL that runs without gentus",
    }
    for name, words in said.items():
        part = "Sheet" if name == "b.xlsx" else None
        query = PlannedTable(name, str(tmp_path / name), part, (Placement("title", "title"),))
        with pytest.raises(PlanError, match=words):
            Union(UnionPlan(query, (), (OutputColumn("title"),))).to_sql()


def test_layout_leaves_quotes_alone() -> None:
    sql = """SELECT 'a, (SELECT b FROM c', f(x, y), "q, (" FROM (SELECT 1, 2 FROM t)"""
    lines = ["SELECT", "    'a, (SELECT b FROM c',", "    f(x, y),", '    "q, ("', "FROM (", "    SELECT"]
    assert laid_out(sql).splitlines() == [*lines, "        1,", "        2", "    FROM t", ")"]
