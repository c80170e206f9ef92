"""Whole tables: every row, with the columns that the sampled reader sees."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from gentus.lake import Frame, Limits, Source, Unreadable, read, scan
from gentus.lake.formats.dialect import guess_dialect, parse
from gentus.lake.full import text as whole_text
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import FullTable, Tally
from gentus.lake.full.typed import full_frame
from gentus.table import HEADERS

ROWS = [("1", "Bär", "x,y"), ("2", "", "z"), ("3", "Österreich", 'say "so"')]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect(":memory:", config={"threads": 1})) as connection:
        yield connection


Rows = list[tuple[Any, ...]]
Opened = tuple[FullTable, Rows, Tally]


def rows_of(whole: FullTable, duck: duckdb.DuckDBPyConnection, tally: Tally | None = None) -> Rows:
    places = range(len(whole.names))
    with whole.scan(duck, places, tally or Tally()) as relation:
        columns = ", ".join(["row", *(f"c{place}" for place in places)])
        found: Rows = duck.execute(f"SELECT {columns} FROM {relation}").fetchall()
    assert [row[0] for row in found] == list(range(1, len(found) + 1))
    return [row[1:] for row in found]


def opened(path: Path, duck: duckdb.DuckDBPyConnection, part: str | None = None) -> FullTable:
    return open_full(Source(path.name, path, part, 0, 0), duck)


def write_all(folder: Path) -> dict[str, Path]:
    """The same table in every format."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("id", "name", "note"), *ROWS])
    records = [dict(zip(("id", "name", "note"), row, strict=True)) for row in ROWS]
    data = pa.table({key: [record[key] for record in records] for key in records[0]})
    paths = {
        name: folder / f"a{name}"
        for name in (
            ".csv",
            ".csv.gz",
            ".tsv",
            "16.csv",
            "1252.csv",
            ".json",
            ".jsonl",
            ".parquet",
            ".feather",
        )
    }
    paths[".csv"].write_text(text.getvalue(), encoding="utf-8")
    paths[".csv.gz"].write_bytes(gzip.compress(text.getvalue().encode()))
    paths["16.csv"].write_text(text.getvalue(), encoding="utf-16")
    paths["1252.csv"].write_text(text.getvalue(), encoding="cp1252")
    with paths[".tsv"].open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([("id", "name", "note"), *ROWS])
    paths[".json"].write_text(json.dumps(records))
    paths[".jsonl"].write_text("\n".join(map(json.dumps, records)))
    pq.write_table(data, paths[".parquet"])
    feather.write_feather(data, paths[".feather"])
    with closing(sqlite3.connect(folder / "a.sqlite")) as database:
        database.execute('CREATE TABLE "the ""t" (id, name, note)')
        database.executemany('INSERT INTO "the ""t" VALUES (?, ?, ?)', ROWS)
        database.commit()
    with closing(duckdb.connect(str(folder / "a.duckdb"))) as target:
        target.execute("CREATE TABLE t AS SELECT * FROM data")
    book = openpyxl.Workbook()
    for row in (("id", "name", "note"), (None, None, None), *ROWS):
        book.active.append(row)
    book.save(folder / "a.xlsx")
    return {
        **paths,
        ".sqlite": folder / "a.sqlite",
        ".duckdb": folder / "a.duckdb",
        ".xlsx": folder / "a.xlsx",
    }


