"""Semantic identifiers: codes, suffixes, their text, and the variants of the paper's ablation (Table 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, U8
from gentus.identifiers.codebooks import Codebooks
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


def assign_suffixes(codes: U8, distance: F32) -> NDArray[np.int32]:
    """(N,) suffix of every table: 0 where no other table has its codes, else 1, 2, .. within the group.

    Suffixes follow the quantization error (N,): the table nearest to the sum of its codewords comes first.
    """
    order = np.lexsort((np.arange(len(codes)), distance, *codes.T[::-1]))
    ordered = codes[order]
    new = np.ones(len(codes), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(1)
    group = np.cumsum(new) - 1
    size = np.bincount(group, minlength=1)
    rank = np.arange(len(codes)) - np.flatnonzero(new)[group] if len(codes) else np.zeros(0, np.int64)
    suffixes = np.zeros(len(codes), np.int32)
    suffixes[order] = np.where(size[group] > 1, rank + 1, 0)
    return suffixes


def format_sid(codes: U8, suffix: int) -> str:
    """An identifier as text: `17-203-4-91`, with `+2` where it has a suffix."""
    return format_sids(codes[None], np.array([suffix]))[0]


def format_sids(codes: NDArray[np.unsignedinteger[Any]], suffixes: NDArray[np.integer[Any]]) -> list[str]:
    """The same for (N, L) codes; one `str` of all codes is faster than one per identifier."""
    texts = str(codes.tolist())[2:-2].replace(", ", "-").split("]-[") if len(codes) else []
    return [
        f"{sid}+{suffix}" if suffix else sid for sid, suffix in zip(texts, suffixes.tolist(), strict=True)
    ]


def short_sid(sid: str, shown: int = 6) -> str:
    """The first codes of an identifier, which say most about a table; `--json` has all of them."""
    codes = sid.split("-")
    return sid if len(codes) <= shown else "-".join(codes[:shown]) + "-…"
