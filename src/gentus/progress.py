"""Progress for people: a bar with rate and time left on a terminal, nothing when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_SOONEST = 5.0  # seconds before time left is told: what starts slowly says little about the rest
_SHOWN_EVERY = 0.1  # seconds; to draw every step of a million costs more than many a step


Tick = Callable[[int], None]


class Step(Protocol):
    """A `Tick` that can also say how much of the stage's whole effort the units took."""

    def __call__(self, done: int, effort: float | None = None, /) -> None:
        """Go on."""


class Progress:
    """Stages of long work. This one is silent; `terminal_progress` gives one that shows."""

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Work of `total` units; call what you are given with how many are done.

        Where units are unlike, time left is told by their `effort`, of which this is the sum.
        """
        yield lambda done, effort=None: None


class TimeLeft:
    """How long the rest takes at the pace of late, which is that of the last half of the time so far.

    The pace since the beginning would be slow to learn that things have changed, that of the last seconds
    would jump.
    """

    def __init__(self, total: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done, self._clock = total, 0.0, clock
        self._began = clock()
        self._marks = [(self._began, 0.0)]  # when, and how much was done by then; a few dozen at most
        self._gap = 0.25

    def advance(self, effort: float) -> None:
        """So much more is done."""
        self.done += effort
        now = self._clock()
        if now - self._marks[-1][0] >= self._gap:
            self._marks.append((now, self.done))
            if len(self._marks) > 64:
                self._marks, self._gap = self._marks[::2], 2 * self._gap

    def seconds(self) -> float | None:
        """The estimate; None as long as there is nothing to go by."""
        now = self._clock()
        middle = (self._began + now) / 2
        early = [mark for mark in self._marks if mark[0] <= middle]
        when, before = early[-1]
        if now - self._began < _SOONEST or len(early) == len(self._marks) or self.done <= before:
            return None
        return max(0.0, self.total - self.done) * (now - when) / (self.done - before)


def in_words(seconds: float) -> str:
    """A time as exactly as an estimate deserves."""
    if seconds < 55:
        return f"{5 * max(1, round(seconds / 5))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class _Terminal(Progress):
    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, Task, TextColumn
        from rich.progress import Progress as Bars

        left = TimeLeft(total if effort is None else effort) if total is not None else None

        class Count(TextColumn):
            def render(self, task: Task) -> object:  # type: ignore[override]
                whole = " so far" if total is None else f" of {total:,}"
                return f"{task.completed:,.0f}{whole}" if task.completed or total is not None else ""

        class Rate(TextColumn):
            def render(self, task: Task) -> object:  # type: ignore[override]
                return f"{task.speed:,.0f} {unit}/s" if task.speed else ""

        class Left(TextColumn):
            def render(self, task: Task) -> object:  # type: ignore[override]
                if task.finished or left is None:
                    return in_words(task.elapsed or 0) if task.finished else ""
                estimate = left.seconds()
                return "" if estimate is None else f"about {in_words(estimate)} left"

        columns = (SpinnerColumn(), TextColumn(f"{title:<24}"), BarColumn(), Count(""), Rate(""), Left(""))
        with Bars(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(title, total=total)
            unseen, shown = 0, 0.0

            def tick(done: int, effort: float | None = None, /) -> None:
                nonlocal unseen, shown
                unseen += done
                if left is not None:
                    left.advance(done if effort is None else effort)
                if (now := time.monotonic()) - shown >= _SHOWN_EVERY:
                    bars.advance(task, unseen)
                    unseen, shown = 0, now

            try:
                yield tick
            finally:
                bars.advance(task, unseen)


def terminal_progress() -> Progress:
    """Bars on a terminal; silence when stderr goes anywhere else."""
    return _Terminal() if sys.stderr.isatty() else Progress()
