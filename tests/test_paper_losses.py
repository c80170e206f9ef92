"""Each loss of the paper, beside its equation written out slowly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gentus.paper.losses import l_ce, l_gen, l_pairwise, l_rec, l_rq, l_sid, l_union, s_theta

Array = NDArray[np.float64]


def drawn(*shape: int, seed: int = 0) -> tuple[Tensor, Array]:
    """Random numbers, for both."""
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(numbers).requires_grad_(), numbers


def squared(a: Array, b: Array) -> float:
    return float(((a - b) ** 2).sum())


def test_reconstruction() -> None:
    (e, slow_e), (e_hat, slow_hat) = drawn(5, 3), drawn(5, 3, seed=1)
    slow = sum(squared(slow_e[i], slow_hat[i]) for i in range(5)) / 5
    assert l_rec(e, e_hat).item() == pytest.approx(slow)


@pytest.mark.parametrize("beta", [0.0, 0.25, 2.0])
def test_residual_quantization_has_both_terms_at_every_level(beta: float) -> None:
    (r, slow_r), (b, slow_b) = drawn(4, 5, 3), drawn(4, 5, 3, seed=1)  # L = 4 levels of 5 tables
    slow = 0.0
    for i in range(5):
        for level in range(4):
            codebook = commit = squared(slow_r[level, i], slow_b[level, i])
            slow += codebook + beta * commit
    loss = l_rq(r, b, beta)
    assert loss.item() == pytest.approx(slow / 5)
    torch.autograd.backward(loss)
    assert r.grad is not None
    assert b.grad is not None
    # The codebook term moves codewords only, the commitment term residuals only.
    assert np.allclose(b.grad.numpy(), 2 * (slow_b - slow_r) / 5)
    assert np.allclose(r.grad.numpy(), beta * 2 * (slow_r - slow_b) / 5)


def slow_union(z: Array, positives: NDArray[np.bool_], tau: float) -> float:
    total, anchors = 0.0, 0
    for i in range(len(z)):
        own = [j for j in range(len(z)) if j != i and positives[i, j]]
        if not own:
            continue
        anchors += 1
        below = sum(math.exp(z[i] @ z[a] / tau) for a in range(len(z)) if a != i)
        total += sum(math.log(math.exp(z[i] @ z[j] / tau) / below) for j in own) / len(own)
    return -total / anchors if anchors else 0.0


@pytest.mark.parametrize("tau", [0.1, 0.7])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_union(tau: float, share: float) -> None:
    z, slow_z = drawn(7, 3)
    positives = np.random.default_rng(2).random((7, 7)) < share
    positives[3] = False  # one without any
    positives[0, 0] = True  # nothing is its own positive
    loss = l_union(z, torch.from_numpy(positives), tau)
    assert loss.item() == pytest.approx(slow_union(slow_z, positives, tau))
    torch.autograd.backward(loss)
    assert z.grad is not None
    assert bool(torch.isfinite(z.grad).all())


def test_scores_and_the_losses_of_the_generator() -> None:
    log_p, slow = drawn(6, 4)
    lengths = [4, 2, 3, 1, 4, 3]
    scores = [sum(slow[i, t] for t in range(n)) / n for i, n in enumerate(lengths)]
    s = s_theta(log_p, torch.tensor(lengths))
    assert np.allclose(s.detach().numpy(), scores)
    assert l_ce(s).item() == pytest.approx(-sum(scores) / 6)
    slow_pairwise = sum(max(0.0, 0.2 - scores[i] + scores[i + 3]) for i in range(3)) / 3
    pairwise = l_pairwise(s[:3], s[3:], 0.2)
    assert pairwise.item() == pytest.approx(slow_pairwise)
    assert slow_pairwise not in (0.0, 0.2)
    assert l_gen(l_ce(s), pairwise, 0.3).item() == pytest.approx(-sum(scores) / 6 + 0.3 * slow_pairwise)


def test_a_batch_without_ranking_records() -> None:
    none = torch.zeros(0, requires_grad=True)
    assert l_pairwise(none, none, 0.2).item() == 0


def test_the_objective_of_identifiers() -> None:
    parts = [torch.tensor(value) for value in (2.0, 3.0, 5.0)]
    rec, rq, union = parts
    assert l_sid(rec, rq, union, 0.5).item() == 7.5
