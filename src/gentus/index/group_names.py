"""Names for groups of tables that people understand: what the names of tables and of columns share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gentus.features.names import is_name, name_words

SHOWN = 4  # columns in a name
_COMMON = 0.8  # of the tables of a group that have a word in their name, for the word to name the group
_RARE = 0.5  # of the tables outside that have it, at most: else it says nothing about the group
_SHARED = 1 / 3  # of the tables of a group that have a column of a name, at least
_ENDINGS = re.compile(r"(\.[a-z][a-z0-9]{0,7})+$", re.I)


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How many tables of the lake have each word in their names."""

    counts: Counter[str]
    tables: int

    @classmethod
    def of(cls, names: Iterable[str]) -> WordCounts:
        """Of all tables."""
        counts: Counter[str] = Counter()
        tables = 0
        for name in names:
            counts.update(set(table_words(name)))
            tables += 1
        return cls(counts, tables)

    def common(self, names: Sequence[str]) -> list[str]:
        """The words that most of some tables have in their names and few others, as the first has them."""
        inside = Counter(word for name in names for word in set(table_words(name)))
        others = max(self.tables - len(names), 1)
        return [
            word
            for word in dict.fromkeys(table_words(names[0]))
            if inside[word] >= _COMMON * len(names) and self.counts[word] - inside[word] <= _RARE * others
        ]


def table_words(name: str) -> list[str]:
    """The words of a table's file name, without its folders, endings, numbers and single letters."""
    return [
        word for word in name_words(_ENDINGS.sub("", name.rsplit("/", 1)[-1])) if word.isalpha() and word[1:]
    ]


def shared_columns(columns: Sequence[Sequence[str]]) -> list[str]:
    """Names of columns that at least a third of some tables have, the most frequent first."""
    counts: Counter[str] = Counter()
    spellings: dict[str, Counter[str]] = {}
    for names in columns:
        for folded in {name.strip().casefold(): None for name in names if is_name(name)}:
            counts[folded] += 1
        for name in names:
            spellings.setdefault(name.strip().casefold(), Counter())[name.strip()] += 1
    # `most_common` keeps the order in which names were met, that of the columns of the first tables.
    found = [folded for folded, count in counts.most_common() if count >= _SHARED * len(columns)]
    return [spellings[folded].most_common(1)[0][0] for folded in found]


def group_name(words: Sequence[str], columns: Sequence[str], example: str) -> str:
    """The name of a group: shared words, shared columns, both, or one of its tables."""
    shown = ", ".join(columns[:SHOWN]) + (", .." if len(columns) > SHOWN else "")
    subject = " ".join(words)
    return ": ".join(part for part in (subject, shown) if part) or f"like {example}"
