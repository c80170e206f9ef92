"""Every type under every other: a value is equal in the union, or null and counted; nothing is silent.

The reference is slow and obvious: what was written is held as exact Python values, the output is read back by
another reader, and every value is compared. With `strict`, all of them are equal or the union is an error.
"""

from __future__ import annotations

import csv
import random
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gentus.lake import Limits, Source, read
from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, UnionPlan
from gentus.union.decision import Choices
from gentus.union.local import LocalUnion
from gentus.union.output import Output
from gentus.union.report import UnionReport
from gentus.union.session import MEMORY
from gentus_bench.experiments.exact_values import Value, agrees, clock, exact, instant, nested, parsed
from gentus_bench.lakes.typed_files import arrow_arrays, counted, parquet_can

FORMATS = ("csv", "parquet", "arrow", "duckdb", "int96")
TOGETHER = 40  # pairs of columns in one union


# --- columns -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column to write: as text, as Arrow, or as DuckDB has it."""

    name: str
    format: str  # csv, parquet, arrow or duckdb
    cells: Any  # texts, an Arrow array, or a type of DuckDB and texts that it is cast from
    values: Sequence[Value]


DUCKDB = {
    "HUGEINT": [str(2**127 - 1), str(-(2**127)), "9007199254740993", "1"],
    "HUGEINT of 38 digits": ["99999999999999999999999999999999999999", "18446744073709551616", "-5"],
    "small HUGEINT": ["1", "9007199254740993", "9223372036854775807"],
    "UHUGEINT": ["340282366920938463463374607431768211455", "0"],
    "BIGNUM": ["123456789012345678901234567890123456789012345678901", "1"],
    "UBIGINT": ["18446744073709551615", "0"],
    "DECIMAL(38,9)": ["12345678901234567890123456789.123456789", "0.1"],
    "TIMESTAMP_S": ["2020-01-01 00:00:01", "0001-01-01 00:00:00", "9999-12-31 23:59:59"],
    "TIMESTAMP_MS": ["2020-01-01 00:00:00.001", "9999-12-31 23:59:59.999"],
    "TIMESTAMP": ["2020-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999", "0044-03-15 (BC) 00:00:00"],
    "TIMESTAMP_NS": ["2020-01-01 00:00:00.000000001", "2262-04-11 00:00:00", "2020-01-01 00:00:00"],
    "TIMESTAMPTZ": ["2020-01-01 00:00:00.000001+00", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59+00"],
    "TIMESTAMPTZ_NS": ["2020-01-01 00:00:00.000000001+00", "2020-01-02 00:00:00+00"],
    "TIME": ["00:00:00", "23:59:59.999999", "24:00:00"],
    "TIME_NS": ["00:00:00.000000001", "12:00:00"],
    "TIMETZ": ["12:00:00+02", "12:00:00+00", "23:59:59.999999-15:59"],
    "DATE": ["0001-01-01", "9999-12-31", "2020-01-31", "0044-03-15 (BC)"],
    "INTERVAL": ["1 month 2 days 00:00:00.000003", "-1 days", "00:00:01", "1 year"],
    "BIT": ["0101", "1"],
    "BLOB": [r"\xFF\x00", "abc", "12"],
    "UUID": ["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-00000000000f"],
    "ENUM('a', 'b', '1')": ["a", "b", "1"],
    "BIGINT[]": ["[1, 9007199254740993]", "[]"],
    "TIMESTAMPTZ_NS[]": ["['2020-01-01 00:00:00.000000001+00']"],
    "HUGEINT[]": ["[170141183460469231731687303715884105727]"],
    "STRUCT(a DECIMAL(38,9), b VARCHAR)": ["{'a': 12345678901234567890123456789.123456789, 'b': x}"],
    "MAP(VARCHAR, TIME_NS)": ["{k=00:00:00.000000001}"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["0.1", "-0.0", "inf", "nan", "1e300"],
    "FLOAT": ["0.1", "16777216"],
}  # fmt: skip
_KINDS = {"BLOB": "bytes", "BOOLEAN": "boolean", "INTERVAL": "interval", "DOUBLE": "float", "FLOAT": "float"}

TEXTS = {
    "whole": ["1", "-20", "", "30"],
    "fractions": ["0.5", "1.5", ""],
    "decimal comma": ["0,5", "1,25"],
    "dates": ["2020-01-31", "", "2021-12-01"],
    "times": ["2020-01-31 10:00:00", "2020-02-01 11:30:00"],
    "zoned times": ["2020-01-31T10:00:00Z", "2020-01-31T10:00:00+02:00"],
    "booleans": ["yes", "no", ""],
    "ids": ["007", "008"],
    "words": ["abc", "", "x y"],
    "long fractions": ["0.1234567890123456789", "1.5"],
    "nanoseconds": ["2020-01-01 00:00:00.123456789", "2020-01-01 00:00:00"],
}


def _duckdb_value(kind: str, text: str) -> Value:
    if kind.startswith("FLOAT"):
        return "float", np.float32(text)
    if kind in _KINDS:
        value = bytes([255, 0]) if text.startswith("\\") else parsed(text, _KINDS[kind], 0.0)
        return _KINDS[kind], (0, -1, 0) if text == "-1 days" else value
    if re.match("U?HUGEINT$|HUGEINT of|small HUGEINT|BIGNUM|UBIGINT|DECIMAL", kind):
        return "number", Fraction(text)
    if kind in ("TIME", "TIME_NS"):
        return "clock", clock(text)
    if kind.endswith("[]") or kind.startswith(("STRUCT", "MAP")):
        value = re.sub(r"([{ ])(\w+)=", r"\1'\2': ", text).replace("'", '"')
        value = re.sub(r": (x|[\d:]{8}\.\d+)(?=[,}])", r': "\1"', value)
        return "nested", _tagged(nested(value))
    if kind.startswith(("TIMESTAMP", "DATE")):
        return ("zoned" if "TZ" in kind else "time"), instant(text)
    return "text", text


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tagged(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(_tagged, value))
    return ("number", value) if isinstance(value, Fraction) else ("text", value)


@cache
def columns() -> dict[str, list[Column]]:
    """All columns by the format that they are written in."""
    arrays = arrow_arrays()
    found: dict[str, list[Column]] = {format: [] for format in FORMATS}
    for name, texts in TEXTS.items():
        values = [("text", text) if text else None for text in texts]
        if name == "decimal comma":
            values = [("text", text.replace(",", ".")) for text in texts]
        found["csv"].append(Column(name, "csv", texts, values))
    for name, array in arrays.items():
        values = exact(array)
        found["arrow"].append(Column(name, "arrow", array, values))
        if parquet_can(array):
            found["parquet"].append(Column(name, "parquet", array, values))
    for name in ("timestamp ns None", "late timestamp us None", "late timestamp ns None"):
        array = arrays[name]
        found["int96"].append(Column(f"INT96 {name}", "int96", array, exact(array)))
    for kind, texts in DUCKDB.items():
        values = [_duckdb_value(kind, text) for text in texts]
        found["duckdb"].append(
            Column(kind, "duckdb", (kind.split(" of ")[0].removeprefix("small "), texts), [*values, None])
        )
    return found


def write(folder: Path, name: str, some: Sequence[Column]) -> PlannedTable:
    """A table of columns c0, c1, .., as long as its longest."""
    format = some[0].format
    path = folder / f"{name}.{ {'int96': 'parquet'}.get(format, format) }"
    path.unlink(missing_ok=True)
    header = [f"c{at}" for at in range(len(some))]
    longest = max(len(one.values) for one in some)
    part = None
    if format == "csv":
        with path.open("w", newline="") as file:
            rows = zip_longest(*(one.cells for one in some), fillvalue="")
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
                [[*header, "x"], *([*row, "x"] for row in rows)]
            )
    elif format == "duckdb":
        part = "t"
        with duckdb.connect(str(path)) as base:
            base.execute("SET TimeZone = 'UTC'")
            base.execute(
                f"CREATE TABLE t ({', '.join(f'c{at} {one.cells[0]}' for at, one in enumerate(some))})"
            )
            for row in range(longest):
                cells = (one.cells[1][row] if row < len(one.cells[1]) else None for one in some)
                casts = (
                    f"CAST({_quoted(cell)} AS {one.cells[0]})" for cell, one in zip(cells, some, strict=True)
                )
                base.execute(f"INSERT INTO t SELECT {', '.join(casts)}")
    else:
        padded = [_padded(one.cells, longest) for one in some]
        table = pa.table(padded, header)
        if format == "arrow":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        else:
            pq.write_table(table, path, use_deprecated_int96_timestamps=format == "int96")
    placed = tuple(Placement(one, one) for one in header)
    return PlannedTable(path.stem, str(path), part, placed, header="yes" if format == "csv" else "auto")


def _quoted(cell: str | None) -> str:
    return "NULL" if cell is None else "'" + cell.replace("'", "''") + "'"


def _padded(array: pa.Array, rows: int) -> pa.Array:
    if len(array) == rows:
        return array
    if isinstance(array, pa.RunEndEncodedArray):
        ends = [*array.run_ends.to_pylist(), rows]
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(ends, pa.int32()), pa.concat_arrays([array.values, pa.nulls(1, array.values.type)])
        )
    if isinstance(array, pa.UnionArray):
        more = rows - len(array)
        ids = pa.array([*array.type_codes.to_pylist(), *([0] * more)], pa.int8())
        offsets = pa.array([*array.offsets.to_pylist(), *([1] * more)], pa.int32())
        return pa.UnionArray.from_dense(ids, offsets, [pa.array([5, None]), pa.array(["x"])])
    if isinstance(array, pa.ExtensionArray):
        storage = pa.concat_arrays([array.storage, pa.nulls(rows - len(array), array.storage.type)])
        return pa.ExtensionArray.from_storage(array.type, storage)
    return pa.concat_arrays([array, pa.nulls(rows - len(array), array.type)])


