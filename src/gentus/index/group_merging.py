"""Groups that are parts of one: a large family is cut where its tables have, say, two kinds of headers.

A table is linked to few others. In a large family all of these may have its own header, so that the parts of
the family with other headers become groups of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gentus.align.second_look import QueryColumns
from gentus.align.verdict import judge
from gentus.arrays import F32, F64, I64
from gentus.features.evidence import normalize
from gentus.index.catalogue import Catalogue, SignedColumns
from gentus.index.snapshot import Snapshot
from gentus.neighbours.graph import nearest

NEAREST = 5  # groups that a group is compared with
ALIKE = 0.8  # mean cosine of the tables of two groups, as a share of that within the tighter one
SURE = 0.9  # the probability with which the examples of two groups fit each other, in both directions
_AT_ONCE = 1 << 16  # rows


def merge_groups(
    snapshot: Snapshot, catalogue: Catalogue, rows: I64, groups: Sequence[list[int]]
) -> list[list[int]]:
    """Groups of table ids, each with its example first; those that are parts of one are joined."""
    if len(groups) < 2:
        return list(groups)
    signed = catalogue.signatures.of(group[0] for group in groups)
    parent = list(range(len(groups)))

    def top(at: int) -> int:
        while parent[at] != at:
            parent[at] = at = parent[parent[at]]
        return at

    for one, other in _alike(snapshot, rows, groups):
        pair = [signed.get(groups[at][0]) for at in (one, other)]
        if top(one) != top(other) and _fit_each_other(pair, snapshot.config.settings.names):
            larger, smaller = sorted((top(one), top(other)), key=lambda at: (-len(groups[at]), at))
            parent[smaller] = larger
    joined: dict[int, list[int]] = {at: list(groups[at]) for at in range(len(groups)) if parent[at] == at}
    for at, group in enumerate(groups):
        if parent[at] != at:
            joined[top(at)] += group
    return list(joined.values())


def _alike(snapshot: Snapshot, rows: I64, groups: Sequence[list[int]]) -> Iterator[tuple[int, int]]:
    """Pairs of groups whose tables are nearly as similar as those of one group, the most similar first."""
    sizes = np.array([len(group) for group in groups])
    sums = _sums(snapshot, rows, groups)  # (G, d)
    within = (np.einsum("gd,gd->g", sums, sums) - sizes) / np.maximum(sizes * (sizes - 1), 1)
    means = sums / sizes[:, None]
    near = nearest(normalize(means.astype(np.float32)), min(NEAREST, len(groups) - 1)).ids
    own = np.repeat(np.arange(len(groups)), near.shape[1])
    pairs = np.unique(np.sort(np.stack([own, near.ravel()], 1), axis=1), axis=0)
    across = np.einsum("nd,nd->n", means[pairs[:, 0]], means[pairs[:, 1]])
    shares = across / np.maximum(within[pairs].max(1), 1e-9)
    for at in np.argsort(-shares, kind="stable").tolist():
        if shares[at] >= ALIKE:
            yield int(pairs[at, 0]), int(pairs[at, 1])


def _sums(snapshot: Snapshot, rows: I64, groups: Sequence[list[int]]) -> F64:
    """(G, d) sums of the decoded identifiers of each group, each of length one."""
    trie, codebooks = snapshot.decoder.trie, snapshot.decoder.codebooks
    of_table = {table: at for at, group in enumerate(groups) for table in group}
    sums = np.zeros((len(groups), codebooks.codewords.shape[2]))
    for begin in range(0, len(rows), _AT_ONCE):
        some = rows[begin : begin + _AT_ONCE]
        owners = np.array([of_table.get(table, -1) for table in trie.table(some).tolist()])
        grouped = owners >= 0
        vectors: F32 = normalize(codebooks.decode(trie.codes_of(some[grouped])))
        np.add.at(sums, owners[grouped], vectors)
    return sums


def _fit_each_other(pair: Sequence[SignedColumns | None], names: bool) -> bool:
    """Whether two tables surely fit each other, in both directions."""
    one, other = pair
    if one is None or other is None or not len(one.signatures) or not len(other.signatures):
        return False
    for query, table in ((one, other), (other, one)):
        columns = QueryColumns.stored(query.names, query.signatures)
        if judge(columns, [table.signatures], names)[0].score < SURE:
            return False
    return True
