"""Every system that can be compared, by the name that a command takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gentus.index.second_look import Order
from gentus_bench.baselines import (
    D3L,
    LIFTus,
    MiniLMColumns,
    Retriever,
    Santos,
    Sato,
    Sherlock,
    Starmie,
    StarmieStatic,
    Tactus,
    TactusStatic,
    TfidfChars,
    TfidfNames,
    TfidfWords,
)
from gentus_bench.ours import GenTUS


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake as it lies on disk."""

    tables: Path
    labels: Path | None  # pairs to learn from, never of the queries that are scored
    index: Path  # where a method may keep what it builds
    seed: int = 0
    reuse: bool = False  # take an index that lies there as it is
    named: bool = True  # whether names of columns may be used: they are not what the labels were made of


def _gentus(lake: Lake, order: Order = "aligned", names: bool = False) -> GenTUS:
    title = f"GenTUS ({order})" + ", names" * names
    reuse = lake.reuse or order == "generated"
    return GenTUS(lake.tables, lake.index, None, title, reuse, order, seed=lake.seed, names=names)


def _labelled(lake: Lake) -> GenTUS | None:
    if lake.labels is None:
        return None
    title = "GenTUS, labels"  # in the order that it has learnt
    return GenTUS(lake.tables, lake.index, lake.labels, title, lake.reuse, seed=lake.seed, names=False)


METHODS: dict[str, Callable[[Lake], Retriever | None]] = {  # None: it cannot be had on that lake
    "tfidf-words": lambda lake: TfidfWords(),
    "tfidf-chars": lambda lake: TfidfChars(),
    "minilm": lambda lake: MiniLMColumns(),
    "sherlock": lambda lake: Sherlock(lake.seed),
    "sato": lambda lake: Sato(lake.seed),
    "starmie": lambda lake: Starmie(lake.seed),
    "starmie-static": lambda lake: StarmieStatic(lake.seed),
    "liftus": lambda lake: LIFTus(lake.seed),
    "tactus": lambda lake: Tactus(lake.seed),
    "tactus-static": lambda lake: TactusStatic(lake.seed),
    "santos": lambda lake: Santos(lake.seed),
    "d3l": lambda lake: D3L(lake.seed),
    "gentus": lambda lake: _gentus(lake),
    "gentus-generated": lambda lake: _gentus(lake, "generated"),
    "gentus-labels": _labelled,
    "tfidf-names": lambda lake: TfidfNames() if lake.named else None,
    "gentus-names": lambda lake: _gentus(lake, names=True) if lake.named else None,
}
SAME_INDEX = {"gentus-generated": "gentus"}  # methods that open what another has built, if it is there
NAMED = ("tfidf-names", "gentus-names")  # the only ones that see names of columns


def wanted(names: Sequence[str] | None, named: bool = False) -> list[str]:
    """The methods of these names, or all; those that see column names only if `named`."""
    if unknown := [name for name in names or () if name not in METHODS]:
        raise ValueError(f"unknown method {', '.join(unknown)}; known are {', '.join(METHODS)}")
    return list(names or ()) or [name for name in METHODS if named or name not in NAMED]
