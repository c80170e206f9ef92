"""Constrained decoding, beside all identifiers scored one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from paper_models import TEXT, WIDTH, sentences, small_generator

from gentus.paper.decode import Masked, allowed_next, beam_width, generate, generate_freely
from gentus.paper.generator import Generator
from gentus.paper.serialize import Sentence
from gentus.retrieval.trie import Trie, build_trie

L, K = 3, 4


def tree(count: int = 60, seed: int = 0) -> Trie:
    """Identifiers with collisions, one of them a prefix of others: its table was there first."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, K, (count, L), np.uint8)
    seen: dict[tuple[int, ...], int] = {}
    suffixes = np.zeros(count, np.int32)
    for at, code in enumerate(map(tuple, codes.tolist())):
        suffixes[at] = seen[code] = seen.get(code, -1) + 1
    return build_trie(codes, suffixes, np.arange(count))


def identifiers(trie: Trie, model: Generator) -> list[list[int]]:
    """The symbols of every row of the tree, the end included."""
    y, lengths = model.vocabulary.tok(trie.codes, trie.suffixes)
    return [row[:length] for row, length in zip(y.tolist(), lengths.tolist(), strict=True)]


def logits(model: Generator, sentence: Sentence, before: list[int]) -> list[float]:
    """(K + S + 1) logits after some symbols, from the whole prefix."""
    tokens = torch.tensor([[model.vocabulary.start, *(TEXT + symbol for symbol in before)]])
    with torch.no_grad():
        states, _ = model.t5.decode(
            model.embed(tokens), torch.zeros(1, dtype=torch.long), model.read([sentence])
        )
        found: list[float] = model.logits(states[:, -1])[0].tolist()
    return found


def slow_scores(model: Generator, sentence: Sentence, valid: list[list[int]], masked: Masked) -> list[float]:
    """log P of every identifier: softmax over the symbols that are allowed, or over all."""
    scores = []
    rows = torch.cat([model.text, model.added])
    for symbols in valid:
        total = 0.0
        for t, symbol in enumerate(symbols):
            found = np.array(logits(model, sentence, symbols[:t]))
            allowed = sorted({other[t] for other in valid if other[:t] == symbols[:t] and len(other) > t})
            if masked == "before":
                total += found[symbol] - np.log(np.exp(found[allowed]).sum())
                continue
            tokens = torch.tensor([[model.vocabulary.start, *(TEXT + one for one in symbols[:t])]])
            states, _ = model.t5.decode(
                rows[tokens], torch.zeros(1, dtype=torch.long), model.read([sentence])
            )
            total += found[symbol] - float(
                (states[0, -1].detach() * WIDTH**-0.5 @ rows.detach().T).logsumexp(0)
            )
        scores.append(float(total))
    return scores


def test_what_is_allowed_next() -> None:
    model, trie = small_generator(K, 3), tree()
    valid = identifiers(trie, model)
    prefixes = {tuple(symbols[:t]) for symbols in valid for t in range(len(symbols))}
    complete = 0
    for prefix in prefixes:
        nodes, counts = np.array([trie.root]), np.array([len(trie)])
        for level, symbol in enumerate(prefix):
            found = allowed_next(trie, nodes, counts, level, model.vocabulary)
            (at,) = np.flatnonzero(found.symbols == symbol)[:1]
            nodes, counts = found.nodes[[at]], found.counts[[at]]
        found = allowed_next(trie, nodes, counts, len(prefix), model.vocabulary)
        expected = {symbols[len(prefix)] for symbols in valid if tuple(symbols[: len(prefix)]) == prefix}
        assert set(found.symbols.tolist()) == expected
        complete += {model.vocabulary.end} < expected
    assert complete > 0  # the end is allowed beside suffixes that go on


@pytest.mark.parametrize("masked", ["before", "after"])
def test_all_identifiers_in_the_order_of_their_probability(masked: Masked) -> None:
    trie = tree()
    model = small_generator(K, int(trie.suffixes.max()))  # every suffix has its own symbol
    inputs = sentences(3)
    for sentence, found in zip(inputs, generate(model, inputs, trie, len(trie), masked), strict=True):
        slow = slow_scores(model, sentence, identifiers(trie, model), masked)
        assert sorted(found.rows.tolist()) == list(range(len(trie)))
        assert np.allclose(found.scores, np.array(slow)[found.rows], atol=1e-4)
        assert (np.diff(found.scores) <= 0).all()
    if masked == "before":
        assert np.exp(found.scores).sum() == pytest.approx(1, abs=1e-4)