# --- the net -------------------------------------------------------------------------------------------


def run(
    folder: Path, pairs: Sequence[tuple[Column, Column]], strict: bool = False
) -> tuple[pa.Table, UnionReport, UnionPlan]:
    """The union of a query and of a table with columns in pairs, read back by pyarrow."""
    query, table = (write(folder, name, [pair[at] for pair in pairs]) for at, name in enumerate("qt"))
    outputs = tuple(OutputColumn(f"c{at}") for at in range(len(pairs)))
    union = LocalUnion(UnionPlan(query, (table,), outputs, strict=strict), None, Limits(), MEMORY)
    report = union.write(Output(folder / "out.parquet", "parquet", force=True))
    assert union.ran is not None
    return pq.ParquetFile(folder / "out.parquet").read(), report, union.ran


def compare(
    pairs: Sequence[tuple[Column, Column]], ran: tuple[pa.Table, UnionReport, UnionPlan]
) -> tuple[list[str], set[str]]:
    """Silent differences in words, and the columns in which values are lost and counted."""
    rows, report, plan = ran
    silent, lossy = [], set()
    for side, name in enumerate("qt"):
        half = rows.filter(pc.equal(rows["_source_table"], name))
        told = {one.into: one for one in report.tables[side].columns}
        for at, pair in enumerate(pairs):
            column, into = pair[side], f"c{at}"
            found = exact(half[into])
            both = " + ".join(f"{one.format} {one.name}" for one in pair)
            where = f"{both}, {name}, {told[into].type}"
            lost = 0
            for source, other in zip_longest(column.values, found):
                if source is None or other is None:
                    lost += source is not None and not (column.format == "csv" and source == ("text", ""))
                    if source is None and other is not None:
                        silent.append(f"{where}: null became {other}")
                elif not agrees(source, other):
                    silent.append(f"{where}: {source} became {other}")
            counted = told[into].unconverted + told[into].taken_as_null.total()
            blank = sum(
                value is not None and value[0] in ("text", "bytes") and not value[1].strip()
                for value in column.values
            )
            if not counted <= lost <= counted + (blank if told[into].type != "VARCHAR" else 0):
                silent.append(f"{where}: {lost} values are null and {counted} are counted")
            if told[into].unconverted:
                lossy.add(f"{name}: {told[into].loss()}")
            kinds = {value[0] for value in column.values if value} | {value[0] for value in found if value}
            if kinds == {"time", "zoned"} and lost < len(list(filter(None, column.values))):
                notes = f"{told[into].note} {plan.columns[at].note}"
                if "UTC" not in notes:
                    silent.append(f"{where}: nothing says that times are in UTC")
    return silent, lossy


