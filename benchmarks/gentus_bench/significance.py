"""Whether two systems differ on the same queries: a paired randomisation test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gentus.arrays import F64
from gentus.metrics import score

DRAWS = 10_000


def average_precisions(
    rankings: Mapping[str, Sequence[str]], truth: Mapping[str, Sequence[str]], k: int
) -> dict[str, float]:
    """Average precision of every query that has an answer."""
    asked = {query: found for query, found in truth.items() if set(found) - {query}}
    return {query: score(rankings, {query: found}, k).map for query, found in asked.items()}


def randomisation_test(one: Sequence[float] | F64, other: Sequence[float] | F64, seed: int = 0) -> float:
    """The two-sided p-value of the mean difference, if it were chance which system each value is of.

    The share of random signs under which the mean is at least as far from 0; with the observed one among
    them it is never 0.
    """
    gaps: F64 = np.asarray(one, np.float64) - np.asarray(other, np.float64)
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (DRAWS, len(gaps)))
    extreme = np.abs(signs @ gaps) >= abs(gaps.sum()) - 1e-9
    return float((extreme.sum() + 1) / (DRAWS + 1))
