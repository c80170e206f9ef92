"""Timers: searches side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K")
Q = TypeVar("Q")

WARM = 5  # queries before the clock counts
PASSES = 2  # over all queries; of each query the faster counts


@dataclass(slots=True)
class Times:
    """Milliseconds of every query, the least over all passes.

    Other work on the machine can only make a search slower, so the smaller of two times is nearer to what the
    search itself takes; a query that is slow in both passes stays slow.
    """

    ms: dict[Any, float] = field(default_factory=dict)

    def add(self, query: object, seconds: float) -> None:
        """Keep a time if it is the best so far."""
        self.ms[query] = min(1000 * seconds, self.ms.get(query, np.inf))

    def facts(self) -> dict[str, float]:
        """Median and 95th percentile over queries."""
        return percentiles(list(self.ms.values())) if self.ms else {}


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile."""
    return {f"ms_p{at}": float(np.percentile(milliseconds, at)) for at in (50, 95)}


def in_turn(ways: Mapping[K, Callable[[Q], object]], queries: Sequence[Q]) -> dict[K, Times]:
    """Time every query by all ways before the next one, after some that do not count.

    Who comes first changes from query to query: the first one finds the query's file less ready.
    """
    times = {name: Times() for name in ways}
    order = list(ways.items())
    for query in queries[:WARM]:
        for _, work in order:
            work(query)
    for _ in range(PASSES):
        for query in queries:
            for name, work in order:
                started = time.perf_counter()
                work(query)
                times[name].add(query, time.perf_counter() - started)
            order = [*order[1:], *order[:1]]
    return times


def conditions() -> dict[str, Any]:
    """What a time depends on beside the code: threads of every library that has its own, and the load."""
    import torch
    from threadpoolctl import threadpool_info

    threads: dict[str, Any] = {"torch": torch.get_num_threads()}
    for pool in threadpool_info():
        threads[pool["internal_api"]] = max(pool["num_threads"], threads.get(pool["internal_api"], 0))
    load = [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {"passes": PASSES, "warm": WARM, "threads": threads, "load": load}
