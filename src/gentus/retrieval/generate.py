"""Constrained generation (section 5.1): beam search over the prefix tree by a scorer and a residual prior.

The beams of all queries are one flat list, ordered by query and then by row. Pruning keeps that order, so
ties go to the lower row, and a query has the same ranking alone and in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.retrieval.beam import pair_products
from gentus.retrieval.trie import Tree, Trie
from gentus.settings import Softmax

Mask = NDArray[np.bool_]


class Scorer(Protocol):
    """Logits of the V = K + S + 1 symbols: K codes, S suffixes (symbol K + h - 1 is suffix h), and EOS.

    A scorer keeps the state of its beams and reorders it by `parent`.
    """

    def begin(self) -> F32:
        """(Q, V) logits of the first symbol, one row per query."""
        ...

    def step(self, parent: I64, symbols: I64) -> F32:
        """(n, V) logits after `symbols` (n,), which extend the beams `parent` (n,) of the last step."""
        ...


@dataclass(frozen=True, slots=True)
class Prior:
    """Scores an identifier by minus the squared distance of the latent to the sum of its codewords."""

    latents: F32  # (Q, d)
    books: F32  # (L, K, d)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The identifiers found for one query, best first."""

    rows: I64  # (n,) rows of the tree
    scores: F32  # (n,)
    prior: F32  # (n,) the prior's part of the score; 0 without a prior
    generator: F32  # (n,) sum of the log-probabilities, without the weight
    invalid: int = 0  # beams that are no identifier; 0 where the tree constrains them


@dataclass(frozen=True, slots=True)
class Decoding:
    """How identifiers are generated and ranked: by weight * log-probability + prior.

    `softmax` is over the children of a node, where a symbol without alternative costs nothing and a beam that
    is down to one row needs no more logits, or over the whole vocabulary, as in the paper. The paper ranks by
    the mean log-probability per symbol (`length_normalised`); pruning always compares sums.
    """

    beam: int
    weight: float | None = 1.0  # None: 1, and no prior
    softmax: Softmax = "children"
    length_normalised: bool = False


def generate(
    scorer: Scorer, trie: Tree, queries: int, codes: int, decoding: Decoding, prior: Prior | None = None
) -> list[Ranking]:
    """The best identifiers of each query; `codes` is K."""
    if decoding.length_normalised and prior is not None:
        raise ValueError("a mean log-probability cannot be added to a prior")
    if not len(trie) or not queries:
        return [_EMPTY] * queries
    levels, softmax = trie.levels, decoding.softmax
    weight = 1.0 if decoding.weight is None else decoding.weight
    logits = scorer.begin()  # (Q, V)
    eos = _eos(trie, codes, logits.shape[1] - codes - 1)
    owner = np.arange(queries)  # (n,) the query of each beam
    nodes, counts = np.full(queries, trie.root), np.full(queries, len(trie))  # (n,) each
    slot = np.arange(queries)  # (n,) its row in the scorer, -1 once its log-probability is final
    generator = np.zeros(queries, np.float32)
    residual = prior.latents if prior else np.zeros((queries, 0), np.float32)  # (n, d)
    norm = (residual**2).sum(1)  # (n,) squared
    for level in range(levels + 2):
        parent, nodes, counts, symbols = trie.expand(nodes, counts, level)
        symbols = _symbols(symbols, level - levels, codes, eos)
        owner, slot, generator, norm = owner[parent], slot[parent], generator[parent], norm[parent]
        active = slot >= 0
        generator[active] += _log_probabilities(logits, slot[active], symbols[active], softmax)
        # Beams with a final log-probability still go level by level: a full distance beats any partial one.
        book = prior.books[level] if prior and level < levels else None  # (K, d)
        if book is not None:
            norm = norm - 2 * pair_products(residual, parent, book, symbols) + (book**2).sum(1)[symbols]
        keep = _best(weight * generator - norm, owner, queries, decoding.beam)
        parent, nodes, counts, symbols = parent[keep], nodes[keep], counts[keep], symbols[keep]
        owner, slot, generator, norm = owner[keep], slot[keep], generator[keep], norm[keep]
        if book is not None:
            residual = residual[parent] - book[symbols]
        active = (slot >= 0) & (symbols != eos if softmax == "vocabulary" else counts > 1)
        if not active.any():
            break
        logits = scorer.step(slot[active], symbols[active])  # (n, V)
        slot = np.where(active, np.cumsum(active) - 1, -1)
    rows = trie.row(nodes)
    if prior and level + 1 < levels:  # every beam is one row by now: its remaining codewords at once
        for later in range(level + 1, levels):
            residual = residual - prior.books[later, trie.code(rows, later)]
        norm = (residual**2).sum(1)
    length = levels + 1 + (trie.suffix(rows) > 0) if decoding.length_normalised else 1
    scores = (weight * generator / length - norm).astype(np.float32)
    return _split(owner, rows, scores, 0 - norm, generator, np.zeros(queries, np.int64))


