"""Feature extraction: the columns of a table as sparse counts, with a small numeric profile of each.

Every column is one sparse row over a joint vocabulary: words, character 3- and 4-grams, cell shapes
("0000-00-00"), tokens with static vectors, and the words and grams of its name. Words, grams and shapes have
29-bit hashes, so that collisions are rare. A table is a few small arrays, made without a Python loop over
characters, so that extraction keeps up with reading.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, F64, I64, U64
from gentus.features.names import is_name, name_words
from gentus.features.weights import load_tokenizer
from gentus.table import Table, evenly_spaced

VERSION = 5  # of what `featurize` computes; a cache of another version is not used
HASH_BITS = 29
BUCKETS = 1 << HASH_BITS  # ids per kind
KIND_NAMES = ("words", "grams", "shapes", "tokens", "name words", "name grams")
KINDS: dict[str, tuple[int, int]] = {  # the range of each kind's ids
    kind: (at * BUCKETS, (at + 1) * BUCKETS) for at, kind in enumerate(KIND_NAMES)
}
WORD, GRAM, SHAPE, TOKEN, NAME, _ = (first for first, _ in KINDS.values())
_OWNER = 1 << 32  # above all ids
VALUES = 24  # distinct values per column, as in the paper; more cost time and measured no better
PROFILE_CELLS = 64
PROFILE = 17

_PRIME = np.uint64(0x9E3779B97F4A7C15 | 1)
_BREAK = ord("\n")


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the C columns of T tables: a CSR matrix over the joint vocabulary, and profiles."""

    tables: NDArray[np.int32]  # (T + 1,) where each table's columns begin
    starts: I64  # (C + 1,) where each column's entries begin
    ids: NDArray[np.uint32]  # (nnz,) sorted within a column
    counts: NDArray[np.uint8]  # (nnz,) occurrences, at most 255
    profile: F32  # (C, PROFILE)
    positions: NDArray[np.uint16]  # (C, 2) columns of its table to the left and to the right, empty ones too

    def __len__(self) -> int:
        """T."""
        return len(self.tables) - 1

    @property
    def numbers(self) -> F32:
        """(C,) the share of each column's cells that are numbers."""
        return np.clip(self.profile[:, 0] / 2, 0, 1)

    def take(self, tables: Iterable[int]) -> Features:
        """The features of some of the tables, in the given order."""
        return concatenate([self.one(int(table)) for table in tables])

    def one(self, table: int, columns: int = 1 << 30) -> Features:
        """The features of one of the tables, or of its first columns, as views."""
        first = self.tables[table]
        last = min(self.tables[table + 1], first + columns)
        begin, end = self.starts[first], self.starts[last]
        return Features(
            np.array([0, last - first], np.int32),
            self.starts[first : last + 1] - begin,
            self.ids[begin:end],
            self.counts[begin:end],
            self.profile[first:last],
            self.positions[first:last],
        )


def concatenate(parts: Sequence[Features]) -> Features:
    """The features of several sets of tables as one."""
    return Features(
        _chain([part.tables for part in parts]).astype(np.int32),
        _chain([part.starts for part in parts]).astype(np.int64),
        np.concatenate([np.zeros(0, np.uint32), *(part.ids for part in parts)]),
        np.concatenate([np.zeros(0, np.uint8), *(part.counts for part in parts)]),
        np.concatenate([np.zeros((0, PROFILE), np.float32), *(part.profile for part in parts)]),
        np.concatenate([np.zeros((0, 2), np.uint16), *(part.positions for part in parts)]),
    )


