"""Column signatures: what the index keeps of a column, so that search can align tables without opening files.

A signature has the numeric profile of its column, its place in the table, a bottom-k sketch of its values
(all of them, if they are few), and hashed sketches of its n-grams, words, cell shapes, token vectors and
name, four bits a number. It depends on the table alone: neither on the lake nor on what was learnt from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64, U8
from gentus.features.extract import HASH_BITS, KIND_NAMES, PROFILE, TOKEN, Features
from gentus.features.weights import load_vectors
from gentus.table import Table

VALUES = 16  # hashes of values that are kept of a column
WIDTHS = {"grams": 76, "words": 32, "shapes": 24, "tokens": 64, "names": 32}  # of the sketches
SKETCHES: dict[str, slice] = {
    kind: slice(end - width, end)
    for (kind, width), end in zip(WIDTHS.items(), accumulate(WIDTHS.values()), strict=True)
}
WIDTH = sum(WIDTHS.values())
SIGNATURE = np.dtype(
    [
        ("distinct", "<u2"),  # values
        ("cells", "<u2"),
        ("left", "<u2"),  # columns of the table to the left and to the right, empty ones too
        ("right", "<u2"),
        ("values", "<u2", (VALUES,)),  # the smallest hashes of values; those beyond `distinct` are zero
        ("profile", "<f2", (PROFILE,)),
        ("sketches", "u1", (WIDTH // 2,)),
    ]
)
Signatures: TypeAlias = NDArray[np.void]  # (C,) of `SIGNATURE`
ValueHashes: TypeAlias = list[NDArray[np.uint32]]  # of every column: its distinct values, ascending
_MOST = 0xFFFF  # that a field counts
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SALT = {"grams": 1, "words": 2, "shapes": 3, "names": 4}


def hash_values(table: Table) -> ValueHashes:
    """The values of the non-empty columns of a table."""
    return [value_hashes(column.cells) for column in table.columns if column.cells]


def sign_tables(
    tables: Sequence[Table], features: Features, values: Sequence[ValueHashes]
) -> list[Signatures]:
    """The signatures of the non-empty columns of some tables, which have these features and values."""
    signed = np.zeros(len(features.starts) - 1, SIGNATURE)
    for at, hashes in enumerate(chain.from_iterable(values)):
        signed["values"][at, : min(len(hashes), VALUES)] = hashes[:VALUES] & 0xFFFF
        signed["distinct"][at] = min(len(hashes), _MOST)
    cells = [len(column.cells) for table in tables for column in table.columns if column.cells]
    signed["cells"] = np.minimum(cells, _MOST)
    signed["left"], signed["right"] = features.positions.T
    signed["profile"] = np.clip(features.profile, -60_000, 60_000)
    signed["sketches"] = packed(sketches_of(features))
    ends = features.tables[1:-1].tolist()
    return np.split(signed, ends) if len(tables) > 1 else [signed]


def value_hashes(cells: Sequence[str]) -> NDArray[np.uint32]:
    """(n,) hashes of the distinct values of a column, ascending; 1 and 1.0 are one value, Yes and yes too."""
    plain = {cell.casefold().removesuffix(".0") for cell in set(cells)}
    return np.sort(np.fromiter((crc32(cell.encode("utf-8", "replace")) for cell in plain), np.uint32))


def sketches_of(features: Features) -> F32:
    """(C, WIDTH) sketches of all columns; each kind is a random projection by hashed signs, of any length."""
    total = len(features.starts) - 1
    owner = np.repeat(np.arange(total), np.diff(features.starts))
    ids, weight = features.ids, 1 + np.log(np.maximum(features.counts, 1)).astype(np.float32)
    kind = ids >> np.uint32(HASH_BITS)
    hashed = ((ids.astype(np.uint64) + _SALTS.take(kind)) * _MIX) >> np.uint64(33)
    at = owner * WIDTH + _BEGIN_OF.take(kind) + (hashed % _WIDTH_OF.take(kind)).astype(np.int64)
    signs = np.where((hashed >> np.uint64(20)) & np.uint64(1), weight, -weight)
    tokens = kind == TOKEN >> HASH_BITS
    signs[tokens] = 0
    sketches = np.bincount(at, signs, total * WIDTH).reshape(total, WIDTH).astype(np.float32)
    some = np.flatnonzero(tokens)
    sketches[:, SKETCHES["tokens"]] = _token_means(owner[some], ids[some] - TOKEN, weight[some], total)
    return sketches


_SKETCH_OF = ["names" if kind.startswith("name") else kind for kind in KIND_NAMES]
_SALTS = np.array([_SALT.get(name, 0) << 32 for name in _SKETCH_OF], np.uint64)
_WIDTH_OF = np.array([WIDTHS[name] for name in _SKETCH_OF], np.uint64)
_BEGIN_OF = np.array([SKETCHES[name].start for name in _SKETCH_OF], np.int64)


def _token_means(owner: I64, tokens: NDArray[np.integer[Any]], weight: F32, total: int) -> F32:
    """(C, 64) sums of static vectors, rare tokens more; the first numbers of a vector say most."""
    sums = np.zeros((total, WIDTHS["tokens"]), np.float32)
    if len(tokens):
        rare = np.log1p(tokens + 10.0).astype(np.float32)  # tokens are numbered by frequency
        vectors = load_vectors()[tokens, : WIDTHS["tokens"]].astype(np.float32)
        vectors *= (weight * rare)[:, None]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        sums[owner[starts]] = np.add.reduceat(vectors, starts)
    return sums


def packed(sketches: F32) -> U8:
    """(C, WIDTH / 2) sketches with four bits a number; the largest of each kind is 7, and 0 is 0."""
    largest = np.maximum.reduceat(np.abs(sketches), _BEGINS, axis=1).repeat(_WIDTHS, axis=1)
    codes = (np.rint(sketches / np.maximum(largest, 1e-9) * 7) + 8).astype(np.uint8)
    return np.asarray(codes[:, ::2] << 4 | codes[:, 1::2], np.uint8)


class Sketches(NamedTuple):
    """Sketches of C columns as they are kept."""

    numbers: F32  # (C, WIDTH) whole numbers, -7 to 7
    lengths: dict[str, F32]  # by kind, (C,) Euclidean


def unpacked(sketches: U8) -> Sketches:
    """What was packed."""
    numbers = _NUMBERS.take(sketches).view(np.float32)
    squares = np.add.reduceat(numbers * numbers, _BEGINS, axis=1)
    return Sketches(numbers, dict(zip(SKETCHES, np.sqrt(squares).T, strict=True)))


_NUMBERS = np.array(
    [complex((code >> 4) - 8, (code & 15) - 8) for code in range(256)], np.complex64
)  # two each
_WIDTHS, _BEGINS = list(WIDTHS.values()), [part.start for part in SKETCHES.values()]


def joined(parts: Sequence[Signatures]) -> Signatures:
    """Signatures of several tables as one array."""
    return np.frombuffer(b"".join(part.tobytes() for part in parts), SIGNATURE)


def table_widths(columns: Signatures) -> I64:
    """(C,) how many columns the table of each column has, empty ones too."""
    return np.asarray(columns["left"].astype(np.int64) + columns["right"] + 1)


def places_of(table: Table) -> dict[int, int]:
    """Positions of the columns that have signatures, and their places among these."""
    return {at: place for place, at in enumerate(i for i, one in enumerate(table.columns) if one.cells)}


def names_of(table: Table) -> list[str]:
    """Names of the columns that have signatures."""
    return [column.name for column in table.columns if column.cells]
