"""Prefix-constrained decoding (section 6.1): beam search over the prefix tree of all identifiers.

Logits of tokens that the tree does not allow are minus infinity before the softmax, so a token without an
alternative has probability one, and a beam that is down to one identifier has its final score. The order is
that of the beam: by log P_θ(s | x), the sum over its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gentus.arrays import F32, I64
from gentus.paper.generator import Generator, Vocabulary
from gentus.paper.serialize import Sentence
from gentus.paper.t5 import Memory
from gentus.retrieval.trie import Children, Tree

QUERIES = 16  # decoded together
Masked = Literal["before", "after"]  # the softmax


class Generated(NamedTuple):
    """The identifiers that were generated for one query, best first."""

    rows: I64  # (n,) of the prefix tree
    scores: F32  # (n,) log P_θ(s | x)


def beam_width(k: int) -> int:
    """max(2k, 100)."""
    return max(2 * k, 100)


def allowed_next(trie: Tree, nodes: I64, counts: I64, level: int, vocabulary: Vocabulary) -> Children:
    """A(y_1:t): the children of prefixes of `level` symbols in the tree, and the end of complete ones."""
    if level > trie.levels:  # after a suffix, only the end
        return Children(np.arange(len(nodes)), nodes, counts, np.full(len(nodes), vocabulary.end))
    found = trie.expand(nodes, counts, level)
    return found if level < trie.levels else found._replace(symbols=vocabulary.suffix(found.symbols))


@torch.inference_mode()
def generate(
    model: Generator, sentences: Sequence[Sentence], trie: Tree, beam: int, masked: Masked = "before"
) -> list[Generated]:
    """PrefixConstrainedBeamSearch for serialised queries; identifiers are rows of the tree."""
    results: list[Generated] = []
    if not len(trie):
        return [Generated(np.zeros(0, np.int64), np.zeros(0, np.float32))] * len(sentences)
    model.eval()
    for at in range(0, len(sentences), QUERIES):
        with model.precision():
            memory = model.read(sentences[at : at + QUERIES])
            results += _generate(Beams(model, memory), trie, beam, masked)
    return results


def _generate(beams: Beams, trie: Tree, beam: int, masked: Masked) -> list[Generated]:
    vocabulary, queries = beams.model.vocabulary, len(beams.owner)
    # (n,) the query of each beam, its node with its descendants, and its log-probability
    owner, nodes = np.arange(queries), np.full(queries, trie.root)
    counts, scores = np.full(queries, len(trie)), np.zeros(queries, np.float32)
    slot = np.arange(queries)  # (n,) the row of its logits; -1 once its score is final
    logits = beams.begin()  # (Q, K + S + 1)
    for level in range(trie.levels + 2):
        parent, nodes, counts, symbols = allowed_next(trie, nodes, counts, level, vocabulary)
        owner, slot, scores = owner[parent], slot[parent], scores[parent]
        open_ = slot >= 0
        log_p = _log_softmax(logits, slot[open_], symbols[open_], masked, beams.normalizer)
        scores[open_] += log_p
        kept = _best(owner, scores, beam)
        owner, nodes, counts = owner[kept], nodes[kept], counts[kept]
        symbols, slot, scores = symbols[kept], slot[kept], scores[kept]
        going_on = (slot >= 0) & ((counts > 1) if masked == "before" else (symbols != vocabulary.end))
        if not going_on.any():
            break
        logits = beams.step(slot[going_on], vocabulary.text + symbols[going_on])
        slot = np.where(going_on, np.cumsum(going_on) - 1, -1)
    rows = trie.row(nodes)
    order = np.lexsort((rows, -scores, owner))
    ends = np.cumsum(np.bincount(owner, minlength=queries))[:-1]
    return [Generated(rows[part], scores[part]) for part in np.split(order, ends)]


@torch.inference_mode()
def generate_freely(
    model: Generator, sentences: Sequence[Sentence], levels: int, beam: int
) -> list[list[tuple[int, ...]]]:
    """Beam search without the tree, over the whole vocabulary (Table 6): the best sequences of tokens.

    They are without their end, best first; one that does not end after L + 2 tokens is kept as it is.
    """
    results: list[list[tuple[int, ...]]] = []
    model.eval()
    for query in sentences:
        found: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        done: list[tuple[float, tuple[int, ...]]] = []
        with model.precision():
            beams = Beams(model, model.read([query]))
            beams.begin()
            for position in range(levels + 2):
                totals = torch.tensor([score for score, _ in found])[:, None] + beams.log_p()  # (n, V)
                best, at = totals.flatten().topk(min(2 * beam, totals.numel()))
                parents, tokens = at // totals.shape[1], at % totals.shape[1]
                ended = tokens == model.vocabulary.eos
                done += [
                    (float(best[i]), found[int(parents[i])][1]) for i in torch.nonzero(ended[:beam])[:, 0]
                ]
                alive = torch.nonzero(~ended)[:beam, 0]
                parents, tokens = parents[alive], tokens[alive]
                ahead = zip(best[alive].tolist(), parents.tolist(), tokens.tolist(), strict=True)
                found = [(score, (*found[parent][1], token)) for score, parent, token in ahead]
                if position < levels + 1:
                    beams.step(parents.numpy(), tokens.numpy())
        results.append([tokens for _, tokens in sorted([*done, *found], key=lambda one: -one[0])[:beam]])
    return results


class Beams:
    """Prefixes that grow by a token a step; their cached keys and values are reordered by `parent`."""

    def __init__(self, model: Generator, memory: Memory) -> None:
        self.model, self._memory = model, memory
        self.owner = torch.arange(len(memory.mask), device=model.device)  # (n,) the query of each beam
        self._past: list[tuple[Tensor, Tensor]] | None = None
        self._states = torch.zeros(0)

    def begin(self) -> F32:
        """(Q, K + S + 1) logits of the first symbol."""
        start = self.model.text[self.model.vocabulary.start]
        return self._advance(start.expand(len(self.owner), 1, -1))

    def step(self, parent: I64, tokens: I64) -> F32:
        """(n, K + S + 1) logits after `tokens` (n,), of the beams `parent` (n,), rising by query."""
        rows, written = (torch.from_numpy(array).to(self.model.device) for array in (parent, tokens))
        assert self._past is not None
        self._past = [(keys[rows], values[rows]) for keys, values in self._past]
        self.owner = self.owner[rows]
        return self._advance(self.model.embed(written)[:, None])

    def log_p(self) -> Tensor:
        """(n, V + K + S + 2) log-probabilities of all tokens of the extended vocabulary."""
        return self.model.all_logits(self._states).log_softmax(1).cpu()

    def normalizer(self) -> F32:
        """(n,) log of the sum of exp(logit) over the whole vocabulary, after the last step."""
        return np.asarray(self.model.log_normalizer(self._states).cpu().numpy(), np.float32)

    def _advance(self, embedded: Tensor) -> F32:
        states, self._past = self.model.t5.decode(embedded, self.owner, self._memory, self._past)
        self._states = states[:, 0]
        return np.asarray(self.model.logits(self._states).cpu().numpy(), np.float32)


def _log_softmax(logits: F32, slot: I64, symbols: I64, masked: Masked, normalizer: Any) -> F32:
    """(n,) log-probability of each symbol in its row of the logits; `slot` names rows in rising order."""
    chosen = logits[slot, symbols]
    if masked == "after" or not len(slot):
        return chosen - normalizer()[slot] if len(slot) else chosen
    starts = np.flatnonzero(np.diff(slot, prepend=-1))
    row = np.cumsum(np.diff(slot, prepend=-1) != 0) - 1
    chosen = chosen - np.maximum.reduceat(chosen, starts)[row]
    return np.asarray(chosen - np.log(np.add.reduceat(np.exp(chosen), starts))[row], np.float32)


def _best(owner: I64, scores: F32, beam: int) -> NDArray[np.int64]:
    """Positions of the `beam` best of each owner, rising; of equals the earlier ones."""
    order = np.lexsort((-scores, owner))
    counts = np.bincount(owner)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[rank < beam])
