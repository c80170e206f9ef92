"""Files that nobody should trust, made on the spot: what a lake of strangers' files may hold.

`python tests/data/nasty.py FOLDER` writes all of them. Next to each stands a piece of the reason for which it
is refused, or `None` if it can be read.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import socket
import sqlite3
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = "".join(f"{i},name {i},{i * 1.5}\n" for i in range(40))
CSV = "id,name,value\n" + ROWS
FOREIGN = "città,größe\n" + "".join(f"Zürich {i},naïve café {i}\n" for i in range(40))
NOT_TEXT = "not text"
BROKEN = r"could not be read|damaged|cut off|does not begin|named like|neither"


@dataclass(frozen=True, slots=True)
class Nasty:
    """A file, and what is to come of it."""

    name: str
    data: bytes | Callable[[Path], object]  # or what makes it
    refused: str | None = None  # a pattern of the reason; None: it is read
    part: bool = False  # it is about tables inside of the file, which are named after it


def make(folder: Path) -> list[Nasty]:
    """Write all of them; returns those that this system can have."""
    made = []
    for one in everything():
        path = folder / one.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(one.data, bytes):
                path.write_bytes(one.data)
            else:
                one.data(path)
        except (OSError, NotImplementedError, AttributeError):  # no such names, pipes or devices here
            continue
        made.append(one)
    return made


def everything() -> Iterator[Nasty]:
    """All kinds of them."""
    yield from encodings()
    yield from texts()
    yield from single_bytes()
    yield from json_texts()
    yield from bombs()
    yield from typed()
    yield from workbooks()
    yield from databases()
    yield from names()
    yield from specials()


def encodings() -> Iterator[Nasty]:
    """Bytes that mean characters in many ways, or none."""
    for code in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        mark = "\ufeff".encode(code)
        yield Nasty(f"text/{code} marked.csv", mark + FOREIGN.encode(code))
        plain = CSV.encode(code)
        yield Nasty(f"text/{code}.csv", plain, NOT_TEXT if "32" in code else None)
    yield Nasty("text/utf-16 odd.csv", b"\xff\xfe" + FOREIGN.encode("utf-16-le") + b"\0")
    yield Nasty("text/shift-jis.csv", ("名前,都市\n" + "山田,東京\n" * 40).encode("shift-jis"))
    yield Nasty("text/latin-1.csv", FOREIGN.encode("latin-1"))
    yield Nasty("text/mixed.csv", FOREIGN.encode() + FOREIGN.encode("latin-1"))
    yield Nasty("text/mark in the middle.csv", CSV.encode() + b"\xef\xbb\xbf" + ROWS.encode())
    yield Nasty("text/only a mark.csv", b"\xef\xbb\xbf", "empty")
    yield Nasty("text/surrogates.csv", CSV.encode() + b"1,\xed\xa0\x80\xed\xb0\x80,2\n")
    yield Nasty("text/never in cp1252.csv", b"a,b\n" + b"\x81\x8d\x8f\x90\x9d\xe9,\xff\n" * 20)
    yield Nasty("text/some nuls.csv", CSV.encode() + b"1,a\0b,2\n")
    yield Nasty("text/nuls.csv", bytes(10_000), NOT_TEXT)
    yield Nasty("text/noise.csv", random.Random(0).randbytes(10_000), NOT_TEXT)
    yield Nasty("text/noise.json", random.Random(1).randbytes(10_000), NOT_TEXT)


def texts() -> Iterator[Nasty]:
    """Delimited text that is cut in no good way."""
    yield Nasty("csv/ragged.csv", ("a,b,c\n" + "".join("x," * (i % 9) + "y\n" for i in range(60))).encode())
    yield Nasty("csv/quote never closed.csv", (CSV + '41,"never closed,1\n' + ROWS * 50).encode())
    yield Nasty("csv/quote in the header.csv", ('"id,name,value\n' + ROWS).encode())
    yield Nasty("csv/quotes only.csv", b'"' * 50_001, "no rows")
    yield Nasty("csv/commas only.csv", b"," * 50_000 + b"\n" + b"," * 50_000, "no rows|empty")
    yield Nasty("csv/line ends only.csv", b"\r\n\n\r" * 10_000, "empty")
    yield Nasty("csv/one long line.csv", b"a,b," * 1_000_000, "no rows")
    yield Nasty("csv/one long cell.csv", b"a,b\n1," + b"x" * 9_000_000 + b"\n2,y\n")
    yield Nasty("csv/many columns.csv", (",".join(map(str, range(100_000))) + "\n").encode() * 3)
    yield Nasty("csv/wide below.csv", b"a,b\n1,2\n" + b"," * 300_000 + b"z\n")
    yield Nasty("csv/old line ends.csv", CSV.replace("\n", "\r").encode())
    yield Nasty("csv/twice and without names.csv", ("a,a,,,A,a \n" + "1,2,3,4,5,6\n" * 5).encode())
    yield Nasty(
        "csv/directions.csv", ("\u202egnp\u202c,\u200b,\u200b\u200b,\ufeff\n" + "x,y,z,w\n" * 5).encode()
    )
    yield Nasty("csv/formula.csv", b"id,x\n1,\"=cmd|' /C calc'!A0\"\n2,@SUM(1)\n")
    yield Nasty("csv/numbers.csv", b"n,m\n" + b"NaN,Infinity\n-inf,1e999\n-0,1e-999\n" * 5)
    yield Nasty("csv/dates.csv", b"d,e\n" + b"-4713-11-24,0000-00-00\n0001-01-01,99999-12-31\n" * 5)
    yield Nasty("csv/only a header.csv", b"a,b,c\n", "no rows")
    yield Nasty("csv/nothing.csv", b"", "empty")
    yield Nasty(
        "csv/prose.txt", b"This is no table.\nIt goes on, and on.\nThen it ends.\n" * 9, "plain writing"
    )


def single_bytes() -> Iterator[Nasty]:
    """Every file that has one byte."""
    for code in range(256):
        yield Nasty(f"bytes/{code:02x}.csv", bytes([code]), r"empty|no rows|not text")
        yield Nasty(
            f"bytes/{code:02x}.json", bytes([code]), r"empty|not JSON|not text|one value|no records|cut"
        )
    for suffix in ("parquet", "arrow", "xlsx", "sqlite", "duckdb", "csv.gz", "csv.zst"):
        refused = "no rows" if suffix.startswith("csv") else BROKEN
        yield Nasty(f"bytes/one.{suffix}", b"A", refused)


def json_texts() -> Iterator[Nasty]:
    """JSON that is deep, large or nearly JSON."""
    yield Nasty("json/deep.json", b"[" * 1_000_000, r"nested too deeply|cut off|not JSON")
    yield Nasty(
        "json/deep inside.json", b'[{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}]", "nested too deeply"
    )
    yield Nasty("json/deep keys.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply")
    yield Nasty("json/long number.json", b'[{"n": ' + b"9" * 100_000 + b"}]", "digits")
    yield Nasty("json/large numbers.jsonl", b'{"n": 1e999, "m": NaN, "o": -Infinity}\n' * 5)
    yield Nasty("json/long key.json", b'[{"' + b"k" * 1_000_000 + b'": 1}, {"k": 2}]')
    yield Nasty("json/same keys.jsonl", b'{"a": 1, "a": 2, "": 3}\n' * 5)
    yield Nasty("json/surrogates.jsonl", b'{"a": "\\ud800", "\\udfff": "\\u0000"}\n' * 5)
    keys = b",".join(b'"k%d":%d' % (i, i) for i in range(100_000))
    yield Nasty("json/many keys.json", b"[{" + keys + b"}]")
    yield Nasty("json/cut.json", b'[{"a": 1}, {"a": 2', r"cut off|not JSON")
    yield Nasty("json/not quite.jsonl", b"{'a': 1}\n" * 5, "not JSON")
    yield Nasty("json/one value.json", b"42", "one value")
    yield Nasty("json/empty.json", b"[]", "no records")
    yield Nasty("json/nulls.json", b"[null, null]", "cells are empty")
    yield Nasty("json/mixed.json", b'[1, {"a": 2}, [3, 4], null, "x"]')


def bombs() -> Iterator[Nasty]:
    """Small files that unpack to much."""
    zeros = bytes(64 << 20)
    yield Nasty("bombs/zeros.csv.gz", gzip.compress(zeros, 1), NOT_TEXT)
    yield Nasty("bombs/rows.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 5_000_000, 1))
    yield Nasty("bombs/in pieces.csv.gz", gzip.compress(b"a,b\n") + gzip.compress(b"1,2\n") * 3_000)
    yield Nasty("bombs/empty pieces.csv.gz", gzip.compress(b"") * 100_000, "empty")
    yield Nasty("bombs/cut.csv.gz", gzip.compress(CSV.encode())[:-9], "cut off")
    packed = pa.Codec("zstd").compress(b"a,b\n" + b"1,2\n" * 5_000_000, asbytes=True)
    yield Nasty("bombs/rows.csv.zst", packed)
    yield Nasty("bombs/zeros.csv.zst", pa.Codec("zstd").compress(zeros, asbytes=True), NOT_TEXT)
    yield Nasty(
        "bombs/inside.json.gz", gzip.compress(b'[{"a": "' + b"x" * (64 << 20) + b'"}]', 1), r"records|JSON"
    )


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    written = pa.BufferOutputStream()
    pq.write_table(table, written, **options)
    data: bytes = written.getvalue().to_pybytes()
    return data


def arrow_of(table: pa.Table) -> bytes:
    written = pa.BufferOutputStream()
    with pa.ipc.new_file(written, table.schema) as writer:
        writer.write_table(table)
    data: bytes = written.getvalue().to_pybytes()
    return data


def plain_table(rows: int = 1000) -> pa.Table:
    return pa.table({"id": list(range(rows)), "name": [f"name {i}" for i in range(rows)]})


def typed() -> Iterator[Nasty]:
    """Parquet and Arrow data that lies about its size, or holds what text cannot say."""
    good, arrow = parquet_of(plain_table()), arrow_of(plain_table())
    yield Nasty("typed/cut.parquet", good[:-20], BROKEN)
    yield Nasty("typed/only marks.parquet", b"PAR1PAR1", BROKEN)
    yield Nasty("typed/long footer.parquet", good[:-8] + b"\xff\xff\xff\x7fPAR1", BROKEN)
    yield Nasty("typed/lies about rows.parquet", lying_parquet(good, 1000, 10**15), r"could not|memory|too")
    middle = len(good) // 3
    yield Nasty("typed/damaged.parquet", good[:middle] + bytes(64) + good[middle + 64 :], BROKEN)
    large = pa.array(["y" * (1 << 20)])
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), large)
    yield Nasty("typed/dictionary.parquet", parquet_of(pa.table({"d": repeated, "n": [1] * 100_000})))
    yield Nasty("typed/one value.parquet", parquet_of(pa.table({"a": pa.array([7] * 300_000, pa.int8())})))
    yield Nasty("typed/no columns.parquet", parquet_of(pa.table({})), r"no rows|no columns|could not")
    yield Nasty("typed/no rows.parquet", parquet_of(plain_table(0)), "no rows")
    wide = pa.table({f"c{i}": [i] for i in range(5_000)})
    yield Nasty("typed/wide.parquet", parquet_of(wide))
    twice = pa.Table.from_arrays([pa.array([1, 2])] * 4, ["a", "a", "", "\u200b"])
    yield Nasty("typed/twice.arrow", arrow_of(twice))
    yield Nasty("typed/twice.parquet", parquet_of(twice))
    yield Nasty("typed/times.parquet", parquet_of(times()))
    yield Nasty("typed/times.arrow", arrow_of(times()))
    yield Nasty("typed/nested.parquet", parquet_of(nested(12)))
    yield Nasty("typed/nested for ever.parquet", parquet_of(nested(40)), "lists in lists")
    yield Nasty("typed/cut.arrow", arrow[: len(arrow) // 2], BROKEN)
    yield Nasty("typed/lies about rows.arrow", lying_arrow(arrow, 1000, 1 << 40), BROKEN)
    yield Nasty("typed/lies a little.arrow", lying_arrow(arrow, 1000, 1001), r"could not|damaged")
    yield Nasty("typed/only a mark.arrow", b"ARROW1\0\0", BROKEN)


def times() -> pa.Table:
    """Dates before the year 1 and after 9999, floats that are no numbers."""
    days = pa.array([-800_000, 3_000_000, 0, None], pa.int32()).cast(pa.date32())
    moments = pa.array([-(10**17), 10**18, 0, None], pa.int64()).cast(pa.timestamp("us"))
    floats = pa.array([float("nan"), float("inf"), float("-inf"), 5e-324])
    return pa.table({"day": days, "moment": moments, "float": floats})


def nested(depth: int) -> pa.Table:
    """Lists in lists. With every level DuckDB takes twice as long to read them from Parquet."""
    kind: pa.DataType = pa.int8()
    value: Any = 1
    for _ in range(depth):
        kind, value = pa.list_(kind), [value]
    return pa.table({"deep": pa.array([value] * 3, kind), "n": [1, 2, 3]})


def lying_parquet(data: bytes, rows: int, claimed: int) -> bytes:
    """Have all counts of rows and values in a footer be others."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8].replace(b"\x16" + varint(2 * rows), b"\x16" + varint(2 * claimed))
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def varint(number: int) -> bytes:
    """A number as Thrift writes it."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def lying_arrow(data: bytes, rows: int, claimed: int) -> bytes:
    """Have all counts of rows be others."""
    return data.replace(rows.to_bytes(8, "little"), claimed.to_bytes(8, "little"))


WORKBOOK = (
    '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
    '<sheets><sheet name="one" sheetId="1" r:id="rId1"/></sheets></workbook>'
)
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def workbook(sheet: str, book: str = WORKBOOK, strings: str | None = None) -> bytes:
    """An Excel file with one sheet."""
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_MAIN}.sheet.main+xml"/>'
        f'<Override PartName="/xl/sharedStrings.xml" ContentType="{_MAIN}.sharedStrings+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_MAIN}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/sharedStrings.xml": strings or "<sst/>",
        "xl/worksheets/sheet1.xml": sheet,
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return written.getvalue()


def sheet_of(rows: str, before: str = "") -> str:
    start = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    return f"{before}{start}{rows}</sheetData></worksheet>"


def workbooks() -> Iterator[Nasty]:
    """Excel files; they need the extra to be read at all."""
    row = '<row r="{0}"><c r="A{0}" t="inlineStr"><is><t>a{0}</t></is></c><c r="B{0}"><v>{0}</v></c></row>'
    good = "".join(row.format(number) for number in range(1, 30))
    empty = "".join(f'<row r="{number}"/>' for number in range(1, 1_000_000))
    yield Nasty("excel/good.xlsx", workbook(sheet_of(good)), part=True)
    yield Nasty("excel/a million empty rows.xlsx", workbook(sheet_of(empty)), "sheet is empty", part=True)
    far = row.format(1) + row.format(1_000_000_000)
    yield Nasty("excel/rows far below.xlsx", workbook(sheet_of(far)), "died", part=True)
    yield Nasty("excel/bomb.xlsx", workbook(sheet_of(good + " " * (40 << 20))), part=True)
    strings = "<sst>" + " " * (70 << 20) + "</sst>"
    yield Nasty("excel/strings.xlsx", workbook(sheet_of(good), strings=strings), "too much text", part=True)
    book = WORKBOOK + " " * (20 << 20)
    yield Nasty("excel/list of sheets.xlsx", workbook(sheet_of(good), book), "unpacks to too much")
    entity = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'
    stolen = row.format(1) + '<row r="2"><c r="A2" t="inlineStr"><is><t>&secret;</t></is></c></row>'
    yield Nasty("excel/external.xlsx", workbook(sheet_of(stolen, entity)), "unrecognized entity", part=True)
    named = WORKBOOK.replace('"one"', '"&secret;"')
    yield Nasty("excel/external name.xlsx", workbook(sheet_of(good), entity + named), "damaged")
    laughs = ['<!ENTITY e0 "ha">', *(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))]
    laughing = row.format(1) + '<row r="2"><c r="A2" t="inlineStr"><is><t>&e11;</t></is></c></row>'
    bomb = f"<!DOCTYPE x [{''.join(laughs)}]>"
    yield Nasty("excel/laughs.xlsx", workbook(sheet_of(laughing, bomb)), "unrecognized entity", part=True)
    yield Nasty("excel/empty archive.xlsx", b"PK\x05\x06" + bytes(18), "not an Excel workbook")
    yield Nasty("excel/cut.xlsx", workbook(sheet_of(good))[:900], "not an Excel workbook")


def databases() -> Iterator[Nasty]:
    """SQLite files that want to do something; DuckDB files that are none."""
    yield Nasty("db/hostile.sqlite", _hostile_sqlite, part=True)
    yield Nasty("db/computed.sqlite", _computed_sqlite, part=True)
    yield Nasty("db/corrupt.sqlite", _corrupt_sqlite, r"could not be read|damaged", part=True)
    yield Nasty("db/only views.sqlite", _views_sqlite, "no tables")
    yield Nasty("db/lying.duckdb", bytes(8) + b"DUCK" + bytes(4) + random.Random(2).randbytes(9000), BROKEN)
    yield Nasty("db/noise.sqlite", b"SQLite format 3\0" + random.Random(3).randbytes(9000), BROKEN)


def _hostile_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE "t; DROP TABLE sqlite_master" (a, "b""c", "d;--");
            INSERT INTO "t; DROP TABLE sqlite_master" VALUES (1, 'x', x'00ff'), (2, 'y', 1e999);
            CREATE TABLE extremes (a INTEGER PRIMARY KEY, b);
            INSERT INTO extremes VALUES (-9223372036854775808, 1), (9223372036854775807, 2);
            CREATE TABLE bare (a PRIMARY KEY, b) WITHOUT ROWID;
            INSERT INTO bare VALUES ('x', 1);
            CREATE TABLE "no
            line" (rowid, _rowid_, oid);
            INSERT INTO "no
            line" VALUES (1, 2, 3);
            CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
            SELECT * FROM n;
            CREATE TRIGGER surprise AFTER INSERT ON bare BEGIN DELETE FROM extremes; END;
            """
        )
    connection.close()


