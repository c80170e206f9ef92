"""Time left is told late rather than wrongly, by effort, and follows when the pace changes."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Sequence

import pytest
from rich.console import Console

from gentus.progress import TimeLeft, in_words, terminal_progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def errors(work: Sequence[tuple[float, float]], shares: Iterable[float] = (0.25, 0.5, 0.75)) -> list[float]:
    """By which factor the estimates are too long, when shares of the work (effort, seconds) are done."""
    clock = Clock()
    left = TimeLeft(sum(effort for effort, _ in work), clock)
    looks = {int(share * len(work)) for share in shares}
    whole, found = sum(seconds for _, seconds in work), []
    for number, (effort, seconds) in enumerate(work, 1):
        clock.now += seconds
        left.advance(effort)
        if number in looks:
            told = left.seconds()
            assert told is not None
            found.append(told / (whole - (clock.now - 100)))
    return found


def test_an_even_pace_is_told_exactly() -> None:
    assert errors([(1, 0.1)] * 1000) == pytest.approx([1, 1, 1], rel=0.02)
    chance = random.Random(0)
    assert errors([(1, chance.expovariate(10)) for _ in range(5000)]) == pytest.approx([1, 1, 1], rel=0.1)


def test_large_files_at_the_end_are_no_surprise_if_their_effort_is_known() -> None:
    work = [(1.0, 0.01)] * 9000 + [(30.0, 0.3)] * 1000
    assert errors(work) == pytest.approx([1, 1, 1], rel=0.02)
    by_number = errors([(1, seconds) for _, seconds in work])
    assert max(by_number) < 0.25  # what counting files would have said


def test_it_follows_when_the_pace_changes() -> None:
    slower = [(1, 0.1)] * 2000 + [(1, 0.2)] * 4000  # somebody else uses the machine now
    assert errors(slower, [0.75, 0.9]) == pytest.approx([1, 1], rel=0.05)
    late_start = [(0.0, 30.0), *[(1, 0.01)] * 10_000]
    assert errors(late_start, [0.5, 0.75]) == pytest.approx([1, 1], rel=1.0)


def test_nothing_is_told_in_the_first_seconds_or_without_progress() -> None:
    clock = Clock()
    left = TimeLeft(1000, clock)
    for _ in range(40):
        clock.now += 0.1
        left.advance(1)
    assert left.seconds() is None
    clock.now += 2
    assert left.seconds() is not None
    clock.now += 100
    assert left.seconds() is None  # nothing has happened for longer than half the time


def test_an_estimate_takes_the_same_memory_however_long_it_goes_on() -> None:
    clock = Clock()
    left = TimeLeft(1e6, clock)
    for _ in range(100_000):
        clock.now += 0.3
        left.advance(1)
    assert len(left._marks) <= 65
    assert left.seconds() == pytest.approx(0.3 * 900_000, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "5 s"),
        (12, "10 s"),
        (54, "55 s"),
        (57, "1 min"),
        (700, "12 min"),
        (3600, "1 h 0 min"),
        (9000, "2 h 30 min"),
    ],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_terminal_shows_how_many_of_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()

    class Wide(Console):
        def __init__(self, **_: object) -> None:
            super().__init__(file=shown, force_terminal=True, width=150)

    monkeypatch.setattr("rich.console.Console", Wide)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with terminal_progress().stage("Reading tables", 12_000, effort=24_000) as tick:
        for _ in range(12_000):
            tick(1, 2.0)
    assert "12,000 of 12,000" in shown.getvalue()
    with terminal_progress().stage("Looking through the lake", None) as tick:
        tick(1234)
    assert "1,234 so far" in shown.getvalue()
    progress = terminal_progress()
    progress.beside = lambda: "5.0 MB"
    with progress.stage("writing", 20, "rows") as tick:
        tick(20)
    assert "20 of 20  5.0 MB" in shown.getvalue()


def test_elsewhere_a_long_stage_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = terminal_progress(lines=True)
    with progress.stage("Scanning the lake", 2) as tick:
        tick(2)
    monkeypatch.setattr("gentus.progress._WORTH_A_LINE", 0.0)
    with progress.stage("Reading tables", 1200) as tick:
        tick(1000)
        tick(200, 5.0)
    with progress.stage("Learning vocabularies", None):
        pass
    with pytest.raises(ZeroDivisionError), progress.stage("Finding neighbours", 3):
        raise ZeroDivisionError
    with terminal_progress().stage("Aligning", 3) as tick:
        tick(3)
    out, err = capsys.readouterr()
    assert out == ""
    assert [re.sub(r"[0-9.]+ s$", "N s", line) for line in err.splitlines()] == [
        "Reading tables: 1,200 tables in N s",
        "Learning vocabularies: N s",
    ]
