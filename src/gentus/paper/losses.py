"""All losses of the paper (sections 5.2 and 5.4), each as its equation has it."""

from __future__ import annotations

import torch
from torch import Tensor


def l_rec(e: Tensor, e_hat: Tensor) -> Tensor:
    """L_rec: mean squared distance of table embeddings (B, D) and their reconstructions (B, D)."""
    return ((e - e_hat) ** 2).sum(1).mean()


def l_rq(residuals: Tensor, codewords: Tensor, beta: float) -> Tensor:
    """L_rq: codebook + β commitment at every level, of residuals r^(l-1) and codewords, both (L, B, d)."""
    codebook = ((residuals.detach() - codewords) ** 2).sum(2)  # (L, B)
    commit = ((residuals - codewords.detach()) ** 2).sum(2)  # (L, B)
    return (codebook + beta * commit).sum(0).mean()


def l_union(z: Tensor, positives: Tensor, tau: float) -> Tensor:
    """L_union: contrasts annotated pairs (B, B) with all other tables of the batch, of latents (B, d).

    `positives[i, j]` says whether (i, j) is in P; tables without a positive in the batch are not in I_B.
    """
    similarity = z @ z.T / tau  # (B, B)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    log_p = similarity - similarity.masked_fill(itself, -torch.inf).logsumexp(1, keepdim=True)
    positives = positives & ~itself
    counts = positives.sum(1)  # (B,) |P_i^B|
    means = log_p.masked_fill(~positives, 0).sum(1) / counts.clamp(min=1)
    return -means.sum() / (counts > 0).sum().clamp(min=1)


def l_sid(rec: Tensor, rq: Tensor, union: Tensor, lambda_u: float) -> Tensor:
    """L_SID = L_rec + L_rq + λ_u L_union."""
    return rec + rq + lambda_u * union


def s_theta(log_p: Tensor, lengths: Tensor) -> Tensor:
    """s_θ(y | x) (n,): the mean of log P(y_t | y_<t, x) (n, T) over the |y| tokens (n,), the end included."""
    inside = torch.arange(log_p.shape[1], device=log_p.device) < lengths[:, None]  # (n, T)
    return log_p.masked_fill(~inside, 0).sum(1) / lengths


def l_ce(s: Tensor) -> Tensor:
    """L_ce of records with scores s_θ(y⁺ | x) (n,): minus the mean over tokens, then over records."""
    return -s.mean()


def l_pairwise(s_positive: Tensor, s_negative: Tensor, gamma: float) -> Tensor:
    """L_pairwise: max(0, γ - s_θ(y⁺ | x) + s_θ(y⁻ | x)), mean over ranking records (m,)."""
    if not len(s_positive):
        return s_positive.sum()
    return (gamma - s_positive + s_negative).clamp(min=0).mean()


def l_gen(ce: Tensor, pairwise: Tensor, lambda_r: float) -> Tensor:
    """L_gen = L_ce + λ_r L_pairwise."""
    return ce + lambda_r * pairwise