def test_every_format_gives_all_rows(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    parts = {".sqlite": 'the "t', ".duckdb": "t", ".xlsx": "Sheet"}
    for name, path in write_all(tmp_path).items():
        whole = opened(path, duck, parts.get(name))
        sampled = read(Source(path.name, path, parts.get(name), 0, 0))
        assert whole.names == [column.name for column in sampled.columns], name
        assert [tuple(cell or "" for cell in row) for row in rows_of(whole, duck)] == ROWS, name


@pytest.mark.parametrize("text", ["1;a\n2;b\n", "1;a;x\n2;b\n3;c\n", "--,--\n1,a\n", "\n7,8\n"])
def test_without_a_header_no_row_is_lost(tmp_path: Path, duck: duckdb.DuckDBPyConnection, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    source = Source("a.csv", path, None, 0, 0, header="no")
    whole, sampled = open_full(source, duck), read(source)
    rows = [tuple(line.replace(";", ",").split(",")) for line in text.split()]
    found = [tuple(filter(None, row)) for row in rows_of(whole, duck)]
    assert found == rows
    assert sampled.rows == len(rows)
    assert whole.names == [f"column_{n}" for n in range(1, len(whole.names) + 1)]
    assert not any(whole.named)
    assert [column.name for column in sampled.columns] == whole.names


def test_the_columns_of_a_lake_are_those_of_its_samples(lake: Path, duck: duckdb.DuckDBPyConnection) -> None:
    for source in scan(lake):
        assert isinstance(source, Source)
        whole, sampled = open_full(source, duck), read(source)
        places = [whole.positions[column.name] for column in sampled.columns]
        columns = [list(column) for column in zip(*rows_of(whole, duck), strict=True)]
        assert [columns[place] for place in places] == [column.cells for column in sampled.columns]


def test_frames(duck: duckdb.DuckDBPyConnection) -> None:
    data = {"a": [1, 2], "b": ["x", None]}
    for frame in (pa.table(data), pd.DataFrame(data), pl.DataFrame(data)):
        whole = full_frame(frame, duck, Limits())
        found = [(one, None if other != other else other) for one, other in rows_of(whole, duck)]
        assert (whole.names, found) == (["a", "b"], [(1, "x"), (2, None)])
    mixed = pd.DataFrame([[1, "x"], ["y", 2.5]], columns=["a", "a"])
    whole = full_frame(mixed, duck, Limits())
    assert (whole.names, rows_of(whole, duck)) == (["a", "a_2"], [("1", "x"), ("y", "2.5")])
    with pytest.raises(Unreadable, match="a list is no table"):
        full_frame(cast(Frame, [1]), duck, Limits())


# --- text ----------------------------------------------------------------------------------------------


def text_file(
    path: Path, duck: duckdb.DuckDBPyConnection, data: str | bytes
) -> tuple[FullTable, Rows, Tally]:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    whole, tally = opened(path, duck), Tally()
    return whole, rows_of(whole, duck, tally), tally


def test_ragged_rows_and_blank_lines(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    body = "".join(f"{i},{i}\n" for i in range(600))
    data = f"a,b,\n1,2\n\n3\n   \n4,5,\n{body},,\n1,2,3,4,5,6,7,8,9,10,11,12\n"
    whole, rows, tally = text_file(tmp_path / "a.csv", duck, data)
    assert (whole.names[:2], whole.named[:3]) == (["a", "b"], [True, True, False])
    assert [row[:2] for row in rows[:3]] == [("1", "2"), ("3", ""), ("4", "5")]
    assert (len(rows), tally.rows) == (605, 605)
    assert tally.beyond == 12 - len(whole.names)  # of the last row, which no sample need have seen


def test_line_ends_of_every_kind(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    _, rows, _ = text_file(tmp_path / "a.csv", duck, 'a;b\r1;"x\ny"\r\n2;z\n3;"\r"\r')
    assert rows == [("1", "x\ny"), ("2", "z"), ("3", "\r")]


@pytest.mark.parametrize("lines", [100, 60_000])
def test_a_stray_quote_does_not_swallow_the_rest(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(whole_text, "_LONGEST", 200_000)
    monkeypatch.setattr(csv, "field_size_limit", lambda limit=0, really=csv.field_size_limit: really(200_000))
    rows = 'x,"y"\n' * 50_000 + '"stray,z\n' + "k,long enough\n" * lines
    _, found, tally = text_file(tmp_path / "a.csv", duck, f"a,b\n{rows}")
    assert (len(found), tally.stray_quotes) == (50_001 + lines, 1)
    assert found[50_000:50_002] == [('"stray', "z"), ("k", "long enough")]


def test_encodings_that_show_late(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    plain = b"a,b\n" + (b"x" * 99 + b",y\n") * 12_000
    _, rows, tally = text_file(tmp_path / "a.csv", duck, plain + b"caf\xe9,z\n")
    assert (rows[-1], tally.undecoded) == (("café", "z"), 0)  # the end of a file is sampled, too
    _, rows, tally = text_file(tmp_path / "c.csv", duck, plain[:300_000] + b",\ncaf\xe9,z\n" + plain[4:])
    assert (("café", "z") in rows, tally.undecoded) == (True, 1)  # further on than the head, in no block
    _, rows, tally = text_file(tmp_path / "b.csv", duck, b"\xc3\xbc,b\n" + plain[4:] + b"caf\xe9,\0z\n")
    assert (rows[-1], tally.undecoded) == (("caf\ufffd", "z"), 1)


CELLS = some.text(some.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some.lists(some.lists(CELLS, min_size=1, max_size=4), min_size=2, max_size=8),
    some.sampled_from(",;\t|"),
    some.sampled_from(["\n", "\r\n", "\r"]),
)
def test_text_is_cut_as_the_sampled_reader_does(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection, table: list[list[str]], delimiter: str, end: str
) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows([["a", "b"], *table])
    path = tmp_path / "a.csv"
    path.write_bytes(text.getvalue().encode())
    try:
        whole = open_full(Source(path.name, path, None, 0, 0, header="yes"), duck)
    except Unreadable:
        return
    _, *body = parse(text.getvalue(), guess_dialect(text.getvalue()).dialect)
    tally = Tally()
    found = rows_of(whole, duck, tally)
    kept = [row for row in body if len(row) > 1 or len(whole.names) == 1 or row[0].strip()]
    if kept and not "".join(kept[0]).strip().strip("-:"):
        kept = kept[len(kept) - len(found) :]  # a rule under the header

    def cells(rows: Iterable[Sequence[str | None]]) -> list[list[str]]:
        """Without the blanks that the sampled reader leaves out at the beginning of a cell."""
        return [[cell.lstrip(" ") for cell in row if cell and cell.lstrip(" ")] for row in rows]

    assert cells(found) == cells(row[: len(whole.names)] for row in kept)


def test_text_keeps_the_blanks_that_it_begins_with(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    """Except in rows with a quote after blanks, which are counted."""
    text = 'a,b\n  x, y\n z, "p, q"\n"r\n s",  t\n'
    _, rows, tally = text_file(tmp_path / "a.csv", duck, text)
    assert rows == [("  x", " y"), ("z", "p, q"), ("r\n s", "  t")]
    assert tally.blanks == 1


# --- JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["lines", "array", "inside", "lists"])
def test_long_json(tmp_path: Path, duck: duckdb.DuckDBPyConnection, shape: str) -> None:
    records = [{"n": i, "t": f"{i} \u00fc{{[\\", "o": {"k": [i]}} for i in range(30_000)]
    path = tmp_path / "a.json"
    if shape == "lines":
        path.write_text("\n".join(map(json.dumps, records)))
    elif shape == "array":
        path.write_text(json.dumps(records, indent=1))
    elif shape == "inside":
        path.write_text(json.dumps({"about": {"x": [1]}, "rows": records, "end": 1}))
    else:
        path.write_text(json.dumps([["n", "t", "o"], *([r["n"], r["t"], r["o"]] for r in records)]))
    whole = opened(path, duck)
    assert whole.names == ["n", "t", "o"]
    found = rows_of(whole, duck)
    assert len(found) == 30_000
    assert found[29_999] == ("29999", "29999 \u00fc{[\\", '{"k": [29999]}')


def test_json_that_is_not_what_it_seemed(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    lines = [json.dumps({"a": i, "b": "x" * 40}) for i in range(30_000)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*lines, '{"a": 1,,}', '{"a": 2, "new": 3}', '{"a": 4']))
    tally = Tally()
    found = rows_of(opened(path, duck), duck, tally)
    assert (len(found), tally.rejected, tally.beyond) == (30_001, 2, 1)
    path.write_text(f"[{', '.join(lines)}")
    with pytest.raises(Unreadable, match="ends too early, after 30,000 records"):
        rows_of(opened(path, duck), duck)


# --- what is typed -------------------------------------------------------------------------------------


def test_types_are_kept(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    data = pa.table(
        {"i": [1, None], "d": [datetime.date(2020, 1, 2)] * 2, "s": pa.array(["a", "b"]).dictionary_encode()}
    )
    pq.write_table(data, tmp_path / "a*[1].parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, data.schema) as stream:
        stream.write_table(data)
    for name in ("a*[1].parquet", "a.arrow"):
        whole = opened(tmp_path / name, duck)
        assert whole.types[:2] == ["BIGINT", "DATE"]
        assert rows_of(whole, duck)[0] == (1, datetime.date(2020, 1, 2), "a")


def test_a_database_whose_table_is_gone(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    for name, connect in (("a.sqlite", sqlite3.connect), ("a.duckdb", duckdb.connect)):
        with closing(connect(str(tmp_path / name))) as database:
            database.execute("CREATE TABLE other (a INTEGER)")
        with pytest.raises(Unreadable, match="no table 't' any more"):
            opened(tmp_path / name, duck, "t")


def test_sqlite_cells_of_any_type(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE t (a)")
        database.executemany(
            "INSERT INTO t VALUES (?)", [(1,), (2.0,), (2.5,), ("x",), (None,), (b"y",), (b"\xff",)]
        )
        database.commit()
    tally = Tally()
    found = rows_of(opened(tmp_path / "a.db", duck, "t"), duck, tally)
    assert found == [("1",), ("2",), ("2.5",), ("x",), (None,), ("y",), (None,)]
    assert tally.binary == 1


# --- DuckDB's own reading ------------------------------------------------------------------------------


PIECES = (
    *("a", "", " ", "b c", "1", '""', '"x"', '"x,y"', '"x\ny"', '"q""r"', 'a"b', '"', '"a"b', "'z'", "é"),
    *(
        '"x\r\ny"',
        '""""',
        "\\",
        'a\\"b',
        "#",
        "NULL",
        "\t",
        "1,5",
        "x;y",
        "'a,b'",
        " a",
        "a ",
        ' "x"',
        '"x" ',
    ),
)
HEADS = (
    ["h1", "h2", "h3"],
    ["h1", "h2"],
    ["h1", "h2", "h3", ""],
    ['"h\n1"', "h2", "h3"],
    ["id", '"a, b"', "c"],
)


def damaged_text(chance: random.Random) -> str:
    """Delimited text in any dialect, mostly regular."""
    delimiter, end = chance.choice(",;\t|"), chance.choice(["\n", "\r\n", "\r"])
    head, cells = chance.choice(HEADS), chance.sample(PIECES, chance.randint(1, 4))
    width = max(len(head), chance.choice([2, 3]))
    sizes = [width if chance.random() < 0.96 else chance.choice([0, 1, 2, 4]) for _ in range(6)]
    rows = [head, *([chance.choice(cells) for _ in range(size)] for size in sizes)]
    ends = [end if chance.random() < 0.98 else chance.choice(["\n", "\r\n", "\r", "\n\n"]) for _ in rows]
    text = "".join(delimiter.join(row) + after for row, after in zip(rows, ends, strict=True))
    return chance.choice(["", "", "", "\n", "\ufeff"]) + text.rstrip(chance.choice(["", "\r\n"]))


def test_duckdb_reads_the_same_cells(duck: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Where DuckDB reads a file itself, it reads what Python reads, but for blanks around quotes."""
    chance, path, read = random.Random(7), tmp_path / "any.csv", 0
    for _ in range(300):
        text = damaged_text(chance)
        path.write_bytes(text.encode())
        header = chance.choice(HEADERS)
        try:
            full = open_full(Source("any.csv", path, None, 0, 0, header=header), duck)
            if full.strict is None or not full.strict.is_plain():
                continue
            own = rows_of(full.strict, duck)
        except (Unreadable, duckdb.Error):
            continue
        read += 1
        python = rows_of(full, duck)
        loose = ' "' in text or '" ' in text
        assert [[_plain(cell, loose) for cell in row] for row in own] == [
            [_plain(cell, loose) for cell in row] for row in python
        ], text
    assert read > 50


def _plain(cell: str | None, loose: bool) -> str:
    return (cell or "").strip(" ") if loose else (cell or "")
