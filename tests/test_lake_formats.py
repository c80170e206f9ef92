import builtins
import datetime
import gzip
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import duckdb
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from gentus.extras import install_extra
from gentus.lake import Frame, Limits, Source, Unreadable, from_frame, read, read_path, scan
from gentus.lake.formats.typed import session
from gentus.table import Table

TYPED = pa.table(
    {
        "whole": pa.array([1, None, 3]),
        "float": pa.array([1.0, 2.5, None]),
        "day": pa.array([datetime.date(2020, 1, 2)] * 3),
        "moment": pa.array([datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5), None]),
        "yes": pa.array([True, False, None]),
        "list": pa.array([[1, 2], [], None]),
        "object": pa.array([{"k": "v"}, None, {"k": "ü"}]),
        "bytes": pa.array([b"text", b"\xff\xfe", None]),
        "text": pa.array([" x ", "null", "y" * 300]),
    }
)
AS_TEXT = {
    "whole": ["1", "3"],
    "float": ["1", "2.5"],
    "day": ["2020-01-02"] * 3,
    "moment": ["2020-01-02", "2020-01-02 03:04:05"],
    "yes": ["true", "false"],
    "list": ["[1,2]", "[]"],
    "object": ['{"k":"v"}', '{"k":"ü"}'],
    "bytes": ["text"],
    "text": ["x", "y" * 256],
}


def by_name(table: Table) -> dict[str, list[str]]:
    return {column.name: column.cells for column in table.columns}


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(TYPED, tmp_path / "a.parquet")
    table = read_path(tmp_path / "a.parquet")
    assert by_name(table) == AS_TEXT
    assert (table.name, table.rows) == ("a.parquet", 3)


@pytest.mark.parametrize("name", ["a*b?[1].parquet", 'it\'s "so".parquet', "new\nline.parquet", "**.parquet"])
def test_names_are_never_patterns(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "part=7 [x]*"
    folder.mkdir()
    pq.write_table(TYPED, folder / name)
    pq.write_table(pa.table({"other": [1]}), folder / "other.parquet")
    (folder / (name + ".csv")).write_text("a,b\n1,2\n")
    found = [source for source in scan(tmp_path) if isinstance(source, Source)]
    tables = {source.path.name: read(source) for source in found}
    assert by_name(tables[name]) == AS_TEXT  # and no column `part`
    assert by_name(tables[name + ".csv"]) == {"a": ["1"], "b": ["2"]}


def test_parquet_is_sampled_all_over(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(50_000)}), tmp_path / "a.parquet", row_group_size=1000)
    numbers = [int(cell) for cell in by_name(read_path(tmp_path / "a.parquet"))["n"]]
    assert len(set(numbers)) == 512
    assert numbers[0] == 0
    assert numbers[-1] == 49_999


def test_parquet_with_large_cells_costs_fewer_rows(tmp_path: Path) -> None:
    big = pa.table({"n": range(40), "t": [str(i) * 100_000 for i in range(40)]})
    pq.write_table(big, tmp_path / "a.parquet", use_dictionary=False, compression="zstd")
    table = read_path(tmp_path / "a.parquet", Limits(typed_bytes=1 << 20))
    assert 1 <= table.rows < 10


@pytest.mark.parametrize("suffix", ["feather", "arrow"])
def test_arrow(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "feather":
        feather.write_feather(TYPED, path, compression="zstd")
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, TYPED.schema) as writer:
            writer.write_table(TYPED)
    assert by_name(read_path(path)) == AS_TEXT


def test_arrow_is_sampled_all_over(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"n": range(50_000)}), tmp_path / "a.feather", chunksize=1000)
    numbers = [int(cell) for cell in by_name(read_path(tmp_path / "a.feather"))["n"]]
    assert len(set(numbers)) == 512
    assert numbers[-1] > 40_000


RECORDS: list[dict[str, Any]] = [
    {"a": 1, "b": "x"},
    {"a": 2.0, "c": [1, {"d": None}]},
    {"a": None, "b": True},
]
FROM_JSON = {"a": ["1", "2"], "b": ["x", "true"], "c": ['[1, {"d": null}]']}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2),
        json.dumps({"data": RECORDS}),
        json.dumps({"meta": {"n": 3}, "tags": ["x"], "rows": RECORDS}),
        json.dumps({"outer": {"inner": RECORDS}}),
        "\n".join(map(json.dumps, RECORDS)),
        "\n".join(json.dumps(record, indent=1) for record in RECORDS) + "\n",
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson.gz"])
def test_json(tmp_path: Path, text: str, name: str) -> None:
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert by_name(read_path(tmp_path / name)) == FROM_JSON