def _chain(offsets: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Offsets of the parts as offsets into the whole."""
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part) for part in offsets)])
    return np.cumsum(lengths)


def featurize(table: Table) -> Features:
    """Features of every non-empty column of a table."""
    return featurize_all([table])


def featurize_all(tables: Sequence[Table]) -> Features:
    """Features of every non-empty column of some tables; for small tables, faster than one by one."""
    filled = [[at for at, column in enumerate(table.columns) if column.cells] for table in tables]
    found = [table.columns[at] for table, some in zip(tables, filled, strict=True) for at in some]
    columns, names = [column.cells for column in found], [column.name for column in found]
    owners: list[I64] = []
    ids: list[I64] = []
    if columns:
        values = [distinct_values(cells) for cells in columns]
        for column_ids, hashed in (*_cells_and_names(values, names), tokens_of(values)):
            owners.append(column_ids)
            ids.append(hashed)
    starts, flat_ids, counts = counted(owners, ids, len(columns))
    widths = [len(some) for some in filled]
    left = np.array(list(chain.from_iterable(filled)), np.int64)
    last = np.repeat([len(table.columns) - 1 for table in tables], widths).astype(np.int64)
    positions = np.minimum(np.stack([left, last - left], 1), 0xFFFF).astype(np.uint16)
    return Features(
        np.cumsum([0, *widths]).astype(np.int32), starts, flat_ids, counts, profile_of(columns), positions
    )


def _cells_and_names(values: list[list[str]], names: list[str]) -> Iterator[tuple[I64, I64]]:
    """(column, id) of words, grams and shapes of cells, and of words and grams of names, in one pass."""
    named = [[" ".join(name_words(name))] if is_name(name) else [] for name in names]
    *text, shapes = hashed_text([*values, *named])
    width = len(values)
    for owner, hashed in text:
        of_names = owner >= width
        yield owner - width * of_names, hashed + NAME * of_names
    of_cells = shapes[0] < width
    yield shapes[0][of_cells], shapes[1][of_cells]


def distinct_values(cells: list[str]) -> list[str]:
    """Distinct values, evenly spaced over a column, as it may be sorted."""
    values = list(dict.fromkeys(cells))
    return [values[i] for i in evenly_spaced(len(values), VALUES)]


def counted(
    owners: list[I64], ids: list[I64], columns: int
) -> tuple[I64, NDArray[np.uint32], NDArray[np.uint8]]:
    """CSR over the joint vocabulary: (C + 1,) where each column begins, (nnz,) ids, and their counts."""
    if not ids:
        return np.zeros(columns + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.uint8)
    keys = np.concatenate(owners) * _OWNER + np.concatenate(ids)
    unique, counts = np.unique(keys, return_counts=True)
    starts = np.searchsorted(unique, np.arange(columns + 1) * _OWNER).astype(np.int64)
    return starts, (unique % _OWNER).astype(np.uint32), np.minimum(counts, 255).astype(np.uint8)


# --- words, grams and shapes -------------------------------------------------------------------------


DIGIT_BIT, ALPHA_BIT, UPPER_BIT, SPACE_BIT, WORD_BIT = 1, 2, 4, 8, 16


def _class_of(character: str) -> int:
    return (
        DIGIT_BIT * character.isdigit()
        | ALPHA_BIT * character.isalpha()
        | UPPER_BIT * character.isupper()
        | SPACE_BIT * character.isspace()
        | WORD_BIT * (character.isalnum() or character == "_")
    )


_ASCII = np.array([_class_of(chr(i)) for i in range(128)], np.uint8)


def points_of(text: str) -> NDArray[np.uint32]:
    """(n,) the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)


def classes_of(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """(n,) character classes as bits; of characters beyond ASCII only distinct ones are looked up."""
    classes = _ASCII[np.minimum(points, 127)]
    beyond = points > 127
    if beyond.any():
        distinct, at = np.unique(points[beyond], return_inverse=True)
        classes[beyond] = np.array([_class_of(chr(point)) for point in distinct], np.uint8)[at]
    return classes


def hashed_text(values: list[list[str]]) -> list[tuple[I64, I64]]:
    """(column, id) of every word, gram and cell shape, by rolling hashes over all text at once."""
    cells = [value for column in values for value in column]
    joined = "\n".join(cells)
    if joined.count("\n") >= len(cells) or _ODD_SPACE.search(joined):  # rare
        cells = [_SPACE.sub(" ", value) for value in cells]
        joined = "\n".join(cells)
    per_column = np.array([len(column) for column in values])
    text = "\n" + joined.lower() + "\n"
    points = points_of(text)  # (n,)
    breaks = points == _BREAK
    cell_of = np.cumsum(breaks) - 1  # the cell of a character; it begins with its line break
    column_of_cell = np.append(np.repeat(np.arange(len(values)), per_column), len(values) - 1)
    column_of = column_of_cell[np.minimum(cell_of, len(column_of_cell) - 1)]
    shapes = _shapes(cells)
    return [
        _words(points, column_of),
        *_grams(points, breaks, column_of),
        (column_of_cell[: len(cells)], np.array([SHAPE + _bucket_of(s) for s in shapes], np.int64)),
    ]


def _words(points: NDArray[np.uint32], column_of: I64) -> tuple[I64, I64]:
    inside = (classes_of(points) & WORD_BIT) > 0
    edges = np.diff(inside.astype(np.int8), prepend=0, append=0)
    begin, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    # Polynomial hash of text[begin:end] from prefix sums; P is odd, so it has an inverse modulo 2^64.
    powers, inverses = _powers(len(points))
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(points.astype(np.uint64)) * powers)])
    hashed = (prefix[end] - prefix[begin]) * inverses[begin]
    return column_of[begin], WORD + _bucket(hashed)


