"""Hits: rows of the prefix tree resolved to tables with names; the query itself is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gentus.align.alignment import Alignment
from gentus.align.matched_columns import MatchedColumns
from gentus.align.verdict import FITS, Fit
from gentus.arrays import I64
from gentus.arrow_export import ArrowExport
from gentus.identifiers.semantic_ids import format_sids
from gentus.index.catalogue import AlteredError, Catalogue, TableName
from gentus.index.queries import Query
from gentus.index.ranker import rank
from gentus.index.row_overlap import SameRows
from gentus.index.second_look import AtLeast, ChosenOptions, Judged, look_at
from gentus.index.snapshot import Snapshot
from gentus.search.trie import Tree

if TYPE_CHECKING:
    import pyarrow as pa

    from gentus.generator.model import Generator

MOST_NAMES = 50_000  # that are kept in memory: a few hundred bytes each


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer."""

    rank: int
    table: str  # its name in the lake
    score: float  # the probability that a person would append its rows
    fit: Fit  # full, partial or none
    columns: MatchedColumns
    sid: str  # its identifier
    path: str
    generated: float  # what it was ranked by before the second look: 1 for the same content
    prior: float | None = None  # the part of it that the latent space gives; with a generator only
    generator: float | None = None  # and the part that the generator gives
    same_rows: SameRows | None = None  # as the query, or as a hit before it
    alignment: Alignment | None = None  # which columns belong together; with `explain` only

    @property
    def why(self) -> str:
        """Why it fits, fits partly, or does not, in words."""
        return self.columns.why(self.fit)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        document: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                document[one.name] = value.to_dict() if hasattr(value, "to_dict") else value
            if one.name == "columns":
                document["why"] = self.why
        return document


class Hits(list[Hit], ArrowExport):
    """The answers to one query, best first; as Arrow, a row each."""

    def __init__(self, hits: Iterable[Hit] = (), doubt: str = "") -> None:
        super().__init__(hits)
        self.doubt = doubt  # why the header of the query looks like data; empty: it does not

    def to_reader(self) -> pa.RecordBatchReader:
        """Without identifiers and alignments."""
        import pyarrow as pa

        text, number, count = pa.string(), pa.float64(), pa.int64()
        pair = pa.struct([("query", text), ("table", text)])
        types = {
            **{"rank": count, "table": text, "score": number, "fit": text, "why": text, "path": text},
            **{"matched": count, "query_columns": count, "table_columns": count, "pairs": pa.list_(pair)},
            **{"missing": pa.list_(text), "generated": number, "same_rows": text},
        }
        table = pa.Table.from_pylist([_flat(hit) for hit in self], pa.schema(types.items()))
        return table.to_reader()


def _flat(hit: Hit) -> dict[str, Any]:
    """A hit as a row of a table."""
    columns = hit.columns
    names = ("rank", "table", "score", "fit", "why", "path", "generated")
    return {name: getattr(hit, name) for name in names} | {
        "matched": columns.matched,
        "query_columns": columns.query,
        "table_columns": columns.table,
        "pairs": [{"query": own, "table": other} for own, other in columns.pairs],
        "missing": columns.missing,
        "same_rows": None if hit.same_rows is None else str(hit.same_rows),
    }


@dataclass(slots=True)
class NameCache:
    """Names of tables, kept in memory until the catalogue changes."""

    catalogue: Catalogue
    _names: dict[int, TableName] = field(default_factory=dict)

    def clear(self) -> None:
        """Discard all names."""
        self._names = {}

    def find(self, tables: set[int]) -> dict[int, TableName]:
        """Names by id; a table that was removed just now has none."""
        known = self._names
        # Not `tables - known.keys()`, which walks through all that are kept.
        names = self.catalogue.tables.names(table for table in tables if table not in known)
        if len(known) < MOST_NAMES:
            known.update(names)
        return names | {table: known[table] for table in tables if table in known}


