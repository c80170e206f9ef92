"""Columns of types that DuckDB lacks, and text that is no UTF-8, cost neither the table nor its union."""

from __future__ import annotations

import decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gentus.lake import Limits, Source, Unreadable, from_frame, read_path
from gentus.lake.formats.typed import text_of
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally

NAMES = ["ann", "bob", "eve", "joe"]


def broken_text() -> pa.Array:
    """Four cells, the second of which is a byte that no UTF-8 has."""
    offsets = pa.array([0, 1, 2, 3, 4], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 4, [None, offsets, pa.py_buffer(b"a\xffcd")])


VALUES = [pa.array([1, 2, 3, 4]), pa.array(["w", "x", "y", "z"])]
CODES = pa.array([0, 1, 0, 1], pa.int8())
COLUMNS: dict[str, tuple[pa.Array, list[str]]] = {
    "decimal256": (
        pa.array([decimal.Decimal(n) for n in range(4)], pa.decimal256(50, 1)),
        ["0.0", "1.0", "2.0", "3.0"],
    ),
    "half": (pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()).cast(pa.float16()), ["0.5", "1.5", "2.5", "3.5"]),
    "dense": (
        pa.UnionArray.from_dense(CODES, pa.array([0, 1, 2, 3], pa.int32()), VALUES),
        ["1", "x", "3", "z"],
    ),
    "sparse": (pa.UnionArray.from_sparse(CODES, VALUES), ["1", "x", "3", "z"]),
    "list of unions": (
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 3, 4], pa.int32()), pa.UnionArray.from_sparse(CODES, VALUES)
        ),
        ["[1]", '["x"]', "[3]", '["z"]'],
    ),
    "no UTF-8": (broken_text(), ["a", "\ufffd", "c", "d"]),
}


