"""Which delimiter and quotes a delimited text uses.

DuckDB's sniffer takes 4 ms for a file of a kilobyte. On small tables from Wikipedia it gives up on one in ten
with its defaults, and takes a character of the cells for the delimiter or quote when told to be lenient.
So the dialect is guessed here: the right one leaves no stray quotes and cuts rows as wide as the header.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

DELIMITERS = "\t|;,"  # of two that fit equally well, the earlier is less likely part of the cells
NO_DELIMITER = "\x1f"  # cuts nothing: one column
_ROWS = 128
_CHARS = 64 << 10
_SWALLOWED = 50  # a quote that spans more lines than this is a stray one


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
        """Order guesses: a delimiter seen often in the header outweighs some ragged rows."""
        return self.clean, round(self.fit * math.log2(max(self.width, 1)), 3)


def parse(text: str, dialect: Dialect, rows: int | None = None) -> list[list[str]]:
    """Cut text into rows of cells; blank lines are no rows. Stray quotes never fail."""
    return [row for row in islice(_reader(text, dialect, strict=False), rows) if row]


def guess(text: str, whole: bool = True) -> Guess:
    """Guess the dialect of a text whose first row is its header."""
    look = text[:_CHARS]
    cut = not whole or len(look) < len(text)
    present = [delimiter for delimiter in DELIMITERS if delimiter in look]
    found = [_best_quotes(look, delimiter, cut) for delimiter in present]
    several = [one for one in found if one.width > 1]
    if several:
        return max(several, key=lambda one: one.score)
    # The first line names one column or is a title: split only what is plainly cut into equal rows below it.
    tables = [one for one in (_untitled(look, delimiter, cut) for delimiter in present) if one]
    return max(tables, key=lambda one: one.score) if tables else _best_quotes(look, NO_DELIMITER, cut)


def _reader(text: str, dialect: Dialect, strict: bool) -> Iterator[list[str]]:
    return reader(io.StringIO(text, newline=""), dialect, len(text) + 1, strict)


def reader(lines: Iterable[str], dialect: Dialect, longest: int, strict: bool = False) -> Iterator[list[str]]:
    """Cut lines into rows of cells, blank ones included; cells of up to `longest` characters are taken."""
    if csv.field_size_limit() < longest:
        csv.field_size_limit(longest)  # the default refuses cells over 128 kB
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape,
        skipinitialspace=True,
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
    """Tell whether every quote opens or closes a cell."""
    if not dialect.quote or dialect.quote not in look:
        return dialect.quote == '"'
    try:
        deque(islice(_reader(look, dialect, strict=True), _ROWS + 1), maxlen=0)
    except csv.Error as error:
        # A sample that ends inside quotes is no fault, unless they span too much.
        return cut and "end of data" in str(error) and not _swallowed(parse(look, dialect)[-1])
    return True


def _untitled(look: str, delimiter: str, cut: bool) -> Guess | None:
    body = _rows(look, Dialect(delimiter), cut)[1:]
    width, count = Counter(map(len, body)).most_common(1)[0] if body else (0, 0)
    fit = count / len(body) if body else 0.0
    return Guess(Dialect(delimiter), width, fit, True) if width > 1 and count > 2 and fit >= 0.9 else None
