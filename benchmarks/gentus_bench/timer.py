"""Timers: searches side by side, and where the time of some work goes."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest import mock

import numpy as np

K = TypeVar("K")
Q = TypeVar("Q")
Facts = dict[str, Any]

WARM = 5  # queries before the clock counts
PASSES = 2  # over all queries; of each query the faster counts
REST = "rest"
Function = tuple[str, Any, str]  # a part, and a function that belongs to it: its owner, and its name


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


class Profile:
    """Time spent in functions, without what they spend in others that are profiled too."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)  # of each part
        self.calls: defaultdict[str, int] = defaultdict(int)
        self._inside: list[float] = []  # for every profiled function that runs, the time of those inside it

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def call(*arguments: Any, **options: Any) -> Any:
            self._inside.append(0.0)
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                taken = time.perf_counter() - started
                self.seconds[part] += taken - self._inside.pop()
                self.calls[part] += 1
                if self._inside:
                    self._inside[-1] += taken

        return call

    def run(self, functions: Iterable[Function], work: Callable[[], object]) -> None:
        """Do some work while functions are timed; what it does outside of them is the part `REST`."""
        with ExitStack() as stack:
            for part, owner, name in functions:
                timed = self.timed(part, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, timed))
            self.timed(REST, work)()

    def milliseconds(self) -> dict[str, float]:
        """Of each part."""
        return {part: 1000 * taken for part, taken in self.seconds.items()}


def medians(ways: Mapping[K, Callable[[int], Facts]], queries: Iterable[int]) -> dict[K, Facts]:
    """Medians of what is found out about queries, each by all ways before the next one."""
    found: dict[K, list[Facts]] = {name: [] for name in ways}
    for query in queries:
        for name, way in ways.items():
            found[name].append(way(query))
    return {name: _medians(several) for name, several in found.items()}


def _medians(several: Sequence[Facts]) -> Facts:
    return {
        name: _medians([facts[name] for facts in several])
        if isinstance(value, dict)
        else statistics.median(facts[name] for facts in several)
        for name, value in several[0].items()
    }
