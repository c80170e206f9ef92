"""What D3L reads of text: informative words, formats, and q-grams of names."""

from __future__ import annotations

import re
from collections import Counter

from gentus.table import Column

_WORD = re.compile(r"\w+")
_FORMATS = [  # D3L's primitives, the most special first
    (re.compile(r"[A-Z][a-z]+"), "\x01"),
    (re.compile(r"[A-Z]+"), "\x02"),
    (re.compile(r"[a-z]+"), "\x03"),
    (re.compile(r"[0-9]+"), "\x04"),
    (re.compile(r"[^\W\x01-\x04]+"), "\x05"),
    (re.compile(r"[^\w\s\x01-\x05]+"), "\x06"),
]
_REPEATED = re.compile(r"([\x01-\x06]\s*)\1+")


def informative_words(column: Column) -> set[str]:
    """Of every value the word that is rarest in the column: the others say what kind of column it is."""
    values = [_WORD.findall(value.lower()) for value in dict.fromkeys(column.cells)]
    counts = Counter(word for words in values for word in words)
    return {min(words, key=lambda word: counts[word]) for words in values if words}


def pattern(cell: str) -> str:
    """The format of a cell: its runs of capitalised, upper, lower, digits, mixed and punctuation."""
    for expression, letter in _FORMATS:
        cell = expression.sub(letter, cell)
    return _REPEATED.sub(r"\1+", cell)


def grams(name: str, size: int = 4) -> set[str]:
    """Character q-grams of a column name, as D3L compares names."""
    name = name.lower()
    return {name[place : place + size] for place in range(max(1, len(name) - size + 1))}
