"""Ways to match the columns of two tables: ours, and the matchers of valentine where it is installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from gentus.align.matcher import align, shipped_weights
from gentus.extras import install_extra
from gentus.table import Table

Found = list[tuple[int, int, float]]  # (query's column, table's column, score), one-to-one


@dataclass(frozen=True, slots=True)
class Aligner:
    """Something that matches columns."""

    name: str
    match: Callable[
        [Table, Table, bool], tuple[Found, float]
    ]  # pairs, and milliseconds from tables in memory
    threshold: float | None = None  # the one it comes with; None if it is to be given the best for it
    reads_names: bool = True


def ours(query: Table, table: Table, names: bool) -> tuple[Found, float]:
    """GenTUS, at the threshold that was learnt on other tables."""
    started = time.perf_counter()
    found = align(query, table, names)
    elapsed = 1000 * (time.perf_counter() - started)
    return [(pair.query.at, pair.table.at, pair.score) for pair in found.pairs], elapsed


def _valentine(make: Callable[[bool], Any], query: Table, table: Table, names: bool) -> tuple[Found, float]:
    """A matcher of valentine, reduced to one-to-one by its own assignment, without a threshold."""
    from valentine import valentine_match

    matcher = make(names)
    frames = [_frame(side, names, number) for number, side in enumerate((query, table))]
    started = time.perf_counter()
    matches = valentine_match(frames, matcher).one_to_one_hungarian(threshold=0.0)
    elapsed = 1000 * (time.perf_counter() - started)
    left, right = ({name: at for at, name in enumerate(frame.columns)} for frame in frames)
    found = [(left[m.source_column], right[m.target_column], float(score)) for m, score in matches.items()]
    return found, elapsed


def _frame(table: Table, names: bool, number: int) -> Any:
    """A table as valentine takes it: numbers as numbers. Without names, no two columns are called alike."""
    import pandas as pd

    rows = max((len(column.cells) for column in table.columns), default=0)
    columns = {}
    for at, column in enumerate(table.columns):
        cells = pd.Series(column.cells + [None] * (rows - len(column.cells)), dtype=object)
        numbers = pd.to_numeric(cells, errors="coerce")
        plain = int(numbers.notna().sum()) == len(column.cells)
        columns[column.name if names else f"{'xy'[number]}{at}"] = numbers if plain else cells
    return pd.DataFrame(columns)


def _jaccard(names: bool) -> Any:
    from valentine.algorithms import JaccardDistanceMatcher

    return JaccardDistanceMatcher()


def _coma(names: bool) -> Any:
    from valentine.algorithms import Coma

    _stop_words()
    return Coma(use_schema=names, use_instances=True)


def _distribution(names: bool) -> Any:
    from valentine.algorithms import DistributionBased

    return DistributionBased()


def _stop_words() -> None:
    """Coma asks NLTK for a list of stop words, which it fetches from the network; another list does too."""
    import nltk
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
    from valentine.algorithms.coma.similarity import tfidf

    try:
        nltk.data.find("corpora/stopwords")
    except LookupError:
        tfidf._english_stopwords = lambda: ENGLISH_STOP_WORDS


_MATCHERS = {
    "jaccard": ("JaccardDistanceMatcher", _jaccard),
    "coma": ("Coma with instances", _coma),
    "distribution": ("DistributionBased", _distribution),
}


def aligners(chosen: list[str] | None = None) -> dict[str, Aligner]:
    """Ours, and those of valentine if it is there; or some of them by name."""
    known = {"gentus": Aligner("GenTUS", ours, shipped_weights().threshold)}
    for name, (title, make) in _MATCHERS.items():
        known[name] = Aligner(f"valentine {title}", partial(_valentine, make), reads_names=name == "coma")
    there = find_spec("valentine") is not None
    wanted = chosen or [name for name in known if name == "gentus" or there]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no {name}; choose among {', '.join(known)}")
        if name in _MATCHERS and not there:
            raise ModuleNotFoundError(f"{name} needs valentine: {install_extra('valentine')}")
    return {name: known[name] for name in wanted}
