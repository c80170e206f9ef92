"""Workbooks of every kind: as tables of a lake, as queries, and what is said of those that cannot be read."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import openpyxl
import pytest
from data.workbooks import compound, ods, xls, xlsb, xlsx

from gentus.lake import Limits, Skipped, Source, Unreadable, read_path, scan
from gentus.lake.formats.detect import guess_ending
from gentus.lake.formats.excel import sheet_rows, sheets_of
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally

ROWS: list[list[str | float]] = [["name", "size"], ["trout", 1.0], ["pike & co", 2.5], ["eel", 30.0]]
KINDS: dict[str, Callable[[], bytes]] = {
    "a.xls": lambda: xls(ROWS),
    "a.xlsb": lambda: xlsb(ROWS),
    "a.ods": lambda: ods(ROWS),
    "few parts.xlsx": lambda: xlsx(ROWS),
    "strict.xlsx": lambda: xlsx(ROWS, strict=True),
    "prefixed.xlsx": lambda: xlsx(ROWS, prefix="x"),
    "misnamed.xlsx": lambda: xls(ROWS),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(KINDS[name]())
    (source,) = scan(tmp_path)
    assert isinstance(source, Source)
    assert source.name == f"{name}/Sheet1"
    table = read_path(path)
    assert {column.name: column.cells for column in table.columns} == {
        "name": ["trout", "pike & co", "eel"],
        "size": ["1", "2.5", "30"],
    }
    assert read_path(path / "Sheet1").columns == table.columns
    with duckdb.connect() as duck:
        full = open_full(source, duck)
        with full.scan(duck, [1, 0], Tally()) as relation:
            rows = duck.execute(f"SELECT c0, c1 FROM {relation} ORDER BY row").fetchall()
    assert rows == [("trout", "1"), ("pike & co", "2.5"), ("eel", "30")]


def test_cells_of_every_type(tmp_path: Path) -> None:
    """Below empty rows and right of empty columns; charts are no tables."""
    book = openpyxl.Workbook()
    sheet = book.active
    when = datetime.datetime(2020, 1, 2, 3, 4, 5)
    for at, (name, value) in enumerate(
        [
            ("b", True),
            ("date", when.date()),
            ("time", when),
            ("clock", when.time()),
            ("n", 12),
            ("long", 2**40),
        ]
    ):
        sheet.cell(4, at + 3, name)
        sheet.cell(5, at + 3, value)
    book.create_chartsheet("chart")
    book.save(tmp_path / "a.xlsx")
    assert sheets_of(tmp_path / "a.xlsx") == ["Sheet"]
    with sheet_rows(tmp_path / "a.xlsx", "Sheet", Limits()) as rows:
        header, cells = list(rows)
    assert header == [None, None, "b", "date", "time", "clock", "n", "long"]
    assert cells[2:] == ["true", "2020-01-02", "2020-01-02 03:04:05", "03:04:05", "12", "1099511627776"]


def test_days_that_are_counted_from_1904(tmp_path: Path) -> None:
    """As old Macs count them; also where an extension has properties of its own."""
    path, extended = tmp_path / "mac.xlsx", tmp_path / "extended.xlsx"
    book = openpyxl.Workbook()
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    book.active.append(["day", "time"])
    book.active.append([datetime.date(1971, 1, 1), datetime.datetime(1948, 1, 1, 14, 57, 13)])
    book.save(path)
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(extended, "w") as made:
        for name in archive.namelist():
            extension = (
                b'<extLst><ext xmlns:x="urn:x"><x:workbookPr chartTracking="1"/></ext></extLst></workbook>'
            )
            data = archive.read(name)
            made.writestr(
                name, data.replace(b"</workbook>", extension) if name == "xl/workbook.xml" else data
            )
    for one in (path, extended):
        with sheet_rows(one, "Sheet", Limits()) as rows:
            assert list(rows) == [["day", "time"], ["1971-01-01", "1948-01-01 14:57:13"]]


@pytest.mark.parametrize("prefix", ["", "x"])
def test_of_a_large_sheet_the_first_rows_are_unpacked(tmp_path: Path, prefix: str) -> None:
    """And all of them for a union."""
    rows: list[list[str | float]] = [["id", "text"]]
    rows += [[float(n), f"{n} " + "x" * 500] for n in range(9000)]
    path = tmp_path / "a.xlsx"
    path.write_bytes(xlsx(rows, prefix=prefix))
    table = read_path(path)
    assert (table.rows, table.columns[0].cells[0]) == (512, "0")
    assert int(table.columns[0].cells[-1]) < 4096  # eight rows per sampled row
    with sheet_rows(path, "Sheet1", Limits()) as found:
        assert sum(1 for _ in found) == 9001


def encrypted_zip() -> bytes:
    """A package whose entries say that they are encrypted."""
    data = bytearray(xlsx(ROWS))
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            data[at + flags] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.xlsx", compound({"EncryptedPackage": b"x" * 5000, "EncryptionInfo": b"y"}), "encrypted"),
        ("a.xls", xls(ROWS, locked=True), "encrypted"),
        ("b.xlsx", encrypted_zip(), "encrypted"),
        ("c.xls", compound({"WordDocument": b"dear all"}), "not an Excel workbook"),
        ("d.xlsx", b"name;size\n", "is none"),
        ("e.ods", xlsx(ROWS)[:300], "damaged"),
    ],
)
def test_what_cannot_be_read_has_a_true_reason(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Unreadable, match=reason):
        read_path(tmp_path / name)
    (found,) = scan(tmp_path)
    assert isinstance(found, Skipped)
    assert reason in found.reason


def test_standard_input_is_recognised(tmp_path: Path) -> None:
    for number, (data, ending) in enumerate(((xls(ROWS), ".xls"), (ods(ROWS), ".xlsx"))):
        path = tmp_path / str(number)
        path.write_bytes(data)
        named = path.rename(path.with_suffix(guess_ending(path)))
        assert (named.suffix, read_path(named).rows) == (ending, 3)


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Not even by a workbook with extensions, conditional formats and images that nobody knows."""
    made = io.BytesIO(xlsx(ROWS))
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("xl/media/image1.png", b"\x89PNG")
        archive.writestr("xl/styles.xml", "<styleSheet><extLst><ext uri='x'/></extLst></styleSheet>")
    (tmp_path / "a.xlsx").write_bytes(made.getvalue())
    assert read_path(tmp_path / "a.xlsx").rows == 3
    assert capfd.readouterr() == ("", "")


