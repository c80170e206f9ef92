"""Column names, compared: the words in them, their letters, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np

from gentus.arrays import F64
from gentus.features.names import is_name, words_of
from gentus.features.static_vectors import WIDTH, load_tokenizer, load_vectors

LETTERS = 256
SIMILARITIES = ("equal names", "alike letters", "alike meaning")


def compare_names(ours: Sequence[str], theirs: Sequence[str]) -> F64:
    """(q, t, 4) whether both columns have a name, and how alike the names are, 0 to 1."""
    left, right = [_known(name) for name in ours], [_known(name) for name in theirs]
    named = np.outer([one.given for one in left], [one.given for one in right])
    equal = np.array([one.plain for one in left], object)[:, None] == np.array(
        [one.plain for one in right], object
    )
    letters = (
        _stacked([one.letters for one in left], LETTERS) @ _stacked([one.letters for one in right], LETTERS).T
    )
    meaning = (
        _stacked([one.meaning for one in left], WIDTH) @ _stacked([one.meaning for one in right], WIDTH).T
    )
    alike = [named, equal * named, letters * named, np.maximum(meaning, 0) * named]
    return np.stack(alike, 2).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Name:
    given: bool  # and not made up
    plain: str  # its words without what joins them
    letters: F64  # (LETTERS,)
    meaning: F64  # (WIDTH,)


@lru_cache(maxsize=8192)  # a lake has few names, and the same ones again and again
def _known(name: str) -> _Name:
    words = words_of(name)
    plain = "".join(words)
    return _Name(is_name(name), plain, _unit(_grams(plain)), _unit(_meaning(words)))


def _grams(plain: str) -> F64:
    """(LETTERS,) hashed letters, pairs and triples of letters, borders marked."""
    padded = f"^{plain}$"
    grams = [padded[at : at + size] for size in (1, 2, 3) for at in range(len(padded) - size + 1)]
    return np.sqrt(np.bincount([crc32(gram.encode()) % LETTERS for gram in grams], minlength=LETTERS))


def _meaning(words: list[str]) -> F64:
    """(WIDTH,) the mean static vector of the tokens of a name."""
    ids = load_tokenizer().encode(" ".join(words), add_special_tokens=False).ids
    return load_vectors()[ids].astype(np.float64).mean(0) if ids else np.zeros(WIDTH)


def _unit(vector: F64) -> F64:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def _stacked(rows: list[F64], width: int) -> F64:
    return np.stack(rows) if rows else np.zeros((0, width))
