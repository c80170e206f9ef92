"""Sheets of an Excel workbook (the `excel` extra)."""

from __future__ import annotations

import datetime
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from xml.etree import ElementTree

from gentus.lake.base import Unreadable, table_from_rows
from gentus.lake.files import opened
from gentus.lake.location import Location
from gentus.table import Head, Limits, Table, evenly_spaced

_BOOK = "xl/workbook.xml"
_LARGEST_BOOK = 4 << 20  # bytes, unpacked
_STREAMED = (
    "xl/worksheets/",
    "xl/media/",
    "xl/embeddings/",
    "xl/drawings/",
    "xl/pivotCache/",
)  # read row by row, or not at all
_MOST_ROWS = 1 << 20  # the limit of a sheet; a damaged one may claim more
_ROWS_READ = 8  # rows read per sampled row: a sheet can only be read from its top


def sheets_of(path: Location) -> list[str]:
    """List the sheets of a workbook in their order."""
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if archive.getinfo(_BOOK).file_size > _LARGEST_BOOK:
                    raise Unreadable("its list of sheets unpacks to too much; save the sheets as .csv files")
                with archive.open(_BOOK) as part:
                    book = ElementTree.parse(part)
        except (zipfile.BadZipFile, KeyError, ElementTree.ParseError, EOFError, zlib.error) as error:
            raise Unreadable("it is not an Excel workbook, or it is damaged; save it again") from error
    names = [node.get("name") for node in book.iter() if node.tag.endswith("}sheet")]
    return [name for name in names if name]


def read_sheet(path: Location, part: str, name: str, limits: Limits) -> Table:
    """Read non-empty rows of one sheet; the first of them is the header."""
    with sheet_rows(path, part, limits, limits.columns, limits.rows * _ROWS_READ) as found:
        rows = list(found)
    if not rows:
        raise Unreadable("the sheet is empty")
    header, body = [value or "" for value in rows[0]], rows[1:]
    top = Head(body[: limits.head], len(body) <= limits.head)
    kept = [body[i] for i in evenly_spaced(len(body), limits.rows)]
    return table_from_rows(name, header, kept, limits, top)


@contextmanager
def sheet_rows(
    path: Location, part: str, limits: Limits, columns: int | None = None, most: int | None = None
) -> Iterator[Iterator[list[str | None]]]:
    """Open a sheet; gives its non-empty rows as text, of the first `most` rows."""
    try:
        import openpyxl
    except ImportError as error:
        raise Unreadable("reading Excel files needs openpyxl: pip install 'gentus[excel]'") from error
    with opened(path, full=most is None) as file:
        _check_size(file, limits)
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        try:
            if part not in book.sheetnames or not hasattr(book[part], "reset_dimensions"):
                raise Unreadable(f"the workbook has no sheet {part!r} with cells")
            book[part].reset_dimensions()  # some programs write wrong ones
            found = book[part].iter_rows(values_only=True, max_col=columns)
            yield (
                [_text(value) for value in row]
                for row in islice(found, _MOST_ROWS if most is None else most)
                if any(value is not None for value in row)
            )
        finally:
            book.close()


def _check_size(file: Any, limits: Limits) -> None:
    """Refuse workbooks whose shared parts, which are loaded as a whole, unpack to too much."""
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
    # A part is never unpacked beyond the size that is written here.
    if sum(part.file_size for part in parts if not part.filename.startswith(_STREAMED)) > limits.typed_bytes:
        raise Unreadable("the workbook holds too much text; save the sheet as .csv or .parquet")
    file.seek(0)


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case datetime.datetime():
            return value.isoformat(" ").removesuffix(" 00:00:00")
        case datetime.date() | datetime.time():
            return value.isoformat()
    return str(value)
