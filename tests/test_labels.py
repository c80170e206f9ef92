"""Labels: which pairs are learnt from, and which are held out."""

from __future__ import annotations

import numpy as np

from gentus.neighbours.labels import Labels


def test_no_query_is_both_learnt_from_and_held_out() -> None:
    position = {f"t{i}": i for i in range(100)}
    truth = {f"t{i}": [f"t{(i + j) % 100}" for j in range(4)] + ["gone"] for i in range(50)}
    labels = Labels.split(truth, position, np.random.default_rng(0))
    assert len(labels.queries()) == 5
    assert not set(labels.pairs[:, 0]) & set(labels.validation[:, 0])
    assert len(labels.pairs) + len(labels.validation) == 150  # a table is not its own answer
    assert labels.unknown == 50 + 50
