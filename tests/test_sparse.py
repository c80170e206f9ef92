"""Sparse matrices and assignments against SciPy's, which the base install does not have."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import dense, sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from gentus.align import pair_features
from gentus.align.assignment import assign
from gentus.sparse import AT_ONCE, SparseRows


def random_matrix(rows: int, columns: int, share: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    full = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < share)
    return np.asarray(full, np.float32)


SHAPES = [(1, 1, 1.0), (7, 5, 0.4), (0, 4, 0.5), (5, 0, 0.5), (40, 30, 0.0), (30, 3 * AT_ONCE, 0.9)]


@pytest.mark.parametrize(("rows", "columns", "share"), SHAPES)
def test_products_sums_and_transposes_are_those_of_dense_matrices(
    rows: int, columns: int, share: float
) -> None:
    full = random_matrix(rows, columns, share)
    matrix, other = sparse(full), random_matrix(columns, 6, 1.0, seed=1)
    assert len(matrix) == rows
    np.testing.assert_array_equal(dense(matrix), full)
    np.testing.assert_array_equal(dense(matrix.transposed()), full.T)
    assert matrix @ other == pytest.approx(full @ other, abs=1e-4)
    assert (matrix @ other).dtype == np.float32
    assert (matrix @ other.astype(np.float64)).dtype == np.float64
    assert matrix.sums() == pytest.approx(full.astype(np.float64).sum(1))
    assert matrix.sums(2) == pytest.approx((full.astype(np.float64) ** 2).sum(1))
    factors = np.linspace(0, 1, rows)
    assert dense(matrix.scaled(factors)) == pytest.approx(full * factors[:, None])


def test_a_row_of_a_product_does_not_depend_on_the_others() -> None:
    matrix, other = sparse(random_matrix(50, 900, 0.7)), random_matrix(900, 33, 1.0)
    product = matrix @ other
    for begin, end in [(0, 1), (7, 9), (20, 50), (3, 3)]:
        np.testing.assert_array_equal(matrix.some(begin, end) @ other, product[begin:end])


def test_entries_at_the_same_place_are_added() -> None:
    random = np.random.default_rng(0)
    values, rows, columns = random.random(500), random.integers(0, 9, 500), random.integers(0, 11, 500)
    found = SparseRows.of_entries(values, rows, columns, (9, 11))
    assert dense(found) == pytest.approx(sp.coo_matrix((values, (rows, columns)), (9, 11)).toarray())
    largest = np.zeros((9, 11))
    np.maximum.at(largest, (rows, columns), values)
    np.testing.assert_array_equal(
        dense(SparseRows.of_entries(values, rows, columns, (9, 11), np.maximum)), largest
    )


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (6, 6), (3, 9), (9, 3), (40, 60), (0, 4), (4, 0)])
@pytest.mark.parametrize("steps", [None, 3])  # of few different scores many assignments are as good
def test_assignments_are_optimal(rows: int, columns: int, steps: int | None) -> None:
    for seed in range(20):
        scores = np.random.default_rng(seed).random((rows, columns))
        scores = scores if steps is None else np.floor(scores * steps)
        found = assign(scores)
        expected = linear_sum_assignment(scores, maximize=True)
        assert scores[found].sum() == pytest.approx(scores[expected].sum(), abs=1e-9)
        assert len(set(found[1].tolist())) == len(found[1]) == min(rows, columns)
        assert (np.diff(found[0]) > 0).all()
        if steps is None:
            np.testing.assert_array_equal(found, expected)


def test_equal_scores_pair_columns_in_their_order() -> None:
    assert assign(np.ones((3, 5)))[1].tolist() == [0, 1, 2]
    assert [part.tolist() for part in assign(np.zeros((4, 2)))] == [[0, 1], [0, 1]]


def test_wide_tables_are_assigned_quickly() -> None:
    begin = time.process_time()
    assign(np.random.default_rng(0).random((600, 600)))
    assert time.process_time() - begin < 20


@pytest.mark.parametrize("pairs", [1, 1000])
def test_shared_values_are_counted_alike_in_small_and_large_tables(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = np.abs(random_matrix(9, 40, 0.3)).astype(np.float64)
    owner, ids = full.nonzero()
    product = full[:4] @ full[4:].T
    assert pair_features._product(full[owner, ids], owner, ids, 4, 9) == pytest.approx(product)
    monkeypatch.setattr(pair_features, "DENSE", 0)
    monkeypatch.setattr(pair_features, "PAIRS", pairs)
    assert pair_features._product(full[owner, ids], owner, ids, 4, 9) == pytest.approx(product)
    assert not pair_features._product(np.ones(0), owner[:0], ids[:0], 4, 9).any()


def test_distances_are_the_largest_and_the_mean_difference() -> None:
    ours, theirs = (random_matrix(rows, 12, 1.0, rows).astype(np.float64) for rows in (5, 7))
    largest, mean = pair_features._distances(ours, theirs)
    assert largest == pytest.approx(cdist(ours, theirs, "chebyshev"))
    assert mean == pytest.approx(cdist(ours, theirs, "cityblock") / 12)