def write_arrow(path: Path, table: pa.Table) -> Path:
    """With an empty batch first, on which a size in bytes once crashed."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch.slice(0, 0))
            writer.write_batch(batch)
    return path


def all_cells(path: Path, tally: Tally) -> list[tuple[str, ...]]:
    """What a union reads; in the way that it falls back to, if there is one."""
    with duckdb.connect() as duck:
        full = open_full(Source(path.name, path, None, 0, 0), duck)
        with full.scan(duck, [0, 1], tally) as relation:
            return duck.execute(f"SELECT c0, CAST(c1 AS VARCHAR) FROM {relation} ORDER BY row").fetchall()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_an_arrow_file(tmp_path: Path, name: str) -> None:
    column, expected = COLUMNS[name]
    table = pa.table({"name": NAMES, name: column})
    path = write_arrow(tmp_path / "a.arrow", table)
    read = read_path(path)
    assert {one.name: one.cells for one in read.columns} == {"name": NAMES, name: expected}
    tally = Tally()
    assert all_cells(path, tally) == list(zip(NAMES, expected, strict=True))
    assert tally.undecoded == (name == "no UTF-8")
    if name != "no UTF-8":
        assert from_frame(table, "frame").columns == read.columns


def test_text_of_parquet_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": NAMES, "note": broken_text(), "n": [1, 2, 3, 4]}), path)
    read = read_path(path)
    assert [one.cells for one in read.columns] == [NAMES, ["a", "\ufffd", "c", "d"], ["1", "2", "3", "4"]]
    with duckdb.connect() as duck:
        full = open_full(Source("a", path, None, 0, 0), duck)
        assert full.types == ["VARCHAR", "VARCHAR", "BIGINT"]
        assert full.strict is not None
        with pytest.raises(duckdb.Error, match="UTF8"), full.strict.scan(duck, [1], Tally()) as relation:
            duck.execute(f"SELECT c1 FROM {relation}").fetchall()
    tally = Tally()
    assert all_cells(path, tally) == list(zip(NAMES, ["a", "\ufffd", "c", "d"], strict=True))
    assert (tally.undecoded, tally.rows) == (1, 4)


def test_damage_still_costs_the_file(tmp_path: Path) -> None:
    """Offsets that lead out of a column are not followed."""
    offsets = pa.array([0, 1, 1 << 30, 3, 4], pa.int32()).buffers()[1]
    wild = pa.Array.from_buffers(pa.string(), 4, [None, offsets, pa.py_buffer(b"abcd")])
    write_arrow(tmp_path / "a.arrow", pa.table({"name": NAMES, "wild": wild}))
    with pytest.raises(Unreadable):
        read_path(tmp_path / "a.arrow", Limits())


@pytest.mark.parametrize(
    ("name", "start", "reason"),
    [
        ("a.feather", b"FEA1", "a Feather file of version 1"),
        ("a.parquet", b"PARE", "an encrypted Parquet file"),
    ],
)
def test_formats_that_are_not_read_are_called_by_name(
    tmp_path: Path, name: str, start: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(start + bytes(100))
    with pytest.raises(Unreadable, match=reason):
        read_path(tmp_path / name)


def test_an_encrypted_database(tmp_path: Path) -> None:
    with duckdb.connect() as duck:
        duck.execute("SET force_mbedtls_unsafe = 'true'")  # else it would download an extension
        duck.execute(f"ATTACH '{tmp_path / 'a.duckdb'}' AS a (ENCRYPTION_KEY 'secret')")
        duck.execute("CREATE TABLE a.t AS SELECT 1 AS n")
    with pytest.raises(Unreadable, match="encrypt"):
        read_path(tmp_path / "a.duckdb")


def write_variant(path: Path, shredding: str = "") -> Path:
    """Values of several types in one column; `shredding` stores those of one type apart."""
    value = "CASE i % 3 WHEN 0 THEN 'abc'::VARIANT WHEN 1 THEN (i * 10)::VARIANT ELSE {'a': i}::VARIANT END"
    options = f", SHREDDING {{v: '{shredding}'}}" if shredding else ""
    duckdb.execute(
        f"COPY (SELECT 'x' || i AS id, {value} AS v, 'y' AS w FROM range(9) t(i)) TO '{path}'"
        f" (FORMAT parquet, COMPRESSION uncompressed{options})"
    )
    return path


@pytest.mark.parametrize("shredding", ["", "VARCHAR", "BIGINT", "STRUCT(a BIGINT)"])
def test_variants_are_read_as_text_or_json(tmp_path: Path, shredding: str) -> None:
    path = write_variant(tmp_path / "v.parquet", shredding)
    expected = ["abc", "10", '{"a":2}', "abc", "40", '{"a":5}', "abc", "70", '{"a":8}']
    assert read_path(path).columns[1].cells == expected
    with duckdb.connect() as duck:
        full = open_full(Source("v.parquet", path, None, 0, 0), duck)
        assert (full.names, full.reading) == (["id", "v", "w"], "")
        with full.scan(duck, [1], Tally()) as relation:
            found = duck.execute(f"SELECT {text_of('c1', full.types[1])} FROM {relation}").fetchall()
    assert [cell for (cell,) in found] == expected


def test_a_variant_that_cannot_be_read_costs_its_column(tmp_path: Path) -> None:
    path = write_variant(tmp_path / "v.parquet", "VARCHAR")
    number = (40).to_bytes(8, "little")
    content = path.read_bytes()
    assert content.count(b"\x18" + number) == 1  # the header of a 64-bit integer
    path.write_bytes(content.replace(b"\x18" + number, b"\x54" + number))  # a type that there is not
    table = read_path(path)
    assert [column.name for column in table.columns] == ["id", "w"]
    assert table.reading == "left out, as DuckDB cannot read their Variant values: v"
    with duckdb.connect() as duck:
        full = open_full(Source("v.parquet", path, None, 0, 0), duck)
        assert (full.names, full.reading) == (["id", "w"], table.reading)
        with full.scan(duck, [0, 1], Tally()) as relation:
            assert duck.execute(f"SELECT c0, c1, row FROM {relation}").fetchall()[8] == ("x8", "y", 9)
