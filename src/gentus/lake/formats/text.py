"""Delimited text (CSV, TSV and the like): guess the dialect, then cut it into rows.

The first row is the header, unless the file is said to have none.

DuckDB's sniffer takes 4 ms for a file of a kilobyte. On small tables from Wikipedia it gives up on one in ten
with its defaults, and takes a character of the cells for the delimiter or quote when told to be lenient.
So the dialect is guessed here: the right one leaves no stray quotes and cuts rows as wide as the header.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from gentus.lake.base import Source, Unreadable, table_from_rows
from gentus.lake.files import decode, sample_bytes, to_text
from gentus.lake.formats.header import header_doubt
from gentus.lake.location import Location
from gentus.table import Head, Header, Limits, Table, evenly_spaced

DELIMITERS = "\t|;,"  # of two that fit equally well, the earlier is less likely part of the cells
NO_DELIMITER = "\x1f"  # cuts nothing: one column
_ROWS = 128
_CHARS = 64 << 10
_SWALLOWED = 50  # a quote that spans more lines than this is a stray one
_RULE = re.compile(r"\s*(:?-{2,}:?)?\s*")  # under the header of a table in Markdown
_ENOUGH = 16  # with fewer rows than this in the head of a large file, more of it is read


# --- dialects -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to cut text into rows and cells."""

    delimiter: str
    quote: str | None = '"'  # None: quotes are ordinary characters
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """A dialect, how many columns the header has under it, and how well the rows agree with that."""

    dialect: Dialect
    width: int
    fit: float  # share of the rows that are as wide as the header; shorter ones count a half
    clean: bool  # every quote opens or closes a cell

    @property
    def score(self) -> tuple[bool, float]:
        """What guesses are ordered by: a delimiter often in the header outweighs some ragged rows."""
        return self.clean, round(self.fit * math.log2(max(self.width, 1)), 3)


def parse(text: str, dialect: Dialect, rows: int | None = None) -> list[list[str]]:
    """Cut text into rows of cells; blank lines are no rows. Stray quotes never fail."""
    return [row for row in islice(_text_rows(text, dialect, strict=False), rows) if row]


def guess_dialect(text: str, complete: bool = True) -> Guess:
    """Guess the dialect of a text whose first row is its header; `complete` says that nothing follows."""
    look = text[:_CHARS]
    cut = not complete or len(look) < len(text)
    present = [delimiter for delimiter in DELIMITERS if delimiter in look]
    found = [_best_quotes(look, delimiter, cut) for delimiter in present]
    several = [one for one in found if one.width > 1]
    if several:
        return max(several, key=lambda one: one.score)
    # The first line names one column or is a title: split only what is plainly cut into equal rows below it.
    tables = [one for one in (_untitled(look, delimiter, cut) for delimiter in present) if one]
    return max(tables, key=lambda one: one.score) if tables else _best_quotes(look, NO_DELIMITER, cut)


def _text_rows(text: str, dialect: Dialect, strict: bool) -> Iterator[list[str]]:
    return csv_rows(io.StringIO(text, newline=""), dialect, len(text) + 1, strict)


def csv_rows(
    lines: Iterable[str], dialect: Dialect, longest: int, strict: bool = False, skip_blanks: bool = True
) -> Iterator[list[str]]:
    """Cut lines into rows of cells, blank ones included; cells may have up to `longest` characters.

    Blanks at the beginning of a cell are left out, unless `skip_blanks` is false: then a quote after them is
    an ordinary character.
    """
    if csv.field_size_limit() < longest:
        csv.field_size_limit(longest)  # the default refuses cells over 128 kB
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape,
        skipinitialspace=skip_blanks,
        strict=strict,
    )


def _best_quotes(look: str, delimiter: str, cut: bool) -> Guess:
    """Find the quotes that fit best with a delimiter; the usual ones unless they plainly do not."""
    best = _measure(look, Dialect(delimiter), cut)
    if best.clean and (best.fit == 1.0 or '"' in look):
        return best
    if not best.clean:
        plain = _measure(look, Dialect(delimiter, None), cut)
        best = plain if plain.fit >= best.fit else best
        if '\\"' in look:
            escaped = _measure(look, Dialect(delimiter, '"', "\\"), cut)
            best = escaped if escaped.clean and escaped.fit >= best.fit else best
    if f"{delimiter}'" in look or "\n'" in look:
        single = _measure(look, Dialect(delimiter, "'"), cut)
        best = single if single.clean and single.fit > best.fit else best
    return best


