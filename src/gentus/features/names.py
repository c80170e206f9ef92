"""Names of columns: their words, and whether a person gave them."""

from __future__ import annotations

import re

_RUNS = re.compile(r"\d+|[^\W\d_]+")  # of digits, or of letters of any script
_CAMEL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][^\W\d_A-Z])")
# Names that readers and exports give to columns without one.
_GENERATED = re.compile(r"[ _:.-]*|([a-z]|column|col|field|var|attr|attribute)?[ _:.-]*\d+|unnamed.*", re.I)


def name_words(name: str) -> list[str]:
    """The words of a name in lower case, of `birthDate`, `birth_date` and `Birth Date` the same."""
    runs: list[str] = _RUNS.findall(name)
    return runs if name.islower() else [w for run in runs for w in _CAMEL.sub(" ", run).lower().split()]


def is_name(name: str) -> bool:
    """Whether a name was given by a person: `column_3`, `c0`, `_2` and `Unnamed: 4` were not."""
    return _GENERATED.fullmatch(name.strip()) is None
