"""Labels: which pairs are learnt from, and which are held out."""

from __future__ import annotations

import numpy as np

from gentus.neighbours.labels import Labels


def test_no_pair_that_is_learnt_from_names_a_query_that_is_held_out() -> None:
    """Neither as a query nor as a table: of annotated pairs, the other way round is the same answer."""
    position = {f"t{i}": i for i in range(100)}
    truth = {f"t{i}": [f"t{(i + j) % 50}" for j in range(-3, 4)] + ["gone"] for i in range(50)}
    labels = Labels.split(truth, position, np.random.default_rng(0))
    held = labels.queries()
    assert len(held) == 5
    assert not np.isin(labels.pairs, held).any()
    assert np.isin(labels.validation[:, 0], held).all()
    assert np.isin(labels.withheld[:, 1], held).all()
    assert len(labels.withheld) > 5
    assert len(labels.every) == 300  # a table is not its own answer
    assert labels.unknown == 50 + 50


def test_queries_may_be_outside_the_lake_and_candidates_may_not() -> None:
    truth = {"new.csv": ["a.csv", "other.csv"], "a.csv": ["b.csv", "new.csv"]}
    labels = Labels.split(truth, {"a.csv": 1, "b.csv": 2}, np.random.default_rng(0), {"new.csv": -1})
    assert labels.pairs.tolist() == [[-1, 1], [1, 2]]
    assert labels.unknown == 2
