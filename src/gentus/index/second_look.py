"""The second look of a search: verdicts on ranked tables by their column signatures, and the final order.

The beam decides which tables are looked at; no file of the lake is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeAlias, TypedDict, get_args

import numpy as np

from gentus.align.matched_columns import MatchedColumns
from gentus.align.verdict import FITS, Fit, Verdict, fit_of, judge
from gentus.arrays import F64, I64
from gentus.index.catalogue import AlteredError, Catalogue, SignedColumns
from gentus.index.queries import Query
from gentus.index.row_overlap import SameRows, tell_duplicates
from gentus.index.snapshot import Snapshot
from gentus.retrieval.retriever import RankedRow
from gentus.settings import refuse_unknown
from gentus.table import Header

Order: TypeAlias = Literal["aligned", "generated"]
AtLeast: TypeAlias = Literal["any", "partial", "full"]
LOOKED_AT = 30  # tables that are put in order by the second look; with 60 the order is no better
WEIGHT = 0.25  # of the match of columns beside the generated score, both standardised


class RankingOptions(TypedDict, total=False):
    """What can be chosen of a search, and rarely is."""

    beam: int | None  # its width; default: max(2k, 200), with the paper's generator max(2k, 100)
    order: Order | None  # default: aligned, and generated where labels were learnt from
    encoding: str | None  # of a query that is delimited text; default: as in the index, or auto


class LakeSearchOptions(RankingOptions, total=False):
    """What else can be chosen when a lake is searched."""

    explain: bool
    header: Header | None  # of a query that is delimited text


class SearchOptions(RankingOptions, total=False):
    """What can be chosen of a search."""

    fit: AtLeast  # only tables that fit at least so far; default: any
    min_score: float  # only tables with this score at least; default: 0
    header: Header | None  # of a query that is delimited text; default: as in the index, or auto


@dataclass(frozen=True, slots=True)
class ChosenOptions:
    """The options of a search, with defaults."""

    k: int
    beam: int | None
    order: Order
    fit: AtLeast
    min_score: float

    @classmethod
    def of(cls, k: int, options: SearchOptions, labelled: bool) -> ChosenOptions:
        """Checked options; `labelled` indexes keep the order that they have learnt."""
        refuse_unknown(options, SearchOptions)
        order = options.get("order") or ("generated" if labelled else "aligned")
        fit, min_score = options.get("fit", "any"), options.get("min_score", 0.0)
        if k < 1:
            raise ValueError(f"k is {k}; ask for at least one table")
        if order not in get_args(Order):
            raise ValueError(f"the order is one of {', '.join(get_args(Order))}, not {order}")
        if fit not in get_args(AtLeast):
            raise ValueError(f"fit is one of {', '.join(get_args(AtLeast))}, not {fit}")
        if not 0 <= min_score <= 1:
            raise ValueError(f"min_score is a probability, 0 to 1, not {min_score}")
        return cls(k, options.get("beam"), order, fit, min_score)

    @property
    def looked_at(self) -> int:
        """How many tables are looked at."""
        every = self.order == "aligned" or self.fit != "any" or self.min_score > 0
        return max(self.k, LOOKED_AT) if every else self.k

    def allows(self, one: Judged) -> bool:
        """Whether a table fits well enough to be a hit."""
        return one.score >= self.min_score and fits_at_least(one.fit, self.fit)


def fits_at_least(fit: Fit, least: AtLeast) -> bool:
    """Whether a table fits so far."""
    return least == "any" or FITS.index(fit) <= FITS.index(least)


@dataclass(frozen=True, slots=True)
class Judged:
    """A ranked table with its verdict."""

    ranked: RankedRow
    table: int
    score: float
    fit: Fit
    columns: MatchedColumns
    same_rows: SameRows | None = None


def look_at(
    snapshot: Snapshot,
    catalogue: Catalogue,
    query: Query,
    ranked: Sequence[RankedRow],
    options: ChosenOptions,
) -> list[Judged]:
    """The best tables of a query with verdicts, without the query itself."""
    rows = np.array([one.row for one in ranked], np.int64)
    tables = snapshot.decoder.trie.table(rows).tolist()
    found = [(one, table) for one, table in zip(ranked, tables, strict=True) if table not in query.self_ids]
    found = found[: options.looked_at]
    signed = _signatures(snapshot, catalogue, [table for _, table in found])
    found = [(one, table) for one, table in found if table in signed]
    signatures = [signed[table].signatures for _, table in found]
    verdicts = judge(query.content.columns, signatures, snapshot.config.settings.names)
    best = np.arange(len(found))
    if options.order == "aligned":
        best = aligned_order([one.score for one, _ in found], [one.match for one in verdicts])
    judged = (
        _judged(*found[at], verdicts[at], query.content.columns.names, signed[found[at][1]].names)
        for at in best.tolist()
    )
    some = list(islice(filter(options.allows, judged), options.k))
    ids = [one.table for one in some]
    same = tell_duplicates(query.content.row_sketch, ids, catalogue.row_sketches.of(ids))
    return [replace(one, same_rows=rows) for one, rows in zip(some, same, strict=True)]


def _signatures(
    snapshot: Snapshot, catalogue: Catalogue, tables: Sequence[int]
) -> Mapping[int, SignedColumns]:
    """Signatures by id; a table that was removed just now has none."""
    signed = catalogue.signatures.of(tables)
    if len(signed) < len(set(tables)) and catalogue.change_sequence() == snapshot.change_sequence:
        missing = min(set(tables) - signed.keys())
        raise AlteredError(f"it lacks the columns of table {missing}, which was not removed")
    return signed


def aligned_order(scores: Sequence[float], matches: Sequence[float]) -> I64:
    """(n,) positions, best first; of equals the first generated. Those beyond LOOKED_AT stay."""
    count = min(len(scores), LOOKED_AT)
    blend = _standardised(scores[:count]) + WEIGHT * _standardised(matches[:count])
    order = np.argsort(-blend, kind="stable")
    return np.concatenate([order, np.arange(count, len(scores))]).astype(np.int64)


def _standardised(values: Sequence[float]) -> F64:
    """(n,) with mean 0 and deviation 1, or all 0."""
    array = np.asarray(values, np.float64)
    return (array - array.mean()) / max(float(array.std()), 1e-9) if len(array) else array


def _judged(
    ranked: RankedRow,
    table: int,
    verdict: Verdict,
    ours: Sequence[str],
    theirs: Sequence[str],
) -> Judged:
    columns = MatchedColumns.of(ours, theirs, verdict.pairs())
    score = round(verdict.score, 4)
    return Judged(ranked, table, score, fit_of(score, columns.matched, columns.query), columns)
