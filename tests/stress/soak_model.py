"""What must be there: a small lake that changes at random, and the names of all tables that it has."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

FEWEST, MOST = 150, 250  # tables
_TEXT = (
    "salmon trout carp pike eel perch herring cod tuna bass Berlin Vienna Lisbon Madrid Rome Oslo Dublin"
    " iron copper zinc nickel silver gold cobalt tin lead titanium hammer pliers wrench chisel drill saw"
    " robin sparrow heron eagle falcon owl crane stork wren finch drama thriller comedy river lake sea"
)
_WORDS = _TEXT.split()
_FUTURE, _PAST = 4_102_444_800, 86_400  # seconds: the year 2100, and the second day of 1970


@dataclass(slots=True)
class Operation:
    """One change of an index, to files that were changed already."""

    kind: str  # add, remove, sync, compact or refit
    what: list[str] = field(default_factory=list)  # files to add, or tables to remove


@dataclass(slots=True)
class Model:
    """A lake, and files beside it; `tables` are the names that an index has when it has followed."""

    root: Path
    chance: random.Random
    tables: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)  # written anew since the index was last seen to follow
    _made: int = 0

    @property
    def lake(self) -> Path:
        """The folder that a sync follows."""
        return self.root / "lake"

    @property
    def index(self) -> Path:
        """The index folder."""
        return self.root / "index"

    @property
    def query(self) -> Path:
        """A table to search with, which is nowhere in the lake."""
        return self.root / "query.csv"

    def path(self, name: str) -> Path:
        """The file of a table."""
        return self.lake / name  # which is the name itself where that is a full path

    def fill(self) -> None:
        """The lake of the first build."""
        self.write(str(self.query))
        for _ in range((FEWEST + MOST) // 2):
            self.make()

    def make(self, outside: bool = False) -> str:
        """A new table; returns its name."""
        self._made += 1
        name = f"{self.chance.choice('abcd')}/table-{self._made}.csv"
        name = str(self.root / "beside" / name) if outside else name
        self.write(name)
        self.tables.add(name)
        return name

    def write(self, name: str) -> None:
        """Other rows than any before, with a date that may be anything."""
        chance, path = self.chance, self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        words = chance.sample(_WORDS, 6)
        rows = [
            f"{chance.choice(words)},{chance.choice(words)} {chance.choice(words)},{chance.randint(0, 10**6)}"
            for _ in range(chance.randint(5, 15))
        ]
        path.write_text("\n".join(["name,kind,size", *rows]) + "\n", encoding="utf-8")
        self.changed.add(name)
        if chance.random() < 0.2:
            self.jump(name)

    def jump(self, name: str) -> None:
        """Let the clock of whoever wrote a file have been wrong; never twice in the same way."""
        seconds = self.chance.choice([_FUTURE, _PAST, int(time.time())]) + self.chance.randint(
            -50_000, 50_000
        )
        os.utime(self.path(name), ns=(seconds * 10**9 + self._made,) * 2)

    def some(self, count: int, inside: bool = False) -> list[str]:
        """Some tables; of the lake only, where others could not be followed."""
        known = sorted(name for name in self.tables if not (inside and os.path.isabs(name)))
        return self.chance.sample(known, min(count, len(known)))

    def drop(self, name: str) -> None:
        """The file is gone."""
        self.path(name).unlink()
        self.tables.discard(name)

    def rename(self, name: str) -> None:
        """The same file under another name."""
        self._made += 1
        other = f"{self.chance.choice('abcd')}/moved-{self._made}.csv"
        self.path(other).parent.mkdir(exist_ok=True)
        self.path(name).rename(self.path(other))
        self.tables.discard(name)
        self.tables.add(other)
        self.changed.add(other)

    def change(self, kind: str, inside: bool = False) -> Operation:
        """Change files, and say what is to be done to the index then."""
        chance = self.chance
        if kind == "add":
            names = [self.make(not inside and chance.random() < 0.3) for _ in range(chance.randint(1, 3))]
            return Operation("add", [str(self.path(name)) for name in names])
        if kind == "replace":
            names = self.some(chance.randint(1, 2), inside)
            for name in names:
                self.write(name)
            return Operation("add", [str(self.path(name)) for name in names])
        if kind == "remove":
            names = self.some(chance.randint(1, 3), inside)
            for name in names:
                self.drop(name)
            return Operation("remove", names)
        if kind == "rename":
            for name in self.some(chance.randint(1, 2), inside=True):
                self.rename(name)
            return Operation("sync")
        if kind == "sync":
            for name in self.some(2, inside=True):
                self.write(name)
            for name in self.some(2, inside=True):
                self.jump(name)
            for name in self.some(chance.randint(0, 2), inside=True):
                self.drop(name)
            for _ in range(chance.randint(0, 2)):
                self.make()
            return Operation("sync")
        return Operation(kind)