def test_json_other_shapes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": [1, 2], "b": ["x", "y"]}))
    assert by_name(read_path(path)) == {"a": ["1", "2"], "b": ["x", "y"]}
    path.write_text(json.dumps([["a", "b"], [1, "x"], [2, "y"]]))
    assert by_name(read_path(path)) == {"a": ["1", "2"], "b": ["x", "y"]}
    path.write_bytes(json.dumps(RECORDS, ensure_ascii=False).encode("utf-16"))
    assert by_name(read_path(path)) == FROM_JSON


@pytest.mark.parametrize(
    "text", ["", "42", "[]", "{", '[{"a": 1}, {"a"', '{"a": 1}\n{"a"\n', "hello", "[" * 99_999]
)
def test_json_that_is_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(Unreadable):
        read_path(tmp_path / "a.json")


def test_large_json(tmp_path: Path) -> None:
    lines = [json.dumps({"n": i, "t": "some text " * 5}) for i in range(60_000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    numbers = [int(cell) for cell in by_name(read_path(tmp_path / "a.jsonl"))["n"]]
    assert len(set(numbers)) == 512
    assert numbers[-1] > 50_000
    (tmp_path / "b.json").write_text('{"count": 60000, "rows": [' + ",\n".join(lines) + "]}")
    assert read_path(tmp_path / "b.json").rows == 512
    (tmp_path / "c.json").write_text("[" + ",".join(lines) + "]")
    assert read_path(tmp_path / "c.json").rows == 512


def workbook(path: Path, *sheets: str) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title in sheets:
        sheet = book.create_sheet(title)
        sheet.append([])
        sheet.append(["name", "when", "n"])
        sheet.append(["x", datetime.datetime(2020, 1, 2), 1.0])
        sheet.append([title, None, 2.5])
    book.save(path)


def test_excel(tmp_path: Path) -> None:
    workbook(tmp_path / "a.xlsx", "one", "two")
    sources = [source for source in scan(tmp_path) if isinstance(source, Source)]
    assert [source.name for source in sources] == ["a.xlsx/one", "a.xlsx/two"]
    assert by_name(read(sources[1])) == {"name": ["x", "two"], "when": ["2020-01-02"], "n": ["1", "2.5"]}
    with pytest.raises(Unreadable, match=r"2 tables \(one, two\)"):
        read_path(tmp_path / "a.xlsx")
    assert read_path(tmp_path / "a.xlsx" / "two").columns == read(sources[1]).columns
    workbook(tmp_path / "b.xlsx", "only")
    assert read_path(tmp_path / "b.xlsx").rows == 2


def test_excel_without_its_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbook(tmp_path / "a.xlsx", "one")
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "python_calamine":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Unreadable, match=re.escape(install_extra("excel"))):
        read_path(tmp_path / "a.xlsx")


def test_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS n, {'k': i} AS s FROM range(100000) r(i)")
        connection.execute('CREATE SCHEMA "other.one"')
        connection.execute('CREATE TABLE "other.one"."q""t" AS SELECT 1.0::DOUBLE AS a')
        connection.execute("CREATE VIEW v AS FROM read_text('/etc/hostname')")
    before = path.read_bytes()
    sources = [source for source in scan(tmp_path) if isinstance(source, Source)]
    assert [source.part for source in sources] == ['"other.one"."q""t"', "t"]
    assert by_name(read(sources[0])) == {"a": ["1"]}
    cells = by_name(read(sources[1]))
    assert len(cells["n"]) == 512
    assert cells["s"][-1] == '{"k":99999}'
    assert [source.name for source in scan(path) if isinstance(source, Source)] == ['"other.one"."q""t"', "t"]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "a b%.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE people (name TEXT, age REAL, photo BLOB)")
    connection.execute("INSERT INTO people VALUES ('Zoë', 7.0, x'ff'), (NULL, 7.5, NULL)")
    connection.execute("CREATE TABLE big (rowid TEXT, n INTEGER)")
    connection.executemany("INSERT INTO big VALUES (?, ?)", (("x", i) for i in range(20_000)))
    connection.execute("DELETE FROM big WHERE n BETWEEN 5000 AND 12000")
    connection.execute("CREATE TABLE keyed (k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID")
    connection.execute("INSERT INTO keyed VALUES ('a', 9007199254740993)")
    connection.execute("CREATE VIEW v AS SELECT * FROM people")
    connection.commit()
    connection.close()
    return path


