"""Similarities of column names: equal words, n-grams, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from zlib import crc32

import numpy as np

from gentus.arrays import F64
from gentus.features.names import is_name, name_words
from gentus.features.weights import TOKEN_WIDTH, load_tokenizer, load_vectors

GRAMS = 256
SIMILARITIES = ("equal names", "name n-gram cosine", "name embedding cosine")


def compare_names(ours: Sequence[str], theirs: Sequence[str]) -> F64:
    """(q, t, 4) whether both columns have a name, and the similarities of the names, 0 to 1."""
    left, right = parse_names(ours), parse_names(theirs)
    named = np.outer([one.given for one in left], [one.given for one in right])
    equal = np.array([one.plain for one in left], object)[:, None] == np.array(
        [one.plain for one in right], object
    )
    grams = _stacked([one.grams for one in left], GRAMS) @ _stacked([one.grams for one in right], GRAMS).T
    left_meaning, right_meaning = (
        _stacked([one.embedding for one in side], TOKEN_WIDTH) for side in (left, right)
    )
    meaning = left_meaning @ right_meaning.T
    similarities = [named, equal * named, grams * named, np.maximum(meaning, 0) * named]
    return np.stack(similarities, 2).astype(np.float64)


def name_grams(names: Sequence[str]) -> F64:
    """(n, GRAMS) n-grams of names, of length one; zero for a column without a name."""
    parsed = parse_names(names)
    return _stacked([one.grams * one.given for one in parsed], GRAMS)


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a column, parsed."""

    given: bool  # not generated, such as column_3
    plain: str  # its words, joined
    grams: F64  # (GRAMS,)
    embedding: F64  # (TOKEN_WIDTH,)


_KNOWN: dict[str, Name] = {}  # a lake repeats few names ...
_MOST_KNOWN = 8192  # ... and a wide table has many


def parse_names(names: Sequence[str]) -> list[Name]:
    """The names, of which those that are not known yet are parsed together."""
    found = {name: known for name in names if (known := _KNOWN.get(name))}
    if new := [name for name in dict.fromkeys(names) if name not in found]:
        words = list(map(name_words, new))
        texts = [" ".join(some) for some in words]
        tokens = load_tokenizer().encode_batch_fast(texts, add_special_tokens=False)
        plain = ["".join(some) for some in words]
        given = map(is_name, new)
        parsed = map(Name, given, plain, _grams(plain), _embeddings([one.ids for one in tokens]))
        found.update(zip(new, parsed, strict=True))
        if len(_KNOWN) + len(new) > _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN.update((name, found[name]) for name in new[:_MOST_KNOWN])
    return [found[name] for name in names]


def _grams(plain: Sequence[str]) -> F64:
    """(n, GRAMS) roots of the counts of hashed n-grams of one to three letters, with the ends marked."""
    places = [
        GRAMS * number + _bucket(padded[at : at + size])
        for number, padded in enumerate(f"^{name}$" for name in plain)
        for size in (1, 2, 3)
        for at in range(len(padded) - size + 1)
    ]
    return _units(np.sqrt(np.bincount(places, minlength=GRAMS * len(plain)).reshape(-1, GRAMS)))


@lru_cache(maxsize=16_384)
def _bucket(gram: str) -> int:
    return crc32(gram.encode()) % GRAMS


def _embeddings(tokens: Sequence[list[int]]) -> F64:
    """(n, TOKEN_WIDTH) the mean static vectors of the tokens of names, of length one; 0 without tokens."""
    counts = np.array(list(map(len, tokens)), np.int64)
    means = np.zeros((len(tokens), TOKEN_WIDTH))
    some = counts > 0
    if some.any():
        seen, at = np.unique(list(chain.from_iterable(tokens)), return_inverse=True)  # names share tokens
        vectors = load_vectors()[seen].astype(np.float64)[at]
        starts = (np.cumsum(counts) - counts)[some]
        means[some] = np.add.reduceat(vectors, starts) / counts[some, None]
    return _units(means)


def _units(vectors: F64) -> F64:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float64)


def _stacked(rows: list[F64], width: int) -> F64:
    return np.stack(rows) if rows else np.zeros((0, width))
