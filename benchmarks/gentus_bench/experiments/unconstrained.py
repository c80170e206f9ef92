"""Beam search of a generator without the prefix tree, as an ablation."""

from __future__ import annotations

import numpy as np

from gentus.arrays import I64
from gentus.retrieval.generate import Ranking, Scorer, _best, _eos, _log_sum, _split
from gentus.retrieval.trie import Tree


def generate_unconstrained(
    scorer: Scorer, trie: Tree, queries: int, beam: int, *, codes: int, depth: int | None = None
) -> list[Ranking]:
    """Plain beam search over all symbols, to see how much the tree is needed: most beams may be invalid.

    Beams are different strings of symbols, so no identifier is found twice.
    """
    if not queries:
        return []
    levels = trie.levels
    depth = levels + 2 if depth is None else depth
    logits = scorer.begin()  # (Q, V)
    size = logits.shape[1]
    eos = _eos(trie, codes, size - codes - 1)
    owner = np.arange(queries)
    active = np.ones(queries, bool)
    generator = np.zeros(queries, np.float32)
    written = np.full((queries, max(depth, levels + 2)), -1, np.int64)
    for position in range(depth):
        # An active beam branches into every symbol; an ended one stays as it is and competes.
        count = np.where(active, size, 1)
        parent = np.repeat(np.arange(len(owner)), count)
        owner, generator, extends = owner[parent], generator[parent], active[parent]
        symbols = np.full(len(parent), -1, np.int64)
        symbols[extends] = np.tile(np.arange(size), int(active.sum()))
        generator[extends] += (logits - _log_sum(logits)[:, None]).ravel()
        keep = _best(generator, owner, queries, beam)
        parent, symbols, owner, generator = parent[keep], symbols[keep], owner[keep], generator[keep]
        written = written[parent]
        written[:, position] = symbols
        row = (np.cumsum(active) - 1)[parent]
        active = extends[keep] & (symbols != eos)
        if not active.any() or position + 1 == depth:
            break
        logits = scorer.step(row[active], symbols[active])  # (n, V)
    rows = _lookup(trie, written, codes, eos)
    exists = rows >= 0
    invalid = np.bincount(owner[~exists], minlength=queries)
    rows, owner, generator = rows[exists], owner[exists], generator[exists]
    return _split(owner, rows, generator, np.zeros_like(generator), generator, invalid)


def _lookup(trie: Tree, written: I64, codes: int, eos: int) -> I64:
    """(n,) the row each string of symbols names, -1 where it names none."""
    levels = trie.levels
    tail, end = written[:, levels], written[:, levels + 1]
    plain = tail == eos
    suffixed = (tail >= codes) & (tail < eos) & (end == eos)
    head = written[:, :levels]
    formed = ((head >= 0) & (head < codes)).all(1) & (plain | suffixed)
    rows = np.full(len(written), -1, np.int64)
    suffixes = np.where(plain, 0, tail - codes + 1)[formed]
    rows[formed] = trie.find(head[formed], suffixes)
    return rows