def _computed_sqlite(path: Path) -> None:
    """Columns that are computed as they are read, and ask for a gigabyte."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a, big AS (length(hex(zeroblob(100000000)))), c AS (a || 'x'))")
        connection.executemany("INSERT INTO t (a) VALUES (?)", [(number,) for number in range(5)])
    connection.close()


def _corrupt_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, "x" * 200) for i in range(500)])
    connection.close()
    data = bytearray(path.read_bytes())
    data[4096:] = random.Random(4).randbytes(len(data) - 4096)
    path.write_bytes(data)


def _views_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIEW v AS SELECT 1 AS a")
    connection.close()


def names() -> Iterator[Nasty]:
    """Names that look like something else."""
    for name in (
        "new\nline.csv",
        "\u202evsc.exe.csv",
        "\u200b\u200d.csv",
        "a..csv..csv",
        "a .. b/ .. /c.csv",
        "-rf.csv",
        "'; DROP TABLE x; --.csv",
        "50%_?*[a].csv",
        "<script>alert(1)<.csv",
        f"{'long' * 60}.csv",
        "CON.csv",
        "\x1b[31mred.csv",
    ):
        yield Nasty(f"names/{name}", CSV.encode())
    yield Nasty("names/[x]?*'.parquet", parquet_of(plain_table(5)))


def specials() -> Iterator[Nasty]:
    """What is in a folder and no file."""
    outside = "out of the lake"
    yield Nasty("special/pipe.csv", os.mkfifo, "pipe or a device")
    yield Nasty("special/zero.csv", lambda path: path.symlink_to("/dev/zero"), outside)
    yield Nasty("special/random.parquet", lambda path: path.symlink_to("/dev/urandom"), outside)
    yield Nasty("special/passwd.csv", lambda path: path.symlink_to("/etc/passwd"), outside)
    yield Nasty("special/itself.csv", lambda path: path.symlink_to(path.name), "nowhere or to itself")
    yield Nasty("special/socket.csv", _socket, "pipe or a device")
    yield Nasty("special/device.csv", _device, "pipe or a device")
    yield Nasty("special/sparse.csv", _sparse, NOT_TEXT)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # another /dev/zero; only root may


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that takes no room


if __name__ == "__main__":
    print(f"{len(make(Path(sys.argv[1]))):,} files in {sys.argv[1]}")
