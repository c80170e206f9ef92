"""A union as an Excel workbook of one sheet, written row by row.

openpyxl takes 25 microseconds per cell, cuts long text without a word, and takes text such as `=1+1` and
`#N/A` for formulas and errors. Here text is always text, and what Excel cannot hold as a number becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

from gentus.lake.formats.typed import quoted
from gentus.union.errors import OutputError
from gentus.union.excel_parts import (
    DATE,
    HEAD,
    PARTS,
    SHEET,
    SHEET_END,
    SHEET_START,
    TIME,
    TIMESTAMP,
    workbook,
)
from gentus.union.sql_types import FLOATS, INTEGERS, is_decimal, is_zoned

if TYPE_CHECKING:
    import duckdb

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384  # of a sheet; the header is one of the rows
_BATCH = 2048
_LONGEST = 32_767  # UTF-16 units of a cell
_LARGEST = 2**31 - 1  # bytes of a sheet; more need ZIP64, and Excel then says that the file is damaged
_INSTEAD = "write .csv, .parquet or .sqlite instead"
_LARGE = 10**15 - 1  # Excel keeps 15 digits
_NO_SHEET_NAME = re.compile(r"[\[\]:*?/\\\x00-\x1f]|^'|'$")
# Characters with a meaning in XML or none at all, and text that looks like Excel's escape of those.
_UNSAFE = re.compile(r"[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_DAYS_TO_1970 = 25_569  # since the day 0 of Excel
# Types of dates and times: days since the day 0, and the style.
_DATES = {
    "DATE": (f"(datediff('day', DATE '1970-01-01', {{0}}) + {_DAYS_TO_1970})", DATE),
    "TIMESTAMP": (f"(epoch_us({{0}}) / 86400e6 + {_DAYS_TO_1970})", TIMESTAMP),
    "TIMESTAMP_NS": (f"(epoch_us({{0}}) / 86400e6 + {_DAYS_TO_1970})", TIMESTAMP),
    "TIME": ("(epoch_us({0}) / 86400e6)", TIME),
}


@dataclass(slots=True)
class _Column:
    """How a column is written: SQL of its cells that are numbers in Excel, and of those that are text."""

    name: str
    number: str = "NULL"
    text: str = "NULL"
    attributes: str = ""  # of cells with a number
    why: str = ""  # cells are text that are none
    texts: int = 0  # how many of them


def _column(name: str, kind: str) -> _Column:
    """How a column of a type is written."""
    value, text = quoted(name), f"CAST({quoted(name)} AS VARCHAR)"
    if kind in INTEGERS:
        fits = f"{value} BETWEEN -{_LARGE} AND {_LARGE}"
        return _Column(name, *_either(fits, text, text), why="have more than 15 digits")
    if is_decimal(kind):
        fits = rf"length(regexp_replace({text}, '^-?0*\.?0*|\.', '', 'g')) <= 15"
        return _Column(name, *_either(fits, text, text), why="have more than 15 digits")
    if kind in FLOATS:
        number = f"CAST({value}::DOUBLE AS VARCHAR)"
        return _Column(name, *_either(f"isfinite({value})", number, text), why="are infinite or NaN")
    if kind == "BOOLEAN":
        return _Column(name, f"CAST({value}::INTEGER AS VARCHAR)", attributes=' t="b"')
    if kind in _DATES:
        days, style = _DATES[kind]
        days = days.format(value)
        fits = "true" if kind == "TIME" else f"isfinite({value}) AND {days} >= 61 AND {days} < 2958466"
        number, other = _either(fits, f"CAST({days} AS VARCHAR)", text)
        return _Column(name, number, other, f' s="{style}"', "are not between March 1900 and 9999")
    return _Column(name, text=text, why="have a zone" if is_zoned(kind) else "")


def _either(fits: str, number: str, text: str) -> tuple[str, str]:
    return f"CASE WHEN {fits} THEN {number} END", f"CASE WHEN NOT ({fits}) THEN {text} END"


def check_sheet(name: str, columns: int) -> None:
    """Raise `OutputError` if a sheet cannot have this name, or so many columns."""
    if not name or len(name) > 31 or _NO_SHEET_NAME.search(name):
        raise OutputError(
            f"a sheet cannot be called {name!r}: --table-name takes up to 31 characters, and none of []:*?/\\"
        )
    if columns > MOST_COLUMNS:
        raise OutputError(f"the result has {columns:,} columns, a sheet at most {MOST_COLUMNS:,}; {_INSTEAD}")


def write_excel(
    duck: duckdb.DuckDBPyConnection,
    sql: str,
    columns: Sequence[tuple[str, str]],
    file: Path,
    sheet: str,
) -> tuple[int, list[str]]:
    """Write the rows of a query; returns their number, and what became text in words.

    `columns` are the names and types of the result.
    """
    made = [_column(name, kind) for name, kind in columns]
    cells = ", ".join(f"{one.number} AS n{at}, {one.text} AS t{at}" for at, one in enumerate(made))
    duck.execute("SET threads = 1")  # results that stream from several threads have no order
    reader = duck.sql(f"SELECT {cells} FROM ({sql})").to_arrow_reader(_BATCH)
    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=4) as archive:
        for part, xml in {
            **PARTS,
            "xl/workbook.xml": workbook(_escaped(sheet).replace('"', "&quot;")),
        }.items():
            archive.writestr(part, HEAD + xml)
        with archive.open(SHEET, "w") as target:
            rows, size = 1, target.write(f"{HEAD}{SHEET_START}{_header(made)}".encode())
            for batch in reader:
                if rows + batch.num_rows > MOST_ROWS:
                    raise OutputError(f"the result has more rows than a sheet, {MOST_ROWS:,}; {_INSTEAD}")
                xml = "".join(_rows(batch, made, rows + 1))
                rows, size = rows + batch.num_rows, size + len(xml.encode())
                if size > _LARGEST:
                    raise OutputError(f"the sheet would have more than 2 GB, too many for Excel; {_INSTEAD}")
                target.write(xml.encode())
            target.write(SHEET_END.encode())
    return rows - 1, [_said(one) for one in made if one.texts]


def _said(column: _Column) -> str:
    return f"{column.texts:,} values of {column.name!r} {column.why} and are text in Excel"


def _header(columns: Sequence[_Column]) -> str:
    cells = (f'<c r="{_letters(at)}1"{_text(one.name, one, 1)}' for at, one in enumerate(columns))
    return f'<row r="1">{"".join(cells)}</row>'


def _rows(batch: Any, columns: Sequence[_Column], first: int) -> Iterator[str]:
    """The rows of a batch as XML, given the number of the first one."""
    letters = [_letters(at) for at in range(len(columns))]
    cells = [list(_cells(batch, at, column, first)) for at, column in enumerate(columns)]
    for number, row in enumerate(zip(*cells, strict=True), first):
        filled = (f'<c r="{letter}{number}"{cell}' for letter, cell in zip(letters, row, strict=True) if cell)
        yield f'<row r="{number}">{"".join(filled)}</row>'


def _cells(batch: Any, at: int, column: _Column, first: int) -> Iterator[str]:
    """The cells of a column as XML behind their address; empty ones are empty."""
    numbers, texts = batch.column(2 * at), batch.column(2 * at + 1)
    if column.why:
        column.texts += len(texts) - texts.null_count
    start = f"{column.attributes}><v>"
    for row, (number, text) in enumerate(zip(numbers.to_pylist(), texts.to_pylist(), strict=True), first):
        if number is not None:
            yield f"{start}{number}</v></c>"
        else:
            yield "" if text is None else _text(text, column, row)


def _text(text: str, column: _Column, row: int) -> str:
    if len(text) > _LONGEST // 2 and len(text.encode("utf-16-le")) // 2 > _LONGEST:
        raise OutputError(
            f"row {row - 1:,} of {column.name!r} has {len(text):,} characters, a cell of Excel at most"
            f" {_LONGEST:,}; {_INSTEAD}"
        )
    return f' t="inlineStr"><is><t xml:space="preserve">{_escaped(text)}</t></is></c>'


def _escaped(text: str) -> str:
    """A text in XML; Excel has its own escape for characters that XML has not."""
    return _UNSAFE.sub(lambda found: _ENTITIES.get(found[0]) or f"_x{ord(found[0]):04X}_", text)


def _letters(at: int) -> str:
    """The letters of a column: A, B, .., Z, AA, .."""
    name, at = "", at + 1
    while at:
        at, rest = divmod(at - 1, 26)
        name = chr(ord("A") + rest) + name
    return name
