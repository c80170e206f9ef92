import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gentus.features.weights import WeightsMissingError
from gentus.index.engine import LocalEngine
from gentus.lake import Limits, Skipped, Source, Unreadable, each, read, scan
from gentus.lake.sandbox import pool, process
from gentus.lake.sandbox.process import SandboxProcess
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


@pytest.mark.parametrize("workers", [0, 2])
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
    monkeypatch.setattr(pool, "_CELLS", 4 * cells)
    assert [result for _, result in each(sources, how_many)] == [4] * 8 + [2] * 2
    monkeypatch.setattr(pool, "_CELLS", 1)
    assert {result for _, result in each(sources, how_many)} == {1}


@pytest.mark.parametrize("workers", [0, 2])
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


class Stuck(type(Path())):  # type: ignore[misc]
    """A file that whoever reads it waits for without end."""

    def __fspath__(self) -> str:
        time.sleep(1000)
        return str(self)


def stuck(source: Source) -> Source:
    return Source(source.name, Stuck(source.path), None, source.size, source.mtime_ns)


def hang_at_seven(found: Found) -> list[str]:
    if "7" in cells_of(found):
        time.sleep(1000)
    return cells_of(found)


def fault_at_seven(found: Found) -> list[str]:
    if "7" in cells_of(found):
        ctypes.string_at(0)  # a segmentation fault, as a native parser may have one
    return cells_of(found)


def allocate_at_seven(found: Found) -> list[str]:
    if "7" in cells_of(found):
        held = []
        while True:
            held.append(b"x" * (16 << 20))
    return cells_of(found)


def all_but_seven(results: list[tuple[Source, str | Skipped]], count: int) -> str:
    """Check that all files but one were read; returns why that one was not."""
    assert [result for _, result in results if isinstance(result, str)] == [
        str(number) for number in range(count) if number != 7
    ]
    refused = results[7][1]
    assert isinstance(refused, Skipped)
    assert refused.name == "007.csv"
    return refused.reason


def test_a_file_that_takes_too_long_is_skipped_and_named(tmp_path: Path) -> None:
    sources = lake(tmp_path, 40)
    sources[7] = stuck(sources[7])
    begun = time.monotonic()
    results = list(each(sources, cells_of, 1, Limits(seconds=1.0)))
    assert "longer than 1 s" in all_but_seven(results, 40)
    assert time.monotonic() - begun < 20


def test_work_that_takes_too_long_costs_one_file(tmp_path: Path) -> None:
    results = list(each(lake(tmp_path, 12), hang_at_seven, 1, Limits(seconds=1.0)))
    assert "longer than 1 s" in all_but_seven(results, 12)


def test_a_fault_in_native_code_costs_one_file(tmp_path: Path) -> None:
    assert "died" in all_but_seven(list(each(lake(tmp_path, 12), fault_at_seven, 1)), 12)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits memory so")
def test_memory_without_end_costs_one_file(tmp_path: Path) -> None:
    limits = Limits(memory_mb=256)
    assert "more memory" in all_but_seven(list(each(lake(tmp_path, 12), allocate_at_seven, 1, limits)), 12)


def test_a_slow_consumer_is_no_reason_to_end_a_worker(tmp_path: Path) -> None:
    results = []
    for number, result in enumerate(each(lake(tmp_path, 200), cells_of, 1, Limits(seconds=0.3))):
        if number == 0:
            time.sleep(1.0)  # longer than a file may take
        results.append(result[1])
    assert results == [str(number) for number in range(200)]


def test_native_parsers_run_in_other_processes_and_a_little_text_does_not(tmp_path: Path) -> None:
    def reader(sources: list[Source]) -> set[bool]:
        results = LocalEngine(1).each(sources, process_id, Limits())
        return {result == os.getpid() for _, result in results}

    text = lake(tmp_path, 3)
    assert reader(text) == {True}
    (tmp_path / "named like text.csv").write_bytes(parquet())
    both = [found for found in scan(tmp_path) if isinstance(found, Source)]
    assert reader(both) == {False}


def parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2]}), written)
    data: bytes = written.getvalue().to_pybytes()
    return data


def test_a_script_need_not_be_guarded(tmp_path: Path) -> None:
    """Processes that read do not run the script again that asked for them."""
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("a,b\n1,2\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from gentus.lake import Source, each, scan\n"
        "from gentus.index.ingest import examine\n"
        f"tables = (one for one in scan({str(tmp_path)!r}) if isinstance(one, Source))\n"
        "found = list(each(tables, examine, workers=2))\n"
        "print('read', len(found), __file__ == sys.argv[0])\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == ("read 3 True\n", "")
    program = "import __main__; exec(open(" + repr(str(script)) + ").read().replace('__file__', '1'))"
    program += "; assert not hasattr(__main__, '__file__')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == ("read 3 False\n", "")


def clear_up_slowly(ready: str, cleared: str) -> None:
    process.leave_signals_to_parent()
    try:
        Path(ready).touch()
        time.sleep(60)
    finally:
        time.sleep(0.5)
        Path(cleared).touch()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes at once")
def test_a_worker_that_is_told_twice_to_end_clears_up_all_the_same(tmp_path: Path) -> None:
    ready, cleared = tmp_path / "ready", tmp_path / "cleared"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=clear_up_slowly, args=(str(ready), str(cleared)))
    process.start()
    while not ready.exists():
        assert process.is_alive()
        time.sleep(0.01)
    process.terminate()
    time.sleep(0.2)
    process.terminate()
    process.join(30)
    assert process.exitcode == 0
    assert cleared.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_process_that_dies_while_it_waits_is_started_anew() -> None:
    """Of all calls that follow, none is the one that brought it down."""
    sandbox = SandboxProcess()
    try:
        first = sandbox(os.getpid)
        os.kill(first, signal.SIGKILL)
        while sandbox._process and sandbox._process.is_alive():
            time.sleep(0.01)
        second = sandbox(os.getpid)
        assert second not in (first, os.getpid())
        assert sandbox(os.getpid) == second
    finally:
        sandbox.close()


KEPT: list[bytearray] = []


def keep_and_refuse(megabytes: int) -> None:
    KEPT.append(bytearray(os.urandom(1) * (megabytes << 20)))
    raise Unreadable("refused")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits memory")
def test_a_sandbox_that_kept_the_memory_of_a_refused_file_is_not_used_again() -> None:
    sandbox = SandboxProcess()
    try:
        first = sandbox(os.getpid)
        for megabytes, same in ((1, True), (700, False)):
            with pytest.raises(Unreadable, match="refused"):
                sandbox(keep_and_refuse, megabytes)
            assert (sandbox(os.getpid) == first) is same
    finally:
        sandbox.close()
