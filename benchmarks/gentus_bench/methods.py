"""Every system that can be compared, by the name that a command takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from gentus_bench.ours import GenTUS, IndexFolder
from gentus_bench.paper_system import MINUTES, VECTORS, settings_for, title


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake as it lies on disk."""

    tables: Path
    labels: Path | None  # pairs to learn from, none of which names a query that is scored
    annotated: Path | None  # pairs to learn from, some of which do
    index: IndexFolder  # where a method may keep what it builds
    seed: int = 0
    queries: Path | None = None  # a folder of queries that are not in the lake
    named: bool = True  # whether names of columns may be used: they are not what the labels were made of
    minutes: float = MINUTES  # to train the paper's generator


def _gentus(lake: Lake, order: Order = "aligned", names: bool = False) -> GenTUS:
    shown = f"GenTUS ({order})" + ", names" * names
    folder = replace(lake.index, reuse=True) if order == "generated" else lake.index
    return GenTUS(lake.tables, folder, None, shown, order, seed=lake.seed, names=names)


def _labelled(lake: Lake, labels: Path | None, name: str) -> GenTUS | None:
    """In the order that it has learnt."""
    if labels is None:
        return None
    return GenTUS(lake.tables, lake.index, labels, name, seed=lake.seed, names=False, **_queries(lake))


def _queries(lake: Lake) -> dict[str, Any]:
    return {} if lake.queries is None else {"queries": str(lake.queries)}


def paper_options(method: str, seed: int, minutes: float) -> dict[str, Any]:
    """Options of `gentus.build` for the paper's own system."""
    paper = settings_for(VECTORS[method], seed)
    return {"preset": "paper", "paper": paper, "time_budget": 60 * minutes, "seed": seed, "names": False}


def _paper(lake: Lake, method: str) -> GenTUS | None:
    """In the order of its generator."""
    if lake.labels is None:
        return None
    options = paper_options(method, lake.seed, lake.minutes) | _queries(lake)
    folder, name = replace(lake.index, built=True), title(method, lake.minutes)
    return GenTUS(lake.tables, folder, lake.labels, name, "generated", **options)


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
    "gentus-labels": lambda lake: _labelled(lake, lake.labels, "GenTUS, labels"),
    "gentus-annotated": lambda lake: _labelled(lake, lake.annotated, "GenTUS, labels (queries annotated)"),
    "gentus-paper": lambda lake: _paper(lake, "gentus-paper"),
    "gentus-paper-closed": lambda lake: _paper(lake, "gentus-paper-closed"),
    "tfidf-names": lambda lake: TfidfNames() if lake.named else None,
    "gentus-names": lambda lake: _gentus(lake, names=True) if lake.named else None,
}
SAME_INDEX = {"gentus-generated": "gentus"}  # methods that open what another has built, if it is there
NAMED = ("tfidf-names", "gentus-names")  # the only ones that see names of columns
ANNOTATED = ("gentus-annotated",)  # the only ones whose labels name queries that are scored


def wanted(names: Sequence[str] | None, named: bool = False) -> list[str]:
    """The methods of these names; or all whose labels name no query, with column names only if `named`."""
    if unknown := [name for name in names or () if name not in METHODS]:
        raise ValueError(f"unknown method {', '.join(unknown)}; known are {', '.join(METHODS)}")
    return list(names or ()) or [
        name for name in METHODS if name not in ANNOTATED and (named or name not in NAMED)
    ]
