"""What a column's name says: its words, and whether it is a name at all."""

from __future__ import annotations

import re

_RUNS = re.compile(r"\d+|[^\W\d_]+")  # of digits, or of letters of any script
_CAMEL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][^\W\d_A-Z])")
# What readers, exports and people in a hurry call a column that has no name.
_GENERATED = re.compile(r"[ _:.-]*|([a-z]|column|col|field|var|attr|attribute)?[ _:.-]*\d+|unnamed.*", re.I)


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, however they are joined: `birthDate`, `birth_date`, `Birth Date`."""
    return [word for run in _RUNS.findall(name) for word in _CAMEL.sub(" ", run).lower().split()]


def is_name(name: str) -> bool:
    """Whether a name says anything: `column_3`, `c0`, `_2` and `Unnamed: 4` do not."""
    return _GENERATED.fullmatch(name.strip()) is None
