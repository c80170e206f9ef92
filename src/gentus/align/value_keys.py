"""Keys of text values: 64-bit hashes, the same in every process, of all values of a table at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gentus.arrays import I64, U64
from gentus.features.extract import points_of

_BASE = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)


def text_keys(values: Sequence[str]) -> I64:
    """(n,) keys of texts, without regard to case: a polynomial in the characters of each, mixed."""
    plain = _casefolded(values)
    lengths = np.fromiter(map(len, plain), np.int64, len(plain))
    starts = np.cumsum(lengths) - lengths
    points = points_of("".join(plain))
    within = np.arange(len(points)) - np.repeat(starts, lengths)
    products = (points + np.uint64(1)) * _powers(int(lengths.max(initial=0)))[within]
    sums = np.zeros(len(plain), np.uint64)
    filled = lengths > 0  # of an empty text, `reduceat` would take the first character of the next
    sums[filled] = np.add.reduceat(products, starts[filled]) if len(points) else 0
    return _mixed(sums).view(np.int64)


def _casefolded(values: Sequence[str]) -> Sequence[str]:
    """Values without regard to case; all in one text, if there is no line break in them."""
    plain = "\n".join(values).casefold().split("\n")
    return plain if len(plain) == len(values) else [value.casefold() for value in values]


@lru_cache(maxsize=1)
def _all_powers(size: int) -> U64:
    powers = np.full(size, _BASE, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


def _powers(size: int) -> U64:
    """Powers of a number modulo 2^64, at least so many."""
    return _all_powers(1 << max(10, size.bit_length()))


def _mixed(values: U64) -> U64:
    """A bijection of 64-bit numbers whose result has every bit depend on every bit."""
    for _ in range(2):
        values = (values ^ (values >> _SHIFT)) * _MIX
    return values ^ (values >> _SHIFT)
