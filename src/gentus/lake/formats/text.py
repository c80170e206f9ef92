"""Delimited text (CSV, TSV and the like): bounded, forgiving, and the first row is always the header."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from gentus.lake.base import Unreadable, build
from gentus.lake.files import sample
from gentus.lake.formats.dialect import Dialect, guess, parse
from gentus.lake.formats.encoding import decode, to_text
from gentus.lake.location import Location
from gentus.table import Limits, Table, evenly_spaced

_RULE = re.compile(r"\s*(:?-{2,}:?)?\s*")  # under the header of a table in Markdown
_ENOUGH = 16  # with fewer rows than this in the head of a large file, more of it is read


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at a sample of a text file tells about all of it."""

    head: bytes
    encoding: str
    dialect: Dialect
    header: list[str]  # and an empty name for every column that it does not name
    rows: list[list[str]]  # the sampled ones


def read_delimited(path: Location, name: str, limits: Limits, prose: bool = False) -> Table:
    """Read a delimited text file; `prose` says that it may as well be plain writing (`.txt`)."""
    looked = look_at(path, limits, prose)
    return build(name, looked.header, looked.rows, limits)


def look_at(path: Location, limits: Limits, prose: bool = False) -> Looked:
    """Sample a file, and find out how it is encoded, cut into cells, and headed."""
    for least in (0, 1 << 20, 4 << 20, limits.text_bytes):
        taken = sample(path, limits.text_bytes, least)
        text, encoding = to_text(taken.head)
        if not text.strip():
            raise Unreadable("it is empty")
        found = guess(text, taken.whole)
        rows = parse(text, found.dialect)
        if taken.whole or len(rows) > _ENOUGH or len(taken.head) >= limits.text_bytes:
            break
    if prose and (found.width < 2 or found.fit < 0.8):
        raise Unreadable("no delimiter cuts it into columns: it looks like plain writing, not like a table")
    if not taken.whole and len(rows) > 2:
        rows.pop()  # it ends where the sample does
    header, body = rows[0], rows[1:]
    if body and is_rule(body[0]):
        del body[0]
    width = max([len(header), *_usual(body)])
    for block in taken.blocks:
        body += _aligned(decode(block, encoding), found.dialect, width)
    kept = [body[i] for i in evenly_spaced(len(body), limits.rows)]
    # Cells beyond the usual width are evidence too, so they get columns without a name; within reason, lest
    # one broken row make a table of thousands of columns.
    width = max(width, min(max(map(len, kept), default=0), 2 * width + 4))
    return Looked(taken.head, encoding, found.dialect, header + [""] * (width - len(header)), kept)


def is_rule(row: list[str]) -> bool:
    """Tell the line between header and body of a table in Markdown."""
    return all(_RULE.fullmatch(cell) for cell in row)


def _usual(rows: list[list[str]]) -> list[int]:
    """Return the most frequent width of the rows, if there are any."""
    return [width for width, _ in Counter(map(len, rows)).most_common(1)]


def _aligned(block: str, dialect: Dialect, width: int) -> list[list[str]]:
    """Return the whole rows inside a block from the middle of a file.

    Where it begins, a quoted cell may be open; the reading under which more rows have the right width wins.
    """
    _, _, inside = block.partition("\n")
    starts = [inside]
    if dialect.quote and dialect.quote in block:
        starts.append(dialect.quote + block)
    best: list[list[str]] = []
    for number, text in enumerate(starts):
        rows = parse(text, dialect)[number:-1]
        fitting = [row for row in rows if len(row) == width]
        if len(fitting) * 2 > len(rows) and len(fitting) > len(best):
            best = fitting
    return best
