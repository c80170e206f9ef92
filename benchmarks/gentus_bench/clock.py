"""How long a search takes: warm, and for all systems alike from the query's file to its ranking."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gentus.lake import Source, Unreadable, read
from gentus_bench.baselines import Retriever

log = logging.getLogger("gentus_bench")

WARM = 5  # searches before the clock counts
PASSES = 2  # over all queries; of each query the faster counts


@dataclass(slots=True)
class Clock:
    """Milliseconds of one system: of every query the least over all passes.

    What else runs on the machine can only make a search slower, so the smaller of two times is nearer to what
    the search itself takes; a query that is slow in both passes stays slow.
    """

    whole: dict[str, float] = field(default_factory=dict)  # reading and searching
    reading: dict[str, float] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)  # what the timed searches found

    def search(self, retriever: Retriever, query: str, source: Source, k: int) -> None:
        """Read and search once, and keep the times if they are the best so far."""
        started = time.perf_counter()
        table = read(source)
        middle = time.perf_counter()
        self.answers[query] = retriever.search(table, k)
        ended = time.perf_counter()
        self.whole[query] = min(self.whole.get(query, np.inf), 1000 * (ended - started))
        self.reading[query] = min(self.reading.get(query, np.inf), 1000 * (middle - started))

    def facts(self) -> dict[str, Any]:
        """Median and 95th percentile over queries, and how much of it is reading."""
        if not self.whole:
            return {}
        whole, reading = list(self.whole.values()), list(self.reading.values())
        return {
            "ms_p50": float(np.percentile(whole, 50)),
            "ms_p95": float(np.percentile(whole, 95)),
            "read_ms_p50": float(np.percentile(reading, 50)),
        }


def time_searches(
    retrievers: Mapping[str, Retriever], queries: Mapping[str, Source], k: int
) -> dict[str, Clock]:
    """Time the same queries for all retrievers, warm, each query by all of them before the next one.

    Who comes first changes from query to query: the first one finds the query's file less ready. Queries
    that cannot be read are left out for all.
    """
    asked = {query: source for query, source in queries.items() if _readable(query, source)}
    for source in list(asked.values())[:WARM]:
        for retriever in retrievers.values():
            retriever.search(read(source), k)
    clocks = {method: Clock() for method in retrievers}
    order = list(retrievers.items())
    for _ in range(PASSES):
        for query, source in asked.items():
            for method, retriever in order:
                clocks[method].search(retriever, query, source, k)
            order = [*order[1:], *order[:1]]
    return clocks


def _readable(query: str, source: Source) -> bool:
    try:
        read(source)
    except Unreadable as error:
        log.warning("%s: %s", query, error.reason)
        return False
    return True


def conditions() -> dict[str, Any]:
    """What a time depends on beside the code: threads of every library that has its own, and the load."""
    import torch

    threads: dict[str, Any] = {"torch": torch.get_num_threads()}
    try:
        from threadpoolctl import threadpool_info
    except ImportError:  # it comes with scikit-learn, which only some baselines need
        pass
    else:
        for pool in threadpool_info():
            threads[pool["internal_api"]] = max(pool["num_threads"], threads.get(pool["internal_api"], 0))
    load = [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {"passes": PASSES, "warm": WARM, "threads": threads, "load": load}
