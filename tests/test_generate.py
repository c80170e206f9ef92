"""Generation against brute force: a scorer without a network, and trees small enough to write out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentus.arrays import F32, I64
from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval.beam import Decoder
from gentus.retrieval.generate import Decoding, Prior, Ranking, generate, paths
from gentus.retrieval.overlay import apply_delta
from gentus.retrieval.trie import Trie, build_trie
from gentus.settings import Softmax
from gentus_bench.experiments.unconstrained import generate_unconstrained

SUFFIXES = 4
WIDTH = 6


class Recurrent:
    """A scorer whose logits depend on the query and on everything written, through a small state."""

    def __init__(self, seed: int, size: int, queries: list[int]) -> None:
        random = np.random.default_rng(seed)
        self.write, self.turn, self.read, starts = (
            random.normal(size=shape).astype(np.float32)
            for shape in ((size, WIDTH), (WIDTH, WIDTH), (WIDTH, size), (8, WIDTH))
        )
        self.state = starts[queries]
        self.rows = 0

    def begin(self) -> F32:
        self.rows += len(self.state)
        return self.state @ self.read

    def step(self, parent: I64, symbols: I64) -> F32:
        self.rows += len(parent)
        self.state = np.tanh(self.state[parent] @ self.turn + self.write[symbols])
        return self.state @ self.read


class World:
    """Random identifiers with collisions, codebooks and latents, and the slow truth about them."""

    def __init__(self, seed: int, count: int, levels: int, size: int, queries: int = 3) -> None:
        random = np.random.default_rng(seed)
        self.seed, self.size, self.levels, self.queries = seed, size, levels, queries
        drawn = {(*random.integers(0, size, levels), random.integers(0, SUFFIXES + 1)) for _ in range(count)}
        table = np.array(sorted(drawn), np.int64)
        self.trie = build_trie(table[:, :-1].astype(np.uint8), table[:, -1], np.arange(len(table)))
        scale = (0.6 ** np.arange(levels))[:, None, None]
        books = (random.normal(size=(levels, size, 5)) * scale).astype(np.float32)
        self.prior = Prior(random.normal(size=(queries, 5)).astype(np.float32), books)
        self.eos = size + SUFFIXES
        self.names = [self.name(row) for row in range(len(self.trie))]

    def name(self, row: int) -> tuple[int, ...]:
        suffix = int(self.trie.suffix(np.array([row]))[0])
        return (*self.trie.codes[row].tolist(), *([self.size + suffix - 1] if suffix else []), self.eos)

    def scorer(self, queries: list[int] | None = None) -> Recurrent:
        return Recurrent(self.seed, self.eos + 1, list(range(self.queries)) if queries is None else queries)

    def allowed(self, prefix: tuple[int, ...]) -> list[int]:
        return sorted({n[len(prefix)] for n in self.names if n[: len(prefix)] == prefix and n != prefix})

    def log_probability(self, query: int, prefix: tuple[int, ...], softmax: Softmax) -> float:
        scorer, total = self.scorer([query]), 0.0
        logits = scorer.begin()
        for position, symbol in enumerate(prefix):
            valid = self.allowed(prefix[:position]) if softmax == "children" else list(range(self.eos + 1))
            total += float(logits[0, symbol] - np.logaddexp.reduce(logits[0, valid]))
            logits = scorer.step(np.zeros(1, np.int64), np.array([symbol]))
        return total

    def distance(self, query: int, prefix: tuple[int, ...]) -> float:
        codes = prefix[: self.levels]
        written = sum((self.prior.books[level, code] for level, code in enumerate(codes)), np.zeros(5))
        return float(((self.prior.latents[query] - written) ** 2).sum())

    def score(
        self, query: int, prefix: tuple[int, ...], softmax: Softmax, weight: float, prior: bool
    ) -> float:
        distance = self.distance(query, prefix) if prior else 0.0
        return weight * self.log_probability(query, prefix, softmax) - distance

    def beam_search(self, query: int, beam: int, softmax: Softmax, weight: float, prior: bool) -> list[int]:
        """Rows, best first, by a search that keeps `beam` prefixes a level."""
        kept: list[tuple[int, ...]] = [()]
        for _ in range(self.levels + 2):
            longer = [(*p, symbol) for p in kept for symbol in self.allowed(p)]
            longer += [p for p in kept if not self.allowed(p)]
            kept = sorted(longer, key=lambda p: -self.score(query, p, softmax, weight, prior))[:beam]
        return [self.names.index(p) for p in kept]

    def run(self, beam: int, softmax: Softmax, weight: float, prior: bool) -> list[Ranking]:
        given = self.prior if prior else None
        decoding = Decoding(beam, weight, softmax)
        return generate(self.scorer(), self.trie, self.queries, self.size, decoding, given)


def worlds() -> st.SearchStrategy[World]:
    sizes = (st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4), st.integers(1, 4))
    return st.builds(World, *sizes)


SOFTMAX = st.sampled_from(["children", "vocabulary"])


@settings(max_examples=60, deadline=None)
@given(worlds(), SOFTMAX, st.booleans())
def test_a_full_beam_ranks_every_identifier_as_brute_force_does(
    world: World, softmax: Softmax, prior: bool
) -> None:
    for query, found in enumerate(world.run(1000, softmax, 0.7, prior)):
        truth = [world.score(query, name, softmax, 0.7, prior) for name in world.names]
        assert sorted(found.rows) == list(range(len(world.trie)))
        assert np.allclose(found.scores, np.array(truth)[found.rows], atol=1e-4)
        assert (np.diff(found.scores) <= 0).all()
        assert np.allclose(found.scores, 0.7 * found.generator + found.prior, atol=1e-4)
        assert found.invalid == 0


@settings(max_examples=60, deadline=None)
@given(worlds(), SOFTMAX, st.booleans(), st.integers(1, 5))
def test_a_narrow_beam_prunes_level_by_level(world: World, softmax: Softmax, prior: bool, beam: int) -> None:
    for query, found in enumerate(world.run(beam, softmax, 0.7, prior)):
        truth = [world.score(query, world.names[row], softmax, 0.7, prior) for row in found.rows]
        assert np.allclose(found.scores, truth, atol=1e-4)
        expected = world.beam_search(query, beam, softmax, 0.7, prior)
        assert found.rows.tolist() == expected


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), SOFTMAX, st.booleans(), st.integers(1, 30))
def test_a_query_is_answered_alike_alone_and_in_a_batch(
    seed: int, softmax: Softmax, prior: bool, beam: int
) -> None:
    world = World(seed, 200, 4, 4)
    for query, together in enumerate(world.run(beam, softmax, 0.3, prior)):
        given = Prior(world.prior.latents[[query]], world.prior.books) if prior else None
        decoding = Decoding(beam, 0.3, softmax)
        [alone] = generate(world.scorer([query]), world.trie, 1, world.size, decoding, given)
        assert alone.rows.tolist() == together.rows.tolist()
        assert np.allclose(alone.scores, together.scores, atol=1e-4)
        assert len(set(alone.rows.tolist())) == len(alone.rows) == min(beam, len(world.trie))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), SOFTMAX, st.integers(1, 60))
def test_without_weight_only_the_residual_counts(seed: int, softmax: Softmax, beam: int) -> None:
    world = World(seed, 300, 4, 5)
    codebooks = Codebooks(world.prior.books)
    decoder, words = Decoder(world.trie, codebooks), codebooks.decode(world.trie.codes)
    for latent, found in zip(world.prior.latents, world.run(beam, softmax, 0.0, True), strict=True):
        assert np.allclose(-found.scores, ((latent - words[found.rows]) ** 2).sum(1), atol=1e-4)
    for latent, found in zip(world.prior.latents, world.run(1000, softmax, 0.0, True), strict=True):
        assert np.allclose(-found.scores, decoder.search(latent, 1000)[1], atol=1e-4)


def test_a_mean_log_probability_ranks_by_the_length_of_an_identifier() -> None:
    world = World(3, 40, 2, 3)
    decoding = Decoding(1000, softmax="vocabulary", length_normalised=True)
    found = generate(world.scorer(), world.trie, world.queries, world.size, decoding)
    for part in found:
        lengths = [len(world.names[row]) for row in part.rows]
        assert set(lengths) == {3, 4}
        assert np.allclose(part.scores, part.generator / lengths)
        assert (np.diff(part.scores) <= 0).all()
    with pytest.raises(ValueError, match="prior"):
        generate(world.scorer(), world.trie, 3, 3, decoding, world.prior)


def test_a_beam_that_is_down_to_one_row_asks_no_more() -> None:
    codes = np.array([[0, 1, 2, 3, 0, 1], [1, 2, 0, 0, 3, 3], [1, 3, 1, 1, 1, 1]], np.uint8)
    trie = build_trie(codes, np.zeros(3, np.int64), np.arange(3))
    scorer = Recurrent(0, 4 + SUFFIXES + 1, [0])
    [found] = generate(scorer, trie, 1, 4, Decoding(10))
    assert scorer.rows == 2  # the root, and the node of two rows
    assert np.exp(found.generator).sum() == pytest.approx(1)


def test_trees_of_no_and_of_one_identifier() -> None:
    empty = build_trie(np.zeros((0, 2), np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    scorer = Recurrent(0, 4 + SUFFIXES + 1, [0, 1])
    assert [len(found.rows) for found in generate(scorer, empty, 2, 4, Decoding(5))] == [0, 0]
    [first, _] = generate_unconstrained(scorer, empty, 2, 5, codes=4)
    assert (len(first.rows), first.invalid) == (0, 5)
    one = build_trie(np.array([[1, 2]], np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64))
    [first, _] = generate(Recurrent(0, 4 + SUFFIXES + 1, [0, 1]), one, 2, 4, Decoding(5))
    assert (first.rows.tolist(), first.scores.tolist()) == ([0], [0.0])


def test_suffixes_beyond_the_symbols_share_the_last_one() -> None:
    """A lake may come to hold more tables of one code than the generator was made for."""
    trie = build_trie(np.zeros((3, 2), np.uint8), np.array([0, SUFFIXES, 9]), np.arange(3))
    (found,) = generate(Recurrent(0, 4 + SUFFIXES + 1, [0]), trie, 1, 4, Decoding(5))
    assert sorted(found.rows.tolist()) == [0, 1, 2]
    score = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    assert score[1] == score[2] != score[0]
    with pytest.raises(ValueError, match="suffixes up to 9"):
        generate(Recurrent(0, 4 + 1, [0]), trie, 1, 4, Decoding(5))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.sampled_from(["children", "vocabulary"]))
def test_a_tree_with_a_delta_generates_like_one_that_is_rebuilt(
    seed: int, count: int, softmax: Softmax
) -> None:
    world = World(seed, count, 3, 4)
    trie = world.trie
    kind = np.random.default_rng(seed).integers(0, 3, len(trie))  # old, new, deleted

    def only(*kinds: int) -> Trie:
        rows = np.isin(kind, kinds)
        return build_trie(trie.codes[rows], trie.suffix(np.flatnonzero(rows)), trie.tables[rows], scanned=3)

    now, rebuilt = apply_delta(only(0, 2), only(1), only(2)), only(0, 1)
    for prior in (None, world.prior):
        answers = []
        for tree in (now, rebuilt):
            decoding = Decoding(100, softmax=softmax)
            found = generate(world.scorer(), tree, world.queries, 4, decoding, prior)
            answers.append(
                [dict(zip(tree.table(f.rows).tolist(), f.scores.tolist(), strict=True)) for f in found]
            )
        for one, other in zip(*answers, strict=True):
            assert one == pytest.approx(other, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_a_full_unconstrained_beam_holds_every_identifier(seed: int, count: int) -> None:
    world = World(seed, count, 1, 2)
    everything = sum(6**n for n in range(3)) + 6**3  # V = 7: strings that EOS or the depth of 3 ends
    for query, found in enumerate(
        generate_unconstrained(world.scorer(), world.trie, world.queries, 10_000, codes=2)
    ):
        truth = [world.log_probability(query, name, "vocabulary") for name in world.names]
        assert sorted(found.rows) == list(range(len(world.trie)))
        assert np.allclose(found.scores, np.array(truth)[found.rows], atol=1e-4)
        assert (np.diff(found.scores) <= 0).all()
        assert found.invalid == everything - len(world.trie)


def test_a_narrow_unconstrained_beam_counts_what_does_not_exist() -> None:
    world = World(8, 60, 2, 3)
    together = generate_unconstrained(world.scorer(), world.trie, world.queries, 20, codes=3)
    for query, found in enumerate(together):
        [alone] = generate_unconstrained(world.scorer([query]), world.trie, 1, 20, codes=3)
        assert alone.rows.tolist() == found.rows.tolist()
        assert len(set(found.rows.tolist())) == len(found.rows)
        assert len(found.rows) + found.invalid == 20
    assert any(len(found.rows) for found in together)
    short = generate_unconstrained(world.scorer(), world.trie, world.queries, 20, codes=3, depth=1)
    assert [(len(found.rows), found.invalid) for found in short] == [(0, 8)] * 3


def prefixes(name: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return (name[:position] for position in range(len(name)))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 10**6), st.booleans())
def test_paths_agree_with_a_tree_of_dictionaries(world: World, seed: int, trim: bool) -> None:
    rows = np.random.default_rng(seed).integers(0, len(world.trie), 7)
    found = paths(world.trie, rows, world.size, SUFFIXES, trim=trim)
    shown = max(1, int(found.decisive.max())) if trim else world.levels + 2
    assert found.symbols.shape == (7, shown)
    assert found.valid.shape == (7, shown, world.eos + 1)
    for index, row in enumerate(rows):
        name = world.names[row]
        choices = [world.allowed(prefix) for prefix in prefixes(name)]
        padded = [*name, *[-1] * (world.levels + 2 - len(name))]
        assert found.symbols[index].tolist() == padded[:shown]
        for position in range(shown):
            expected = choices[position] if position < len(choices) else []
            assert np.flatnonzero(found.valid[index, position]).tolist() == expected
        decisive = [position + 1 for position, some in enumerate(choices) if len(some) > 1]
        assert found.decisive[index] == max(decisive, default=0)


def test_identifiers_are_found_by_their_codes_and_suffix() -> None:
    world = World(4, 60, 3, 3)
    trie: Trie = world.trie
    assert trie.find(trie.codes, trie.suffix(np.arange(len(trie)))).tolist() == list(range(len(trie)))
    assert trie.find(np.array([[9, 9, 9], [0, 0, 0]], np.uint8), np.array([0, 300])).tolist() == [-1, -1]