def check(folder: Path, pairs: Sequence[tuple[Column, Column]]) -> None:
    """No silent difference; a strict union has all values, or names every column that loses some."""
    silent, lossy = compare(pairs, run(folder, pairs))
    assert not silent, "\n".join(silent)
    if not lossy:
        assert compare(pairs, run(folder, pairs, strict=True)) == ([], set())
        return
    with pytest.raises(PlanError) as caught:
        run(folder, pairs, strict=True)
    assert [loss for loss in lossy if loss not in str(caught.value)] == []


SIDES = [pair for pair in product(FORMATS, repeat=2) if pair != ("csv", "csv")]


@pytest.mark.parametrize(("query", "table"), random.Random(3).sample(SIDES, 7))
def test_types_under_each_other(tmp_path: Path, query: str, table: str) -> None:
    """Some pairs of some formats, seeded."""
    pairs = list(product(columns()[query], columns()[table]))
    check(tmp_path, random.Random(f"{query} {table}").sample(pairs, min(TOGETHER, len(pairs))))


@pytest.mark.slow
@pytest.mark.parametrize(("query", "table"), SIDES)
def test_all_types_under_each_other(tmp_path: Path, query: str, table: str) -> None:
    """Minutes for two formats."""
    pairs = list(product(columns()[query], columns()[table]))
    for begin in range(0, len(pairs), TOGETHER):
        check(tmp_path, pairs[begin : begin + TOGETHER])