def test_sqlite(sqlite: Path) -> None:
    sources = {source.name: source for source in scan(sqlite) if isinstance(source, Source)}
    assert list(sources) == ["big", "keyed", "people"]
    assert by_name(read(sources["people"])) == {"name": ["Zoë"], "age": ["7", "7.5"], "photo": []}
    assert by_name(read(sources["keyed"])) == {"k": ["a"], "v": ["9007199254740993"]}
    numbers = [int(cell) for cell in by_name(read(sources["big"]))["n"]]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 512
    assert numbers[-1] > 17_000
    assert [file.name for file in sqlite.parent.iterdir()] == [sqlite.name]


def test_a_table_dropped_meanwhile(sqlite: Path) -> None:
    sources = [source for source in scan(sqlite) if isinstance(source, Source)]
    connection = sqlite3.connect(sqlite)
    connection.execute("DROP TABLE people")
    connection.close()
    with pytest.raises(Unreadable, match="no table 'people'"):
        read(sources[-1])


class OnlyInterchange:
    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __dataframe__(self, *args: Any, **options: Any) -> Any:
        return self.frame.__dataframe__(*args, **options)


class OnlyStream:
    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame])
def test_frames(make: Any) -> None:
    table = from_frame(make({"n": list(range(1000)), "t": ["x", None] * 500}), "query")
    assert (table.name, table.rows) == ("query", 512)
    assert by_name(table)["n"][-1] == "998"
    assert set(by_name(table)["t"]) == {"x"}


def test_other_frames() -> None:
    data = pa.table({"n": [1, 2], "t": ["x", "y"]})
    want = {"n": ["1", "2"], "t": ["x", "y"]}
    assert by_name(from_frame(OnlyStream(data), "q")) == want
    assert by_name(from_frame(OnlyInterchange(data), "q")) == want
    assert by_name(from_frame(TYPED, "q")) == AS_TEXT
    mixed = pd.DataFrame([[1, "a"], ["x", None]], columns=["same", "same"])
    assert by_name(from_frame(mixed, "q")) == {"same": ["1", "x"], "same_2": ["a"]}
    with pytest.raises(Unreadable, match="a dict is no table"):
        from_frame(cast(Frame, {"a": [1]}), "q")
    with pytest.raises(Unreadable, match="no rows"):
        from_frame(pl.DataFrame({"a": []}), "q")


def test_importing_stays_light() -> None:
    import subprocess

    code = "import sys, gentus.lake; print([m for m in sys.modules if m in sys.argv])"
    heavy = ["duckdb", "pyarrow", "numpy", "pandas", "polars", "torch", "sklearn", "sqlite3"]
    heavy.append("python_calamine")
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_json_with_more_keys_than_columns(tmp_path: Path) -> None:
    records = [{f"k{i}_{j}": 1 for j in range(200)} for i in range(400)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert len(read_path(tmp_path / "a.json").columns) == 4096


def test_threads_take_turns(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
    pq.write_table(TYPED, tmp_path / "b.parquet")
    paths = [tmp_path / "a.db", tmp_path / "b.parquet"] * 10
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(read_path, paths))
    assert [len(table.columns) for table in tables] == [1, 9] * 10


def test_large_arrow_files_are_mapped(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"n": range(50_000)}), tmp_path / "a.feather", compression="uncompressed")
    assert read_path(tmp_path / "a.feather", Limits(typed_bytes=100_000)).rows == 512


def test_a_file_leaves_the_connection_free(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    with pytest.raises(Unreadable, match="no rows"):
        read_path(tmp_path / "empty.parquet")
    with session(Limits()) as duck:
        duck.register("one", pa.table({"a": [1]}))  # which DuckDB refuses while a result is unfinished
        duck.unregister("one")


def test_an_empty_batch_with_a_sparse_union_crashes_nobody(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])
    batch = pa.record_batch({"union": union, "plain": pa.array(["p", "q"])})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write(batch.slice(0, 0))
        writer.write(batch)
    # In a process of its own: a crash would end the tests.
    code = (
        f"from gentus.lake import read_path; print(read_path({str(tmp_path / 'a.arrow')!r}).columns[1].cells)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['p', 'q']"


@pytest.mark.parametrize("text", ["[012]", "[1 000.0]", '[{"a": 1} {"a": 2}]', "[1, 2 3]"])
def test_items_without_a_comma_between_them_are_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(Unreadable, match="it is not JSON: a comma is missing in line 1"):
        read_path(tmp_path / "a.json")


def test_a_configuration_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "package.json"
    path.write_text('{"name": "x", "version": "1.0", "scripts": {"test": "t"}, "private": true}')
    with pytest.raises(Unreadable, match="such as a configuration"):
        read_path(path)
    path.write_text('{"name": "x", "version": "1.0"}')
    assert read_path(path).rows == 1
