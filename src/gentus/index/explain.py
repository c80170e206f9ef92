"""Alignments by the files of tables, with the same score as a search gives, and a verdict that agrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from gentus.align.alignment import Alignment, ColumnRef
from gentus.align.matched_columns import MatchedColumns
from gentus.align.matcher import align_profiles
from gentus.align.name_similarity import parse_names
from gentus.align.second_look import QueryColumns
from gentus.align.signatures import names_of, places_of
from gentus.align.table_profile import TableProfile, profile_table
from gentus.align.verdict import fit_of, judge
from gentus.index.hits import Hit
from gentus.index.queries import columns_of
from gentus.index.second_look import AtLeast, fits_at_least
from gentus.lake import Unreadable
from gentus.table import Table


class Aligner:
    """Aligns tables with one query, of which the profile and the signatures are made once."""

    def __init__(self, query: Table, names: bool = True) -> None:
        self.query, self.names = query, names

    @cached_property
    def _profile(self) -> TableProfile:
        return profile_table(self.query)

    @cached_property
    def _columns(self) -> QueryColumns:
        return columns_of(self.query)

    def prepare(self) -> None:
        """Make all that depends on the query alone."""
        _ = self._profile, self._columns
        if self.names:
            parse_names([column.name for column in self.query.columns])  # they are kept

    def score(self, table: Table) -> float:
        """The score that a search gives."""
        (verdict,) = judge(self._columns, [columns_of(table).signatures], self.names)
        return round(verdict.score, 4)

    def align(
        self, table: Table, score: float | None = None, profile: TableProfile | None = None
    ) -> Alignment:
        """Which columns match and why, and how far the table fits; score and profile may be known.

        A profile that is given may lack the cells of its table.
        """
        other = profile_table(table) if profile is None else replace(profile, table=table)
        found = align_profiles(self._profile, other, self.names)
        return _judged(found, self.query, table, self.score(table) if score is None else score)


def align_tables(query: Table, table: Table, names: bool = True) -> Alignment:
    """Which columns of two tables match and why, and how far the table fits."""
    return Aligner(query, names).align(table)


def explain_hits(
    query: Table, hits: Sequence[Hit], read: Callable[[str], Table], names: bool, least: AtLeast
) -> list[Hit]:
    """Hits with alignments, and the columns and the fit that these give; only those that fit so far.

    A table that cannot be read any more keeps what the index knows of it; its alignment says why.
    """
    aligner = Aligner(query, names)
    explained = []
    for hit in hits:
        try:
            table = read(hit.table)
        except Unreadable as error:
            explained.append(replace(hit, alignment=_unaligned(query, hit, error.reason)))
            continue
        found = aligner.align(table, hit.score)
        fit, columns = found.fit or hit.fit, found.columns or hit.columns
        explained.append(replace(hit, fit=fit, columns=columns, alignment=found))
    return [hit for hit in explained if fits_at_least(hit.fit, least)]


def _judged(alignment: Alignment, query: Table, table: Table, score: float) -> Alignment:
    """An alignment with its verdict; columns without cells do not count."""
    ours, theirs = places_of(query), places_of(table)
    pairs = [
        (ours[one.query.at], theirs[one.table.at])
        for one in alignment.pairs
        if one.query.at in ours and one.table.at in theirs
    ]
    columns = MatchedColumns.of(names_of(query), names_of(table), pairs)
    return replace(alignment, score=score, fit=fit_of(score, len(pairs), len(ours)), columns=columns)


def _unaligned(query: Table, hit: Hit, reason: str) -> Alignment:
    columns = [ColumnRef(at, column.name) for at, column in enumerate(query.columns)]
    return Alignment(query.name, hit.table, [], columns, [], hit.score, hit.fit, hit.columns, reason)
