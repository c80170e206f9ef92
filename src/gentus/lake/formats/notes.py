"""What stands below the table of a text: notes, sources, and a row of totals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from gentus.lake.formats.header import kind_of
from gentus.lake.formats.layout import CONSISTENT, FEW, LOOK, Row, extent_of, filled, usual_width

_NOTE = re.compile(
    r"(sources?|notes?|footnotes?|remarks?|legend|disclaimer|copyright|quelle|anmerkung(en)?|hinweis|stand|fuente"
    r"|notas?|fonte)\s*:|\(c\)|©|\*+\s|†|\[?\(?\d\)\s+\w+\s+\w+|(last\s+)?(updated|modified|generated|created"
    r"|downloaded|exported)\b.*\d",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"((grand|sub|overall)[\s-]?)?totale?s?|sum|sums|summe|gesamt|insgesamt|all\s+together|итого|всего|合計|总计|합계",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"[{}<>|=]")
_SENTENCE = re.compile(r"[.:!]( |$)")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_MOST_BELOW = 20


def rows_below(rows: Sequence[Row], body: Sequence[Row], whole: bool) -> int:
    """How many rows at the end are no rows of the table, blank lines not counted.

    `rows` are the last ones of the text, blank lines included as empty rows; `body` are rows of the table.
    `whole` says that they are all of them, those at the end included: only then sums can be compared.
    """
    last = rows[-1] if rows and body else ()
    widest = max(map(len, body[:LOOK]), default=0)
    if not body or (len(last) >= max(2, widest) and extent_of(last) > 1 and not _is_total(last)):
        return 0  # nearly all files
    width = usual_width(body[:LOOK])
    if width < 2:
        return 0
    begin = len(rows)
    for at in range(len(rows) - 1, max(0, len(rows) - _MOST_BELOW) - 1, -1):
        if not filled(rows[at]):
            continue  # decided by what stands above and below it
        if not _stands_below(rows, at, body, width, whole):
            break
        begin = at
    while begin > 0 and not filled(rows[begin - 1]):
        begin -= 1
    if not any(map(filled, rows[begin:])):  # rows without a cell harm nobody
        return 0
    left = sum(bool(row) for row in rows[begin:])
    kept = body[: len(body) - left] if whole else body
    usual = sum(extent_of(row) > 1 for row in kept)
    return left if usual > 1 and usual >= CONSISTENT * len(kept) else 0


def _stands_below(rows: Sequence[Row], at: int, body: Sequence[Row], width: int, whole: bool) -> bool:
    row = rows[at]
    if _is_total(row):
        few = 2 * filled(row) <= width and width > 2
        return few or _is_apart(rows, at) or (whole and _adds_up(row, body))
    extent, first = extent_of(row), row[0].strip()
    if not first or (extent > 1 and len(row) >= width) or first.count("\n") > FEW:  # a quote that never ends
        return False
    # A row of the table's width whose other cells are empty can be one of its rows, also below an empty one.
    phrase = len(row) < width or len(first.split()) > 2
    if _NOTE.match(first) or (phrase and _is_apart(rows, at)):
        return True
    alone = sum(extent_of(one) == 1 for one in body[:-_MOST_BELOW])
    if extent > 1 or alone > 0.02 * len(body):  # such rows are usual here
        return False
    cells = [one[0].strip() for one in body if extent_of(one) > 1 and len(one) >= width]
    noted = any(extent_of(one) == 1 and _NOTE.match(one[0].strip()) for one in rows[at + 1 :])
    return _is_unlike_column(first, cells, noted, len(row) == 1 and width > 2)


def _is_total(row: Row) -> bool:
    return bool(row) and _TOTAL.fullmatch(row[0].strip().rstrip(":.")) is not None


def _is_apart(rows: Sequence[Row], at: int) -> bool:
    """Whether a blank line stands between the table and a row, and only short rows follow it."""
    above = [one for one in range(at) if not filled(rows[one])]
    return bool(above) and all(
        extent_of(row) < 2 or len(row) < usual_width(rows) for row in rows[above[-1] : at]
    )


def _is_unlike_column(text: str, cells: Sequence[str], noted: bool, bare: bool) -> bool:
    """Whether a text is no value of the first column: words among numbers, or far longer than all others.

    It need not be as long if it is `noted`, as notes follow it, or `bare`, as nothing cuts it.
    """
    if len(cells) < 3:
        return False
    kinds = Counter(map(kind_of, cells))
    if kind_of(text) == "text" and kinds["number"] + kinds["code"] >= 0.75 * len(cells):
        return True
    if _MARKUP.search(text) or len(text) < (2 - (noted or bare)) * max(map(len, cells)):
        return False
    return len(text.split()) > (3 if noted or _SENTENCE.search(text) else 5)


def _adds_up(row: Row, body: Sequence[Row]) -> bool:
    """Whether a row has the sum of a column of numbers."""
    others = [one for one in body if list(one) != list(row)]
    sums = 0
    for at in range(1, len(row)):
        cell = _number(row[at])
        values = [_number(one[at]) for one in others if at < len(one) and one[at].strip()]
        known = [value for value in values if value is not None]
        if cell is not None and len(known) > 1 and len(known) == len(values):
            sums += abs(sum(known) - cell) <= 1e-6 * max(1.0, abs(cell)) + 0.01
    return sums > 0


def _number(cell: str) -> float | None:
    text = cell.strip().replace(" ", "").replace(" ", "")
    text = re.sub(r",(?=\d{3}(\D|$))", "", text)
    return float(text) if _NUMBER.fullmatch(text) else None