def _grams(points: NDArray[np.uint32], breaks: NDArray[np.bool_], column_of: I64) -> list[tuple[I64, I64]]:
    """3- and 4-grams within a word and its borders, like scikit-learn's `char_wb`."""
    gap = breaks | (points == ord(" "))
    # A line break counts as the space before the first and after the last word of a cell.
    letters = _mix(np.where(breaks, np.uint32(ord(" ")), points).astype(np.uint64))
    out = []
    for size in (3, 4):
        count = len(points) - size + 1
        if count <= 0:
            continue
        valid = np.ones(count, bool)
        for offset in range(1, size - 1):
            valid &= ~gap[offset : offset + count]
        hashed = np.full(count, size, np.uint64)
        for offset in range(size):
            hashed = hashed * _PRIME + letters[offset : offset + count]
        at = np.flatnonzero(valid)
        out.append((column_of[at + 1], GRAM + _bucket(hashed[at])))
    return out


@lru_cache(maxsize=4)
def _power_table(size: int) -> tuple[U64, U64]:
    inverse = np.uint64(pow(int(_PRIME), -1, 1 << 64))
    powers = np.full(size, _PRIME, np.uint64)
    inverses = np.full(size, inverse, np.uint64)
    powers[0] = inverses[0] = 1
    return np.cumprod(powers), np.cumprod(inverses)


def _powers(size: int) -> tuple[U64, U64]:
    powers, inverses = _power_table(1 << max(12, (size - 1).bit_length()))  # few sizes, for the cache
    return powers[:size], inverses[:size]