@dataclass(frozen=True, slots=True)
class Paths:
    """The identifiers of some rows as symbols, and the symbols that the tree allows at each position."""

    symbols: I64  # (n, D) -1 after the end
    valid: Mask  # (n, D, V) none after the end
    decisive: I64  # (n,) positions up to the last one with more than one valid symbol


def paths(trie: Trie, rows: I64, codes: int, suffixes: int, *, trim: bool = False) -> Paths:
    """The symbols of some rows with their alternatives, for training.

    D is L + 2, or with `trim` the last position where any row has an alternative, but at least 1.
    """
    eos = _eos(trie, codes, suffixes)
    depth = trie.levels + 2
    target = np.column_stack([trie.codes_of(rows), trie.suffix(rows), trie.suffix(rows)]).astype(np.int64)
    for late in range(2):
        target[:, trie.levels + late] = _symbols(target[:, trie.levels + late], late, codes, eos)
    valid = np.zeros((len(rows), depth, eos + 1), bool)
    decisive = np.zeros(len(rows), np.int64)
    nodes, counts = np.full(len(rows), trie.root), np.full(len(rows), len(trie))
    for level in range(depth):
        if (counts == 1).all():
            break
        parent, children, sizes, symbols = trie.expand(nodes, counts, level)
        valid[parent, level, _symbols(symbols, level - trie.levels, codes, eos)] = True
        decisive[np.bincount(parent, minlength=len(rows)) > 1] = level + 1
        own = (children <= rows[parent]) & (rows[parent] < children + sizes)  # the child that a row lies in
        nodes, counts = children[own], sizes[own]
    # Where a row has become the only one, its own symbol is the only valid one.
    row, position = np.nonzero(target >= 0)
    valid[row, position, target[row, position]] = True
    shown = max(1, int(decisive.max(initial=0))) if trim else depth
    return Paths(target[:, :shown], valid[:, :shown], decisive)


_NONE = np.zeros(0, np.float32)
_EMPTY = Ranking(np.zeros(0, np.int64), _NONE, _NONE, _NONE)


def _eos(trie: Tree, codes: int, suffixes: int) -> int:
    """The symbol that ends an identifier. Raises if the tree has suffixes and the generator no symbols."""
    if suffixes == 0 and trie.highest_suffix:
        raise ValueError(
            f"the tree has suffixes up to {trie.highest_suffix}, the generator no symbol for any"
        )
    return codes + suffixes


def _symbols(symbols: I64, late: int, codes: int, eos: int) -> I64:
    """(n,) symbols at one position: codes; or, `late` positions after the last code, those of the suffixes.

    As a lake grows, suffixes may exceed those the generator was trained with: they share its last suffix
    symbol. -1 after the end.
    """
    if late < 0:
        return symbols
    if late == 0:
        return np.where(symbols > 0, np.minimum(codes + symbols, eos) - 1, eos)
    return np.where(symbols > 0, eos, -1)


def _log_probabilities(logits: F32, row: I64, symbols: I64, softmax: Softmax) -> F32:
    """(n,) log-probability of each symbol in its row of the logits; `row` names every row, in order."""
    chosen = logits[row, symbols]
    if softmax == "vocabulary":
        return chosen - _log_sum(logits)[row]
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    chosen = chosen - np.maximum.reduceat(chosen, starts)[row]
    return chosen - np.log(np.add.reduceat(np.exp(chosen), starts))[row]


def _log_sum(table: F32) -> F32:
    """(n,) log of the sum of exponentials of each row."""
    most = table.max(1)
    total: F32 = np.log(np.exp(table - most[:, None]).sum(1)) + most
    return total


def _best(scores: F32, owner: I64, queries: int, beam: int) -> I64:
    """Positions of the `beam` best entries of each owner, ascending; of equals the earlier ones."""
    width = np.bincount(owner, minlength=queries)
    widest = int(width.max())
    if widest <= beam:
        return np.arange(len(scores))
    begin = np.cumsum(width) - width
    padded = np.full((queries, widest), -np.inf, np.float32)
    padded[owner, np.arange(len(scores)) - begin[owner]] = scores
    least = np.partition(padded, widest - beam, axis=1)[:, widest - beam][owner]  # (n,)
    above, equal = scores > least, scores == least
    room = beam - np.bincount(owner[above], minlength=queries)
    earlier = np.cumsum(equal) - equal  # equals before each entry, of all owners
    return np.flatnonzero(above | (equal & (earlier - earlier[begin][owner] < room[owner])))


def _split(owner: I64, rows: I64, scores: F32, prior: F32, generator: F32, invalid: I64) -> list[Ranking]:
    """Each query's entries, best first; of equals the lower row."""
    order = np.lexsort((rows, -scores, owner))
    ends = np.cumsum(np.bincount(owner, minlength=len(invalid)))
    parts = np.split(order, ends[:-1])
    return [
        Ranking(rows[part], scores[part], prior[part], generator[part], int(count))
        for part, count in zip(parts, invalid, strict=True)
    ]
