"""Small workbooks in formats that no library here writes: .xls, .xlsb, .ods, and .xlsx of few parts.

Every function takes rows of text and numbers and returns the bytes of a workbook with one sheet.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

Rows = Sequence[Sequence[str | float]]
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_STRICT = "http://purl.oclc.org/ooxml/spreadsheetml/main"
_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def xlsx(rows: Rows, strict: bool = False, prefix: str = "") -> bytes:
    """A package of four parts: no styles, no content types; strict, or with a prefix for all elements."""
    main = _STRICT if strict else _MAIN
    p = f"{prefix}:" if prefix else ""
    space = f'xmlns:{prefix}="{main}"' if prefix else f'xmlns="{main}"'

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            return f'<{p}c t="inlineStr"><{p}is><{p}t>{escape(value)}</{p}t></{p}is></{p}c>'
        return f"<{p}c><{p}v>{value!r}</{p}v></{p}c>"

    body = "".join(f"<{p}row>{''.join(map(cell, row))}</{p}row>" for row in rows)
    related = "http://purl.oclc.org/ooxml/officeDocument/relationships" if strict else _RELATED
    sheets = f'<{p}sheet name="Sheet1" sheetId="1" r:id="rId1"/>'
    return _zipped(
        {
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="rId1" '
            f'Type="{related}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<{p}workbook {space} xmlns:r="{related}"><{p}sheets>{sheets}</{p}sheets>'
            f"</{p}workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="rId1" '
            f'Type="{related}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f"<{p}worksheet {space}><{p}sheetData>{body}</{p}sheetData>"
            f"</{p}worksheet>",
        }
    )


def ods(rows: Rows) -> bytes:
    """An OpenDocument spreadsheet."""
    office = "urn:oasis:names:tc:opendocument:xmlns"

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            text = f"<text:p>{escape(value)}</text:p>"
            return f'<table:table-cell office:value-type="string">{text}</table:table-cell>'
        return f'<table:table-cell office:value-type="float" office:value="{value!r}"/>'

    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    spaces = " ".join(f'xmlns:{one}="{office}:{one}:1.0"' for one in ("office", "table", "text"))
    return _zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{office}:manifest:1.0"/>',
            "content.xml": f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="Sheet1">{body}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        }
    )


def xlsb(rows: Rows) -> bytes:
    """A binary workbook."""

    def record(number: int, data: bytes = b"") -> bytes:
        head = bytes([number]) if number < 128 else bytes([number & 0x7F | 0x80, number >> 7])
        size = len(data)
        return head + (bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])) + data

    def wide(text: str) -> bytes:
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def cell(at: int, value: str | float) -> bytes:
        place = struct.pack("<II", at, 0)
        if isinstance(value, str):
            return record(6, place + wide(value))
        return record(5, place + struct.pack("<d", value))

    height, width = len(rows), max(map(len, rows))
    sheet = record(129) + record(148, struct.pack("<IIII", 0, height - 1, 0, width - 1)) + record(145)
    for number, row in enumerate(rows):
        sheet += record(0, struct.pack("<I", number) + bytes(21))
        sheet += b"".join(cell(at, value) for at, value in enumerate(row))
    named = record(156, struct.pack("<II", 0, 1) + wide("rId1") + wide("Sheet1"))
    return _zipped(
        {
            "xl/workbook.bin": record(131) + record(143) + named + record(144) + record(132),
            "xl/_rels/workbook.bin.rels": f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="rId1" '
            f'Type="{_RELATED}/worksheet" Target="worksheets/sheet1.bin"/></Relationships>',
            "xl/worksheets/sheet1.bin": sheet + record(146) + record(130),
        }
    )


def xls(rows: Rows, locked: bool = False) -> bytes:
    """A workbook of Excel 97; locked: its first record says that all others are encrypted."""

    def record(number: int, data: bytes = b"") -> bytes:
        return struct.pack("<HH", number, len(data)) + data

    def cell(row: int, at: int, value: str | float) -> bytes:
        place = struct.pack("<HHH", row, at, 0)
        if isinstance(value, str):
            return record(0x204, place + struct.pack("<HB", len(value), 0) + value.encode("latin-1"))
        return record(0x203, place + struct.pack("<d", value))

    def begin(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 0))

    password = record(0x2F, b"\1\0" + bytes(52)) if locked else b""
    named = struct.pack("<HBB", 0, 6, 0) + b"Sheet1"
    size = len(begin(5) + password) + 8 + len(named) + 4
    head = begin(5) + password + record(0x85, struct.pack("<I", size) + named) + record(0x0A)
    assert len(head) == size
    cells = b"".join(cell(r, at, value) for r, row in enumerate(rows) for at, value in enumerate(row))
    return compound({"Workbook": head + begin(0x10) + cells + record(0x0A)})


def compound(streams: dict[str, bytes]) -> bytes:
    """An OLE compound file, as all old Office documents are."""
    free, end, fat = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
    names = ["Root Entry", *streams]
    chains = [fat, end]  # of the sectors: the table itself, and the directory
    entries, body = b"", b""
    assert len(names) <= 4  # one sector
    for at, name in enumerate(names):
        data = streams.get(name, b"")
        data += bytes(-len(data) % 512 if len(data) >= 4096 else 4096 - len(data)) if at else b""
        first, sectors = len(chains), len(data) // 512
        chains += [*range(first + 1, first + sectors), end] if sectors else []
        body += data
        title = (name.encode("utf-16-le") + b"\0\0").ljust(64, b"\0")
        child = 1 if at == 0 else free
        right = at + 1 if 0 < at < len(names) - 1 else free
        entries += title + struct.pack(
            "<HBBIII16xI16xIQ", 2 * len(name) + 2, 2 if at else 5, 1, free, right, child, 0,
            first if at else end, len(data),
        )  # fmt: skip
    assert len(chains) <= 128
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16)
    head += struct.pack("<HHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, end, 0, end, 0)
    head += struct.pack("<I", 0) + struct.pack("<I", free) * 108
    table = b"".join(struct.pack("<I", one) for one in chains + [free] * (128 - len(chains)))
    return head + table + entries.ljust(512, b"\0") + body


def _zipped(parts: dict[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()
