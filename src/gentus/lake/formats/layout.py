"""Where the table is in delimited text: rows above it, the rows of its header, comments, and rows below it.

Precision before recall: a row of data that is left out is worse than a note that is kept. Whatever is left
out is told.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from gentus.lake.formats.header import header_doubt, kind_of
from gentus.table import NULL_WORDS

Row = Sequence[str]

COMMENT = "#"
_MOST_ABOVE = 40  # rows
FEW = 6  # titles that may stand above a table of fewer rows
_MOST_HEADER = 3
LOOK = 64  # rows under a header that tell what its columns hold
_SOME = 24  # rows that tell whether a row above them belongs to the header
CONSISTENT = 0.8  # share of the rows below a title that are as wide as the header
_RARELY = 0.2  # share of the cells in a column of numbers that may be none
_RULE = re.compile(r"\s*(:?-{2,}:?)?\s*")
_YEAR = re.compile(r"(1[5-9]|20)\d\d([-–/]\d\d(\d\d)?)?")
_UNIT = re.compile(
    r"[\[(]?\s*(in\s+)?(%|‰|°[CF]?|[€$£¥]|[kcmµn]?[gmlWVAsN]|[kcm]?m[²³23]|[kM]Wh?|km/h|m/s|h|ha|t|hPa|mg/l|ppm|"
    r"EUR|USD|GBP|CHF|years?|days?|hours?|min|sec|mio\.?|mrd\.?|thousands?|millions?|number|count|persons?|"
    r"dd\.mm(\.yyyy)?|yyyy(-mm(-dd)?)?|hh:mm(:ss)?|text|string|int(eger)?|float|double|date|-)\s*[\])]?",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"\d+(st|nd|rd|th)\b")


@dataclass(frozen=True, slots=True)
class Layout:
    """Which rows of a text are those of its table; blank lines are no rows."""

    above: int = 0  # rows left out at the top
    header: int = 1  # rows of the header; 0: there is none
    below: int = 0  # rows left out at the end
    comment: str = ""  # rows that begin with it, under the header, are left out
    rule: bool = False  # a line of dashes stands under the header
    unsure: bool = False  # the header may be a row

    @property
    def is_plain(self) -> bool:
        """Whether all rows but the header are rows of the table."""
        return self.header < 2 and not (self.above or self.below or self.comment or self.rule)


def table_rows(
    rows: Iterator[list[str]], layout: Layout, on_comment: Callable[[], None] = lambda: None
) -> Iterator[list[str]]:
    """The rows of a table among all rows of its text; the header is none of them."""
    deque(islice(rows, layout.above + layout.header + layout.rule), maxlen=0)
    if layout.comment:
        rows = _without_comments(rows, layout.comment, on_comment)
    if not layout.below:
        yield from rows
        return
    held: deque[list[str]] = deque()
    for row in rows:
        held.append(row)
        if len(held) > layout.below:
            yield held.popleft()


def _without_comments(
    rows: Iterator[list[str]], comment: str, on_comment: Callable[[], None]
) -> Iterator[list[str]]:
    for row in rows:
        if row[0].lstrip().startswith(comment):
            on_comment()
        else:
            yield row


def has_comments(rows: Sequence[Row], header: int) -> bool:
    """Whether rows under the header are comments, and no row of the table begins like one."""
    marked = [row for row in rows[header:] if row[0].lstrip()[:1] == COMMENT]
    width = usual_width(rows) if marked else 1
    return width > 1 and all(len(row) != width for row in marked)


def is_rule(row: Row) -> bool:
    """Whether a row is the line between header and body of a table in Markdown."""
    return all(map(_RULE.fullmatch, row)) and any(map(str.strip, row))


def joined_names(header: Sequence[Row]) -> list[str]:
    """The names of a header of several rows: a cell that spans columns is repeated for each."""
    if len(header) == 1:
        return list(map(str.strip, header[0]))
    width = max(map(len, header), default=0)
    parts: list[list[str]] = [[] for _ in range(width)]
    # A row with one text in all columns is a title that spans them.
    spanned = [row for row in header if len({cell.strip() for cell in row}) > 1]
    header = spanned if len(header) > 1 and spanned else header
    for number, row in enumerate(header):
        last = ""
        for at in range(width):
            cell = row[at].strip() if at < len(row) else ""
            last = cell or (last if number + 1 < len(header) and _has_gaps(header[0]) else "")
            if last and parts[at][-1:] != [last]:
                parts[at].append(last)
    return [" ".join(one) for one in parts]


# --- above ----------------------------------------------------------------------------------------------


def usual_width(rows: Sequence[Row]) -> int:
    """The most frequent width of rows that are cut at all; 1 if none is."""
    widths = Counter(len(row) for row in rows if len(row) > 1)
    return widths.most_common(1)[0][0] if widths else 1


def rows_above(rows: Sequence[Row]) -> int:
    """How many rows stand above the header, blank ones included: titles, remarks, comments."""
    first = rows[0] if rows else ()
    start = first[0][:1] if first else ""
    if len(first) > 1 and start != COMMENT and all(first) and {len(first)} == set(map(len, rows[1:4])):
        return 0  # nearly all files
    width = usual_width(rows)
    alike = sum(width - 1 <= len(row) <= width + 1 for row in rows)
    if 3 * alike < len(rows):
        return 0
    bare = len(rows) > 1 and _is_bare(rows[1])
    named = len(first) >= max(2, width - (not bare)) and all(map(str.strip, first))
    named = named and not (bare and _is_writing(first))
    if width < 2 or (named and not is_remark(first, width)):
        return 0
    usual = median([filled(row) for row in rows if len(row) == width])
    at = _titles(rows, 0, width, usual)
    while at + 1 < min(len(rows), _MOST_ABOVE) and _is_cut_by_chance(rows, at):
        at = _titles(rows, at + 1, width, usual)
    if at in (0, _MOST_ABOVE) or at + 1 >= len(rows):
        return 0
    if _names_data(rows, at):
        # A header may begin like a comment.
        last = next((one for one in range(at - 1, -1, -1) if rows[one]), 0)
        return last if is_remark(rows[last], width) and len(rows[last]) == width else 0
    region = [row for row in rows[at:] if filled(row) and not is_remark(row, width)]
    while region and extent_of(region[-1]) < 2:  # notes below the table
        region.pop()
    fitting = sum(width - 1 <= len(row) <= width + 1 for row in region)
    titles = sum(filled(row) > 0 for row in rows[:at])
    if fitting < 2 or fitting < CONSISTENT * len(region) or titles > max(FEW, fitting):
        return 0
    return at if _is_announced(rows, at, width) else 0


def _titles(rows: Sequence[Row], at: int, width: int, usual: float) -> int:
    """The first row from a position on that is no title."""
    bare = len(rows) > 1 and _is_bare(rows[1])
    while at < min(len(rows), _MOST_ABOVE) and _is_title(rows[at], width, usual, at > 0 or bare):
        at += 1
    return at


def _is_cut_by_chance(rows: Sequence[Row], at: int) -> bool:
    """Whether a row is a title, though it is as wide as the table: others or a blank line follow it."""
    if _is_bare(rows[at + 1]):
        return at > 0 or _is_writing(rows[at])
    return at > 0 and not filled(rows[at + 1]) and _is_writing(rows[at])


def _is_writing(row: Row) -> bool:
    """Whether a cell has more words than a name."""
    return any(len(cell.split()) > 3 for cell in row)


def _is_bare(row: Row) -> bool:
    """Whether a row is several words that nothing cuts."""
    return len(row) == 1 and " " in row[0].strip()


def filled(row: Row) -> int:
    """How many cells have something in them."""
    return sum(map(bool, map(str.strip, row)))


def extent_of(row: Row) -> int:
    """Cells up to the last one that is filled."""
    return next((at for at in range(len(row), 0, -1) if row[at - 1].strip()), 0)


def is_remark(row: Row, width: int) -> bool:
    """Whether a row is a comment; one that is cut as the table is may be its header."""
    start = row[0].strip() if row else ""
    if not start.startswith(COMMENT) or start == COMMENT or start[1].isdigit():
        return False
    return len(row) != width or start[1] in f" {COMMENT}"


def _is_title(row: Row, width: int, usual: float, follows: bool) -> bool:
    """Whether a row cannot be the header: nothing, writing in the first cell, or a key and its value."""
    extent = extent_of(row)
    if extent == 0 or is_remark(row, width):
        return True
    if extent == 1:
        return width > 2 or len(row) == 1
    if len(row) < width - (not follows):  # cut by chance; the first row may lack the name of row labels
        return follows or 2 * extent <= width or _is_writing(row)
    return extent == 2 and width > 3 and usual > 3 and bool(row[0].strip())


def _names_data(rows: Sequence[Row], at: int) -> bool:
    """Whether a row has numbers that no header has, or looks like the rows below it."""
    row, below = rows[at], [one for one in rows[at + 1 : at + 1 + LOOK] if filled(one)]
    if any(_is_value(cell) and _is_number_column(below, one) for one, cell in enumerate(row)):
        return True
    return bool(header_doubt(list(row), [list(one) for one in below]))


def _is_announced(rows: Sequence[Row], at: int, width: int) -> bool:
    """Whether what stands above a header is writing, rather than the name of its first column."""
    above = [row for row in rows[:at] if filled(row)]
    if len(above) > 1 or (above and (width > 3 or not filled(rows[at - 1]) or is_remark(above[0], width))):
        return True
    if above and (" " in above[0][0].strip() or above[0][0].endswith(":")):
        return True
    below = [row for row in rows[at + 1 : at + 1 + LOOK] if filled(row)]
    return any(_is_name(cell) and _is_number_column(below, one) for one, cell in enumerate(rows[at]))


# --- header ---------------------------------------------------------------------------------------------


def _is_number_column(rows: Sequence[Row], at: int) -> bool:
    """Whether a column holds numbers, dates or times, nearly without exception."""
    numbers = others = 0
    for row in rows:
        kind = kind_of(row[at].strip()) if at < len(row) else "empty"
        numbers += kind == "number"
        others += kind in ("code", "text")
        if others > _RARELY * len(rows):
            return False  # whatever follows
    return numbers + others > 1 and others <= _RARELY * (numbers + others)


def header_rows(rows: Sequence[Row]) -> int:
    """How many rows the header has, which begins with the first: groups of names, names, units."""
    count = 1
    while count < min(_MOST_HEADER, len(rows) - 2) and _belongs_to_header(rows, count):
        count += 1
    return count


def _has_gaps(row: Row) -> bool:
    """Whether cells seem to span columns: empty ones follow filled ones."""
    first = next((at for at, cell in enumerate(row) if cell.strip()), len(row))
    return any(not cell.strip() for cell in row[first:])


def _belongs_to_header(rows: Sequence[Row], at: int) -> bool:
    """Whether a row under names is part of the header: words where all rows below have numbers."""
    first, row = rows[0], rows[at]
    width = max(len(first), len(row))
    if any(map(str.isdigit, row)) and not any(map(_YEAR.fullmatch, row)):
        return False  # nearly all rows of data
    near = [cell for cells in rows[at + 1 : at + 4] for cell in cells]
    if len(row) < 2 or any(map(_is_value, row)) or not any(map(_is_value, near)):
        return False
    below = rows[at + 1 : at + 1 + _SOME]
    numbers = [one for one in range(width) if _is_number_column(below, one)]
    words = [one for one in numbers if one < len(row) and _is_name_above(row[one], one, below)]
    again = (row[one] in {cells[one] for cells in below if one < len(cells)} for one in words)
    if not words or any(again) or len({cell.strip() for cell in row}) < 2:
        return False
    if _is_units(row, numbers):
        return True
    if len(words) < sum(one < len(row) and bool(row[one].strip()) for one in numbers):
        return False
    if _has_gaps(first) and filled(first) < filled(row):
        return filled(row) >= width - 1 and not any(map(_is_value, first))
    return len(words) == len(numbers) and len(words) > 2 and 2 * len(words) >= filled(row)


def _is_value(cell: str) -> bool:
    """Whether a cell is a number that no header has."""
    return kind_of(cell.strip()) == "number" and not _YEAR.fullmatch(cell.strip())


def _is_name(cell: str) -> bool:
    """Whether a cell has a word that stands for no missing value."""
    text = cell.strip()
    if kind_of(text) == "code":
        return not text[0].isdigit() or _ORDINAL.match(text) is not None
    return kind_of(text) == "text" and text.casefold() not in NULL_WORDS


def _is_name_above(cell: str, at: int, rows: Sequence[Row]) -> bool:
    """Whether a cell is the name of a column of numbers: a word, or a year above other numbers."""
    if not _YEAR.fullmatch(cell.strip()):
        return _is_name(cell)
    years = sum(at < len(row) and _YEAR.fullmatch(row[at].strip()) is not None for row in rows)
    return 2 * years < len(rows)


def _is_units(row: Row, numbers: Sequence[int]) -> bool:
    """Whether a row has units under the names of numbers, and nothing else."""
    cells = {at: cell.strip() for at, cell in enumerate(row) if cell.strip() not in ("", "-", "--")}
    return bool(cells) and all(at in numbers and _UNIT.fullmatch(cell) for at, cell in cells.items())
