"""What a column's name says: its words, and whether it is a name at all."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
# What readers, exports and people in a hurry call a column that has no name.
_GENERATED = re.compile(r"[ _:.-]*|([a-z]|column|col|field|var|attr|attribute)?[ _:.-]*\d+|unnamed.*", re.I)


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, however they are joined: `birthDate`, `birth_date`, `Birth Date`."""
    return [word.lower() for word in _WORDS.findall(name)]


def is_name(name: str) -> bool:
    """Whether a name says anything: `column_3`, `c0`, `_2` and `Unnamed: 4` do not."""
    return _GENERATED.fullmatch(name.strip()) is None
