"""Row sketches: a bottom-k MinHash of the rows of a table, so that tables with the same rows can be found.

A row is the multiset of its cells, so the order of columns, their names and empty cells do not count. Nor do
case (of a to z), space around a cell, and the spellings in which formats differ: `1` and `1.0`, `2020-01-01`
and `2020-01-01T00:00:00`, `True`, `true` and `1`. Hashes are the same in every process and on every machine.

Of a table longer than a sample the first rows are hashed, twice as many as are sampled: every reader meets
them, they are the same in every format, and they stay the same when rows are appended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain

import numpy as np

from gentus.arrays import I64, U8, U64
from gentus.table import EMPTY, Head, Limits, Rows, RowSketch

KEPT = 64  # smallest hashes that a sketch keeps
FEWEST_ROWS = 3  # distinct ones: fewer are the same by chance ...
FEWEST_BYTES = 64  # ... and so is less content than this
FEWEST_VALUES = 16  # of a table of one column, which must not be numbers only: 1, 2, 3 .. is in many tables
_END = "\x1f"  # of a cell
_BLOCK = 4096  # cells that are hashed together ...
_USUAL = 17  # ... if they have at most so many bits of bytes
_CLOCK = re.compile(rb"t(?=\d\d:\d\d)")
_ADDED = (b"z\x1f", b"+00\x1f", b"+00:00\x1f", b".000\x1f", b".000000\x1f")
_UTC = re.compile(rb"(:\d\d)(?:\.0+)?(?:z|\+00|\+00:00)?(?=\x1f)")
_LETTER = re.compile(rb"[a-z\x80-\xff]")
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
    if not _has_content(hashed, len(distinct)):
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


def _has_content(hashed: _Hashed, distinct: int) -> bool:
    """Whether there is so much in a table that another has the same rows for a reason, not by chance."""
    if distinct < FEWEST_ROWS or hashed.bytes * distinct < FEWEST_BYTES * len(hashed.rows):
        return False
    return hashed.widest > 1 or (hashed.letters and distinct >= FEWEST_VALUES)


def hash_rows(rows: Rows, limits: Limits) -> _Hashed:
    """A hash of every row that has a filled cell."""
    blocks = _blocks(rows, limits.columns)
    parts = [part for block in blocks for part in _hash_block(block, limits.cell_chars)]
    if len(parts) == 1:
        return parts[0]
    found = np.concatenate([np.zeros(0, np.uint64), *(part.rows for part in parts)])
    return _Hashed(
        found,
        sum(part.bytes for part in parts),
        max((part.widest for part in parts), default=0),
        any(part.letters for part in parts),
    )


def _blocks(rows: Rows, most: int) -> Iterator[Rows]:
    """The rows that have cells, some thousand cells at a time; of a row, `most` of them."""
    widths = list(map(len, rows))
    widest = max(widths, default=1)
    if widest > most or not all(widths):
        rows = [row[:most] for row in rows if row]
    step = max(1, _BLOCK // max(widest, 1))
    return (rows[begin : begin + step] for begin in range(0, len(rows), step))


def _hash_block(rows: Rows, clip: int) -> list[_Hashed]:
    """Hashes of some rows, in parts where cells are long."""
    cells = list(chain.from_iterable(rows))
    text = _joined(cells)
    if len(text) >> _USUAL and len(rows) > 1:
        half = len(rows) // 2
        return [*_hash_block(rows[:half], clip), *_hash_block(rows[half:], clip)]
    data, starts, ends = _split(text)
    if len(ends) != len(cells) or _is_untidy(data, starts, ends, clip):
        text = _joined([(cell or "").replace(_END, " ").strip()[:clip].rstrip() for cell in cells])
        data, starts, ends = _split(text)
    hashed = _hash_cells(data, starts, ends)
    widths = np.fromiter(map(len, rows), np.int64, len(rows))
    firsts = np.cumsum(widths) - widths
    filled = np.add.reduceat(hashed != 0, firsts, dtype=np.int64)
    widest = int(filled.max())
    letters = widest > 1 or _LETTER.search(text) is not None
    hashes = _mixed(np.add.reduceat(hashed, firsts))
    return [_Hashed(hashes[filled > 0], len(data) - len(ends), widest, letters)]


def _joined(cells: list[str | None]) -> bytes:
    """Cells in one spelling, each with its end."""
    try:
        text = _END.join(cells) + _END  # type: ignore[arg-type]
    except TypeError:
        text = _END.join([cell or "" for cell in cells]) + _END
    data = text.encode("utf-8", "surrogatepass").lower()  # of truth values; other alphabets keep their case
    data = data.replace(b".0\x1f", b"\x1f")  # most of what `_decimal_zeros` would find
    return _plain_times(data) if b":00" in data else data


def _plain_times(text: bytes) -> bytes:
    """Times without the signs that formats add: `2020-01-01T10:00:00Z`, `2020-01-01 00:00:00+00`."""
    text = _CLOCK.sub(b" ", text)
    if any(sign in text for sign in _ADDED):
        text = _UTC.sub(rb"\1", text)
    return text.replace(b" 00:00:00\x1f", b"\x1f")


def _split(text: bytes) -> tuple[U8, I64, I64]:
    """The bytes, and where cells start and end."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == ord(_END))
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    return data, starts, ends


