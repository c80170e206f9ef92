"""Semantic identifiers: suffixes where codes collide, and identifiers as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, U8


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
