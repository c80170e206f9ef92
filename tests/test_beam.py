"""Codes, prefix tree and beam search against brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentus.identifiers.codebooks import Codebooks, codebook_statistics
from gentus.identifiers.semantic_ids import assign_suffixes, format_sid
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Trie, build_trie
from gentus.settings import QuantizerSettings


def world(seed: int, count: int, levels: int, size: int) -> tuple[np.ndarray, Codebooks, np.ndarray, Trie]:
    random = np.random.default_rng(seed)
    books = random.normal(size=(levels, size, 8)) * (0.6 ** np.arange(levels))[:, None, None]
    codebooks = Codebooks(books.astype(np.float32))
    latents = random.normal(size=(count, 8)).astype(np.float32)
    codes = codebooks.encode(latents)
    distance = ((latents - codebooks.decode(codes)) ** 2).sum(1)
    suffixes = assign_suffixes(codes, distance)
    return latents, codebooks, codes, build_trie(codes, suffixes, np.arange(count))


def test_encode_takes_the_nearest_codeword_of_every_level() -> None:
    latents, codebooks, codes, _ = world(1, 20, 3, 5)
    for latent, code in zip(latents, codes, strict=True):
        rest = latent.copy()
        for level in range(3):
            distances = [((rest - word) ** 2).sum() for word in codebooks.codewords[level]]
            assert code[level] == int(np.argmin(distances))
            rest = rest - codebooks.codewords[level][code[level]]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4), st.integers(1, 6))
def test_a_full_beam_scores_every_identifier_as_brute_force_does(
    seed: int, count: int, levels: int, size: int
) -> None:
    _, codebooks, codes, trie = world(seed, count, levels, size)
    query = np.random.default_rng(seed + 1).normal(size=8).astype(np.float32)
    rows, left = Decoder(trie, codebooks).search(query, beam=10_000)
    reference = ((query - codebooks.decode(codes)) ** 2).sum(1)
    assert sorted(trie.tables[rows]) == list(range(count))
    assert np.allclose(left, reference[trie.tables[rows]], atol=1e-3)
    assert (np.diff(left) >= -1e-5).all()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40),
    st.integers(1, 10),
)
def test_the_tree_holds_exactly_its_identifiers(base: list[tuple[int, int, int]], scanned: int) -> None:
    codes = np.array(base, np.uint8)
    suffixes = assign_suffixes(codes, np.zeros(len(codes), np.float32))
    trie = build_trie(codes, suffixes, np.arange(len(codes)), scanned)
    rows = np.arange(len(trie))
    written = [(*code, suffix) for code, suffix in zip(trie.codes.tolist(), trie.suffix(rows), strict=True)]
    assert written == sorted((*base[table], suffixes[table]) for table in range(len(codes)))
    for row in rows:
        assert tuple(trie.codes[row]) == base[trie.tables[row]]
        assert trie.suffix(rows[row : row + 1])[0] == suffixes[trie.tables[row]]

    def walk(prefix: tuple[int, ...], node: int, count: int) -> None:
        """Every child is the run of rows that share one more symbol, and nothing else is a child."""
        below = [row for row, sid in enumerate(written) if sid[: len(prefix)] == prefix]
        assert below == list(range(node, node + count))
        if len(prefix) == len(written[0]):
            return
        children = trie.expand(np.array([node]), np.array([count]), len(prefix))
        assert children.symbols.tolist() == sorted({written[row][len(prefix)] for row in below})
        for child, rows_below, symbol in zip(*map(np.ndarray.tolist, children[1:]), strict=True):
            walk((*prefix, symbol), child, rows_below)

    walk((), trie.root, len(trie))
    sids = {format_sid(c, int(s)) for c, s in zip(codes, suffixes, strict=True)}
    assert len(sids) == len(codes)


def test_a_narrow_beam_finds_the_nearest_of_many() -> None:
    _, codebooks, codes, trie = world(5, 3000, 6, 16)
    decoder = Decoder(trie, codebooks)
    random = np.random.default_rng(9)
    agree = 0
    for _ in range(50):
        query = random.normal(size=8).astype(np.float32)
        rows, _ = decoder.search(query, beam=100)
        best = ((query - codebooks.decode(codes)) ** 2).sum(1)
        agree += bool(np.isclose(best[trie.tables[rows[0]]], best.min(), atol=1e-3))
    assert agree >= 48


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4), st.integers(2, 6))
def test_feedback_moves_a_query_to_the_first_tables_that_are_not_itself(
    seed: int, count: int, levels: int, size: int
) -> None:
    latents, codebooks, codes, trie = world(seed, count, levels, size)
    decoder, latent = Decoder(trie, codebooks), latents[0]
    rows, left = decoder.search_with_feedback(latent, 10_000, 0.6, {0})
    assert sorted(rows.tolist()) == list(range(count))
    assert (np.diff(left) >= 0).all()
    plain = decoder.search(latent, 10_000)
    others = [table for table in trie.tables[plain[0]] if table != 0]
    if others:
        words = codebooks.decode(codes)
        moved = latent + 0.6 * words[others[:2]].mean(0)
        distance = ((moved / np.linalg.norm(moved) - words) ** 2).sum(1)
        assert np.allclose(distance[trie.tables[rows]], left, atol=1e-3)
    assert np.array_equal(decoder.search_with_feedback(latent, 10_000, 0.0)[0], plain[0])


def test_suffixes_only_where_codes_collide_and_nearest_first() -> None:
    codes = np.array([[1, 1], [2, 2], [1, 1], [1, 1]], np.uint8)
    suffixes = assign_suffixes(codes, np.array([0.3, 0.1, 0.1, 0.2], np.float32))
    assert suffixes.tolist() == [3, 0, 1, 2]


def test_codebook_statistics() -> None:
    codes = np.array([[0, 1], [0, 1], [1, 0], [2, 0]], np.uint8)
    report = codebook_statistics(codes, 4, np.full(4, 0.25, np.float32))
    assert report.used == [0.75, 0.5]
    assert report.perplexity[1] == pytest.approx(2)
    assert report.collision_rate == 0.5
    assert report.largest_bucket == 2
    assert report.error == 0.25


def test_a_tree_of_very_many_tables_takes_at_most_16_bytes_each() -> None:
    settings = QuantizerSettings()
    assert settings.for_lake(100_000).shape(100_000) == (24, 256)
    assert QuantizerSettings(levels=12).for_lake(10**7).levels == 12  # whoever asks for more gets it
    levels, size = settings.for_lake(10**7).shape(50_000)  # the fit sees a sample
    random = np.random.default_rng(0)
    codes = random.integers(0, size, (200_000, levels), np.uint8) // random.integers(1, 9, levels, np.uint8)
    trie = build_trie(codes, assign_suffixes(codes, np.zeros(len(codes), np.float32)), np.arange(len(codes)))
    assert trie.nbytes / len(codes) <= 16


def test_a_saved_tree_is_the_same_and_mapped(tmp_path: Path) -> None:
    *_, trie = world(3, 200, 4, 5)
    trie.save(tmp_path)
    again = Trie.load(tmp_path)
    for name in ("codes", "tables", "suffixes", "offsets", "symbols", "starts"):
        assert np.array_equal(getattr(trie, name), getattr(again, name))
    with pytest.raises(ValueError, match="read-only"):
        again.codes[0, 0] = 1
