"""Decisions on notations that can be read in two ways: what was decided, and from what.

`1,234` may have a decimal comma or a comma between thousands; in `3/4/2020` the day or the month comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gentus.align.notation import VALUES, What
from gentus.sent import Sent
from gentus.union.plan_reader import JsonObject

_REASONS = {  # what a decision can be made from, the strongest first, and how to say it
    "person": "as decided by a person",
    "column": "",  # all of its cells can be read in one way only
    "majority": "",
    "other columns": "as in other columns of the table",
    "delimiter": "because the file's delimiter is ;",
    "query": "as in the query",
    "tables": "as in the other tables",
    "default": "by default",
}
SOURCES = tuple(_REASONS)
_KEYS = ("what", "as", "from", "examples", "undecided")
_MARKS = {".": "point", ",": "comma"}


@dataclass(frozen=True, slots=True)
class Decision(Sent):
    """How the cells of a column are read, and what decided it."""

    what: What
    value: str
    source: str  # one of `SOURCES`
    examples: tuple[str, ...] = ()  # cells that can be read in both ways

    @property
    def undecided(self) -> bool:
        """Whether nothing but the default decided."""
        return self.source == "default"

    def words(self) -> str:
        """For people; empty if the column leaves no choice."""
        if self.source == "column":
            return ""
        if self.source == "majority":
            if self.what == "decimal":
                return f"point and comma are both used as decimal mark; mostly it is {self.value!r}"
            return f"day and month come in both orders; most have the {self.value}"
        what = "numbers" if self.what == "decimal" else "dates"
        cells = f"{what} like {self.examples[0]} are" if self.examples else f"{what} are"
        undecided = "undecided: " if self.undecided else ""
        return f"{undecided}{cells} read {self._how()}, {_REASONS[self.source]}"

    def _how(self) -> str:
        if self.what == "dates":
            return self.value
        other = "," if self.value == "." else "."
        if self.examples and other in self.examples[0]:
            return f"with a {_MARKS[other]} between thousands"
        return f"with a decimal {_MARKS[self.value]}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            **{"what": self.what, "as": self.value, "from": self.source},
            **({"examples": list(self.examples)} if self.examples else {}),
            **({"undecided": True} if self.undecided else {}),
        }

    @classmethod
    def from_json(cls, one: JsonObject) -> Decision:
        """From JSON; raises `PlanError`."""
        what: Any = one.choice("what", tuple(VALUES))
        return cls(
            what,
            one.choice("as", VALUES[what]),
            one.choice("from", SOURCES),
            one.strings("examples"),
        )


def decided_from_json(column: JsonObject) -> tuple[Decision, ...]:
    """The decisions on a column of a plan."""
    return tuple(map(Decision.from_json, column.objects("decided", "decision", _KEYS, optional=True)))


@dataclass(frozen=True, slots=True)
class Choices:
    """What a person decides for all columns of a table, or of a union."""

    decimal: str | None = None  # where the cells of a column leave it open
    dates: str | None = None
    null_values: tuple[str, ...] = ()  # cells that are null in every column, of text too

    def get(self, what: What) -> str | None:
        """The choice of a notation."""
        return self.decimal if what == "decimal" else self.dates

    def choose(self, what: What, value: str) -> Choices:
        """With a choice of a notation."""
        return replace(self, decimal=value) if what == "decimal" else replace(self, dates=value)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what is left open."""
        nulls = {"null_values": list(self.null_values)} if self.null_values else {}
        return {**{what: self.get(what) for what in VALUES if self.get(what)}, **nulls}

    @classmethod
    def from_json(cls, one: JsonObject) -> Choices:
        """From the JSON of a table or of a plan; raises `PlanError`."""
        given = {what: one.choice(what, VALUES[what]) for what in VALUES if one.values.get(what) is not None}
        return cls(given.get("decimal"), given.get("dates"), one.strings("null_values"))


NO_CHOICES = Choices()
CHOICE_KEYS = (*VALUES, "null_values")
