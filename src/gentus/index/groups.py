"""Groups: families of tables of a lake that can be appended to each other, found all at once.

Tables are linked to their nearest ones by identifiers, and groups are the communities of this graph. Then
column signatures judge: a table that fits none of the nearest tables of its group, more likely than not, is
left out, and groups that are parts of one are merged. No file of the lake is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gentus.align.second_look import QueryColumns
from gentus.align.verdict import judge
from gentus.arrays import I64
from gentus.arrow_export import ArrowExport
from gentus.display import html_block, html_table
from gentus.index.catalogue import Catalogue, SignedColumns
from gentus.index.group_merging import merge_groups
from gentus.index.group_names import WordCounts, group_name, shared_columns
from gentus.index.snapshot import Snapshot
from gentus.neighbours.communities import propagate_labels, symmetric_graph
from gentus.progress import Progress, Tick
from gentus.retrieval.nearest_rows import RowGraph, nearest_rows

if TYPE_CHECKING:
    import pyarrow as pa

NEIGHBOURS = 15  # nearest tables that a table is linked to
POWER = 8  # of the cosine that weighs a link
JUDGED = 5  # nearest tables of its group that a table is compared with
LIKELY = 0.5  # it stays if one of them fits with at least this probability
_NAMED = 200  # tables of a group whose columns name it
_AT_ONCE = 2000  # tables whose signatures are loaded together; a larger group is loaded alone


@dataclass(frozen=True, slots=True)
class Group:
    """Tables that can be appended to each other.

    Example:
        >>> family = index.groups()[0]
        >>> family.size, family.columns
        (4, ['sky', 'temperature'])
    """

    id: int  # from 1, the largest group first
    name: str  # made of what their names and columns share
    size: int
    columns: list[str]  # names of columns that at least a third of them have, the most frequent first
    example: str  # the table with the most links to the others
    tables: list[str]  # all of them, sorted

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Groups(Sequence[Group], ArrowExport):
    """All groups of a lake, the largest first; as Arrow, a row per table with its group.

    Example:
        >>> index.groups()
        <gentus.Groups: 3 families with 10 of 10 tables; 0 are single>
        >>> index.groups().to_polars().columns
        ['group', 'name', 'size', 'table']
    """

    def __init__(self, groups: Sequence[Group], tables: int) -> None:
        self._groups, self.tables = list(groups), tables

    @property
    def single(self) -> int:
        """How many tables are in no group."""
        return self.tables - sum(group.size for group in self._groups)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    @overload
    def __getitem__(self, at: int) -> Group: ...
    @overload
    def __getitem__(self, at: slice) -> list[Group]: ...
    def __getitem__(self, at: int | slice) -> Group | list[Group]:
        """A group by its position, or several."""
        return self._groups[at]

    def __repr__(self) -> str:
        """How many there are, and the largest."""
        return f"<gentus.Groups: {self}>"

    def _repr_html_(self) -> str:
        rows = [(group.name, group.size, ", ".join(group.columns), group.example) for group in self]
        return html_block(str(self), html_table(("family", "tables", "columns", "such as"), rows))

    def __str__(self) -> str:
        """In words."""
        grouped = self.tables - self.single
        return (
            f"{len(self):,} families with {grouped:,} of {self.tables:,} tables; {self.single:,} are single"
        )

    def of_table(self) -> dict[str, Group]:
        """The group of every table that has one."""
        return {table: group for group in self._groups for table in group.tables}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        groups = [group.to_dict() for group in self._groups]
        return {"tables": self.tables, "single": self.single, "groups": groups}

    def to_reader(self) -> pa.RecordBatchReader:
        """One row per table that is in a group."""
        import pyarrow as pa

        rows = [(group.id, group.name, group.size, table) for group in self._groups for table in group.tables]
        types = {"group": pa.int64(), "name": pa.string(), "size": pa.int64(), "table": pa.string()}
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(types)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
        return pa.table(arrays, pa.schema(types.items())).to_reader()


def find_groups(
    snapshot: Snapshot, catalogue: Catalogue, min_size: int = 2, progress: Progress | None = None
) -> Groups:
    """The groups of at least so many tables."""
    if min_size < 2:
        raise ValueError(f"a group has at least 2 tables; min_size is {min_size}")
    progress = progress or Progress()
    total = len(snapshot.decoder.trie)
    if total < 2:
        return Groups([], total)
    with progress.stage("Comparing identifiers", total) as tick:
        graph = nearest_rows(snapshot.decoder.trie, snapshot.decoder.codebooks, NEIGHBOURS, tick)
    with progress.stage("Finding groups", None):
        weights = np.maximum(graph.nearest.scores, 0) ** POWER
        labels = propagate_labels(symmetric_graph(graph.nearest.ids, weights))
    with progress.stage("Comparing columns", total) as tick:
        judged = _judged_groups(snapshot, catalogue, graph, labels, tick)
        kept = [members for members in judged if len(members) > 1]
    with progress.stage("Merging groups", None):
        kept = merge_groups(snapshot, catalogue, graph.rows, kept)
    words = WordCounts.of(name for name, _, _ in catalogue.tables.names_and_shapes())
    described = (_describe(members, catalogue, words) for members in kept if len(members) >= min_size)
    found = [group for group in described if group.size >= min_size]  # some tables may have been removed
    return Groups(list(_numbered(found)), total)


def _judged_groups(
    snapshot: Snapshot, catalogue: Catalogue, graph: RowGraph, labels: I64, tick: Tick
) -> Iterator[list[int]]:
    """The ids of the tables of every community that fit another of it, the one with the most links first."""
    tables, names = snapshot.decoder.trie.table(graph.rows), snapshot.config.settings.names
    for communities in _batches(labels):
        signed = catalogue.signatures.of(tables[np.concatenate(communities)].tolist())
        for members in communities:
            links = {at: _links(graph, labels, at) for at in members.tolist()}
            columns = {at: signed[table] for at in links if (table := int(tables[at])) in signed}
            linked = Counter(other for others in links.values() for other in others)
            fitting = sorted(_fitting(links, columns, names), key=lambda at: (-linked[at], at))
            yield tables[fitting].tolist()
            tick(len(members))


def _batches(labels: I64) -> Iterator[list[I64]]:
    """Communities as positions of their members, some thousand tables at a time."""
    order = np.argsort(labels, kind="stable")
    some: list[I64] = []
    for members in np.split(order, np.cumsum(np.bincount(labels))[:-1]):
        if some and sum(map(len, some)) + len(members) > _AT_ONCE:
            yield some
            some = []
        some.append(members)
    yield some


def _links(graph: RowGraph, labels: I64, at: int) -> list[int]:
    """The nearest tables of a table in its own community."""
    near = graph.nearest.ids[at]
    return near[labels[near] == labels[at]][:JUDGED].tolist()  # type: ignore[no-any-return]


def _fitting(links: dict[int, list[int]], columns: dict[int, SignedColumns], names: bool) -> set[int]:
    """The members that are likely to fit one that they are linked to."""
    fitting: set[int] = set()
    for at, others in links.items():
        known = [other for other in others if other in columns and len(columns[other].signatures)]
        if at in fitting or at not in columns or not known or not len(columns[at].signatures):
            continue
        query = QueryColumns.stored(columns[at].names, columns[at].signatures)
        verdicts = judge(query, [columns[other].signatures for other in known], names)
        likely = [other for other, one in zip(known, verdicts, strict=True) if one.score >= LIKELY]
        fitting.update(likely and [at, *likely])
    return fitting


def _describe(members: list[int], catalogue: Catalogue, words: WordCounts) -> Group:
    """A group, not numbered yet; its first member has the most links."""
    found = catalogue.tables.names(members)
    tables = [found[table].name for table in members if table in found]
    signed = catalogue.signatures.of(members[:_NAMED])
    columns = shared_columns([signed[table].names for table in members[:_NAMED] if table in signed])
    example = next(iter(tables), "")
    name = group_name(words.common(tables), columns, example) if tables else ""
    return Group(0, name, len(tables), columns, example, sorted(tables))


def _numbered(found: list[Group]) -> Iterator[Group]:
    """Groups with ids, the largest first; of groups with the same name, each says which table it is like."""
    names = Counter(group.name for group in found)
    for id_, group in enumerate(sorted(found, key=lambda one: (-one.size, one.name, one.example)), 1):
        same = names[group.name] > 1
        yield replace(group, id=id_, name=f"{group.name} (like {group.example})" if same else group.name)
