"""Cells of a sheet with errors, such as #DIV/0!: calamine reads them as empty, so they are counted here.

Only sheets in XML tell of them (.xlsx, .xlsm).
"""

from __future__ import annotations

import html
import posixpath
import re
import zipfile
from collections import Counter

from gentus.lake.files import opened
from gentus.lake.location import Location

_SHEET = re.compile(rb"<(?:[\w.-]+:)?sheet\s[^<>]*>")
_RELATED = re.compile(rb"<(?:[\w.-]+:)?Relationship\s[^<>]*>")
_ATTRIBUTE = re.compile(rb"""([\w.:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ERROR = re.compile(
    rb"""<(?:[\w.-]{1,32}:)?c\s[^<>]*?\bt=["']e["'][^<>]*>(?:(?!</?(?:[\w.-]{1,32}:)?c[\s>]).){0,1000}?(\#[\w/]+[!?]?)""",
    re.DOTALL,
)
_LONGEST = 2048  # bytes of a cell with an error
_BLOCK = 1 << 20


def error_note(path: Location, sheet: str, most: int, full: bool = False) -> str:
    """What is said of the errors in a sheet, of whose XML at most so many bytes are looked at."""
    try:
        with opened(path, full) as file, zipfile.ZipFile(file) as archive:
            part = _part_of(archive, sheet)
            found, whole = _errors(archive, part, most) if part else (Counter[str](), True)
    except (zipfile.BadZipFile, KeyError):  # another kind of workbook
        return ""
    if not found:
        return ""
    count = f"{'' if whole else 'at least '}{found.total():,} cell{'s' if found.total() > 1 else ''}"
    return f"{count} with errors read as empty ({', '.join(sorted(found))})"


def _part_of(archive: zipfile.ZipFile, sheet: str) -> str | None:
    """The part of a workbook that a sheet is in."""
    for tag in _SHEET.findall(archive.read("xl/workbook.xml")):
        found = _attributes(tag)
        if found.get("name") == sheet:
            number = next((value for key, value in found.items() if key.endswith(":id")), None)
            for related in map(_attributes, _RELATED.findall(archive.read("xl/_rels/workbook.xml.rels"))):
                if related.get("Id") == number:
                    return posixpath.join("/xl", related.get("Target", "")).removeprefix("/")
    return None


def _attributes(tag: bytes) -> dict[str, str]:
    found = _ATTRIBUTE.findall(tag)
    return {
        key.decode(): html.unescape((one or other).decode("utf-8", "replace")) for key, one, other in found
    }


def _errors(archive: zipfile.ZipFile, part: str, most: int) -> tuple[Counter[str], bool]:
    """The errors by their text, and whether all of the part was looked at."""
    found: Counter[str] = Counter()
    held, looked = b"", 0
    with archive.open(part) as xml:
        while piece := xml.read(_BLOCK):
            held, looked = held + piece, looked + len(piece)
            end = 0
            for match in _ERROR.finditer(held):
                found[match[1].decode("ascii", "replace")] += 1
                end = match.end()
            if looked >= most:
                return found, not xml.read(1)
            held = held[max(end, len(held) - _LONGEST) :]
    return found, True
