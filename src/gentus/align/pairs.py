"""Evidence about every pair of columns of two tables: a first look at each, a second in the light of others.

Everything is (q, t), for the q columns of one table and the t of the other, made without a loop over pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from gentus.align.digest import HABITS, Digest
from gentus.align.name_similarity import SIMILARITIES, compare_names
from gentus.arrays import F64, I64
from gentus.features.extract import KINDS, TOKEN
from gentus.features.static_vectors import WIDTH, load_vectors

GRID = 2048  # places at which distributions are compared, at most
_POINTS = 16  # of them from each column
DENSE = 1 << 18  # numbers up to which a matrix with all its zeros is faster than a sparse one

FIRST = (
    "shared values",
    "shared values, numbers",
    "values contained",
    "values contained, numbers",
    "many values contained",
    "no value shared, text",
    "words, text",
    "grams, text",
    "shapes, text",
    "letters, text",
    "meaning, text",
    "lengths apart",
    "lengths apart, text",
    "distributions apart",
    "distributions apart on average",
    "distributions apart beyond chance",
    "distinct numbers apart beyond chance",
    "range shared",
    "spreads apart",
    "decimal places",
    "both numbers",
    "both dates",
    "both text",
    "cells",
    "distinct values",
    "only one is constant",
    *(f"{habit} apart" for habit in HABITS),
)
NAMES = ("both named", *SIMILARITIES)
SECOND = (
    "first look",
    "ahead of others in the row",
    "ahead of others in the column",
    "share of both",
    "order of others",
    "order of others, where it is kept",
    "relations apart",
    "relations alike",
    "relations apart beyond chance",
    "relations to go by",
    "equal names, where others have them",
    "other names, where others have equal ones",
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a first look says."""

    first: F64  # (q, t, FIRST)
    names: F64  # (q, t, NAMES)
    shared: F64  # (q, t) share of all distinct values that both columns have
    filled: NDArray[np.bool_]  # (q, t) both have cells


def first_look(query: Digest, table: Digest, names: bool = True) -> Evidence:
    """What speaks for and against every pair on its own; names only if they are to count."""
    contained, shared, frequent = _values(query, table)
    words, grams, shapes, meaning = _text(query, table)
    largest, mean, beyond, distinct_beyond, within, spreads = _distributions(query, table)
    numbers, dates, text = (np.outer(query.kinds[:, kind], table.kinds[:, kind]) for kind in range(3))
    lengths = cdist(query.lengths, table.lengths, "chebyshev")
    fewest = np.minimum(query.distinct[:, None], table.distinct[None])
    many = np.log1p(fewest) / 3
    constant = (query.distinct == 1)[:, None] != (table.distinct == 1)[None]
    cells = np.minimum(query.sizes[:, None], table.sizes[None])
    evidence = [
        *(frequent, frequent * numbers, contained, contained * numbers, contained * many),
        (contained == 0) * text * many,
        *(words * text, grams * text, shapes * text, query.letters @ table.letters.T * text, meaning * text),
        *(lengths, lengths * text),
        *(largest * numbers, mean * numbers, beyond * numbers),
        *(part * (numbers + dates) for part in (distinct_beyond, within, spreads)),
        query.decimals @ table.decimals.T,
        *(numbers, dates, text, np.log1p(cells) / 4, many, constant),
    ]
    habits = np.abs(query.habits[:, None] - table.habits[None])  # (q, t, HABITS)
    ours, theirs = ([column.name for column in side.table.columns] for side in (query, table))
    return Evidence(
        np.concatenate([np.stack(evidence, 2), habits], 2),
        compare_names(ours, theirs) if names else np.zeros((*numbers.shape, len(NAMES))),
        shared,
        cells > 0,
    )


def _values(query: Digest, table: Digest) -> tuple[F64, F64, F64]:
    """How many values are the same: of the smaller column, of both, and as frequent."""
    width, count = len(query.sizes), len(query.sizes) + len(table.sizes)
    owner = np.concatenate([query.owner, table.owner + width])
    ids, columns = _numbered(np.concatenate([query.keys, table.keys]))
    # A value counts the less, the more columns have it: that both know 0 and 1 says nothing.
    weight = np.concatenate([query.counts, table.counts]) / np.maximum(columns[ids] - 1, 1)
    share = weight / np.bincount(owner, weight, count)[owner]
    some = columns[ids] > 1  # what one column has is shared by none
    both = _product(np.ones(some.sum()), owner[some], ids[some], width, count)
    mine, its = query.distinct[:, None], table.distinct[None]
    return (
        both / np.maximum(np.minimum(mine, its), 1),
        both / np.maximum(mine + its - both, 1),
        _product(np.sqrt(share[some]), owner[some], ids[some], width, count),  # 1 if distributions are equal
    )


