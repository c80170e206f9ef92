"""All rows of delimited text, in the dialect of its sample, in bounded memory.

A union must read the same cells as the search. DuckDB's reader is faster (`full/read_csv.py`), but refuses
stray quotes, mixed line ends and rows that are too long, and knows few encodings; this one reads them all.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from gentus.lake.base import Source
from gentus.lake.files import stream, stream_text
from gentus.lake.formats.dialect import Dialect, csv_rows
from gentus.lake.formats.layout import table_rows
from gentus.lake.formats.text import sample_text, table_of
from gentus.lake.full.read_csv import is_plain, strict_scan
from gentus.lake.full.rows import AT_ONCE, FullTable, Piece, Tally, full_from_text, text_array
from gentus.table import Limits

_LONGEST = 8 << 20  # characters; a longer cell was opened by a stray quote


def full_text(source: Source, limits: Limits, prose: bool = False) -> FullTable:
    """A delimited text file."""
    path = source.path
    sampled = sample_text(path, limits, prose, source.header, source.encoding)
    width = len(sampled.header)

    def rows(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        lines = _lines(stream_text(stream(path), sampled.head, sampled.encoding, tally.add_undecoded))
        found = table_rows(_rows(lines, sampled.dialect, tally), sampled.layout, tally.add_comment)
        if width > 1:  # lines of nothing but blanks are no rows
            found = (row for row in found if len(row) > 1 or row[0].strip())
        while some := list(islice(found, AT_ONCE)):
            if any(len(row) != width for row in some):
                some = [_fitted(row, width, tally) for row in some]
            columns = list(zip(*some, strict=True))
            yield len(some), [text_array(columns[at]) for at in positions]

    full = full_from_text(sampled.header, rows, limits)
    first = sampled.top.rows
    full = replace(full, delimiter=sampled.dialect.delimiter, first=first)
    full = replace(full, doubt=sampled.doubt, reading=sampled.reading, guess=sampled.guess)
    full = replace(full, sampled=lambda name: table_of(name, sampled, limits))
    scan = strict_scan(path, sampled)
    strict = None if scan is None else replace(full, scan=scan, is_plain=lambda: is_plain(path))
    return replace(full, strict=strict)


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Cut text into lines with their ends, which are those that the `csv` module knows."""
    rest = ""
    for text in texts:
        lines = list(io.StringIO(rest + text, newline=""))
        # What does not end in a line feed may go on: even after a carriage return one may follow.
        rest = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        yield from lines
    yield from io.StringIO(rest, newline="")


def _rows(lines: Iterator[str], dialect: Dialect, tally: Tally) -> Iterator[list[str]]:
    """Cut lines into rows. A quote that never closes must not swallow the rest of a file."""
    held: list[str] = []  # lines of the row that is being read
    ahead: deque[str] = deque()  # lines to read once more
    ended = False

    def fed() -> Iterator[str]:
        nonlocal ended
        while True:
            while ahead:
                held.append(ahead.popleft())
                yield held[-1]
            for line in lines:
                held.append(line)
                yield line
                if ahead:
                    break
            else:
                ended = True
                return

    def unquoted() -> list[str]:
        """Read the first line of a row as if quotes were ordinary; the others are still to come."""
        tally.stray_quotes += 1
        ahead.extendleft(reversed(held[1:]))
        return next(iter(csv_rows(held[:1], Dialect(dialect.delimiter, None), _LONGEST)))

    with_blanks = _blank_keeper(dialect, tally)
    while True:
        try:
            for row in csv_rows(fed(), dialect, _LONGEST):
                if ended and len(held) > 1 and _open_at_end(held, dialect):
                    row = unquoted()
                elif " " in held[0] or len(held) > 1:
                    row = with_blanks(row, held)
                held.clear()
                if row:
                    yield row
        except csv.Error:
            if len(held) < 2:  # one line that is too long
                raise
            row = unquoted()
            held.clear()
            yield row
        if ended and not ahead:
            return


def _blank_keeper(dialect: Dialect, tally: Tally) -> Callable[[list[str], list[str]], list[str]]:
    """Cuts a row again so that cells keep the blanks they begin with.

    In a row with a quote after blanks they are layout: there they are left out, and the row is counted.
    """
    begins = rf"(?:^|{re.escape(dialect.delimiter)}) "
    blank = re.compile(begins)
    before_quote = re.compile(f"{begins}+{re.escape(dialect.quote)}") if dialect.quote else None

    def keep(row: list[str], lines: list[str]) -> list[str]:
        if dialect.delimiter == " " or not any(map(blank.search, lines)):
            return row
        if before_quote is not None and any(map(before_quote.search, lines)):
            tally.blanks += 1
            return row
        return next(iter(csv_rows(lines, dialect, _LONGEST, skip_blanks=False)))

    return keep


def _open_at_end(lines: list[str], dialect: Dialect) -> bool:
    try:
        list(csv_rows(lines, dialect, _LONGEST, strict=True))
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def _fitted(row: list[str], width: int, tally: Tally) -> list[str]:
    tally.beyond += sum(bool(cell.strip()) for cell in row[width:])
    return row[:width] + [""] * (width - len(row))