def _mix(x: U64) -> U64:
    """Hash integers to 64 bits (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _bucket(hashed: U64) -> I64:
    return (_mix(hashed) >> np.uint64(64 - HASH_BITS)).astype(np.int64)


_SPACE = re.compile(r"\s+")
_ODD_SPACE = re.compile(r"[^\S \n]|  ")  # what `_SPACE` changes, except line breaks
_UPPER, _LOWER, _DIGIT = re.compile(r"[^\W\d_a-z]+"), re.compile(r"[a-z]+"), re.compile(r"\d")
_ASCII_SHAPE = bytes.maketrans(string.printable[:62].encode(), b"0" * 10 + b"a" * 26 + b"A" * 26)
_RUN = re.compile(b"(?:a{2,}|A{2,})")


def _shapes(cells: list[str]) -> list[str]:
    """The formats of cells: `00 Aa 0000` of `12 May 1999`."""
    text = "\n".join([cell[:32] for cell in cells])  # cells have no line breaks
    if text.isascii():  # several times as fast
        shapes = _RUN.sub(lambda run: run[0][:1], text.encode().translate(_ASCII_SHAPE))
        return shapes.decode().split("\n")
    return _DIGIT.sub("0", _LOWER.sub("a", _UPPER.sub("A", text))).split("\n")


@lru_cache(maxsize=65_536)
def _bucket_of(text: str) -> int:
    hashed = 0
    for byte in text.encode("utf-8", "replace"):
        hashed = (hashed * int(_PRIME) + byte + 1) & 0xFFFFFFFFFFFFFFFF
    return int(_bucket(np.array([hashed], np.uint64))[0])


# --- tokens and profile -------------------------------------------------------------------------


def tokens_of(values: list[list[str]]) -> tuple[I64, I64]:
    """(column, id) of every token of the lower-cased text."""
    texts = [" ".join(column).lower() for column in values]
    ids = [encoding.ids for encoding in load_tokenizer().encode_batch_fast(texts, add_special_tokens=False)]
    lengths = np.array([len(i) for i in ids])
    flat = np.fromiter(chain.from_iterable(ids), np.int64, int(lengths.sum()))
    return np.repeat(np.arange(len(values)), lengths), TOKEN + flat


_NUMBER_NOISE = str.maketrans("", "", ",%$€£ ")


def profile_of(columns: list[list[str]]) -> F32:
    """(C, PROFILE) statistics of each column's cells, of similar scale."""
    if not columns:
        return np.zeros((0, PROFILE), np.float32)
    heads = [cells[:PROFILE_CELLS] for cells in columns]
    counts = np.array([len(head) for head in heads])
    starts = np.cumsum(counts) - counts
    cells = [cell for head in heads for cell in head]
    lengths = np.array([len(cell) for cell in cells], np.float64)
    points = points_of("".join(cells))
    characters = np.add.reduceat(lengths, starts)
    begins = (np.cumsum(characters) - characters).astype(np.int64)  # no cell is empty
    classes = classes_of(points)
    numbers = _numbers(cells)
    numeric = ~np.isnan(numbers)
    magnitude = np.log1p(np.abs(np.where(numeric, numbers, 0)))
    found = np.add.reduceat(numeric.astype(np.float64), starts)

    def share(bit: int) -> F64:
        return np.add.reduceat((classes & bit > 0).astype(np.float64), begins) / characters

    def moments(values: F64, count: F64) -> list[F64]:
        mean = np.add.reduceat(values, starts) / np.maximum(count, 1)
        square = np.add.reduceat(values**2, starts) / np.maximum(count, 1)
        return [mean, np.sqrt(np.maximum(square - mean**2, 0))]

    length_mean, length_spread = moments(lengths, counts.astype(np.float64))
    magnitude_mean, magnitude_spread = moments(magnitude, found)
    pointed = np.array(["." in cell for cell in cells], np.float64)
    spaces = np.add.reduceat((points == ord(" ")).astype(np.float64), begins) / counts
    return np.stack(
        [
            2 * found / counts,
            np.array([len(set(column)) / len(column) for column in columns]),
            np.log1p(length_mean) / 2,
            np.log1p(length_spread) / 2,
            2 * share(DIGIT_BIT),
            2 * share(ALPHA_BIT),
            2 * share(UPPER_BIT),
            2 * share(SPACE_BIT),
            magnitude_mean / 4,
            magnitude_spread / 4,
            np.add.reduceat((np.where(numeric, numbers, 0) < 0).astype(np.float64), starts)
            / np.maximum(found, 1),
            np.add.reduceat(pointed, starts) / counts,
            np.minimum(spaces / 4, 4),
            *_quantiles(numbers, starts, counts),
            np.add.reduceat((numbers == np.rint(numbers)).astype(np.float64), starts) / counts,
        ],
        1,
    ).astype(np.float32)


def _quantiles(numbers: F64, starts: I64, counts: I64) -> list[F64]:
    """The 0.1, 0.5 and 0.9 quantile of every column's numbers on a signed log scale; 0 without numbers."""
    scaled = np.sign(numbers) * np.log1p(np.abs(numbers)) / 4
    order = np.lexsort((scaled, np.repeat(np.arange(len(counts)), counts)))  # within a column, NaN last
    scaled = scaled[order]
    found = np.add.reduceat((~np.isnan(scaled)).astype(np.int64), starts)
    at = [starts + (np.maximum(found - 1, 0) * share).astype(np.int64) for share in (0.1, 0.5, 0.9)]
    return [np.where(found > 0, scaled[rows], 0) for rows in at]


_NUMERIC_START = frozenset("0123456789+-.$€£ ,")


def _numbers(cells: list[str]) -> F64:
    """(n,) the numbers in cells, without currency and percent signs; NaN where there is none."""
    plain = "\n".join(cells).translate(_NUMBER_NOISE).split("\n")
    if len(plain) != len(cells):  # there are line breaks in them
        plain = [cell.translate(_NUMBER_NOISE) for cell in cells]
    numbers = np.array(
        [
            _number(text) if cell[0] in _NUMERIC_START else math.nan
            for cell, text in zip(cells, plain, strict=True)
        ]
    )
    return np.where(np.abs(numbers) < 1e300, numbers, np.nan)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
