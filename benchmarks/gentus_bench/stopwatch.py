"""Where the time of some work goes, by clocks around functions that it calls."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar
from unittest import mock

K = TypeVar("K")
Facts = dict[str, Any]

REST = "rest"
Place = tuple[str, Any, str]  # a part, and the function that belongs to it: what has it, and its name


class Stopwatch:
    """Time spent in functions, without what they spend in others that are watched too."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)  # of each part
        self.calls: defaultdict[str, int] = defaultdict(int)
        self._inside: list[float] = []  # for every watched function that runs, the time of those inside it

    def watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*arguments: Any, **options: Any) -> Any:
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

        return timed

    def milliseconds(self) -> dict[str, float]:
        """Of each part."""
        return {part: 1000 * taken for part, taken in self.seconds.items()}

    def watch(self, places: Iterable[Place], work: Callable[[], object]) -> None:
        """Do some work while functions are watched; what it does outside of them is the part `REST`."""
        with ExitStack() as stack:
            for part, owner, name in places:
                timed = self.watched(part, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, timed))
            self.watched(REST, work)()


def profiled(ways: Mapping[K, Callable[[int], Facts]], queries: Iterable[int]) -> dict[K, Facts]:
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