def _numbered(keys: NDArray[np.integer[Any]]) -> tuple[I64, I64]:
    """(n,) keys as small numbers in their order, and how often each of these occurs."""
    order = np.argsort(keys)
    ordered = keys[order]
    ids = np.zeros(len(keys), np.int64)
    ids[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1])
    return ids, np.bincount(ids)


def _product(weights: F64, owner: I64, ids: I64, width: int, count: int) -> F64:
    """(q, t) products of the first columns with the others; entries come column by column."""
    used = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    used[ids] = 1
    total = int(used.sum())
    if count * total <= DENSE:
        dense = np.zeros((count, total))
        dense[owner, (np.cumsum(used) - 1)[ids]] = weights
        return np.asarray(dense[:width] @ dense[width:].T, np.float64)
    starts = np.searchsorted(owner, np.arange(count + 1))
    rows = csr_matrix((weights, ids, starts), (count, len(used)))
    return np.asarray((rows[:width] @ rows[width:].T).toarray(), np.float64)


def _text(query: Digest, table: Digest) -> list[F64]:
    """How alike words, grams, shapes and meaning are; what is in all columns counts little."""
    width, count = len(query.sizes), len(query.sizes) + len(table.sizes)
    text = np.concatenate([query.text, table.text])
    lengths = np.concatenate([np.diff(query.starts), np.diff(table.starts)])
    owner = np.repeat(np.arange(count), lengths)
    ids, columns = _numbered(text)
    weight = np.log((1 + (lengths > 0).sum()) / (0.5 + columns))[ids]
    weight *= 1 + np.log(np.concatenate([query.times, table.times]))
    out = []
    for kind in ("words", "grams", "shapes"):
        of_kind = _of_kind(text, kind)
        norm = np.sqrt(np.bincount(owner[of_kind], weight[of_kind] ** 2, count))
        some = of_kind & (columns[ids] > 1)
        out.append(_product(weight[some] / norm[owner[some]], owner[some], ids[some], width, count))
    some = _of_kind(text, "tokens")
    vectors = _meaning(weight[some], owner[some], text[some] - TOKEN, count)
    return [*out, vectors[:width] @ vectors[width:].T]


def _of_kind(ids: NDArray[np.uint32], kind: str) -> NDArray[np.bool_]:
    """(n,) which ids of search's vocabulary are of a kind."""
    first, last = KINDS[kind]
    return (ids >= first) & (ids < last)


def _meaning(weight: F64, owner: I64, tokens: NDArray[np.integer[Any]], count: int) -> F64:
    """(C, WIDTH) mean static vectors of tokens, centred on these columns: what all share says nothing."""
    means = np.zeros((count, WIDTH))
    if len(tokens):
        seen, at = np.unique(tokens, return_inverse=True)
        starts = np.searchsorted(owner, np.arange(count + 1))
        total = np.bincount(owner, weight, count)
        means = csr_matrix((weight, at, starts), (count, len(seen))) @ load_vectors()[seen].astype(np.float64)
        means[total > 0] /= total[total > 0, None]
        means[total > 0] -= means[total > 0].mean(0)
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9), np.float64)


