"""Sheets of a workbook: .xlsx, .xlsm, .xlsb, .xls and .ods (the `excel` extra: calamine)."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.extras import install_extra
from gentus.lake.base import Unreadable, failure_reason, table_from_rows
from gentus.lake.files import OLE, opened
from gentus.lake.formats.excel_errors import error_note
from gentus.lake.location import Location
from gentus.table import Head, Limits, Table, evenly_spaced

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

_BOOK = "xl/workbook.xml"
_LARGEST_BOOK = 4 << 20  # bytes, unpacked
_SHEETS = "xl/worksheets/"
_LEFT_OUT = ("xl/media/", "xl/embeddings/", "xl/drawings/", "xl/pivotCache/", "Pictures/", "Thumbnails/")
_LARGE_SHEET = 4 << 20  # bytes, unpacked; of a larger one, a sample is cut out
_ROW_END = re.compile(rb"</((?:[\w.-]{1,32}:)?)row>")
_LONGEST_TAG = 64
_ROWS_READ = 8  # rows read per sampled row: a sheet can only be read from its top
_BOOK_PROPERTIES = re.compile(rb"<(?:[\w.-]{1,32}:)?workbookPr\b[^<>]*>")
_FROM_1904 = re.compile(rb"""\bdate1904\s*=\s*["'](?:1|true)["']""")
_LATER = datetime.timedelta(days=1462)  # from 1900 to 1904
_LOCKED = "it is encrypted with a password; save a copy without one"


def sheets_of(path: Location, limits: Limits | None = None) -> list[str]:
    """List the sheets of a workbook in their order; charts and macros are left out."""
    with _opened(path, limits or Limits(), 1) as book:
        from python_calamine import SheetTypeEnum

        return [one.name for one in book.sheets_metadata if one.typ == SheetTypeEnum.WorkSheet]


def read_sheet(path: Location, part: str, name: str, limits: Limits) -> Table:
    """Read non-empty rows of one sheet; the first of them is the header."""
    with sheet_rows(path, part, limits, limits.rows * _ROWS_READ) as found:
        rows = [row[: limits.columns] for row in found]
    if not rows:
        raise Unreadable("the sheet is empty")
    header, body = [value or "" for value in rows[0]], rows[1:]
    top = Head(body[: limits.head], len(body) <= limits.head)
    kept = [body[i] for i in evenly_spaced(len(body), limits.rows)]
    table = table_from_rows(name, header, kept, limits, top)
    note = error_note(path, part, limits.typed_bytes)
    return replace(table, reading=note) if note else table


@contextmanager
def sheet_rows(
    path: Location, part: str, limits: Limits, most: int | None = None
) -> Iterator[Iterator[list[str | None]]]:
    """Open a sheet; gives its non-empty rows as text, of the first `most` rows."""
    with _opened(path, limits, most) as book:
        if part not in book.sheet_names:
            raise Unreadable(f"the workbook has no sheet {part!r}")
        sheet = book.get_sheet_by_name(part)
        later = _LATER if _is_early(path, most) else datetime.timedelta()
        before: list[str | None] = [None] * (sheet.start[1] if sheet.start else 0)  # empty columns
        yield (
            before + [_text(value + later if isinstance(value, datetime.date) else value) for value in row]
            for row in islice(sheet.iter_rows(), most)
            if any(value != "" for value in row)
        )


def _is_early(path: Location, most: int | None) -> bool:
    """Whether calamine misses that the days of an open workbook are counted from 1904, as on old Macs.

    Of several elements of properties it takes the last, which is one of an extension.
    """
    try:
        with opened(path, full=most is None) as file, zipfile.ZipFile(file) as archive:
            found = [_FROM_1904.search(one) for one in _BOOK_PROPERTIES.findall(archive.read(_BOOK))]
    except (zipfile.BadZipFile, KeyError):  # another kind of workbook
        return False
    return any(found) and not found[-1]


@contextmanager
def _opened(path: Location, limits: Limits, most: int | None) -> Iterator[CalamineWorkbook]:
    """A workbook, with the first `most` rows of every sheet at least, or all of them."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ImportError as error:
        raise Unreadable(f"reading Excel files needs python-calamine: {install_extra('excel')}") from error
    try:
        with opened(path, full=most is None) as file:
            start = file.read(len(OLE))
            file.seek(0)
            short = file if start == OLE else _checked(file, limits, most)
            try:
                book = CalamineWorkbook.from_filelike(short)
            except CalamineError:
                if isinstance(path, Path):  # by its name: that error says more
                    CalamineWorkbook.from_path(path)
                raise
            yield book
            book.close()
    except PasswordError as error:
        raise Unreadable(_LOCKED) from error
    except (CalamineError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise Unreadable(f"it is not an Excel workbook, or it is damaged; save it again ({error})") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what calamine raises where it meets a defect
            raise
        raise Unreadable(failure_reason(error)) from error


def _checked(file: BinaryIO, limits: Limits, most: int | None) -> BinaryIO:
    """A workbook whose parts are not encrypted and not too large; with the first rows of large sheets."""
    with zipfile.ZipFile(file) as archive:
        parts = [part for part in archive.infolist() if not part.filename.startswith(_LEFT_OUT)]
        if any(part.flag_bits & 1 for part in parts):
            raise Unreadable(_LOCKED)
        if any(part.filename == _BOOK and part.file_size > _LARGEST_BOOK for part in parts):
            raise Unreadable("its list of sheets unpacks to too much; save the sheets as .csv files")
        # A part is never unpacked beyond the size that is written here.
        shared = sum(part.file_size for part in parts if not part.filename.startswith(_SHEETS))
        if shared > limits.typed_bytes:
            raise Unreadable("the workbook holds too much text; save the sheet as .csv or .parquet")
        large = [part for part in parts if _is_sheet(part) and part.file_size > _LARGE_SHEET]
        if most is None or not large:
            file.seek(0)
            return file
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as short:
            for part in parts:
                data = _first_rows(archive, part, limits, most) if part in large else archive.read(part)
                short.writestr(part.filename, data)
    made.seek(0)
    return made


def _is_sheet(part: zipfile.ZipInfo) -> bool:
    return part.filename.startswith(_SHEETS) and part.filename.endswith(".xml")


def _first_rows(archive: zipfile.ZipFile, part: zipfile.ZipInfo, limits: Limits, most: int) -> bytes:
    """The XML of a sheet up to the end of a row: the one that was wanted, or the last within the limits."""
    data = bytearray()
    rows, end, prefix = 0, 0, b""
    with archive.open(part) as sheet:
        while rows < most and len(data) < limits.typed_bytes and (piece := sheet.read(1 << 20)):
            begin = max(end, len(data) - _LONGEST_TAG)  # a tag may be cut in two
            data += piece
            for found in islice(_ROW_END.finditer(data, begin), most - rows):
                rows, end, prefix = rows + 1, found.end(), found[1]
    if not rows or (rows < most and len(data) == part.file_size):
        return bytes(data)
    return bytes(data[:end]) + b"</%bsheetData></%bworksheet>" % (prefix, prefix)


def _text(value: Any) -> str | None:
    match value:
        case "":
            return None
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case datetime.datetime():
            return value.isoformat(" ").removesuffix(" 00:00:00")
        case datetime.date() | datetime.time():
            return value.isoformat()
    return str(value)
