"""Where the work of a build is done: in processes of this machine, or on a cluster (`engine_ray.py`).

An engine lists a lake, reads its tables and maps work over chunks of them, in order and never far ahead of
whoever takes the results. It stores nothing: that is for the one process that asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Protocol, TypeVar

from gentus.lake import Limits, Skipped, Source, each, scan
from gentus.table import Table

A = TypeVar("A")
R = TypeVar("R")

FEW = 200  # tables a worker should have: it takes a second to start


class Engine(Protocol):
    """What a build asks for. Work, and what goes in and comes out, has to be picklable."""

    def scan(self, lake: Path) -> Iterator[Source | Skipped]:
        """Yield the tables of a lake sorted by name, and what of it cannot be read."""

    def each(
        self, sources: Iterable[Source], work: Callable[[Source, Table], R], limits: Limits
    ) -> Iterator[tuple[Source, R | Skipped]]:
        """Read every source and yield what `work` makes of it, in order; what cannot be read yields why."""

    def map(self, work: Callable[[A], R], items: Iterable[A]) -> Iterator[R]:
        """Yield `work(item)` in order. An error in the work is raised."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Processes of this machine."""

    workers: int = os.cpu_count() or 1

    def scan(self, lake: Path) -> Iterator[Source | Skipped]:
        """List the lake in this process."""
        return scan(lake)

    def each(
        self, sources: Iterable[Source], work: Callable[[Source, Table], R], limits: Limits
    ) -> Iterator[tuple[Source, R | Skipped]]:
        """Read in several processes, unless there are only a few tables."""
        left = iter(sources)
        first = list(islice(left, FEW * self.workers))
        return each(chain(first, left), work, min(self.workers, 1 + len(first) // FEW), limits)

    def map(self, work: Callable[[A], R], items: Iterable[A]) -> Iterator[R]:
        """Work in this process."""
        return map(work, items)
