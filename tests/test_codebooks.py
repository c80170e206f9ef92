"""k-means and residual codebooks against loops."""

from __future__ import annotations

import numpy as np
import pytest

from gentus.arrays import F32
from gentus.features.evidence import normalize
from gentus.identifiers.codebooks import SAMPLE, assign, kmeans, learn_codebooks, residual_kmeans


def points(count: int, width: int, seed: int) -> F32:
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def slowly(some: F32, centres: F32, rounds: int) -> np.ndarray:
    """Lloyd's algorithm, point by point; a centre without points goes to the worst-served point."""
    centres = centres.astype(np.float64)
    for _ in range(rounds):
        groups: list[list[int]] = [[] for _ in centres]
        served = []
        for number, point in enumerate(some):
            distances = [float(((point - centre) ** 2).sum()) for centre in centres]
            nearest = int(np.argmin(distances))
            groups[nearest].append(number)
            served.append(distances[nearest])
        worst = sorted(range(len(some)), key=lambda number: -served[number])
        for number, group in enumerate(groups):
            centres[number] = some[group].mean(0) if group else some[worst.pop(0)]
    return centres


@pytest.mark.parametrize(("count", "size", "seed"), [(40, 5, 0), (7, 7, 1), (30, 1, 2), (12, 3, 3)])
def test_centres_are_those_of_a_loop(count: int, size: int, seed: int) -> None:
    some = points(count, 4, seed)
    for rounds in (1, 2, 5):
        assert kmeans(some, some[:size], rounds) == pytest.approx(slowly(some, some[:size], rounds), abs=1e-4)


def test_a_dead_centre_is_reset_to_the_farthest_point() -> None:
    some = np.array([[0, 0], [0.1, 0], [5, 5], [5.1, 5], [9, -9]], np.float32)
    far = np.array([[0, 0], [100, 100], [200, 200]], np.float32)
    once = kmeans(some, far, 1)
    assert once[1:].tolist() == some[[4, 3]].tolist()  # the two furthest from the only centre that serves
    assert once == pytest.approx(slowly(some, far, 1))
    assert sorted(kmeans(some, far, 5)[:, 0].tolist()) == pytest.approx([0.05, 5.05, 9])


def test_more_centres_than_points_do_no_harm() -> None:
    some = points(3, 4, 0)
    centres = kmeans(some, points(8, 4, 1), 4)
    assert np.isfinite(centres).all()
    assert assign(some, centres)[1] == pytest.approx(0, abs=1e-5)


def test_equal_points_do_no_harm() -> None:
    some = np.ones((20, 4), np.float32)
    books = residual_kmeans(some, [None] * 3, 4, 5)
    assert np.isfinite(books).all()
    assert books[0][assign(some, books[0])[0]] == pytest.approx(some)


def test_points_are_assigned_to_the_nearest_centre() -> None:
    some, centres = points(50, 6, 0), points(9, 6, 1)
    nearest, distance = assign(some, centres)
    squared = ((some[:, None] - centres) ** 2).sum(2)
    assert nearest.tolist() == squared.argmin(1).tolist()
    assert distance == pytest.approx(squared.min(1), abs=1e-4)


def test_levels_are_fitted_to_residuals_and_shrink_the_error() -> None:
    latents = normalize(points(400, 16, 1))
    books = learn_codebooks(latents, (4, 16), 8, seed=0)
    rest, means = latents.astype(np.float64), []
    for level, book in enumerate(books.codewords):
        start = rest[:: len(rest) // 16][:16].astype(np.float32)
        if level == 0:
            assert book == pytest.approx(slowly(latents, start, 8), abs=2e-3)  # stored in half precision
        rest = rest - book[((rest[:, None] - book) ** 2).sum(2).argmin(1)]
        means.append(float((rest**2).sum(1).mean()))
    assert means == sorted(means, reverse=True)
    assert means[-1] < 0.5 * means[0]
    assert books.error(latents, books.encode(latents)).mean() == pytest.approx(means[-1], rel=1e-3)
    np.testing.assert_array_equal(books.codewords, books.codewords.astype(np.float16).astype(np.float32))


def test_a_level_starts_from_the_book_given_for_it() -> None:
    latents = points(30, 4, 0)
    given = points(5, 4, 1)
    (book,) = residual_kmeans(latents, [given], 5, 3)
    assert book == pytest.approx(slowly(latents, given, 3), abs=1e-4)


def test_codebooks_are_fitted_to_a_sample_that_the_seed_draws() -> None:
    latents = points(3 * SAMPLE, 4, 0)
    first, again, other = (learn_codebooks(latents, (2, 2), 3, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.codewords, again.codewords)
    assert (first.codewords != other.codewords).any()