def _measure(look: str, dialect: Dialect, cut: bool) -> Guess:
    header, *body = _rows(look, dialect, cut) or [[]]
    width = len(header)
    exact = short = 0
    for row in body:
        more = len(row) - width
        # A trailing delimiter, in the header or below it, makes no difference.
        if more == 0 or (more == 1 and not row[-1].strip()) or (more == -1 and not header[-1].strip()):
            exact += 1
        elif more < 0:
            short += 1
    labelled = sum(len(row) == width + 1 for row in body)  # row labels that the header does not name
    fit = max(exact + short / 2, labelled) / len(body) if body else 0.5
    named = width - (width > 0 and not header[-1].strip())
    return Guess(dialect, named, fit, _clean(look, dialect, cut))


def _rows(look: str, dialect: Dialect, cut: bool) -> list[list[str]]:
    rows = parse(look, dialect, _ROWS + 1)
    # A last row that ends where the sample does says nothing, unless a stray quote has swallowed lines.
    if cut and 2 < len(rows) <= _ROWS and not _swallowed(rows[-1]):
        rows.pop()
    return rows


def _swallowed(row: list[str]) -> bool:
    return any(cell.count("\n") > _SWALLOWED for cell in row)


def _clean(look: str, dialect: Dialect, cut: bool) -> bool:
    """Whether every quote opens or closes a cell."""
    if not dialect.quote or dialect.quote not in look:
        return dialect.quote == '"'
    try:
        deque(islice(_text_rows(look, dialect, strict=True), _ROWS + 1), maxlen=0)
    except csv.Error as error:
        # A sample that ends inside quotes is no fault, unless they span too much.
        return cut and "end of data" in str(error) and not _swallowed(parse(look, dialect)[-1])
    return True


def _untitled(look: str, delimiter: str, cut: bool) -> Guess | None:
    body = _rows(look, Dialect(delimiter), cut)[1:]
    width, count = Counter(map(len, body)).most_common(1)[0] if body else (0, 0)
    fit = count / len(body) if body else 0.0
    return Guess(Dialect(delimiter), width, fit, True) if width > 1 and count > 2 and fit >= 0.9 else None


# --- files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextSample:
    """A sample of a text file, and what it tells about all of the file."""

    head: bytes
    encoding: str
    dialect: Dialect
    header: list[str]  # with an empty name for every column that it does not name
    rows: list[list[str]]  # the sampled ones
    top: Head
    doubt: str = ""  # why the header looks like data; empty: it does not
    rule: bool = False  # a line of dashes stands under the header


def read_delimited(source: Source, limits: Limits, prose: bool = False) -> Table:
    """Read a delimited text file; `prose` says that it may be no table at all (`.txt`)."""
    sampled = sample_text(source.path, limits, prose, source.header)
    table = table_from_rows(source.name, sampled.header, sampled.rows, limits, sampled.top)
    return replace(table, doubt=sampled.doubt)


def sample_text(path: Location, limits: Limits, prose: bool = False, header: Header = "auto") -> TextSample:
    """Sample a file, and find out its encoding, dialect and header."""
    for least in (0, 1 << 20, 4 << 20, limits.text_bytes):
        taken = sample_bytes(path, limits.text_bytes, least)
        text, encoding = to_text(taken.head)
        if not text.strip():
            raise Unreadable("it is empty")
        found = guess_dialect(text, taken.complete)
        rows = parse(text, found.dialect)
        if taken.complete or len(rows) > _ENOUGH or len(taken.head) >= limits.text_bytes:
            break
    if prose and (found.width < 2 or found.fit < 0.8):
        raise Unreadable("no delimiter cuts it into columns: it looks like plain writing, not like a table")
    if not taken.complete and len(rows) > 2:
        rows.pop()  # cut off at the end of the sample
    names, body = ([], rows) if header == "no" else (rows[0], rows[1:])
    rule = header != "no" and bool(body) and is_rule(body[0])
    body = body[rule:]
    doubt = header_doubt(names, body[: limits.rows]) if header == "auto" else ""
    top = Head(body[: limits.head], taken.complete and len(body) <= limits.head)
    width = max([len(names), *_usual(body)])
    for block in taken.blocks:
        body += _aligned(decode(block, encoding), found.dialect, width)
    kept = [body[i] for i in evenly_spaced(len(body), limits.rows)]
    # Cells beyond the usual width are evidence too, so they get columns without a name; within reason, lest
    # one broken row make a table of thousands of columns.
    width = max(width, min(max(map(len, kept), default=0), 2 * width + 4))
    names = names + [""] * (width - len(names))
    return TextSample(taken.head, encoding, found.dialect, names, kept, top, doubt, rule)


def is_rule(row: list[str]) -> bool:
    """Whether a row is the line between header and body of a table in Markdown."""
    return all(_RULE.fullmatch(cell) for cell in row)


def _usual(rows: list[list[str]]) -> list[int]:
    """The most frequent width of the rows, if there are any."""
    return [width for width, _ in Counter(map(len, rows)).most_common(1)]


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
    return best
