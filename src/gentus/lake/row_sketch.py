"""Row sketches: a bottom-k MinHash of the rows of a table, so that tables with the same rows can be found.

A row is the multiset of its cells, so the order of columns, their names and empty cells do not count. Nor do
case, space around a cell, and the spellings in which formats differ: `1` and `1.0`, `2020-01-01` and
`2020-01-01T00:00:00`, `True`, `true` and `1`. Hashes are the same in every process and on every machine.

Of a table longer than a sample the first rows are hashed, twice as many as are sampled: every reader meets
them, they are the same in every format, and they stay the same when rows are appended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np

from gentus.arrays import I64, U8, U64
from gentus.table import EMPTY, Head, Limits, Rows, RowSketch

KEPT = 64  # smallest hashes that a sketch keeps
FEWEST_ROWS = 3  # distinct ones: fewer are the same by chance ...
FEWEST_BYTES = 64  # ... and so is less content than this
FEWEST_VALUES = 16  # of a table of one column, which must not be numbers only: 1, 2, 3 .. is in many tables
_END = "\x1f"  # of a cell
_BLOCK = 8192  # cells that are hashed together
_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x85\xa0\u2003\u3000"  # count as " "
_CLOCK = re.compile(r"t(?=\d\d:\d\d)")
_UTC = re.compile(rf"(:\d\d)z(?={_END})")
_LETTER = re.compile(r"[^\W\d_]")
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 2**64)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Hashes of rows, and what tells how much is in them."""

    rows: U64  # (n,) without empty rows
    bytes: int
    widest: int  # the most filled cells of a row
    letters: bool


def sketch_rows(sampled: Rows, head: Head, limits: Limits) -> RowSketch | None:
    """The sketch of a table; None where so little is in it that others have it by chance."""
    hashed = hash_rows(head.rows, limits)
    distinct = _distinct(hashed.rows)
    if not _is_telling(hashed, len(distinct)):
        return None
    digest = _sum(hashed.rows)
    if not head.complete:  # of copies of a long table, the sampled rows are the same, too
        rest = hashed.rows if sampled is head.rows else hash_rows(sampled, limits).rows
        digest = (digest * _BASE + _sum(rest) + 1) % 2**64
    smallest = _distinct(distinct[:KEPT] >> _SHIFT).astype("<u4")
    return RowSketch(len(distinct), head.complete, digest.to_bytes(8, "little"), smallest.tobytes())