def with_errors(rows: int) -> bytes:
    """A workbook with a second sheet, in whose rows are three errors; the first has one in a text."""
    book = openpyxl.Workbook()
    first, second = book.active, book.create_sheet("A & B")
    first.append(["a", "b"])
    first.append([1, "t=e #N/A"])
    second.append(["a", "b"])
    for at in range(rows):
        second.append([at, f"text {at}"])
    for at, error in enumerate(["#DIV/0!", "#N/A", "#N/A"]):
        cell = second.cell(2 + at * (rows // 3), 2, error)
        cell.data_type = "e"
    formula = second.cell(3, 2, "=1/0")
    assert formula.data_type == "f"
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


@pytest.mark.parametrize("rows", [9, 24_000])  # in one piece, and in several
def test_errors_are_told(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(with_errors(rows))
    told = "3 cells with errors read as empty (#DIV/0!, #N/A)"
    assert read_path(path / "A & B").reading == told
    assert read_path(path / "Sheet").reading == ""
    assert read_path(path / "A & B", Limits(typed_bytes=1 << 20)).reading == (
        told if rows < 100 else f"at least {told.replace('3', '2')}"
    )
    with duckdb.connect() as duck:
        assert open_full(Source("a", path, "A & B", 0, 0), duck).reading == told
        assert open_full(Source("a", path, "Sheet", 0, 0), duck).reading == ""
