import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gentus.lake import Skipped, Source, each, parallel, read, scan
from gentus.static import WeightsMissingError
from gentus.table import Table


def lake(folder: Path, count: int, bad: int | None = None) -> list[Source]:
    for number in range(count):
        text = "a,b\n" if number == bad else f"a,b\n{number},x\n"
        (folder / f"{number:03}.csv").write_text(text)
    return [found for found in scan(folder) if isinstance(found, Source)]


Found = Sequence[tuple[Source, Table]]


def first_cell(table: Table) -> str:
    return table.columns[0].cells[0]


def cells_of(found: Found) -> list[str]:
    return [first_cell(table) for _, table in found]


def die_at_seven(found: Found) -> list[str]:
    if "7" in cells_of(found):
        os.kill(os.getpid(), signal.SIGKILL)
    return cells_of(found)


def fail_at_seven(found: Found) -> list[str]:
    if "7" in cells_of(found):
        raise ZeroDivisionError("seven")
    return cells_of(found)


def process_id(found: Found) -> list[int]:
    time.sleep(0.005)
    return [os.getpid() for _ in found]


def how_many(found: Found) -> list[int]:
    return [len(found) for _ in found]


@pytest.mark.parametrize("workers", [1, 2])
def test_in_order_with_bad_files_among_good_ones(tmp_path: Path, workers: int) -> None:
    sources = lake(tmp_path, 100, bad=50)
    results = list(each(iter(sources), cells_of, workers))
    assert [source for source, _ in results] == sources
    bad = results.pop(50)[1]
    assert isinstance(bad, Skipped)
    assert "no rows" in bad.reason
    assert [result for _, result in results] == [str(i) for i in range(100) if i != 50]
    assert list(each([], cells_of, workers)) == []


def test_a_worker_that_dies_costs_one_file(tmp_path: Path) -> None:
    results = [result for _, result in each(lake(tmp_path, 80), die_at_seven, 2)]
    dead = results.pop(7)
    assert isinstance(dead, Skipped)
    assert dead.name == "007.csv"
    assert "died (exit code -9)" in dead.reason
    assert results == [str(i) for i in range(80) if i != 7]


def test_few_cells_are_worked_on_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = lake(tmp_path, 10)
    assert {result for _, result in each(sources, how_many)} == {10}
    cells = sum(len(column.cells) for column in read(sources[0]).columns)
    monkeypatch.setattr(parallel, "_CELLS", 4 * cells)
    assert [result for _, result in each(sources, how_many)] == [4] * 8 + [2] * 2
    monkeypatch.setattr(parallel, "_CELLS", 1)
    assert {result for _, result in each(sources, how_many)} == {1}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_the_work_is_raised(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ZeroDivisionError, match="seven"):
        list(each(lake(tmp_path, 20), fail_at_seven, workers))


def fail_oddly(found: Found) -> list[str]:
    class OddError(Exception):
        def __init__(self, table: Table, why: str) -> None:
            super().__init__(why)

    if "3" in cells_of(found):
        raise WeightsMissingError("not installed")
    raise OddError(found[0][1], "cannot be sent")


def test_errors_reach_the_parent_as_they_are_or_in_words(tmp_path: Path) -> None:
    sources = lake(tmp_path, 4)
    with pytest.raises(WeightsMissingError, match="not installed"):
        list(each(sources[3:], fail_oddly, 2))
    with pytest.raises(RuntimeError, match="OddError: cannot be sent"):
        list(each(sources[:1], fail_oddly, 2))


def test_stopping_early_ends_the_workers(tmp_path: Path) -> None:
    results = each(lake(tmp_path, 200), process_id, 2)
    worker = next(results)[1]
    assert isinstance(worker, int)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_sources_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    sources = lake(tmp_path, 3)
    taken = 0

    def endless() -> Iterator[Source]:
        nonlocal taken
        while True:
            taken += 1
            yield sources[taken % 3]

    results = each(endless(), cells_of, 2)
    for _ in range(50):
        next(results)
    assert taken < 2000
    results.close()  # type: ignore[attr-defined]
