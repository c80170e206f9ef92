"""Progress for people: a bar with rate and time left on a terminal, nothing when piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[int], None]


class Progress:
    """Stages of long work. This one is silent; `terminal_progress` gives one that shows."""

    @contextmanager
    def stage(self, title: str, total: int | None, unit: str = "tables") -> Iterator[Tick]:
        """Work of `total` units; call what you are given with how many are done."""
        yield lambda done: None


class _Terminal(Progress):
    @contextmanager
    def stage(self, title: str, total: int | None, unit: str = "tables") -> Iterator[Tick]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            SpinnerColumn,
            Task,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bars

        class Rate(TextColumn):
            def render(self, task: Task) -> object:  # type: ignore[override]
                return f"{task.speed:,.0f} {unit}/s" if task.speed else ""

        columns = (
            SpinnerColumn(),
            TextColumn(f"{title:<24}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(""),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Bars(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(title, total=total)
            yield lambda done: bars.advance(task, done)


def terminal_progress() -> Progress:
    """Bars on a terminal; silence when stderr goes anywhere else."""
    return _Terminal() if sys.stderr.isatty() else Progress()