def _distinct(hashes: U64) -> U64:
    """Ascending. For few numbers this is faster than `np.unique`."""
    ordered = np.sort(hashes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _sum(hashes: U64) -> int:
    return int(hashes.sum(dtype=np.uint64))


def _is_telling(hashed: _Hashed, distinct: int) -> bool:
    """Whether a table with the same rows is more than chance."""
    if distinct < FEWEST_ROWS or hashed.bytes * distinct < FEWEST_BYTES * len(hashed.rows):
        return False
    return hashed.widest > 1 or (hashed.letters and distinct >= FEWEST_VALUES)


def hash_rows(rows: Rows, limits: Limits) -> _Hashed:
    """A hash of every row that has a filled cell."""
    parts = [_hash_block(block, limits.cell_chars) for block in _blocks(rows)]
    if len(parts) == 1:
        return parts[0]
    found = np.concatenate([np.zeros(0, np.uint64), *(part.rows for part in parts)])
    return _Hashed(
        found,
        sum(part.bytes for part in parts),
        max((part.widest for part in parts), default=0),
        any(part.letters for part in parts),
    )


def _blocks(rows: Rows) -> Iterator[Rows]:
    """The rows that have cells, some thousand cells at a time."""
    if not all(map(len, rows)):
        rows = [row for row in rows if row]
    step = max(1, _BLOCK // max(map(len, rows), default=1))
    return (rows[begin : begin + step] for begin in range(0, len(rows), step))


def _hash_block(rows: Rows, clip: int) -> _Hashed:
    widths = np.fromiter(map(len, rows), np.int64, len(rows))
    cells = list(chain.from_iterable(rows))
    text = _joined(cells)
    data, ends = _bytes_of(text)
    if len(ends) != len(cells) or (len(text) > clip and _longest(ends) > clip):
        text = _joined([(cell or "").replace(_END, " ").strip()[:clip].rstrip() for cell in cells])
        data, ends = _bytes_of(text)
    _drop_zeros(data, ends)
    data[ends] = 0
    starts = ends + 1
    starts[1:], starts[0] = starts[:-1].copy(), 0
    hashed = _hash_cells(data, starts)
    firsts = np.cumsum(widths) - widths
    filled = np.add.reduceat(hashed != 0, firsts, dtype=np.int64)
    widest = int(filled.max())
    letters = widest > 1 or bool(_LETTER.search(text))
    hashes = _mixed(np.add.reduceat(hashed, firsts))
    return _Hashed(hashes[filled > 0], len(data) - len(ends), widest, letters)


def _longest(ends: I64) -> int:
    """The bytes of the longest cell, for the cells that end at these."""
    return max(int((ends[1:] - ends[:-1]).max(initial=0)) - 1, int(ends[0]))


def _joined(cells: list[str | None]) -> str:
    """Cells in one spelling, each with its end."""
    try:
        text = _END.join(cells) + _END  # type: ignore[arg-type]
    except TypeError:
        text = _END.join([cell or "" for cell in cells]) + _END
    text = text.lower()
    for sign in _SPACES:
        if sign in text:
            text = text.replace(sign, " ")
    while f" {_END}" in text:
        text = text.replace(f" {_END}", _END)
    while f"{_END} " in text:
        text = text.replace(f"{_END} ", _END)
    text = text.lstrip(" ")
    return _plain_times(text) if ":" in text else text


def _bytes_of(text: str) -> tuple[U8, I64]:
    """The text, and where its cells end."""
    data = np.frombuffer(bytearray(text.encode("utf-8", "surrogatepass")), np.uint8)
    return data, np.flatnonzero(data == ord(_END))


def _plain_times(text: str) -> str:
    """Times without the signs that formats add: `2020-01-01T10:00:00Z`, `2020-01-01 00:00:00+00`."""
    if any(sign in text for sign in ("t0", "t1", "t2")):
        text = _CLOCK.sub(" ", text)
    if f"z{_END}" in text:
        text = _UTC.sub(r"\1", text)
    for zone in ("+00:00", "+00"):
        text = text.replace(f":00{zone}{_END}", f":00{_END}")
    for fraction in (".000000", ".000"):
        text = text.replace(f":00{fraction}{_END}", f":00{_END}")
    return text.replace(f" 00:00:00{_END}", _END)


def _drop_zeros(data: U8, ends: I64) -> None:
    """Overwrite by 0 bytes, which hashes ignore there, the zeros after a decimal point, and the point."""
    points = np.flatnonzero(data == ord("."))
    if not len(points):
        return
    owners = np.searchsorted(ends, points)
    last = np.append(owners[1:] != owners[:-1], True)  # points of their cells
    points, owners = points[last], ends[owners[last]]
    zeros = data[owners - 1] == ord("0")
    points, owners = points[zeros], owners[zeros]
    for point, end in zip(points.tolist(), owners.tolist(), strict=True):
        fraction = bytes(data[point + 1 : end])
        if fraction.isdigit():
            kept = len(fraction.rstrip(b"0"))
            data[point + 1 + kept if kept else point : end] = 0


def _hash_cells(data: U8, starts: I64) -> U64:
    """(cells,) a hash of every cell, 0 if it is empty: a polynomial in its bytes, mixed."""
    size = 1 << max(16, len(data).bit_length())
    products = data * _powers(_BASE, size)[: len(data)]  # uint64, modulo 2^64
    # Each cell begins with the power of where it lies in the text, which its inverse takes away.
    sums: U64 = np.add.reduceat(products, starts) * _powers(_INVERSE, size)[starts]
    hashes = _mixed(sums)
    for spelling, meaning in _same_as():
        hashes[sums == spelling] = meaning
    return hashes


def _powers(base: int, size: int) -> U64:
    return _usual_powers(base) if size == 1 << 16 else _all_powers(base, size)


@cache
def _usual_powers(base: int) -> U64:
    return _all_powers(base, 1 << 16)


def _all_powers(base: int, size: int) -> U64:
    powers = np.full(size, base, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


@cache
def _same_as() -> tuple[tuple[np.uint64, np.uint64], ...]:
    """Polynomials of texts, and the hash of what they mean: nothing, or a truth value as a number."""
    meanings = {**dict.fromkeys(sorted(EMPTY - {""}), ""), "true": "1", "false": "0"}
    found = ((_polynomial(text), _polynomial(meaning)) for text, meaning in meanings.items())
    return tuple((spelling[0], _mixed(meaning)[0]) for spelling, meaning in found)


def _polynomial(text: str) -> U64:
    data = np.frombuffer(text.encode(), np.uint8)
    found: U64 = (data * _usual_powers(_BASE)[: len(data)]).sum(dtype=np.uint64, keepdims=True)
    return found


def _mixed(values: U64) -> U64:
    """A bijection of 64-bit numbers whose result has every bit depend on every bit; 0 stays 0."""
    for _ in range(2):
        values = (values ^ (values >> _SHIFT)) * _MIX
    return values ^ (values >> _SHIFT)
