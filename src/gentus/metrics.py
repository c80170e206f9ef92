"""How good a ranking is: ground truth, its check against the lake, and the field's three meanings of MAP."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    pass

Name = TypeVar("Name", str, int)  # tables by name, or by position where the pipeline scores itself
HEADER = ("query_table", "candidate_table")


def load_groundtruth(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read `query_table,candidate_table` pairs: the candidates of each query, in file order.

    A header is optional, in any letter case; with one, further columns are ignored. Repeated pairs
    count once. A query is never its own answer, so a query whose only candidate is itself is dropped.
    """
    truth: dict[str, dict[str, None]] = {}
    at, width = (0, 1), 2
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        try:
            for number, row in enumerate(rows):
                cells = [cell.strip() for cell in row]
                if number == 0 and set(HEADER) <= {cell.lower() for cell in cells}:
                    names = [cell.lower() for cell in cells]
                    at, width = (names.index(HEADER[0]), names.index(HEADER[1])), len(names)
                    continue
                if not any(cells):
                    continue
                if len(cells) != width or not cells[at[0]] or not cells[at[1]]:
                    raise ValueError(
                        f"{path}, line {rows.line_num}: expected {','.join(HEADER)}, found {','.join(row)!r}"
                    )
                query, candidate = cells[at[0]], cells[at[1]]
                if query != candidate:
                    truth.setdefault(query, {})[candidate] = None
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}, line {rows.line_num}: not a CSV file in UTF-8 ({error})") from error
    return {query: list(candidates) for query, candidates in truth.items()}


@dataclass(frozen=True, slots=True)
class GroundtruthCheck:
    """What a ground truth names that is not there."""

    queries: int
    pairs: int
    missing_queries: list[str]
    missing_candidates: list[str]
    missing_pairs: int  # pairs that cannot be found, because one side of them is missing

    @property
    def ok(self) -> bool:
        """Whether every table that the ground truth names is there."""
        return not self.missing_queries and not self.missing_candidates

    def summary(self) -> str:
        """Say it in plain words."""
        if self.ok:
            return f"Every table of the ground truth is there ({self.queries} queries, {self.pairs} pairs)."
        parts = []
        if self.missing_queries:
            parts.append(
                f"query tables missing: {len(self.missing_queries)} of {self.queries}"
                f" ({_some(self.missing_queries)})"
            )
        if self.missing_candidates:
            parts.append(
                f"candidate tables not in the lake: {len(self.missing_candidates)}"
                f" ({_some(self.missing_candidates)})"
            )
        return (
            f"The ground truth and the lake do not fit: {'; '.join(parts)}."
            f" Of {self.pairs} pairs, {self.missing_pairs} can never be found, and count as not found."
        )


def _some(names: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown}, ..." if len(names) > limit else shown


def check(
    truth: Mapping[str, Sequence[str]],
    lake_names: Iterable[str],
    query_names: Iterable[str] | None = None,
) -> GroundtruthCheck:
    """Compare a ground truth with the tables there are. Without `query_names`, queries are in the lake."""
    lake = set(lake_names)
    known = lake if query_names is None else set(query_names)
    missing = {name for candidates in truth.values() for name in candidates if name not in lake}
    return GroundtruthCheck(
        queries=len(truth),
        pairs=sum(len(candidates) for candidates in truth.values()),
        missing_queries=sorted(query for query in truth if query not in known),
        missing_candidates=sorted(missing),
        missing_pairs=sum(
            query not in known or name in missing
            for query, candidates in truth.items()
            for name in candidates
        ),
    )


@dataclass(frozen=True, slots=True)
class Metrics:
    """Scores of a set of rankings, each the mean over queries."""

    k: int
    queries: int
    map: float  # average precision over min(k, |G|): 1.0 is reachable for every query
    map_full: float  # average precision over |G|
    map_prefix: float  # P@k' over queries with |G| >= k', averaged over k' = 1..k (the Starmie code's)
    precision: float  # P@k
    recall: float  # R@k, over |G|
    ms_p50: float | None = None  # time a query, where it was measured
    ms_p95: float | None = None

    def to_dict(self) -> dict[str, int | float | None]:
        """Return the scores as one flat JSON object."""
        return asdict(self)


def score(
    rankings: Mapping[Name, Sequence[Name]],
    truth: Mapping[Name, Sequence[Name]],
    k: int,
    milliseconds: Sequence[float] | None = None,
) -> Metrics:
    """Score the first `k` of each ranking against the truth.

    The query itself is removed from its ranking, of a repeated table the first place counts, and a query
    without a ranking counts as zero. Queries without any answer cannot be scored and are left out.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    answers = {query: set(candidates) - {query} for query, candidates in truth.items()}
    answers = {query: candidates for query, candidates in answers.items() if candidates}
    if not answers:
        raise ValueError("the ground truth has no query with an answer")

    hits = np.zeros((len(answers), k))  # (Q, k): 1 where the table at that rank is an answer
    for row, (query, candidates) in enumerate(answers.items()):
        hits[row] = _hits(rankings.get(query, ()), query, candidates, k)
    sizes = np.array([len(candidates) for candidates in answers.values()])  # (Q,)
    ranks = np.arange(1, k + 1)
    precision = hits.cumsum(axis=1) / ranks  # (Q, k): P@1..P@k
    gain = (precision * hits).sum(axis=1)
    long_enough = sizes[:, None] >= ranks  # (Q, k)
    prefixes = long_enough.any(axis=0)  # a k' that no query has enough answers for says nothing
    by_prefix = (precision * long_enough).sum(axis=0)[prefixes] / long_enough.sum(axis=0)[prefixes]
    timed = milliseconds is not None and len(milliseconds) > 0
    return Metrics(
        k=k,
        queries=len(answers),
        map=float((gain / np.minimum(sizes, k)).mean()),
        map_full=float((gain / sizes).mean()),
        map_prefix=float(by_prefix.mean()),
        precision=float(precision[:, -1].mean()),
        recall=float((hits.sum(axis=1) / sizes).mean()),
        ms_p50=float(np.percentile(np.asarray(milliseconds), 50)) if timed else None,
        ms_p95=float(np.percentile(np.asarray(milliseconds), 95)) if timed else None,
    )


def _hits(ranking: Sequence[Name], query: Name, answers: AbstractSet[Name], k: int) -> list[float]:
    seen = {query}
    hits: list[float] = []
    for name in ranking:
        if len(hits) == k:
            break
        if name not in seen:
            seen.add(name)
            hits.append(float(name in answers))
    return hits + [0.0] * (k - len(hits))
