"""The pair scorer learnt from labels, on lakes where only labels tell what is unionable."""

from __future__ import annotations

import numpy as np
import pytest

from gentus.features.evidence import BLOCKS, Evidence
from gentus.features.extract import concatenate, featurize
from gentus.neighbours.labels import Labels
from gentus.neighbours.matching import Columns, MatchingScorer, PairScorer, assign_columns, scored_candidates
from gentus.neighbours.pair_scorer import FEATURES, fit_listwise, learn_scorer, pair_features
from gentus.settings import TeacherSettings
from gentus.table import Column, Table

WORDS = ["Berlin", "Vienna", "Lisbon", "Madrid", "Rome", "Oslo", "Dublin", "Prague", "Athens", "Warsaw"]
FISH = ["salmon", "trout", "carp", "pike", "eel", "perch", "herring", "cod", "tuna", "bass"]


def ordered_lake() -> Columns:
    """Sixty tables of one subject; those with an even number have their columns the other way round."""
    random = np.random.default_rng(0)
    tables = []
    for number in range(60):
        columns = [
            Column("city", list(random.choice(WORDS, 8))),
            Column("fish", list(random.choice(FISH, 8))),
            Column("year", [str(y) for y in random.integers(1950, 2020, 8)]),
        ]
        empty = [Column("notes", [])] if number % 3 == 0 else []
        tables.append(Table("t", (columns if number % 2 else columns[::-1]) + empty, 8))
    features = concatenate([featurize(table) for table in tables])
    evidence = Evidence.fit(features, len(features), names=False)
    return Columns(evidence.columns(features), features.tables.astype(np.int64), features.positions)


def order_labels(queries: range) -> np.ndarray:
    return np.array([(q, t) for q in queries for t in range(60) if t != q and t % 2 == q % 2])


def test_a_scorer_learns_that_the_order_of_columns_counts() -> None:
    columns = ordered_lake()
    settings = TeacherSettings(candidates=40)
    scorer = learn_scorer(columns, order_labels(range(30)), settings, np.random.default_rng(0))
    labels = Labels(np.zeros((0, 2), np.int64), order_labels(range(30, 60)))

    def precision(by: PairScorer) -> float:
        return labels.precision(
            lambda q: [i.tolist() for _, i, _ in scored_candidates(columns, q.astype(np.int32), settings, by)]
        )

    assert precision(scorer) > 0.95
    assert precision(MatchingScorer()) < 0.7
    placed = sum(weight for name, weight in scorer.report().items() if "same position" in name)
    assert placed > 1


def test_pair_features_are_what_their_names_say() -> None:
    columns = ordered_lake()
    candidates = np.array([1, 2, 5], np.int32)
    features, kinds = pair_features(columns, 0, candidates), len(BLOCKS)
    assert features.shape == (3, len(FEATURES))
    own = columns.evidence[columns.starts[0] : columns.starts[1]]
    for row, candidate in zip(features, candidates, strict=True):
        theirs = columns.evidence[columns.starts[candidate] : columns.starts[candidate + 1]]
        assert row[:kinds].sum() == pytest.approx(assign_columns(own @ theirs.T, np.array([3]))[0], rel=1e-4)
        placed = sum(float(own[i] @ theirs[i]) for i in range(3)) / 3
        assert row[kinds : 2 * kinds].sum() == pytest.approx(placed, rel=1e-4)
        assert row[2 * kinds] == (candidate % 3 == 0)  # the empty column counts as a column


def test_listwise_weights_find_the_feature_that_decides() -> None:
    random = np.random.default_rng(1)
    lists = [random.normal(size=(20, 3)).astype(np.float32) for _ in range(50)]
    targets = [rows[:, 1] > np.sort(rows[:, 1])[-4] for rows in lists]
    weights = fit_listwise(lists, targets)
    assert (weights >= 0).all()
    assert weights[1] > 10 * max(weights[0], weights[2])


def test_no_query_is_both_learnt_from_and_held_out() -> None:
    position = {f"t{i}": i for i in range(100)}
    truth = {f"t{i}": [f"t{(i + j) % 100}" for j in range(4)] + ["gone"] for i in range(50)}
    labels = Labels.split(truth, position, np.random.default_rng(0))
    assert len(labels.queries()) == 5
    assert not set(labels.pairs[:, 0]) & set(labels.validation[:, 0])
    assert len(labels.pairs) + len(labels.validation) == 150  # a table is not its own answer
    assert labels.unknown == 50 + 50


def test_two_tables_annotated_with_a_third_are_likely_unionable() -> None:
    labels = Labels(np.array([[0, 1], [0, 2], [3, 4]]), np.zeros((0, 2), np.int64))
    soft = labels.affinity(6).toarray()
    assert (np.diag(soft) == 0).all()
    assert soft[1, 0] > 0
    assert soft[1, 2] == pytest.approx(0.5)  # from 1 to 0, and from there to one of two
    assert soft[1, 3] == 0
    assert soft[5].sum() == 0
