"""How the columns of a sampled table are read: decided by the table itself, or agreed with another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gentus.align.cell_evidence import cell_evidence
from gentus.align.notation import (
    VALUES,
    Evidence,
    Found,
    What,
    by_column,
    by_default,
    by_file,
    by_others,
)
from gentus.table import Table

Agreed: TypeAlias = Mapping[int, Mapping[What, str]]  # readings by the position of a column
_NONE = Evidence()  # of columns that are typed in their file


@dataclass(frozen=True, slots=True)
class ColumnNotations:
    """What the columns of a table show, and what the table decides of them; None: it is open."""

    evidence: list[Evidence]
    found: list[dict[What, Found | None]]

    @classmethod
    def of(cls, table: Table, values: Sequence[tuple[list[str], Iterable[float]]]) -> ColumnNotations:
        """Of a table, given the distinct values of its columns and how often each occurs."""
        evidence = [
            _NONE if column.typed else cell_evidence(*distinct)
            for column, distinct in zip(table.columns, values, strict=True)
        ]
        of_file = {what: by_file(what, evidence, table.delimiter) for what in VALUES}
        found = [{what: by_column(what, one) or of_file[what] for what in VALUES} for one in evidence]
        return cls(evidence, found)

    def select(self, some: Sequence[int]) -> ColumnNotations:
        """Those of some columns."""
        return ColumnNotations([self.evidence[at] for at in some], [self.found[at] for at in some])

    def reading(self, at: int, agreed: Agreed) -> tuple[str, str]:
        """The decimal mark of a column, and which of day and month comes first."""
        given, shown, found = agreed.get(at, {}), self.evidence[at], self.found[at]
        decimal, dates = (
            given.get(what) or (found[what] or by_default(what, shown)).value for what in VALUES
        )
        return decimal, dates


def agree(
    query: ColumnNotations, table: ColumnNotations, pairs: Iterable[tuple[int, int]]
) -> tuple[Agreed, Agreed]:
    """What two tables decide for each other: readings of matched columns that differ from their own."""
    agreed: tuple[dict[int, dict[What, str]], dict[int, dict[What, str]]] = ({}, {})
    for places in pairs:
        for what in VALUES:
            both = {
                number: (side.evidence[at], side.found[at][what])
                for number, (side, at) in enumerate(zip((query, table), places, strict=True))
            }
            if all(found is not None for _, found in both.values()):
                continue
            for number, found in by_others(what, both).items():
                if both[number][1] is None and found != by_default(what, both[number][0]):
                    agreed[number].setdefault(places[number], {})[what] = found.value
    return agreed