def arrow(name: str, array: pa.Array) -> Column:
    return Column(name, "arrow", array, exact(array))


def text_column(*cells: str) -> Column:
    return Column("text", "csv", cells, [("text", cell) for cell in cells])


def whole(*numbers: int) -> Column:
    return arrow("int64", pa.array(numbers, pa.int64()))


def test_whole_numbers_are_not_rounded(tmp_path: Path) -> None:
    """Under fractions, what a DOUBLE cannot hold is null, counted, and an error if strict."""
    fractions = text_column("0.5", "1.5")
    pairs = [
        (fractions, whole(2**53 + 1, 3)),
        (fractions, arrow("uint64", pa.array([2**64 - 1, 3], pa.uint64()))),
        (fractions, Column("decimal", "arrow", *_of_decimal("12345678901234567890123456789.123456789"))),
    ]
    for pair in pairs:
        check(tmp_path, [pair])
        rows, report, _ = run(tmp_path, [pair])
        assert rows["c0"].to_pylist()[:3] == [0.5, 1.5, None]
        assert report.tables[1].columns[0].unconverted == 1
    _, report, plan = run(tmp_path, [(whole(1), whole(2**53 + 1))])
    assert (plan.columns[0].type, report.unconverted) == ("BIGINT", 0)


def _of_decimal(text: str) -> tuple[pa.Array, list[Value]]:
    from decimal import Decimal

    array = pa.array([Decimal(text)], pa.decimal128(38, 9))
    return array, exact(array)


def test_text_is_not_rounded_to_whole_numbers(tmp_path: Path) -> None:
    cells = text_column("1.0000000000000000001", "9007199254740993.0", "1e3", "7.00")
    query, table = write(tmp_path, "q", [whole(1, 2)]), write(tmp_path, "t", [cells])
    plan = UnionPlan(query, (table,), (OutputColumn("c0", "BIGINT"),))
    report = LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.parquet", "parquet"))
    assert pq.read_table(tmp_path / "out.parquet")["c0"].to_pylist() == [1, 2, None, 2**53 + 1, 1000, 7]
    assert report.tables[1].columns[0].examples == ["1.0000000000000000001"]


def test_times_beyond_64_bits_name_their_column(tmp_path: Path) -> None:
    """No error of DuckDB or Arrow ends a union."""
    for unit, format in (("s", "arrow"), ("ms", "arrow"), ("ms", "parquet")):
        endless = Column("endless", format, counted(pa.timestamp(unit, "UTC"), [0, 2**62 - 1]), [None] * 2)
        with pytest.raises(PlanError) as caught:
            run(tmp_path, [(text_column("2020-01-31"), endless)])
        assert str(caught.value) == "t: its column 'c0' has times beyond the year 294246"