def slow_beam(model: Generator, sentence: Sentence, valid: list[list[int]], beam: int) -> list[list[int]]:
    """Beam search a symbol at a time, with the rule of section 6.1; complete sequences keep their place."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    for _ in range(L + 2):
        ahead: list[tuple[float, list[int]]] = []
        for score, prefix in beams:
            if prefix and prefix[-1] == model.vocabulary.end:
                ahead.append((score, prefix))
                continue
            t = len(prefix)
            allowed = sorted({symbols[t] for symbols in valid if symbols[:t] == prefix})
            found = np.array(logits(model, sentence, prefix))
            total = np.log(np.exp(found[allowed]).sum())
            ahead += [(score + found[symbol] - total, [*prefix, symbol]) for symbol in allowed]
        beams = sorted(ahead, key=lambda one: -one[0])[:beam]
    return [prefix for _, prefix in beams]


@pytest.mark.parametrize("beam", [1, 3, 7])
def test_a_narrow_beam(beam: int) -> None:
    trie = tree()
    model = small_generator(K, int(trie.suffixes.max()), seed=3)
    inputs, valid = sentences(4), identifiers(trie, model)
    for sentence, found in zip(inputs, generate(model, inputs, trie, beam), strict=True):
        assert [valid[row] for row in found.rows.tolist()] == slow_beam(model, sentence, valid, beam)


def test_a_query_is_answered_alike_alone_and_in_a_batch() -> None:
    model, trie, inputs = small_generator(K, 3), tree(), sentences(20)
    together = generate(model, inputs, trie, 10)
    for sentence, found in zip(inputs, together, strict=True):
        (alone,) = generate(model, [sentence], trie, 10)
        assert alone.rows.tolist() == found.rows.tolist()


def test_trees_of_no_and_of_one_identifier() -> None:
    model = small_generator(K, 3)
    codes = np.array([[1, 2, 3]], np.uint8)
    (one,) = generate(model, sentences(1), build_trie(codes, np.zeros(1, np.int32), np.array([7])), 5)
    assert (one.rows.tolist(), one.scores.tolist()) == ([0], [0.0])
    (none,) = generate(model, sentences(1), build_trie(codes[:0], np.zeros(0, np.int32), np.zeros(0, int)), 5)
    assert len(none.rows) == 0


def test_the_beam_of_the_paper() -> None:
    assert [beam_width(k) for k in (1, 20, 60)] == [100, 100, 120]


def slow_free(model: Generator, sentence: Sentence, tokens: tuple[int, ...]) -> float:
    """log P of a sequence of tokens and its end, over the whole vocabulary."""
    rows, total = torch.cat([model.text, model.added]), 0.0
    with torch.no_grad():
        before = torch.tensor([[model.vocabulary.start, *tokens]])
        states, _ = model.t5.decode(rows[before], torch.zeros(1, dtype=torch.long), model.read([sentence]))
        log_p = (states[0] * WIDTH**-0.5 @ rows.T).log_softmax(1)
    for at, token in enumerate((*tokens, model.vocabulary.eos)):
        total += float(log_p[at, token])
    return total


def test_without_the_tree_text_tokens_take_part() -> None:
    model, inputs = small_generator(2, 0, seed=1), sentences(2)
    count = len(model.text) + len(model.added)
    # So wide a beam that nothing of at most two tokens is lost, and every sequence of them is found.
    for sentence, found in zip(inputs, generate_freely(model, inputs, 0, 2 * count**2), strict=True):
        ended = [one for one in found if len(one) < 2]
        assert sorted(ended) == sorted(
            {(), *((token,) for token in range(count) if token != model.vocabulary.eos)}
        )
        scores = [slow_free(model, sentence, one) for one in ended]
        assert (np.diff(scores) < 1e-4).all()
