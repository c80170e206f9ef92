"""Results as Python shows them: tables of text in a terminal, small HTML tables in a notebook.

The HTML has no scripts and no links. Its colours are those of the notebook, light or dark, with transparent
tints. What comes from tables is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path

from gentus.terminal import visible

MOST_TEXT_ROWS, MOST_HTML_ROWS = 20, 100
LONGEST_CELL = 60  # characters of a cell in a table of text
_TINTS = {"full": "46,160,67", "partial": "210,153,34", "none": "128,128,128"}
_TABLE = "border-collapse:collapse;margin:.3em 0"
_HEAD = "padding:.25em .9em .25em 0;opacity:.65;font-weight:600"
_CELL = "padding:.25em .9em .25em 0;vertical-align:top"


class Html(str):
    """Text that is HTML already; all other text is escaped."""

    __slots__ = ()


Cell = str | int | float | None


def text_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Rows under a header, in columns; numbers on the right. Many rows are cut, which is said."""
    shown = [list(map(_text, row)) for row in rows[:MOST_TEXT_ROWS]]
    right = _numeric(header, rows)
    widths = [max(map(len, cells)) for cells in zip(header, *shown, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    more = [f".. and {len(rows) - len(shown):,} more"] if len(rows) > len(shown) else []
    return "\n".join([line(header), *map(line, shown), *more])


def _numeric(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Which columns have numbers alone."""
    columns = zip(*rows, strict=True) if rows else [[""] for _ in header]
    return [all(isinstance(cell, int | float) for cell in column) for column in columns]


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.3f}"
    line = visible(" ".join(("" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell).split()))
    return line if len(line) <= LONGEST_CELL else f"{line[: LONGEST_CELL - 2]}.."


def html_block(title: str, *parts: str) -> str:
    """A titled block of HTML parts."""
    return f"<div><div><strong>{_html(title)}</strong></div>{''.join(parts)}</div>"


def html_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Html:
    """Rows under a header, if there is one; numbers on the right. Many rows are cut, which is said."""
    right = _numeric(header, rows)
    head = "".join(map(partial(_cell, "th", _HEAD), header, right))
    head = f"<thead><tr>{head}</tr></thead>" if header else ""
    body = "".join(
        f"<tr>{''.join(map(partial(_cell, 'td', _CELL), row, right))}</tr>" for row in rows[:MOST_HTML_ROWS]
    )
    more = len(rows) - MOST_HTML_ROWS
    cut = html_lines([f"and {more:,} more"]) if more > 0 else ""
    return Html(f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>{cut}')


def _cell(tag: str, style: str, cell: Cell, right: bool) -> str:
    side = "right;font-variant-numeric:tabular-nums" if right else "left"
    return f'<{tag} style="{style};text-align:{side}">{_html(cell)}</{tag}>'


def _html(cell: Cell) -> str:
    return cell if isinstance(cell, Html) else escape(_long(cell))


def _long(cell: Cell) -> str:
    """A cell without the limit on its length that text has."""
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


def html_lines(lines: Iterable[str], most: int = 20) -> Html:
    """Remarks under a table, a line each."""
    every = list(lines)
    shown = [*islice(every, most), *([f"and {len(every) - most:,} more"] if len(every) > most else [])]
    small = "opacity:.75;font-size:.92em"
    return Html("".join(f'<div style="{small}">{_html(line)}</div>' for line in shown))


def pill(fit: str | None) -> Html:
    """A verdict as a word on a tint: green for full, amber for partial, grey for none."""
    if not fit:
        return Html("")
    tint = _TINTS.get(fit, _TINTS["none"])
    style = f"background:rgba({tint},.25);border-radius:.8em;padding:.05em .7em"
    return Html(f'<span style="{style}">{escape(fit)}</span>')


def dim(text: str) -> Html:
    """Text that matters less."""
    return Html(f'<span style="opacity:.6">{escape(text)}</span>')


def near(path: str | os.PathLike[str]) -> str:
    """A path as it is written in the working folder, if it lies there."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 table", "2,000 tables"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
