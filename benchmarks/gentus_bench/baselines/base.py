"""The interface of a retriever, and what every baseline shares."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from gentus.table import Column, Table

VALUES = 24  # distinct values a column, as many as GenTUS' own encoders see


class Retriever(Protocol):
    """Anything that ranks the tables of a lake for a query table."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    def fit(self, tables: Iterable[Table]) -> None:
        """Take in the lake; `tables` can be gone through once."""

    def search(self, table: Table, k: int) -> list[str]:
        """Return the names of at most `k` tables, best first; the query itself may be among them."""


@runtime_checkable
class Reports(Protocol):
    """A retriever that knows more about itself than its rankings show."""

    def facts(self) -> dict[str, Any]:
        """Return what to put beside its scores, such as `bytes_per_table`; asked after all searches."""


def distinct(column: Column, limit: int = VALUES) -> list[str]:
    """Return the first distinct cells of a column."""
    return list(dict.fromkeys(column.cells))[:limit]


def best(scores: npt.NDArray[np.floating[Any]], k: int) -> npt.NDArray[np.intp]:
    """Return the places of the `k` highest positive scores, best first; of equals, the earlier one."""
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero((scores >= threshold) & (scores > 0))
    else:
        places = np.flatnonzero(scores > 0)
    return places[np.argsort(-scores[places], kind="stable")[:k]]


_NO_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType)


def serving_mb(*held: object) -> float:
    """MiB of memory that a process needs to answer: all that can be reached from what a search holds.

    Everything counts once. Memory-mapped arrays count in full, as if all of them had been read. Not counted
    are the interpreter, code, and caches that only save time. What a search reads from a cache outside its
    own object, such as `gentus.features.weights.load_vectors()`, has to be given along.
    """
    buffers: dict[int, int] = {}  # bytes by address: a tensor and an array may be one piece of memory
    small = 0
    seen: set[int] = set()
    waiting: list[Any] = list(held)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _NO_DATA):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            while isinstance(one.base, np.ndarray):  # a view keeps all of what it is a view of
                one = one.base
            buffers[one.ctypes.data] = max(one.nbytes, buffers.get(one.ctypes.data, 0))
        elif hasattr(one, "untyped_storage"):  # a tensor, known without importing torch
            storage = one.untyped_storage()
            buffers[storage.data_ptr()] = max(storage.nbytes(), buffers.get(storage.data_ptr(), 0))
        elif isinstance(one, Tokenizer):
            small += len(one.to_str())  # its vocabulary, which is not Python's
        elif isinstance(memory := getattr(one, "memory_usage", None), int):  # a graph of usearch
            small += memory
        else:
            small += sys.getsizeof(one, 0)
            waiting.extend(_parts(one))
    return (small + sum(buffers.values())) / 2**20


def _parts(one: Any) -> Iterator[Any]:
    """Yield what an object refers to: its items, its attributes, and whose method it is."""
    if isinstance(one, dict):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset):
        yield from one
    elif isinstance(one, MethodType):
        yield one.__self__
    yield from getattr(one, "__dict__", {}).values()
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(one, name, None)
