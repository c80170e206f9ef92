"""The whole search of some queries: rows of the prefix tree, verdicts, and hits with names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gentus.arrays import I64
from gentus.identifiers.semantic_ids import format_sids
from gentus.index.catalogue import AlteredError, Catalogue, TableName
from gentus.index.hits import Hit
from gentus.index.learnt_ranking import rank_by_labels
from gentus.index.queries import Query
from gentus.index.second_look import ChosenOptions, Judged, look_at
from gentus.index.snapshot import Snapshot
from gentus.retrieval.trie import Tree

MOST_NAMES = 50_000  # that are kept in memory: a few hundred bytes each


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
    queries: Sequence[Query],
    options: ChosenOptions,
    cache: NameCache,
) -> list[list[Hit]]:
    """The whole search of some queries: rank, look at the first tables once more, and name them."""
    if snapshot.ranking is not None:
        ranked = [rank_by_labels(snapshot, cache.catalogue, query, options) for query in queries]
    else:
        ranked = [
            snapshot.retriever.rank(query.content.identity, options.looked_at, options.beam, query.self_ids)
            for query in queries
        ]
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
            with catalogue.transaction(read=True):  # it may have been added, removed or moved just now
                now = catalogue.tables.names([table]).get(table)
                if now == name and table not in catalogue.tables.ids_at(real_path, part):
                    raise AlteredError(f"its list of files does not lead to {name.name}")


def _hits(found: Iterable[tuple[Judged, TableName | None, str]]) -> list[Hit]:
    """Hits with ranks; a table without a name was removed just now."""
    named = [(one, name, sid) for one, name, sid in found if name is not None]
    return [_hit(rank, one, name, sid) for rank, (one, name, sid) in enumerate(named, 1)]


def _hit(rank: int, one: Judged, name: TableName, sid: str) -> Hit:
    return Hit(
        rank,
        name.name,
        one.score,
        one.fit,
        one.columns,
        sid,
        name.path,
        round(one.ranked.score, 6),
        one.same_rows,
    )
