"""Tables of any content survive the way through files; bytes of any content are read or refused."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import string
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from stress import fuzz

from gentus.lake import Unreadable, only_table, read, read_path
from gentus.table import EMPTY, Table

SUFFIXES = (
    "csv",
    "txt",
    "json",
    "jsonl",
    "csv.gz",
    "csv.zst",
    "parquet",
    "arrow",
    "sqlite",
    "duckdb",
    "xlsx",
)
SOME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MORE = settings(SOME, max_examples=80)

Content = tuple[list[str], list[list[str]]]


def cells(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text that is no empty cell, and has no blanks around it, which are left out."""
    return (
        st.text(alphabet, min_size=1, max_size=12).map(str.strip).filter(lambda one: one.lower() not in EMPTY)
    )


@st.composite
def tables(draw: st.DrawFn, alphabet: st.SearchStrategy[str]) -> Content:
    """Names of columns, each once, and rows."""
    width = draw(st.integers(2, 6))
    names = draw(st.lists(cells(alphabet).filter(str.isalnum), min_size=width, max_size=width, unique=True))
    row = st.lists(cells(alphabet), min_size=width, max_size=width)
    return names, draw(st.lists(row, min_size=1, max_size=8))


ANY = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff")
WORDS = st.sampled_from(string.ascii_letters + string.digits + " äßøπ中🐟.-_/()'")


def same(found: Table, content: Content) -> None:
    names, rows = content
    assert [column.name for column in found.columns] == names
    assert [column.cells for column in found.columns] == [list(column) for column in zip(*rows, strict=True)]


@MORE
@given(
    tables(WORDS),
    st.sampled_from(",;|\t"),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_delimited_text_is_read_as_it_was_written(
    tmp_path: Path, content: Content, delimiter: str, quoting: int, end: str, encoding: str
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    writer.writerows([content[0], *content[1]])
    path = tmp_path / "table.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    same(read(replace(only_table(path), header="yes")), content)
    found = read_path(path)
    if found.doubt:  # a header of numbers: told, and kept as a row
        assert [column.cells[0] for column in found.columns] == content[0]
    elif not found.reading:  # rows that are left out are told
        same(found, content)


@MORE
@given(tables(ANY), st.booleans(), st.booleans())
def test_json_is_read_as_it_was_written(
    tmp_path: Path, content: Content, lines: bool, ascii_only: bool
) -> None:
    names, rows = content
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    path = tmp_path / ("table.jsonl" if lines else "table.json")
    if lines:
        text = "".join(json.dumps(one, ensure_ascii=ascii_only) + "\n" for one in objects)
    else:
        text = json.dumps(objects, ensure_ascii=ascii_only)
    path.write_text(text, encoding="utf-8")
    if lines and len(rows) == 1:
        return  # one object may be anything: the columns of a table, or records by their keys
    same(read_path(path), content)


@SOME
@given(tables(ANY), st.sampled_from(["none", "snappy", "zstd"]), st.booleans())
def test_parquet_and_arrow_are_read_as_they_were_written(
    tmp_path: Path, content: Content, compression: str, dictionary: bool
) -> None:
    names, rows = content
    data = pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], names=names)
    pq.write_table(data, tmp_path / "t.parquet", compression=compression, use_dictionary=dictionary)
    same(read_path(tmp_path / "t.parquet"), content)
    with pa.ipc.new_file(tmp_path / "t.arrow", data.schema) as writer:
        writer.write_table(data)
    same(read_path(tmp_path / "t.arrow"), content)


def read_or_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        found = read_path(path)
    except Unreadable as error:
        if not error.reason:
            raise
    else:
        assert found.rows
        for column in found.columns:
            "".join([column.name, *column.cells]).encode()  # whole characters only


@pytest.mark.parametrize("suffix", SUFFIXES)
@SOME
@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=b"PAR1")
@example(data=b'[{"\\ud800": "\\udfff"}]')
def test_any_bytes_are_read_or_refused(tmp_path: Path, suffix: str, data: bytes) -> None:
    read_or_refused(tmp_path / f"any.{suffix}", data)


@MORE
@given(text=st.text(st.sampled_from("\"'\\,;|\t\r\n ab1\0\ufeff"), max_size=60), json_too=st.booleans())
def test_any_text_is_read_or_refused(tmp_path: Path, text: str, json_too: bool) -> None:
    read_or_refused(tmp_path / ("any.json" if json_too else "any.csv"), text.encode())


def test_files_that_are_nearly_right(tmp_path: Path) -> None:
    """A short run of what `make fuzz` does for long."""
    result = fuzz.run(240, seed=2, kept=tmp_path / "kept", step=80)
    assert sum(result.outcomes.values()) == 240
    told = [path.read_text() for path in (tmp_path / "kept").glob("*.txt")]
    assert not result.bad, told
    assert result.count("read") > 20
    assert result.count("refused") > 20
    first, *_, last = result.costs
    assert last.descriptors <= first.descriptors + 2
    assert last.threads <= first.threads


def misbehave(folder: Path, kind: str, data: bytes, whole: bool) -> str:
    if data == fuzz.generate(3, 2)[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    if data == fuzz.generate(3, 4)[1]:
        time.sleep(1000)
    if data == fuzz.generate(3, 6)[1]:
        raise KeyError("six")
    return "read"


@pytest.mark.slow
def test_the_fuzzer_sees_what_goes_wrong(tmp_path: Path) -> None:
    result = fuzz.run(8, seed=3, kept=tmp_path, step=8, seconds=3.0, attempt=misbehave)
    assert [result.count(one) for one in ("read", "died", "hung", "unhandled")] == [5, 1, 1, 1]
    assert sorted(path.read_text() for path in tmp_path.glob("*.why.txt")) == [
        "KeyError: 'six'\n",
        "exit code -9\n",
        "longer than 3 s\n",
    ]
    assert {path.name for path in tmp_path.iterdir() if ".why" not in path.name} == {
        f"{number}.{fuzz.generate(3, number)[0]}" for number in (2, 4, 6)
    }
