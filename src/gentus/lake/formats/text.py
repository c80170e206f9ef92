"""Delimited text (CSV, TSV and the like): a sample of it, and what it tells about all of the file.

Encoding, dialect and layout are decided here, once: a union reads all rows by the same decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gentus.lake.base import Source, Unreadable, table_from_rows
from gentus.lake.encoding import guess_note
from gentus.lake.files import ByteSample, decode, sample_bytes, to_text
from gentus.lake.formats.dialect import Dialect, guess_dialect, parse, parse_lines
from gentus.lake.formats.header import judge_header
from gentus.lake.formats.layout import (
    COMMENT,
    Layout,
    has_comments,
    header_rows,
    is_rule,
    joined_names,
    rows_above,
    table_rows,
    usual_width,
)
from gentus.lake.formats.notes import rows_below
from gentus.lake.location import Location
from gentus.table import Head, Header, Limits, Table, evenly_spaced

_ENOUGH = 16  # with fewer rows than this in the head of a large file, more of it is read
_LOOK = 128  # rows that tell the layout
_TAIL = 8 << 10  # bytes at the end of a large file that tell what stands below its table
_MOSTLY = 0.8  # of the rows at the end have to be as wide as those at the beginning
_SHOWN = 2  # lines that are quoted
_CLIP = 60  # characters of them


@dataclass(frozen=True, slots=True)
class TextSample:
    """A sample of a text file, and what it tells about all of the file."""

    head: bytes
    encoding: str
    dialect: Dialect
    layout: Layout
    header: list[str]  # with an empty name for every column that it does not name
    rows: list[list[str]]  # the sampled ones
    top: Head
    doubt: str = ""  # why the first row looks like data; empty: it does not
    reading: str = ""  # what is not usual in how the file is read; empty: nothing
    guess: str = ""  # of it, that its encoding is a guess


def read_delimited(source: Source, limits: Limits, prose: bool = False) -> Table:
    """Read a delimited text file; `prose` says that it may be no table at all (`.txt`)."""
    sampled = sample_text(source.path, limits, prose, source.header, source.encoding)
    return table_of(source.name, sampled, limits)


def table_of(name: str, sampled: TextSample, limits: Limits) -> Table:
    """The table that a sample of text is."""
    table = table_from_rows(name, sampled.header, sampled.rows, limits, sampled.top)
    told = sampled.doubt, sampled.dialect.delimiter, sampled.reading, table.complete
    return Table(table.name, table.columns, table.rows, table.row_sketch, *told)  # `replace` is slow


def sample_text(
    path: Location, limits: Limits, prose: bool = False, header: Header = "auto", given: str = ""
) -> TextSample:
    """Sample a file, and find out its encoding unless one is given, its dialect and layout."""
    for least in (0, 1 << 20, 4 << 20, limits.text_bytes):
        taken = sample_bytes(path, limits.text_bytes, least)
        text, encoding = to_text(taken.head, taken.blocks, given)
        if not text.strip():
            raise Unreadable("it is empty")
        found = guess_dialect(text, taken.complete)
        lines = found.lines or parse_lines(text, found.dialect)
        if taken.complete or len(lines) > _ENOUGH or len(taken.head) >= limits.text_bytes:
            break
    if prose and (found.width < 2 or found.fit < 0.8):
        raise Unreadable("no delimiter cuts it into columns: it looks like plain writing, not like a table")
    if not taken.complete and len(lines) > 2:
        lines.pop()  # cut off at the end of the sample
    layout, doubt = _layout(lines, header, taken, encoding, found.dialect)
    rows = [row for row in lines if row]
    names = joined_names(rows[layout.above : layout.above + layout.header])
    # Of a file that goes on, the last rows are further on.
    below = layout.below if taken.complete else 0
    if layout.comment:
        body = list(table_rows(iter(rows), replace(layout, below=below)))
    else:
        body = rows[layout.above + layout.header + layout.rule : len(rows) - below]
    top = Head(body[: limits.head], taken.complete and len(body) <= limits.head)
    width = max([len(names), *_usual(body)])
    blocks = [decode(block, encoding) for block in taken.blocks]
    for block in blocks:
        body += _aligned(block, found.dialect, width)
    kept = [body[i] for i in evenly_spaced(len(body), limits.rows)]
    # Cells beyond the usual width are evidence too, so they get columns without a name; within reason, lest
    # one broken row make a table of thousands of columns.
    width = max(width, min(max(map(len, kept), default=0), 2 * width + 4))
    names = names + [""] * (width - len(names))
    guess = "" if given else guess_note(encoding, [text, *blocks])
    reading = "; ".join(filter(None, (_reading(rows, layout, taken.complete), guess)))
    return TextSample(taken.head, encoding, found.dialect, layout, names, kept, top, doubt, reading, guess)


def _layout(
    lines: list[list[str]], header: Header, taken: ByteSample, encoding: str, dialect: Dialect
) -> tuple[Layout, str]:
    """The layout of a text, and why its first row looks like data; a given header is the first row."""
    if header == "no":
        return Layout(header=0), ""
    top = 0 if header == "yes" else rows_above(lines[:_LOOK])
    above = sum(map(bool, lines[:top]))
    # Of a file that goes on, its first rows tell enough.
    rows = [row for row in (lines[top:] if taken.complete else lines[top : top + 8 * _LOOK]) if row]
    if len(rows) < 2:
        return Layout(above), ""
    rule = is_rule(rows[1])
    if header == "yes":
        return Layout(rule=rule), ""
    count = 1 if rule else header_rows(rows[:_LOOK])
    comment = COMMENT if has_comments(rows[:_LOOK], count) else ""
    layout = Layout(above, count, 0, comment, rule)
    ends = lines if taken.complete else _last_lines(taken, encoding, dialect, usual_width(rows[:_LOOK]))
    body = rows[count + rule :]
    if below := rows_below(ends[-_LOOK:], body, taken.complete):
        layout = replace(layout, below=below)
    if count > 1 or rule:
        return layout, ""
    doubt, unsure = judge_header(rows[0], body[: 4 * _LOOK])
    return (replace(layout, header=0 if doubt else 1, unsure=unsure) if doubt or unsure else layout), doubt


def _last_lines(taken: ByteSample, encoding: str, dialect: Dialect, width: int) -> list[list[str]]:
    """The rows at the end of a file that is larger than its sample; none if others are cut otherwise."""
    if not taken.blocks:
        return []
    _, _, text = decode(taken.blocks[-1][-_TAIL:], encoding).partition("\n")
    rows = parse_lines(text, dialect)
    return rows if sum(len(row) == width for row in rows) > _MOSTLY * len(rows) else []


def _reading(rows: Sequence[list[str]], layout: Layout, complete: bool) -> str:
    """How a file is read, where that is not the usual way, in words."""
    said = []
    if layout.above:
        said.append(f"{_lines(layout.above)} above the table left out ({_quoted(rows[: layout.above])})")
    if layout.unsure:
        said.append("its first row is read as the header, and may be data")
    if layout.header > 1:
        said.append(f"a header of {layout.header} rows, joined")
    if layout.comment:
        said.append(f"lines that begin with {layout.comment} left out")
    if layout.below:
        shown = f" ({_quoted(rows[-layout.below :])})" if complete else ""
        said.append(f"{_lines(layout.below)} below the table left out{shown}")
    return "; ".join(said)


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _quoted(rows: Sequence[list[str]]) -> str:
    texts = [" ".join(filter(None, map(str.strip, row)))[:_CLIP] for row in rows]
    filled = [repr(text) for text in texts if text]
    return ", ".join(filled[:_SHOWN]) + (", .." if len(filled) > _SHOWN else "") if filled else "empty"


def _usual(rows: list[list[str]]) -> list[int]:
    """The most frequent width of the rows, if there are any."""
    widths = list(map(len, rows))
    if widths and widths.count(widths[0]) == len(widths):
        return widths[:1]  # nearly all files
    return [width for width, _ in Counter(widths).most_common(1)]


def _aligned(block: str, dialect: Dialect, width: int) -> list[list[str]]:
    """The complete rows inside a block from the middle of a file.

    A quoted cell may be open where it begins; both cases are tried, and the one with more rows of the right
    width is taken.
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
        if best and len(best) == len(rows):
            break  # an open cell would show
    return best