def _is_untidy(data: U8, starts: I64, ends: I64, clip: int) -> bool:
    """Whether there is space around a cell, or one is longer than it may be."""
    last = data[np.maximum(ends - 1, 0)]
    around = ((data[starts] <= ord(" ")) | (last <= ord(" "))) & (starts < ends)
    return bool(around.any()) or int((ends - starts).max()) > clip


def _hash_cells(data: U8, starts: I64, ends: I64) -> U64:
    """(cells,) a hash of every cell, 0 if it is empty: a polynomial in its bytes, mixed."""
    size = 1 << max(_USUAL, len(data).bit_length())
    products = data * _powers(_BASE, size)[: len(data)]  # uint64, modulo 2^64
    products[ends] = 0
    for first, last in _decimal_zeros(data, starts, ends):
        products[first:last] = 0
    # Each cell begins with the power of where it lies in the text, which its inverse takes away.
    sums: U64 = np.add.reduceat(products, starts) * _powers(_INVERSE, size)[starts]
    hashes = _mixed(sums)
    for spelling, meaning in _same_as():
        hashes[sums == spelling] = meaning
    return hashes


def _decimal_zeros(data: U8, starts: I64, ends: I64) -> Iterator[tuple[int, int]]:
    """Where numbers end in zeros after the decimal point; the point, too, if nothing else follows it."""
    points = np.flatnonzero(data == ord("."))
    if not len(points):
        return
    cells = np.flatnonzero(data[np.maximum(ends - 1, 0)] == ord("0"))
    starts, ends = starts[cells], ends[cells]
    nearest = points[np.maximum(np.searchsorted(points, ends) - 1, 0)]  # before the end of the cell
    inside = (nearest >= starts) & (nearest < ends)
    for point, end in zip(nearest[inside].tolist(), ends[inside].tolist(), strict=True):
        fraction = data[point + 1 : end].tobytes()
        if fraction.isdigit():
            kept = len(fraction.rstrip(b"0"))
            yield point + 1 + kept if kept else point, end


@lru_cache(maxsize=4)  # of both bases, those for the usual length and for another
def _powers(base: int, size: int) -> U64:
    """(size,) powers of a number, modulo 2^64."""
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
    found: U64 = (data * _powers(_BASE, 1 << _USUAL)[: len(data)]).sum(dtype=np.uint64, keepdims=True)
    return found


def _mixed(values: U64) -> U64:
    """A bijection of 64-bit numbers whose result has every bit depend on every bit; 0 stays 0."""
    for _ in range(2):
        values = (values ^ (values >> _SHIFT)) * _MIX
    return values ^ (values >> _SHIFT)
