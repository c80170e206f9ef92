"""Training records (section 5.3): which view of which table leads to which identifiers.

Tables are positions in the lake. A view is a number: 0 is the table as it is, any other seeds `aug`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gentus.arrays import I32, I64
from gentus.paper.settings import RecordSettings
from gentus.retrieval.trie import ranges
from gentus.table import Column, Table, evenly_spaced

PROFILED = 64  # cells of a column whose tokens are in the table's profile
ROWS = 64  # rows of an augmented view, at most: more are never serialised
_WORDS = re.compile(r"\w+")


class View(NamedTuple):
    """A view of a table, and what it is to lead to."""

    table: int
    number: int
    targets: tuple[int, ...]  # annotated positives, or the table itself
    negative: int = -1  # a hard negative; -1: none


def symmetrize(pairs: I64) -> I64:
    """P: (n, 2) the annotated pairs both ways, each once; nothing else is inferred from them."""
    both = np.concatenate([pairs, pairs[:, ::-1]]).reshape(-1, 2)
    return np.unique(both[both[:, 0] != both[:, 1]], axis=0).astype(np.int64)


def aug(table: Table, number: int, settings: RecordSettings) -> Table:
    """A view: some rows and all columns, both in another order. Number 0 is the table itself."""
    if number == 0:
        return table
    random = np.random.default_rng((zlib.crc32(table.name.encode()), number))
    share = random.uniform()
    kept: dict[int, list[int]] = {}  # columns without gaps keep the same rows
    columns = []
    for at in random.permutation(len(table.columns)).tolist():
        column = table.columns[at]
        count = len(column.cells)
        if count not in kept:
            wanted = min(count, ROWS, max(settings.least_rows, round(share * count)))
            kept[count] = random.permutation(count)[:wanted].tolist()
        columns.append(Column(column.name, [column.cells[row] for row in kept[count]], column.typed))
    return Table(table.name, columns, table.rows)


def r_pos(pairs: I64, settings: RecordSettings, positives: int, random: np.random.Generator) -> list[View]:
    """R_pos of one pass: every annotated pair (q, T⁺) once; a view of q is encoded once for several T⁺."""
    views = []
    for query in np.unique(pairs[:, 0]).tolist():
        targets = random.permutation(pairs[pairs[:, 0] == query, 1])
        for begin in range(0, len(targets), positives):
            chosen = tuple(targets[begin : begin + positives].tolist())
            views.append(View(query, _number(settings, random), chosen))
    return views


def r_idx(tables: Iterable[int], settings: RecordSettings, random: np.random.Generator) -> list[View]:
    """R_idx: tables that lead to their own identifiers."""
    return [View(table, _number(settings, random), (table,)) for table in tables]


def r_pairwise(views: Sequence[View], negatives: dict[int, I32], random: np.random.Generator) -> list[View]:
    """R_pairwise: the views of R_pos, each with a hard negative that all its targets are to score above."""
    return [
        view._replace(negative=int(random.choice(found))) if len(found := negatives[view.table]) else view
        for view in views
    ]


def _number(settings: RecordSettings, random: np.random.Generator) -> int:
    return int(random.integers(1, 1 << 31)) if random.random() < settings.augmented else 0


def profile(table: Table, tokens: int) -> set[int]:
    """Sampled tokens of the non-empty cells: the smallest hashes, so that samples of equal tables agree."""
    found = set()
    for column in table.columns:
        for at in evenly_spaced(len(column.cells), PROFILED):
            found.update(_WORDS.findall(column.cells[at].lower()))
    return set(sorted(zlib.crc32(word.encode()) for word in found)[:tokens])


def mine_hard_negatives(
    queries: Sequence[int],
    profiles: Sequence[set[int]],
    pairs: I64,
    N: int,  # noqa: N803
    n_neg: int,
) -> dict[int, I32]:
    """For each query the n_neg tables of greatest Jaccard similarity, those annotated and itself left out."""
    sizes = np.array([len(one) for one in profiles])
    tokens = np.array([token for one in profiles for token in sorted(one)], np.int64)
    order = np.argsort(tokens, kind="stable")
    tokens, holders = tokens[order], np.repeat(np.arange(len(profiles)), sizes)[order]
    negatives = {}
    for query in queries:
        own = np.array(sorted(profiles[query]), np.int64)
        begins = np.searchsorted(tokens, own)
        shared = holders[ranges(begins, np.searchsorted(tokens, own, "right") - begins)[1]]
        overlap = np.bincount(shared, minlength=len(profiles))
        jaccard = overlap / np.maximum(sizes[query] + sizes - overlap, 1)
        jaccard[query] = 0
        jaccard[N:] = 0  # queries that are not in the lake
        jaccard[pairs[pairs[:, 0] == query, 1]] = 0
        best = np.argsort(-jaccard, kind="stable")[:n_neg]
        negatives[query] = best[jaccard[best] > 0].astype(np.int32)
    return negatives
