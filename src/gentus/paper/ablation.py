"""Identifiers of the paper's ablation (Table 5). Ordinary RQ is `semantic` after a training with λ_u = 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, U8
from gentus.paper.quantizer import resolve_collisions


class Identifiers(NamedTuple):
    """The identifiers of N tables."""

    codes: NDArray[np.unsignedinteger[Any]]  # (N, L)
    suffixes: NDArray[np.int32]  # (N,) 0: none
    reachable: NDArray[np.bool_]  # (N,) whether the identifier leads to this table
    K: int


def semantic(codes: U8, errors: F32, K: int, random: np.random.Generator) -> Identifiers:  # noqa: N803
    """The paper's: base identifiers, and suffixes where they collide."""
    return Identifiers(codes, resolve_collisions(codes, errors), np.ones(len(codes), bool), K)


def no_suffix(codes: U8, errors: F32, K: int, random: np.random.Generator) -> Identifiers:  # noqa: N803
    """Base identifiers alone; one of the tables that share theirs is reachable, drawn at random."""
    order = random.permutation(len(codes))
    reachable = np.zeros(len(codes), bool)
    reachable[order[np.unique(codes[order], axis=0, return_index=True)[1]]] = True
    return Identifiers(codes, np.zeros(len(codes), np.int32), reachable, K)


def random_codes(codes: U8, errors: F32, K: int, random: np.random.Generator) -> Identifiers:  # noqa: N803
    """As many codes as the paper's have, each drawn at random."""
    return semantic(random.integers(0, K, codes.shape, np.uint8), errors, K, random)


def atomic(codes: U8, errors: F32, K: int, random: np.random.Generator) -> Identifiers:  # noqa: N803
    """One token for each table."""
    count = len(codes)
    own = random.permutation(count)[:, None].astype(np.uint32)
    return Identifiers(own, np.zeros(count, np.int32), np.ones(count, bool), count)


ASSIGNED = {"semantic": semantic, "no-suffix": no_suffix, "random": random_codes, "atomic": atomic}
