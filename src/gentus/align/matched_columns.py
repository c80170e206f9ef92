"""Which columns of a query and of a table match, and in words why a table fits or does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gentus.align.verdict import Fit

MOST_NAMED = 3  # columns in a sentence
LONGEST_NAME = 40  # characters of a column's name in a sentence


@dataclass(frozen=True, slots=True)
class MatchedColumns:
    """How many columns with cells match, one to one, and which."""

    matched: int
    query: int  # columns of the query
    table: int  # columns of the table
    pairs: list[tuple[str, str]]  # names of the query's and of the table's columns
    missing: list[str]  # names of the query's columns that no column of the table matches

    @classmethod
    def of(
        cls, ours: Sequence[str], theirs: Sequence[str], pairs: Sequence[tuple[int, int]]
    ) -> MatchedColumns:
        """From the names of both sides and the positions that match."""
        matched = {i for i, _ in pairs}
        named = [(ours[i], theirs[j]) for i, j in pairs]
        missing = [name for at, name in enumerate(ours) if at not in matched]
        return cls(len(named), len(ours), len(theirs), named, missing)

    def counts(self) -> dict[str, int]:
        """For JSON, without the names."""
        return {"matched": self.matched, "query": self.query, "table": self.table}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.counts(), "pairs": list(map(list, self.pairs)), "missing": self.missing}

    def __str__(self) -> str:
        """How many of the query's columns match: "7 of 9"."""
        return f"{self.matched} of {self.query}"

    def why(self, fit: Fit) -> str:
        """The reason for a verdict, in words: "only `sex` matches"."""
        if not self.query:
            return "your table has no cells"
        if not self.matched:
            return "no column matches"
        if self.missing:
            return self._some_match()
        every = "your only column matches" if self.query == 1 else f"all {self.query} columns match"
        return f"{every}, but not closely enough" if fit == "none" else every

    def _some_match(self) -> str:
        found = [own for own, _ in self.pairs]
        if len(found) == 1:
            return f"only {quoted(found)} matches"
        if len(found) > MOST_NAMED >= len(self.missing):
            return f"all but {quoted(self.missing)} match"
        verb = "does" if len(self.missing) == 1 else "do"
        return f"{quoted(found)} match; {quoted(self.missing, MOST_NAMED - 1)} {verb} not"


def quoted(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """The first names, and how many more there are: "`genre` and 3 more"."""
    few = len(names) <= most
    shown = [f"`{_clipped(name)}`" for name in (names if few else names[: most - 1])]
    if not few:
        shown.append(f"{len(names) - most + 1} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _clipped(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"