def answer(
    snapshot: Snapshot,
    generator: Generator | None,
    queries: Sequence[Query],
    options: ChosenOptions,
    cache: NameCache,
) -> list[list[Hit]]:
    """The whole search of some queries: rank, look at the first tables once more, and name them."""
    ranked = rank(snapshot, generator, queries, options.looked_at, options.beam)
    judged = [
        look_at(snapshot, cache.catalogue, query, rows, options)
        for query, rows in zip(queries, ranked, strict=True)
    ]
    return resolve(snapshot, queries, judged, cache)


def resolve(
    snapshot: Snapshot,
    queries: Sequence[Query],
    found: Sequence[Sequence[Judged]],
    cache: NameCache,
) -> list[list[Hit]]:
    """The tables of every query as hits."""
    rows = np.array([one.ranked.row for some in found for one in some], np.int64)
    sids = iter(sids_of(snapshot.decoder.trie, rows))
    owners = [[one.table for one in some] for some in found]
    names = cache.find({table for some in owners for table in some})
    _verify_names(names, owners, queries, snapshot.change_sequence, cache.catalogue)
    return [_hits((one, names.get(one.table), next(sids)) for one in some) for some in found]


def sids_of(trie: Tree, rows: I64) -> list[str]:
    """The identifiers of some rows, as people see them."""
    return format_sids(trie.codes_of(rows), trie.suffix(rows))


def _verify_names(
    names: dict[int, TableName],
    owners: Sequence[Sequence[int]],
    queries: Sequence[Query],
    change_sequence: int,
    catalogue: Catalogue,
) -> None:
    """Refuse a catalogue that has lost rows of tables, or entries of its index of paths."""
    missing = {table for some in owners for table in some if table not in names}
    if missing and catalogue.change_sequence() == change_sequence:
        raise AlteredError(f"it lacks the table {min(missing)}, which was not removed")
    for query, some in zip(queries, owners, strict=True):
        if query.location is None:
            continue
        real_path, part = query.location
        for table in some:
            name = names.get(table)
            if name is None or name.real_path != real_path or part not in (None, name.part):
                continue
            if table not in catalogue.tables.ids_at(real_path, part):  # else it was added just now
                raise AlteredError(f"its list of files does not lead to {name.name}")


def _hits(found: Iterable[tuple[Judged, TableName | None, str]]) -> list[Hit]:
    """Hits with ranks; a table without a name was removed just now."""
    named = [(one, name, sid) for one, name, sid in found if name is not None]
    return [_hit(rank, one, name, sid) for rank, (one, name, sid) in enumerate(named, 1)]


def _hit(rank: int, one: Judged, name: TableName, sid: str) -> Hit:
    prior, generator = (
        None if part is None else round(part, 6) for part in (one.ranked.prior, one.ranked.generator)
    )
    return Hit(
        rank,
        name.name,
        one.score,
        one.fit,
        one.columns,
        sid,
        name.path,
        round(one.ranked.score, 6),
        prior,
        generator,
        one.same_rows,
    )


def best_fit(hits: Sequence[Hit]) -> Fit:
    """How far the best of some hits fits: `none` if no table does."""
    return min((hit.fit for hit in hits), key=FITS.index, default="none")


def verdict(hits: Sequence[Hit], fit: AtLeast = "any", min_score: float = 0.0) -> str:
    """What a search found, in words: how many tables fit, of those that were to fit so far."""
    fitting = sum(hit.fit != "none" for hit in hits)
    if not fitting:
        least = f" with a score of at least {min_score:g}" if min_score and not hits else ""
        return f"No table in this lake fits yours{' fully' if fit == 'full' else ''}{least}."
    full = sum(hit.fit == "full" for hit in hits)
    how = " fully" if full == fitting else f", {full} of them fully" if full else " partly"
    tables = "table" if len(hits) == 1 else "tables"
    return f"{fitting} of {len(hits)} {tables} {'fits' if fitting == 1 else 'fit'} yours{how}."
