"""Column names, compared: the words in them, their letters, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gentus.static import WIDTH, load_tokenizer, load_vectors

F64 = NDArray[np.float64]

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
# What readers, exports and people in a hurry call a column that has no name.
_GENERATED = re.compile(r"(column|col|field|f|c|v|var|x|attr|attribute|unnamed)?[ _:.-]*\d*", re.I)
SIMILARITIES = ("equal names", "alike letters", "alike meaning")


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, however they are joined: `birthDate`, `birth_date`, `Birth Date`."""
    return [word.lower() for word in _WORDS.findall(name)]


def is_name(name: str) -> bool:
    """Whether a name says anything: `column_3`, `c0`, `_2` and `Unnamed: 4` do not."""
    return _GENERATED.fullmatch(name.strip()) is None


def compare_names(ours: Sequence[str], theirs: Sequence[str]) -> tuple[NDArray[np.bool_], F64]:
    """(q, t) whether both columns have a name, and (q, t, 3) how alike the names are."""
    named = np.outer([is_name(name) for name in ours], [is_name(name) for name in theirs])
    left, right = [words_of(name) for name in ours], [words_of(name) for name in theirs]
    plain_left, plain_right = ["".join(words) for words in left], ["".join(words) for words in right]
    equal = np.array(plain_left)[:, None] == np.array(plain_right)[None, :]
    grams = _cosine(_grams(plain_left), _grams(plain_right))
    meaning = _cosine(_meaning(left), _meaning(right))
    similarities = np.stack([equal.astype(np.float64), grams, np.maximum(meaning, 0)], 2)
    return named, similarities * named[:, :, None]


def _grams(names: Sequence[str], width: int = 512) -> F64:
    """(n, width) hashed letters, pairs and triples of letters, borders marked."""
    out = np.zeros((len(names), width))
    for at, name in enumerate(names):
        padded = f"^{name}$"
        for size in (1, 2, 3):
            for begin in range(len(padded) - size + 1):
                out[at, _bucket(padded[begin : begin + size]) % width] += 1
    return np.sqrt(out)


def _bucket(text: str) -> int:
    hashed = 0
    for letter in text:
        hashed = (hashed * 1_000_003 + ord(letter) + 1) & 0xFFFFFFFF
    return hashed ^ (hashed >> 15)


def _meaning(names: Sequence[list[str]]) -> F64:
    """(n, WIDTH) mean static vectors of the pieces of names."""
    out = np.zeros((len(names), WIDTH))
    vectors = load_vectors()
    for at, encoding in enumerate(
        load_tokenizer().encode_batch_fast([" ".join(words) for words in names], add_special_tokens=False)
    ):
        if encoding.ids:
            out[at] = vectors[encoding.ids].mean(0)
    return out


def _cosine(left: F64, right: F64) -> F64:
    return np.asarray(_unit(left) @ _unit(right).T, np.float64)


def _unit(rows: F64) -> F64:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), np.float64)