@pytest.mark.parametrize("unit", [0, 1])
def test_columns_of_unknown_types_are_left_out(tmp_path: Path, unit: int) -> None:
    """Intervals of months, or of days and milliseconds, which pyarrow can neither make nor read."""
    data = pa.table({"m": pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "n": [5]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    written = sink.getvalue().to_pybytes()
    changed = (
        written[:at] + bytes([unit]) + written[at + 1 :] for at, byte in enumerate(written) if byte == 2
    )
    one = next(one for one in changed if "_interval" in _kind_of(one) and "nano" not in _kind_of(one))
    (tmp_path / "t.arrow").write_bytes(one)
    query = write(tmp_path, "q", [text_column("1", "2")])
    table = PlannedTable("t", str(tmp_path / "t.arrow"), None, (Placement("n", "c0"),))
    plan = UnionPlan(query, (table,), (OutputColumn("c0"),))
    union = LocalUnion(plan, None, Limits(), MEMORY)
    report = union.write(Output(tmp_path / "out.parquet", "parquet"))
    assert pq.read_table(tmp_path / "out.parquet")["c0"].to_pylist() == [1, 2, 5]
    kind = ("month", "day_time")[unit]
    assert f"t: left out, as pyarrow lacks their type: m ({kind}_interval)" in report.notes
    with pytest.raises(PlanError, match=r"--strict allows no loss:\s+t: left out"):
        LocalUnion(replace(plan, strict=True), None, Limits(), MEMORY).preview()
    sampled = read(Source("t.arrow", tmp_path / "t.arrow", None, 0, 0))
    assert ([one.name for one in sampled.columns], kind in sampled.reading) == (["n"], True)


def _kind_of(stream: bytes) -> str:
    try:
        return str(pa.ipc.open_stream(stream).schema.field(0).type)
    except (pa.ArrowInvalid, OSError, KeyError, IndexError):
        return ""


def test_int96_times_that_nothing_holds_are_left_out(tmp_path: Path) -> None:
    """Nanoseconds and the year 9999 in one file; without either, Arrow or DuckDB hold them."""
    late = counted(pa.timestamp("us"), [253_402_300_799 * 10**6, 1])
    fine = counted(pa.timestamp("ns"), [1, 2])
    query = write(tmp_path, "q", [text_column("2020-01-31 00:00:00")])
    for arrays, name, values in (
        ([late, fine], "fine", [1, 2]),
        ([late], "late", [late[0].value * 1000, 1000]),
    ):
        path = tmp_path / f"{name}.parquet"
        data = pa.table(arrays, ["late", "fine"][: len(arrays)])
        pq.write_table(data, path, use_deprecated_int96_timestamps=True)
        table = PlannedTable("t", str(path), None, (Placement(name, "c0"),))
        plan = UnionPlan(query, (table,), (OutputColumn("c0", "TIMESTAMP_NS" if name == "fine" else None),))
        union = LocalUnion(plan, None, Limits(), MEMORY)
        report = union.write(Output(tmp_path / f"{name}.out", "parquet"))
        found = exact(pq.read_table(tmp_path / f"{name}.out")["c0"])
        assert [one and one[1] for one in found[1:]] == values
        left_out = ["t: left out, as nanoseconds beside years beyond 2262: late"]
        assert (report.unconverted, report.notes) == (0, left_out if name == "fine" else [])


def test_bytes_of_sqlite_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE t (c0)")
        base.executemany("INSERT INTO t VALUES (?)", [("a",), (b"\xff",)])
        base.commit()
    query = write(tmp_path, "q", [text_column("x")])
    table = PlannedTable("t", str(path), "t", (Placement("c0", "c0"),))
    plan = UnionPlan(query, (table,), (OutputColumn("c0"),))
    report = LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.parquet", "parquet"))
    assert report.tables[1].tally.binary == 1
    with pytest.raises(PlanError, match="--strict allows no loss:\n  t: 1 cells are not text"):
        LocalUnion(replace(plan, strict=True), None, Limits(), MEMORY).write(
            Output(tmp_path / "o.csv", "csv")
        )
    assert not (tmp_path / "o.csv").exists()


def test_bytes_that_are_no_text_are_counted(tmp_path: Path) -> None:
    """Also beside texts that a person takes as null."""
    pair = (text_column("abc"), arrow("binary", pa.array([b"\xff", b"x", b"-9", None])))
    query, table = (write(tmp_path, name, [one]) for name, one in zip("qt", pair, strict=True))
    plan = UnionPlan(query, (table,), (OutputColumn("c0"),), choices=Choices(null_values=("-9",)))
    union = LocalUnion(plan, None, Limits(), MEMORY)
    report = union.write(Output(tmp_path / "out.parquet", "parquet"))
    (column,) = report.tables[1].columns
    assert pq.read_table(tmp_path / "out.parquet")["c0"].to_pylist() == ["abc", None, "x", None, None]
    assert (column.unconverted, column.examples, column.taken_as_null) == (1, ["\\xFF"], {"-9": 1})


def test_csv_has_every_value(tmp_path: Path) -> None:
    """Read back by Python's csv: a column of each type, as text that is exactly its value."""
    some = [
        one for one in columns()["arrow"] if {value[0] for value in one.values if value} - {"text", "bytes"}
    ]
    query = write(tmp_path, "q", some)
    plan = UnionPlan(
        query, (replace(query, name="copy"),), tuple(map(OutputColumn, [one.into for one in query.columns]))
    )
    LocalUnion(plan, None, Limits(), MEMORY).write(Output(tmp_path / "out.csv", "csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    rows = rows[: len(rows) // 2]
    for at, column in enumerate(some):
        for value, row in zip(column.values, rows, strict=False):
            if value is None or (value[0] == "text" and not value[1]):
                assert row[at] == ""
            else:
                assert agrees(value, ("text", row[at])), (column.name, value, row[at])