def _distributions(query: Digest, table: Digest) -> tuple[F64, F64, F64, F64, F64, F64]:
    """How far numbers are apart: distributions (gaps and what chance leaves of them), ranges and spreads."""
    columns = [*query.numbers, *table.numbers]
    width = len(query.numbers)
    some = [column[np.linspace(0, len(column) - 1, _POINTS).astype(int)] for column in columns if len(column)]
    grid = np.unique(np.concatenate([np.zeros(1), *some]))
    grid = grid[:: -(-len(grid) // GRID)]
    below = np.stack(  # (C, grid) share of the numbers up to there; of equal ones the half
        [np.zeros(len(grid))]
        + [
            (np.searchsorted(column, grid) + np.searchsorted(column, grid, "right")) / max(2 * len(column), 1)
            for column in columns
        ]
    )[1:]
    largest = cdist(below[:width], below[width:], "chebyshev")
    mean = cdist(below[:width], below[width:], "cityblock") / len(grid)
    sizes = np.array([_size(column) for column in columns], np.float64).reshape(-1, 2)
    mine, its = sizes[:width, None], sizes[None, width:]
    chance = np.sqrt(mine * its / np.maximum(mine + its, 1))  # (q, t, 2) cells, and distinct numbers
    beyond = np.minimum(largest[:, :, None] * chance, (8, 4)) / 4
    ends = np.array([_ends(column) for column in columns]).reshape(-1, 4)
    within = np.minimum(_within(columns[:width], ends[width:]), _within(columns[width:], ends[:width]).T)
    spread = np.log(np.maximum(ends[:, 2] - ends[:, 1], 1e-9))
    spreads = np.minimum(np.abs(spread[:width, None] - spread[None, width:]), 4)
    return largest, mean, beyond[:, :, 0], beyond[:, :, 1] * 4, within, spreads


def _size(column: F64) -> tuple[int, int]:
    """How many numbers a column has, and how many different ones; they are sorted."""
    return len(column), int(np.count_nonzero(np.diff(column))) + (len(column) > 0)


def _ends(column: F64) -> F64:
    """(4,) least, lower quartile, upper quartile and largest of sorted numbers."""
    last = len(column) - 1
    return column[[0, last // 4, 3 * last // 4, last]] if len(column) else np.array([np.inf, 0, 0, -np.inf])


def _within(columns: list[F64], ends: F64) -> F64:
    """(q, t) share of the numbers of one column that lie in the range of another."""
    inside = np.zeros((len(columns), len(ends)))
    for at, column in enumerate(columns):
        if len(column):
            inside[at] = np.searchsorted(column, ends[:, 3], "right") - np.searchsorted(column, ends[:, 0])
            inside[at] /= len(column)
    return np.maximum(inside, 0)


# --- the second look ---------------------------------------------------------------------------------


def second_look(query: Digest, table: Digest, evidence: Evidence, scores: F64, shares: F64) -> F64:
    """(q, t, SECOND) what the other columns say of every pair, those counting most that are surest.

    `scores` are the log-odds of the first look, `shares` what every pair has of the votes of its two columns.
    """
    scores = np.clip(scores, -8, 8)
    sure = shares**2
    local, overall = _order(sure)
    return np.stack(
        [
            scores,
            scores - np.maximum(_best_other(scores), -6),
            scores - np.maximum(_best_other(scores.T).T, -6),
            shares,
            local,
            local * max(overall, 0),
            *_relations(query, table, sure),
            *_usual_names(evidence.names, sure),
        ],
        2,
    )


def _best_other(scores: F64) -> F64:
    """The best score in the row of each pair, itself not counted."""
    if scores.shape[1] < 2:
        return np.full(scores.shape, -6.0)
    ordered = np.sort(scores, 1)
    return np.where(scores == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])


def _order(sure: F64) -> tuple[F64, float]:
    """Whether a pair stands to the others in the same order in both tables, and whether all do: -1 to 1."""
    left, right = (np.sign(np.subtract.outer(np.arange(n), np.arange(n))) for n in sure.shape)
    agreeing = left @ sure @ right.T
    compared = np.abs(left) @ sure @ np.abs(right).T
    overall = float((agreeing * sure).sum() / ((compared * sure).sum() + 0.5))
    return agreeing / (compared + 0.5), overall


def _relations(query: Digest, table: Digest, sure: F64) -> tuple[F64, F64, F64, F64]:
    """Whether two columns move alike with the others: rank correlations with columns paired already."""
    both = np.outer(query.complete, table.complete)
    sure = sure * both
    ours, theirs = query.together, table.together
    mine, its = sure.sum(1), sure.sum(0)
    others = np.maximum(sure.sum() - mine[:, None] - its[None] + sure, 0)
    cross = ours @ sure @ theirs.T
    left, right = (ours**2 @ mine)[:, None], (theirs**2 @ its)[None]
    apart = (left - 2 * cross + right) / (others + 0.3)
    chance = 1 / max(query.table.rows, 1) + 1 / max(table.table.rows, 1)
    return (
        np.sqrt(np.maximum(apart, 0)) * both,
        cross / np.sqrt(left * right + 0.02) * both,
        np.minimum((apart - chance) / (chance + 0.02), 10) * both,
        np.minimum(others, 5) / 5 * both,
    )


def _usual_names(names: F64, sure: F64) -> tuple[F64, F64]:
    """Where the other pairs have equal names, a pair with other names is suspect."""
    named, equal = names[:, :, NAMES.index("both named")], names[:, :, NAMES.index("equal names")]
    surely, surely_named = sure * equal, sure * named
    usual = (surely.sum() - surely) / (surely_named.sum() - surely_named + 0.5)
    return usual * equal, usual * (named - equal)
