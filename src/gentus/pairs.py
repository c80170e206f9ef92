"""Evidence about every pair of columns of two tables, (q, t, features) at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from gentus.digest import HABITS, Digest
from gentus.evidence import normalize
from gentus.features import KINDS, PIECE, concatenate
from gentus.names import SIMILARITIES, compare_names
from gentus.static import WIDTH as PIECE_WIDTH
from gentus.static import load_vectors

F64 = NDArray[np.float64]
GRID = 2048  # places at which distributions are compared, at most
_POINTS = 24  # of them from each column

FEATURES = (
    "values shared of the smaller column",
    "values shared of both",
    "values as frequent",
    "rare values shared",
    "words",
    "grams",
    "shapes",
    "pieces",
    "numbers: largest gap",
    "numbers: mean gap",
    "numbers: gap beyond chance",
    "dates: largest gap",
    "dates: gap beyond chance",
    "decimal places",
    "both numbers",
    "both dates",
    "both text",
    "values shared, numbers",
    "values as frequent, numbers",
    "values as frequent, text",
    "rare values shared, text",
    *(f"apart: {habit}" for habit in HABITS),
    "both named",
    *SIMILARITIES,
)
NAMED = len(FEATURES) - 1 - len(SIMILARITIES)  # where the features of names begin


def pair_features(query: Digest, table: Digest, names: bool = True) -> F64:
    """(q, t, FEATURES) what speaks for and against every pair."""
    contained, jaccard, frequent, rare = _values(query, table)
    words, grams, shapes, pieces = _text(query, table)
    largest, mean, beyond = _distributions(query, table)
    numbers, dates, text = (np.outer(query.kinds[:, kind], table.kinds[:, kind]) for kind in range(3))
    habits = np.abs(query.habits[:, None] - table.habits[None])  # (q, t, HABITS)
    similarity = [
        *(contained, jaccard, frequent, rare, words, grams, shapes, pieces),
        *(largest * numbers, mean * numbers, beyond * numbers, largest * dates, beyond * dates),
        query.decimals @ table.decimals.T,
        *(numbers, dates, text),
        *(contained * numbers, frequent * numbers, frequent * text, rare * text),
    ]
    ours, theirs = ([column.name for column in side.table.columns] for side in (query, table))
    if names:
        named, alike = compare_names(ours, theirs)
    else:
        named, alike = np.zeros(numbers.shape, bool), np.zeros((*numbers.shape, len(SIMILARITIES)))
    return np.concatenate([np.stack(similarity, 2), habits, named[:, :, None], alike], 2)


def _values(query: Digest, table: Digest) -> tuple[F64, F64, F64, F64]:
    """(q, t) each: how far the values of two columns are the same."""
    width, other = len(query.kinds), len(table.kinds)
    _, ids = np.unique(np.concatenate([query.keys, table.keys]), return_inverse=True)
    size = int(ids.max(initial=-1)) + 1
    ours = csr_matrix((query.counts, (query.owner, ids[: len(query.keys)])), (width, size))
    theirs = csr_matrix((table.counts, (table.owner, ids[len(query.keys) :])), (other, size))
    here, there = (side.copy() for side in (ours, theirs))
    here.data[:], there.data[:] = 1, 1
    both = (here @ there.T).toarray()  # (q, t) values that both columns have
    mine, its = np.asarray(here.sum(1)), np.asarray(there.sum(1)).T
    share = both / np.maximum(np.minimum(mine, its), 1)
    jaccard = both / np.maximum(mine + its - both, 1)
    frequent = (_roots(ours) @ _roots(theirs).T).toarray()
    # A value counts the less, the more columns have it: that both know 0 and 1 says nothing.
    rarity = 1 / np.maximum(np.asarray(here.sum(0) + there.sum(0)).ravel() - 1, 1)
    rare_both = (here.multiply(rarity) @ there.T).toarray()
    rare_mine, rare_its = here @ rarity, there @ rarity
    rare = rare_both / np.maximum(np.minimum(rare_mine[:, None], rare_its[None]), 1e-9)
    return share, jaccard, frequent, rare


def _roots(counts: csr_matrix) -> csr_matrix:
    """Roots of the shares: their product is the affinity of two distributions, 1 for equal ones."""
    total = np.maximum(np.asarray(counts.sum(1)), 1)
    return counts.multiply(1 / total).sqrt().tocsr()


def _text(query: Digest, table: Digest) -> tuple[F64, F64, F64, F64]:
    """(q, t) each: similarity of words, grams, shapes and meaning; what is in all columns counts little."""
    features = concatenate([query.features, table.features])
    count = len(features.starts) - 1
    ours = len(query.filled)
    seen, at, frequency = np.unique(features.ids, return_inverse=True, return_counts=True)
    owner = np.repeat(np.arange(count), np.diff(features.starts))
    tfidf = (1 + np.log(features.counts.astype(np.float64))) * np.log((1 + count) / (0.5 + frequency))[at]
    out = []
    for kind in ("words", "grams", "shapes"):
        begin, end = np.searchsorted(seen, KINDS[kind])
        some = (at >= begin) & (at < end)
        length = np.sqrt(np.bincount(owner[some], tfidf[some] ** 2, count))
        unit = tfidf[some] / np.maximum(length, 1e-9)[owner[some]]
        matrix = csr_matrix((unit, (owner[some], at[some] - begin)), (count, max(end - begin, 1)))
        out.append(_spread((matrix[:ours] @ matrix[ours:].T).toarray(), query, table))
    begin = int(np.searchsorted(seen, PIECE))
    some = at >= begin
    weights = csr_matrix((tfidf[some], (owner[some], at[some] - begin)), (count, max(len(seen) - begin, 1)))
    vectors = load_vectors()[seen[begin:] - PIECE] if begin < len(seen) else np.zeros((1, PIECE_WIDTH))
    meaning = (weights @ vectors) / np.maximum(np.asarray(weights.sum(1)), 1e-9)
    meaning = normalize(meaning - meaning.mean(0)) if count else meaning
    return out[0], out[1], out[2], _spread(meaning[:ours] @ meaning[ours:].T, query, table)


def _spread(filled: F64, query: Digest, table: Digest) -> F64:
    """From filled columns to all of them."""
    out = np.zeros((len(query.kinds), len(table.kinds)))
    out[np.ix_(query.filled, table.filled)] = filled
    return out


def _distributions(query: Digest, table: Digest) -> tuple[F64, F64, F64]:
    """(q, t) each: how far the distributions of numbers are apart, and how far beyond chance."""
    columns = [*query.numbers, *table.numbers]
    some = [column[np.linspace(0, len(column) - 1, _POINTS).astype(int)] for column in columns if len(column)]
    if not some:
        nothing = np.zeros((len(query.numbers), len(table.numbers)))
        return nothing, nothing, nothing
    grid = np.unique(np.concatenate(some))
    grid = grid[:: -(-len(grid) // GRID)]
    below = np.stack(  # (C, grid) share of the numbers up to there; of equal ones the half
        [
            (np.searchsorted(column, grid, "left") + np.searchsorted(column, grid, "right"))
            / max(2 * len(column), 1)
            for column in columns
        ]
    )
    ours, theirs = below[: len(query.numbers)], below[len(query.numbers) :]
    largest = cdist(ours, theirs, "chebyshev")
    mean = cdist(ours, theirs, "cityblock") / len(grid)
    sizes = np.array([len(column) for column in columns], np.float64)
    mine, its = sizes[: len(ours), None], sizes[None, len(ours) :]
    beyond = largest * np.sqrt(mine * its / np.maximum(mine + its, 1))
    return largest, mean, np.minimum(beyond, 8) / 4
