"""Hits: rows of the prefix tree resolved to tables with names; the query itself is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from gentus.align.alignment import Alignment
from gentus.arrays import I64
from gentus.identifiers.semantic_ids import format_sids
from gentus.index.catalogue import AlteredError, Catalogue, TableName
from gentus.index.queries import Query
from gentus.index.ranker import RankedRow
from gentus.index.snapshot import Snapshot
from gentus.search.trie import Tree

MOST_NAMES = 50_000  # that are kept in memory: a few hundred bytes each


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer."""

    rank: int
    table: str  # its name in the lake
    score: float  # 1 for the same content, 0 for unrelated
    sid: str  # its identifier
    path: str
    prior: float | None = None  # the part of the score that the latent space gives; with a generator only
    generator: float | None = None  # and the part that the generator gives
    alignment: Alignment | None = None  # which columns belong together; with `explain` only

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        document = {name: value for name, value in asdict(self).items() if value is not None}
        if self.alignment is not None:
            document["alignment"] = self.alignment.to_dict()
        return document


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


def resolve(
    snapshot: Snapshot,
    queries: Sequence[Query],
    ranked: Sequence[Sequence[RankedRow]],
    k: int,
    cache: NameCache,
) -> list[list[Hit]]:
    """The `k` best tables of every query as hits, without the query itself."""
    trie = snapshot.decoder.trie
    tables = iter(trie.table(_rows(ranked)).tolist())
    found: list[list[RankedRow]] = []
    owners: list[list[int]] = []
    for query, rows in zip(queries, ranked, strict=True):
        pairs = zip(rows, islice(tables, len(rows)), strict=True)
        best = [(row, table) for row, table in pairs if table not in query.self_ids][:k]
        found.append([row for row, _ in best])
        owners.append([table for _, table in best])
    sids = iter(sids_of(trie, _rows(found)))
    names = cache.find({table for some in owners for table in some})
    _verify_names(names, owners, queries, snapshot.change_sequence, cache.catalogue)
    return [
        _hits((row, names.get(table), next(sids)) for row, table in zip(rows, some, strict=True))
        for rows, some in zip(found, owners, strict=True)
    ]


def _rows(ranked: Sequence[Sequence[RankedRow]]) -> I64:
    return np.array([one.row for rows in ranked for one in rows], np.int64)


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


def _hits(found: Iterable[tuple[RankedRow, TableName | None, str]]) -> list[Hit]:
    """Hits with ranks; a table without a name was removed just now."""
    named = [(row, name, sid) for row, name, sid in found if name is not None]
    return [
        Hit(rank, name, round(row.score, 6), sid, path, _rounded(row.prior), _rounded(row.generator))
        for rank, (row, (name, path, *_), sid) in enumerate(named, 1)
    ]


def _rounded(part: float | None) -> float | None:
    return None if part is None else round(part, 6)
