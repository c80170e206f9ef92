"""The dialect of delimited text, guessed; and text cut into rows by it.

DuckDB's sniffer takes 4 ms for a file of a kilobyte. On small tables from Wikipedia it gives up on one in ten
with its defaults, and takes a character of the cells for the delimiter or quote when told to be lenient.
So the dialect is guessed here: the right one leaves no stray quotes and cuts rows as wide as the header.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gentus.lake.formats.layout import is_remark, rows_above

DELIMITERS = "\t|;,"  # of two that fit equally well, the earlier is less likely part of the cells
NO_DELIMITER = "\x1f"  # cuts nothing: one column
_ROWS = 128
_CHARS = 64 << 10
_SWALLOWED = 50  # a quote that spans more lines than this is a stray one
_CUT = 0.55  # the fit of a dialect that cuts more than the first row: shorter rows alone have a half
_CLEARLY = 1.5  # times as good is a dialect in which the first rows are titles
_MOSTLY = 0.8  # of the cells with quotes, or of the rows that fit


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
    titled: bool = False  # rows above the header were left out
    lines: list[list[str]] | None = field(default=None, repr=False)  # all rows, where they are few

    @property
    def is_no_writing(self) -> bool:
        """Whether the header is cut into more pieces than a sentence would be by chance."""
        return self.width > 3 and self.dialect.delimiter != ","

    @property
    def score(self) -> tuple[bool, float]:
        """What guesses are ordered by: a delimiter often in the header outweighs some ragged rows."""
        return self.clean, round(self.fit * math.log2(max(self.width, 1)), 3)


def parse(text: str, dialect: Dialect, rows: int | None = None) -> list[list[str]]:
    """Cut text into rows of cells; blank lines are no rows. Stray quotes never fail."""
    return [row for row in islice(_text_rows(text, dialect, strict=False), rows) if row]


def parse_lines(text: str, dialect: Dialect, rows: int | None = None) -> list[list[str]]:
    """The same, with blank lines as rows without cells."""
    return list(islice(_text_rows(text, dialect, strict=False), rows))


def guess_dialect(text: str, complete: bool = True) -> Guess:
    """Guess the dialect of a text whose first row is its header; `complete` says that nothing follows."""
    look = text[:_CHARS]
    cut = not complete or len(look) < len(text)
    present = [delimiter for delimiter in DELIMITERS if delimiter in look]
    first = look.lstrip("\r\n").partition("\n")[0]
    quoted_first = '"' in first or "'" in first  # then it may go on in the next line
    found = {one: _best_quotes(look, one, cut) for one in present if quoted_first or one in first}
    several = [one for one in found.values() if one.width > 1]
    best = max(several, key=lambda one: one.score, default=None)
    if best is not None and best.fit >= _MOSTLY and best.clean:
        return best
    untitled = [_best_quotes(look, delimiter, cut, above=True) for delimiter in present]
    if any(one.titled and one.width > 1 for one in untitled):
        return _best_below_titles([one for one in untitled if one.width > 1])
    if best is not None:
        return best
    # The first line names one column or is a title: split only what is plainly cut into equal rows below it.
    tables = [one for one in (_untitled(look, delimiter, cut) for delimiter in present) if one]
    if tables:
        return max(tables, key=lambda one: one.score)
    uncut = _best_quotes(look, NO_DELIMITER, cut)
    # A column and an empty one, all in quotes: uncut, the quotes would be part of the cells.
    others = [found.get(one) or _best_quotes(look, one, cut) for one in present]
    quoted = [one for one in others if one.clean and one.fit == 1.0 and one.width == 1]
    return quoted[0] if quoted and not uncut.clean else uncut


def _best_below_titles(guesses: Sequence[Guess]) -> Guess:
    """The best guess, where some of them take the first rows for titles.

    Where the first row is cut as others are, or by signs that are rare in writing, it is no title.
    """
    best = max(guesses, key=lambda one: one.score)
    plain = [one for one in guesses if not one.titled and (one.fit > _CUT or one.is_no_writing)]
    first = max(plain, key=lambda one: one.score, default=best)
    return best if best.score[1] > _CLEARLY * first.score[1] else first


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


def _best_quotes(look: str, delimiter: str, cut: bool, above: bool = False) -> Guess:
    """Find the quotes that fit best with a delimiter; the usual ones unless they plainly do not."""
    best = _measure(look, Dialect(delimiter), cut, above)
    if best.clean and '"' in look:
        return best
    only_single = '"' not in look and f"{delimiter}'" in look
    if only_single and _quoted_share(look, delimiter, "'", of_all=True) > _MOSTLY:
        return _measure(look, Dialect(delimiter, "'"), cut, above)
    if best.clean and best.fit == 1.0:
        return best
    if not best.clean:
        plain = _measure(look, Dialect(delimiter, None), cut, above)
        # One stray quote does not make those of all other cells ordinary characters.
        quoted = best.fit > _MOSTLY * plain.fit and _quoted_share(look, delimiter, '"') > _MOSTLY
        best = plain if plain.fit >= best.fit and not quoted else best
        if '\\"' in look:
            escaped = _measure(look, Dialect(delimiter, '"', "\\"), cut, above)
            best = escaped if escaped.clean and escaped.fit >= best.fit else best
    if f"{delimiter}'" in look or "\n'" in look:
        single = _measure(look, Dialect(delimiter, "'"), cut, above)
        best = single if single.clean and single.fit > best.fit else best
    return best


def _quoted_share(look: str, delimiter: str, quote: str, of_all: bool = False) -> float:
    """The share of cells that begin and end with a quote, of those that have one or of all.

    Cells are cut without regard to quotes.
    A cell with delimiters between its quotes is cut into pieces: one begins with a quote, one ends with it.
    """
    rows = parse(look, Dialect(delimiter, None), _ROWS)[:-1]
    cells = [cell.strip() for row in rows for cell in row if quote in cell or of_all]
    whole = sum(len(cell) > 1 and cell[0] == cell[-1] == quote for cell in cells)
    begun, ended = (sum(cell[at:][:1] == quote for cell in cells) - whole for at in (0, -1))
    return (whole + 2 * min(begun, ended)) / len(cells) if cells else 0.0


def _measure(look: str, dialect: Dialect, cut: bool, above: bool) -> Guess:
    """How well a dialect fits; `above` says that titles may stand above the header."""
    lines, clean = _rows(look, dialect, cut)
    titles = rows_above(lines) if above else 0
    header, *body = [row for row in lines[titles:] if row] or [[]]
    width = len(header)
    fit = _fit(header, body) if body else 0.5
    named = width - (width > 0 and not header[-1].strip())
    titled = titles > 0 or is_remark(header, width + 1)
    return Guess(dialect, named, fit, clean, titled, (len(lines) <= _ROWS and not cut and lines) or None)


def _fit(header: list[str], body: list[list[str]]) -> float:
    """The share of the rows that are as wide as the header; shorter ones count a half."""
    width = len(header)
    widths = list(map(len, body))
    if widths.count(width) == len(body):
        return 1.0  # nearly all files
    exact = short = 0
    for row in body:
        more = len(row) - width
        # A trailing delimiter, in the header or below it, makes no difference.
        if more == 0 or (more == 1 and not row[-1].strip()) or (more == -1 and not header[-1].strip()):
            exact += 1
        elif more < 0:
            short += 1
    labelled = widths.count(width + 1)  # row labels that the header does not name
    return max(exact + short / 2, labelled) / len(body)


def _rows(look: str, dialect: Dialect, cut: bool) -> tuple[list[list[str]], bool]:
    """The first rows, blank lines included, and whether every quote opens or closes a cell."""
    rows, clean = _parsed(look, dialect, cut)
    # A last row that ends where the sample does says nothing, unless a stray quote has swallowed lines.
    if cut and 2 < len(rows) <= _ROWS and not _swallowed(rows[-1]):
        rows.pop()
    return rows, clean


def _swallowed(row: list[str]) -> bool:
    return any(cell.count("\n") > _SWALLOWED for cell in row)


def _parsed(look: str, dialect: Dialect, cut: bool) -> tuple[list[list[str]], bool]:
    if not dialect.quote or dialect.quote not in look:
        return parse_lines(look, dialect, _ROWS + 1), dialect.quote == '"'
    try:
        return list(islice(_text_rows(look, dialect, strict=True), _ROWS + 1)), True
    except csv.Error as error:
        rows = parse_lines(look, dialect, _ROWS + 1)
        # A sample that ends inside quotes is no fault, unless they span too much.
        return rows, cut and "end of data" in str(error) and not _swallowed(parse(look, dialect)[-1])


def _untitled(look: str, delimiter: str, cut: bool) -> Guess | None:
    body = [row for row in _rows(look, Dialect(delimiter), cut)[0] if row][1:]
    width, count = Counter(map(len, body)).most_common(1)[0] if body else (0, 0)
    fit = count / len(body) if body else 0.0
    return Guess(Dialect(delimiter), width, fit, True) if width > 1 and count > 2 and fit >= 0.9 else None
