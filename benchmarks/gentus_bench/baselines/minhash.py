"""Sets by hashes: MinHash signatures, their locality-sensitive bands, and inverted lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64, U64

U32 = NDArray[np.uint32]

CHUNK = 1 << 14  # elements hashed by all permutations at once


@lru_cache(maxsize=1 << 20)
def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def hashes(texts: Iterable[str]) -> U64:
    """(n,) 64 bits of every text, the same in every process."""
    return np.array([_hash(text) for text in texts], np.uint64)


def scatter(values: U64, salt: int) -> U64:
    """Mix integers with a salt (the finaliser of SplitMix64)."""
    mixed = values + np.uint64((salt * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


class MinHash:
    """Signatures of sets; the share of equal places in two of them estimates their Jaccard similarity."""

    def __init__(self, size: int = 128, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.size = size
        self._factors = random.integers(1, 1 << 63, size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._shifts = random.integers(0, 1 << 63, size, dtype=np.uint64)

    def signatures(self, sets: Sequence[U64]) -> U32:
        """(n, size) signatures; that of an empty set is all ones."""
        out = np.full((len(sets), self.size), 0xFFFFFFFF, np.uint32)
        counts = np.array([len(one) for one in sets], np.int64)
        filled = np.flatnonzero(counts)
        ends = np.cumsum(counts[filled])
        begin = 0
        while begin < len(filled):
            done = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + CHUNK)))
            rows = filled[begin:end]
            flat = np.concatenate([sets[row] for row in rows])
            hashed = flat[:, None] * self._factors + self._shifts  # modulo 2^64; the high bits are random
            starts = np.cumsum(counts[rows]) - counts[rows]
            out[rows] = np.minimum.reduceat((hashed >> np.uint64(32)).astype(np.uint32), starts)
            begin = end
        return out


def jaccard(own: U32, theirs: U32) -> NDArray[np.float32]:
    """(q, n) estimates from signatures; empty sets are like nothing, not even one another."""
    out = np.zeros((len(own), len(theirs)), np.float32)
    known = theirs[:, 0] != 0xFFFFFFFF
    for row, signature in enumerate(own):
        if signature[0] != 0xFFFFFFFF:
            out[row] = (theirs == signature).mean(1, dtype=np.float32) * known
    return out


def bands(signatures: U32, rows: int) -> U64:
    """(n, bands) a key for every `rows` places of a signature; likely shared by similar sets only."""
    count = signatures.shape[1] // rows
    keys: U64 = np.zeros((len(signatures), count), np.uint64)
    for place in range(rows):
        part: U64 = signatures[:, place : count * rows : rows].astype(np.uint64)
        keys = scatter(np.bitwise_xor(keys, part), place + 1)
    return keys + np.arange(count, dtype=np.uint64)  # equal content in different bands is no likeness


class Postings:
    """Inverted lists: from a 64-bit key to everyone who holds it."""

    def __init__(self, keys: U64, owners: I64) -> None:
        order = np.argsort(keys, kind="stable")
        self.keys, first = np.unique(keys[order], return_index=True)
        self.owners = owners[order].astype(np.int32)
        self.starts: I64 = np.append(first, len(keys)).astype(np.int64)

    def places(self, keys: U64) -> I64:
        """(n,) which list each key has, -1 for none."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)

    def lookup(self, keys: U64) -> tuple[I64, I64]:
        """All pairs of a place in `keys` and an owner of that key."""
        lists = self.places(keys)
        known = np.flatnonzero(lists >= 0)
        begins = self.starts[lists[known]]
        counts = self.starts[lists[known] + 1] - begins
        at = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return np.repeat(known, counts), self.owners[at].astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.keys.nbytes + self.owners.nbytes + self.starts.nbytes
