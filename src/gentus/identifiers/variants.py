"""Semantic identifiers, and the variants that the paper's ablation compares them with (Table 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.identifiers.codebooks import Codebooks, assign_suffixes
from gentus.settings import Variant

NON_SEMANTIC: tuple[Variant, ...] = ("random", "atomic")  # only a generator can learn to write them


@dataclass(frozen=True, slots=True)
class Identifiers:
    """The identifiers of N tables."""

    codes: NDArray[np.unsignedinteger[Any]]  # (N, L)
    suffixes: NDArray[np.int32]  # (N,)
    reachable: NDArray[np.bool_]  # (N,) whether the identifier leads to this table
    codebooks: Codebooks


def make_identifiers(
    variant: Variant,
    codes: NDArray[np.uint8],
    distance: F32,
    codebooks: Codebooks,
    random: np.random.Generator,
) -> Identifiers:
    """Identifiers from the codes that the quantizer gave.

    `semantic` and `ordinary` take them as they are: they differ in how the quantizer was fitted. `random`
    draws every code, and `atomic` has one code per table. Under `no-suffix`, one of the tables that share
    their codes is reachable, drawn at random.
    """
    count, levels = codes.shape
    every = np.ones(count, bool)
    if variant == "atomic":
        blank = np.zeros((1, count, codebooks.codewords.shape[2]), np.float32)
        own = random.permutation(count)[:, None]
        small = np.uint8 if count <= 256 else np.uint32
        return Identifiers(own.astype(small), np.zeros(count, np.int32), every, Codebooks(blank))
    if variant == "random":
        codes = random.integers(0, codebooks.size, (count, levels), dtype=np.uint8)
        blank = np.zeros_like(codebooks.codewords)  # random codes have no meaning
        return Identifiers(codes, assign_suffixes(codes, distance), every, Codebooks(blank))
    suffixes = assign_suffixes(codes, distance)
    if variant == "no-suffix":
        order = random.permutation(count)
        _, first = np.unique(codes[order], axis=0, return_index=True)
        reachable = np.zeros(count, bool)
        reachable[order[first]] = True
        return Identifiers(codes, np.zeros(count, np.int32), reachable, codebooks)
    return Identifiers(codes, suffixes, every, codebooks)
