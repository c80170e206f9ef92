"""The neighbour graph against sorting everything and against loops."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from conftest import dense
from hypothesis import given, settings
from hypothesis import strategies as st

from gentus.arrays import F32, I64
from gentus.features.evidence import normalize
from gentus.neighbours import graph as module
from gentus.neighbours.graph import (
    Graph,
    column_ids,
    find_neighbours,
    kept_positions,
    largest,
    match_candidates,
    match_columns,
    mutual_neighbours,
    nearest,
    principal,
    weighted_neighbours,
)
from gentus.settings import GraphSettings
from gentus.threads import parallel


def vectors(count: int, width: int, seed: int) -> F32:
    return normalize(np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32))


def columns_of(widths: list[int], seed: int) -> tuple[F32, I64]:
    return vectors(sum(widths), 6, seed), np.cumsum([0, *widths]).astype(np.int64)


# --- candidates -----------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=200), st.integers(0, 20))
def test_the_largest_are_those_of_a_full_sort_and_of_equals_the_first(values: list[int], count: int) -> None:
    some = np.array(values, np.float32)
    count = min(count, len(some))
    assert largest(some, count).tolist() == np.argsort(-some, kind="stable")[:count].tolist()


def test_the_largest_of_very_many() -> None:
    random = np.random.default_rng(0)
    for values in (random.normal(size=5000), random.integers(0, 40, 5000), np.sort(random.normal(size=5000))):
        some = values.astype(np.float32)
        some[::7] = -np.inf
        for count in (1, 9, 100):
            assert largest(some, count).tolist() == np.argsort(-some, kind="stable")[:count].tolist()


@pytest.mark.parametrize(("count", "block"), [(5, 256), (19, 256), (6, 7)])
def test_the_nearest_are_those_of_a_full_sort(
    count: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    some = vectors(20, 4, 0)
    some[11] = some[10] = some[3]  # equals
    found = nearest(some, count)
    similarity = some @ some.T
    np.fill_diagonal(similarity, -np.inf)
    similarity = np.round(similarity, 5)  # the last digits depend on how products are cut into blocks
    for table in range(20):
        assert table not in found.ids[table]
        assert len(set(found.ids[table].tolist())) == count
        expected = np.sort(similarity[table])[::-1][:count]
        assert similarity[table, found.ids[table]] == pytest.approx(expected, abs=2e-5)
        assert found.scores[table] == pytest.approx(expected, abs=2e-5)
    assert found.ids[3, :2].tolist() == [10, 11]


def test_all_principal_directions_keep_every_product() -> None:
    some = vectors(30, 8, 0)
    turned = principal(some, 8)
    assert turned @ turned.T == pytest.approx(some @ some.T, abs=1e-5)
    flat = some.copy()
    flat[:, 3:] = 0  # it needs only three directions
    kept = principal(normalize(flat), 3)
    assert kept @ kept.T == pytest.approx(normalize(flat) @ normalize(flat).T, abs=1e-5)


# --- matching -------------------------------------------------------------------------------------------


def slow_match(own: F32, theirs: F32) -> float:
    """Every column with the best of the other table, both ways; the lesser sum, over the mean width."""
    similar = [[max(0.0, float(mine @ other)) for other in theirs] for mine in own]
    forward = sum(max(row) for row in similar)
    backward = sum(max(row[at] for row in similar) for at in range(len(theirs)))
    return min(forward, backward) / math.sqrt(len(own) * len(theirs))


def slow_in_place(own: F32, theirs: F32) -> float:
    similar = [max(0.0, float(mine @ other)) for mine, other in zip(own, theirs, strict=False)]
    return sum(similar) / math.sqrt(len(own) * len(theirs))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=8), st.integers(0, 10**6))
def test_columns_match_as_in_a_loop(widths: list[int], seed: int) -> None:
    columns, starts = columns_of(widths, seed)
    total = len(widths)
    tables = [columns[starts[i] : starts[i + 1]] for i in range(total)]
    candidates = np.array(
        [np.random.default_rng(seed + i).permutation(total) for i in range(total)], np.int32
    )
    expected = [[slow_match(tables[i], tables[j]) for j in candidates[i]] for i in range(total)]
    ticks: list[int] = []
    found = match_candidates(columns, starts, candidates, tick=ticks.append)
    assert found == pytest.approx(np.array(expected), abs=1e-5)
    assert sum(ticks) == total
    in_place = [[0.5 * slow_in_place(tables[i], tables[j]) for j in candidates[i]] for i in range(total)]
    found = match_candidates(columns, starts, candidates, 0.5)
    assert found == pytest.approx(np.add(expected, in_place), abs=1e-5)
    one = match_columns(tables[0], columns, starts, candidates[0])
    assert one == pytest.approx(np.array(expected[0]), abs=1e-5)


def test_a_table_matches_itself_wholly_and_a_part_of_it_less() -> None:
    columns, starts = columns_of([4, 4, 2], 0)
    columns[4:8], columns[8:10] = columns[:4], columns[:2]
    same, part = match_columns(columns[:4], columns, starts, np.array([1, 2]))
    assert same == pytest.approx(1, abs=1e-5)
    assert part == pytest.approx(2 / 8**0.5, abs=1e-5)


@pytest.mark.parametrize("width", [3, 6])
def test_positions_are_kept_as_far_as_columns_stand_in_the_same_order(width: int) -> None:
    random = np.random.default_rng(0)
    kinds = normalize(random.normal(size=(10 * width, 32)).astype(np.float32)).reshape(10, width, 32)
    starts = np.arange(0, 401 * width, width)
    others = np.array([np.delete(np.arange(t % 10, 400, 10), t // 10)[:9] for t in range(400)], np.int32)

    def kept(share: float) -> float:
        order = [np.arange(width) if random.random() < share else random.permutation(width) for _ in others]
        columns = [kinds[t % 10][some] for t, some in enumerate(order)]
        return kept_positions(np.concatenate(columns), starts, others)

    assert kept(1.0) == pytest.approx(1)
    assert kept(0.0) == pytest.approx(0, abs=0.05)
    # Two tables have the same order if both keep it; the order of any other pair is a matter of chance.
    assert kept(0.7) == pytest.approx(0.49, abs=0.12)
    one_column = np.arange(len(kinds[:, 0]) + 1)
    assert kept_positions(kinds[:, 0].copy(), one_column, np.zeros((10, 1), np.int32)) == 0


def test_columns_of_tables() -> None:
    at, counts = column_ids(np.array([0, 2, 5, 6]), np.array([2, 0, 1]))
    assert (at.tolist(), counts.tolist()) == ([5, 0, 1, 2, 3, 4], [1, 2, 3])


# --- the graph ------------------------------------------------------------------------------------------


def random_graph(total: int, width: int, seed: int) -> Graph:
    random = np.random.default_rng(seed)
    ids = np.array(
        [random.permutation(np.delete(np.arange(total), t))[:width] for t in range(total)], np.int32
    )
    return Graph(ids, random.random(ids.shape).astype(np.float32))


def slow_weights(graph: Graph, how: GraphSettings) -> np.ndarray:
    total, width = graph.ids.shape
    usual = [
        float(np.mean(sorted(graph.scores[t].tolist(), reverse=True)[: how.reciprocal])) for t in range(total)
    ]
    weights = np.zeros((total, total))
    for table in range(total):
        scored = sorted(
            (float(score) - how.hubness * usual[other], other)
            for other, score in zip(graph.ids[table].tolist(), graph.scores[table].tolist(), strict=True)
        )[::-1]
        floor = scored[how.kept][0] if how.kept < width else scored[-1][0]
        for score, other in scored[: how.kept]:
            weights[table, other] = score - floor + 1e-9
    return weights


@pytest.mark.parametrize(("total", "width", "kept"), [(30, 20, 12), (30, 29, 50), (8, 7, 7), (3, 2, 1)])
def test_neighbours_are_weighted_by_their_lead_over_the_rest(total: int, width: int, kept: int) -> None:
    how = GraphSettings(hubness=0.3, reciprocal=5, kept=kept)
    graph = random_graph(total, width, 0)
    found = weighted_neighbours(graph, how)
    assert dense(found) == pytest.approx(slow_weights(graph, how), abs=1e-6)
    assert np.diff(found.starts).tolist() == [min(kept, width)] * total
    for begin, end in zip(found.starts, found.starts[1:], strict=False):  # best first: others rely on it
        assert (np.diff(found.values[begin:end]) <= 0).all()


def test_a_table_that_matches_everything_is_nobodys_best_neighbour() -> None:
    # Table 0 is a little nearer to everything than the true neighbours are: 1 and 2, 3 and 4, and so on.
    scores = np.full((11, 11), 0.1)
    for one in range(1, 11, 2):
        scores[one, one + 1] = scores[one + 1, one] = 0.6
    scores[0, :] = scores[:, 0] = 0.62
    np.fill_diagonal(scores, -1)
    ids = np.argsort(-scores, 1, kind="stable")[:, :10].astype(np.int32)
    graph = Graph(ids, np.take_along_axis(scores, ids, 1).astype(np.float32))
    partner = [one + 1 if one % 2 else one - 1 for one in range(1, 11)]
    plain = weighted_neighbours(graph, GraphSettings(hubness=0.0, reciprocal=4))
    corrected = weighted_neighbours(graph, GraphSettings(hubness=0.4, reciprocal=4))
    assert dense(plain)[1:].argmax(1).tolist() == [0] * 10
    assert dense(corrected)[1:].argmax(1).tolist() == partner


@pytest.mark.parametrize("count", [1, 3, 6, 100])
def test_mutual_neighbours_are_among_each_others_best(count: int) -> None:
    weights = weighted_neighbours(random_graph(15, 8, 1), GraphSettings(reciprocal=5, kept=6))
    full = dense(weights)
    expected = np.zeros_like(full)
    best = [set(np.argsort(-row, kind="stable")[: min(count, 6)].tolist()) for row in full]
    for one in range(15):
        for other in best[one]:
            if one in best[other]:
                expected[one, other] = full[one, other]
    sums = expected.sum(1, keepdims=True)
    expected = expected / np.where(sums > 0, sums, 1)
    found = mutual_neighbours(weights, count)
    assert dense(found) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("total", [2, 3, 24])
def test_neighbours_are_of_the_same_subject(total: int) -> None:
    random = np.random.default_rng(0)
    centres = vectors(6, 6, 0)  # each of two subjects has three kinds of columns
    columns, starts = [], [0]
    for table in range(total):
        width = int(random.integers(2, 4))
        columns.append(centres[3 * (table % 2) :][:width] + 0.1 * random.normal(size=(width, 6)))
        starts.append(starts[-1] + width)
    every = normalize(np.concatenate(columns).astype(np.float32))
    at = np.array(starts, np.int64)
    tables = normalize(np.add.reduceat(every, at[:-1]))
    found = find_neighbours(tables, every, at, GraphSettings(candidates=20, reciprocal=5, kept=10))
    assert dense(found.weights).shape == (total, total)
    assert not dense(found.weights).diagonal().any()
    if total == 24:
        best = dense(found.weights).argmax(1)
        assert (best % 2 == np.arange(total) % 2).all()


# --- threads --------------------------------------------------------------------------------------------


def test_work_comes_back_in_order_and_not_far_ahead() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> int:
        with lock:
            begun.append(number)
        return number * number

    results = parallel(work, range(100), threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert max(begun) < 10
    assert list(results) == [n * n for n in range(3, 100)]


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(parallel(lambda n: 1 // n, range(3), threads=2))
