"""Where the work of a build is done: in processes of this machine, or on a cluster (`engine_ray.py`).

An engine lists a lake, reads its tables and maps work over chunks of them, in order and never far ahead of
the consumer of the results. It stores nothing: the process that builds does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, Protocol, TypeVar, get_args

from gentus.lake import Limits, Location, Skipped, Source, each, scan
from gentus.lake.exclude import Exclude
from gentus.lake.formats.detect import is_plain
from gentus.lake.sandbox.pool import Work
from gentus.threads import parallel

A = TypeVar("A")
R = TypeVar("R")

EngineName = Literal["local", "ray"]
FEW = 200  # tables per worker at least: one takes a second to start


class Engine(Protocol):
    """What a build needs. Work, its input and its output have to be picklable."""

    def scan(self, lake: Location, exclude: Exclude) -> Iterator[Source | Skipped]:
        """Yield the tables of a lake sorted by name, and what of it cannot be read or is excluded."""

    def each(
        self, sources: Iterable[Source], work: Work[R], limits: Limits
    ) -> Iterator[tuple[Source, R | Skipped]]:
        """Read every source and yield what `work` makes of it, in order; what cannot be read yields why."""

    def map(self, work: Callable[[A], R], items: Iterable[A]) -> Iterator[R]:
        """Yield `work(item)` in order. An error in the work is raised."""


@contextmanager
def open_engine(
    name: EngineName = "local", address: str | None = None, workers: int | None = None
) -> Iterator[Engine]:
    """The engine of this name; what it has started ends with the work."""
    if name not in get_args(EngineName):
        raise ValueError(f"there is no engine {name}; there are {', '.join(get_args(EngineName))}")
    if name == "ray":
        from gentus.index.engine_ray import ray_engine

        with ray_engine(address, workers) as engine:
            yield engine
    elif address is not None:
        raise ValueError("An address is that of a Ray cluster: choose the engine ray, too.")
    else:
        yield LocalEngine() if workers is None else LocalEngine(workers)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Processes of this machine."""

    workers: int = os.cpu_count() or 1  # 0: none, and a file that crashes its parser ends this process

    def scan(self, lake: Location, exclude: Exclude) -> Iterator[Source | Skipped]:
        """List the lake in this process."""
        return scan(lake, exclude)

    def each(
        self, sources: Iterable[Source], work: Work[R], limits: Limits
    ) -> Iterator[tuple[Source, R | Skipped]]:
        """Read in other processes, unless there are only a few tables, and Python alone reads them."""
        left = iter(sources)
        first = list(islice(left, FEW * self.workers))
        here = len(first) < FEW and all(map(is_plain, first))
        return each(chain(first, left), work, 0 if here else min(self.workers, 1 + len(first) // FEW), limits)

    def map(self, work: Callable[[A], R], items: Iterable[A]) -> Iterator[R]:
        """Work in threads of this process."""
        return parallel(work, items, max(self.workers, 1))
