"""A lake of very many small files: speed and memory of reading it, and accuracy of the estimated time left.

Reading runs in a process of its own, is killed after a third of the tables, and is resumed.
`PYTHONPATH=tests python -m stress.files --count 1000000`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gentus.progress import Progress, Step, TimeLeft
from gentus_bench.processes import resident_bytes
from gentus_bench.results import Results
from gentus_bench.table import Table, figure

READING = "Reading tables"
_IN_A_FOLDER = 1000
_LARGER = 30  # times as many rows has every tenth table, and those come last: the unkind order
_KILLED_AT = 1 / 3
_SHARES = (0.25, 0.5, 0.75)
_EVERY = 0.5  # seconds between two looks
_TEXT = (
    "salmon trout carp pike eel perch herring cod tuna bass Berlin Vienna Lisbon Madrid Rome Oslo Dublin"
    " iron copper zinc nickel silver gold cobalt tin lead titanium hammer pliers wrench chisel drill saw"
)
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Look:
    """How things stand at a moment of a run."""

    stage: str
    seconds: float  # since the process began its work
    done: int
    total: int | None
    left: float | None  # as estimated
    own: int  # bytes in memory of the process that stores
    all: int  # and of those that read for it


def measure_files(results: Results, count: int, folder: Path | None = None) -> dict[str, Any]:
    """Make the lake in a folder for temporary files, and read it."""

    def measure() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="gentus-files-", dir=folder) as scratch:
            lake, index = Path(scratch, "lake"), Path(scratch, "index")
            started = time.perf_counter()
            size = make_files(lake, count)
            made = time.perf_counter() - started
            first = _run(lake, index, killed_at=round(_KILLED_AT * count))
            second = _run(lake, index)
            third = _run(lake, index)
        return {"bytes": size, "make_seconds": round(made, 1), **_facts(first, second, third)}

    return results.measured(f"files-{count}", {"count": count}, measure)


def make_files(lake: Path, count: int) -> int:
    """Tiny CSVs, the same for the same count: many in one folder, many in many, and some larger ones.

    Returns how many bytes they have.
    """
    total = 0
    for number in range(count):
        large = number % 10 == 9
        within = "wide" if large else "flat" if number % 2 else f"deep/{number // _IN_A_FOLDER:05d}"
        path = lake / within / f"table-{number:08d}.csv"
        if number < 10 or number % _IN_A_FOLDER == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        chance = random.Random(number)
        rows = chance.randint(3, 12) * (_LARGER if large else 1)
        text = "name,kind,size,year\n" + "".join(
            f"{chance.choice(_WORDS)},{chance.choice(_WORDS)},{chance.uniform(1, 1000):.1f},"
            f"{chance.randint(1950, 2020)}\n"
            for _ in range(rows)
        )
        total += path.write_text(text)
    return total


def _run(lake: Path, index: Path, killed_at: int | None = None) -> list[Look]:
    """Read the lake in a process of its own, all of it or so many tables; how things stood."""
    command = [sys.executable, __file__, "--read", str(lake), str(index), str(killed_at or 0)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != (0 if killed_at is None else -signal.SIGKILL):
        raise RuntimeError(f"reading ended with exit code {run.returncode}; what it said stands above")
    return [Look(**json.loads(line)) for line in run.stdout.splitlines()]


def _facts(first: list[Look], second: list[Look], third: list[Look]) -> dict[str, Any]:
    reading = [look for look in second if look.stage == READING]
    before, end = [look for look in first if look.stage == READING][-1], reading[-1]
    tables, seconds = end.done, end.seconds - reading[0].seconds
    return {
        "scan_seconds": round(next(look.seconds for look in first if look.stage == READING), 1),
        "killed_after": before.done,
        "left_to_read": end.total,
        "restart_seconds": round(reading[0].seconds, 1),  # until reading went on
        "read_again": (end.total or 0) + before.done - _count(third),
        "files_per_second": round(tables / seconds),
        "nothing_new_seconds": round(third[-1].seconds, 1),
        "memory": {f"{share:.0%}": _memory(reading, share) for share in (0.1, 0.5, 1.0)},
        "first_third_memory": _memory([before], 1.0),
        "estimates": {f"{share:.0%}": _estimate(reading, share) for share in _SHARES},
        "first_estimate_seconds": next((look.seconds for look in reading if look.left is not None), None),
        "looks": [asdict(look) for look in (*first, *second)][:: max(1, (len(first) + len(second)) // 500)],
    }


def _count(looks: list[Look]) -> int:
    """How many tables a scan found."""
    return looks[-1].done


def _memory(looks: list[Look], share: float) -> dict[str, float]:
    """The most memory until a share of the tables was read."""
    some = [look for look in looks if look.done <= share * (look.total or 0)] or looks[:1]
    return {
        "own_mb": round(max(look.own for look in some) / 1e6, 1),
        "all_mb": round(max(look.all for look in some) / 1e6, 1),
    }


def _estimate(looks: list[Look], share: float) -> dict[str, float | None]:
    """Time left as estimated when a share of the tables was read, and the actual one."""
    then = next(look for look in looks if look.done >= share * (look.total or 0))
    return {
        "estimated": None if then.left is None else round(then.left, 1),
        "actual": round(looks[-1].seconds - then.seconds, 1),
    }


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Memory, and the accuracy of estimates."""
    memory = [
        [name, f"{of['own_mb']:,.0f}", f"{of['all_mb']:,.0f}"]
        for name, of in (("first third", document["first_third_memory"]), *document["memory"].items())
    ]
    estimates = [
        [name, figure(of["estimated"], ",.0f"), f"{of['actual']:,.0f}"]
        for name, of in document["estimates"].items()
    ]
    note = (
        f"{document['what']['count']:,} CSV files, {document['bytes'] / 1e6:,.0f} MB: nine in ten of 4 to"
        f" 13 lines, half of these in one folder; every tenth has {_LARGER} times as many, and these come"
        f" last. Listed in {document['scan_seconds']:,.1f} s. Killed after {document['killed_after']:,}"
        f" tables; the restart went on reading after {document['restart_seconds']:,.1f} s, and read"
        f" {document['left_to_read']:,} tables at {document['files_per_second']:,} per second,"
        f" {document['read_again']:,} of them a second time. With nothing to read it takes"
        f" {document['nothing_new_seconds']:,.1f} s."
    )
    return [
        Table(["tables read", "memory of the process that stores, MB", "with readers, MB"], memory),
        Table(["tables read", "estimated time left, s", "actual, s"], estimates, note=note),
    ]


class _Report(Progress):
    """Writes on stdout how things stand; kills its process once so many tables are read.

    Another process could be too late: on a fast machine a small lake is read before the signal arrives.
    """

    def __init__(self, killed_at: int | None) -> None:
        self.began = time.monotonic()
        self.killed_at = killed_at

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Tell at the beginning, now and then, and at the end."""
        left = TimeLeft(effort or total or 0)
        done, last = 0, 0.0

        def tell() -> None:
            own = resident_bytes()
            readers = sum(resident_bytes(child.pid) for child in multiprocessing.active_children())
            seconds = time.monotonic() - self.began
            look = Look(title, seconds, done, total, left.seconds() if total else None, own, own + readers)
            print(json.dumps(asdict(look)), flush=True)

        def tick(count: int, effort: float | None = None, /) -> None:
            nonlocal done, last
            done += count
            left.advance(count if effort is None else effort)
            if title == READING and self.killed_at is not None and done >= self.killed_at:
                tell()
                os.kill(os.getpid(), signal.SIGKILL)
            if (now := time.monotonic()) - last >= _EVERY:
                last = now
                tell()

        tell()
        yield tick
        tell()


def _read(lake: Path, index: Path, killed_at: int) -> None:
    """The process that is measured: what a build does before it learns anything."""
    from gentus.index.engine import LocalEngine
    from gentus.index.folder import Layout
    from gentus.index.ingest import Ingest
    from gentus.index.writer import writer
    from gentus.lake import Limits
    from gentus.lake.rules import LakeRules

    layout, report = Layout(index), _Report(killed_at or None)
    with writer(layout, create=True) as catalogue:
        engine = LocalEngine(len(os.sched_getaffinity(0)))
        Ingest(layout, catalogue, Limits(), engine, report).read_lake(lake, LakeRules())


def main() -> None:
    """Measure, and print the tables."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10**6, help="how many files")
    parser.add_argument("--dir", type=Path, help="where they go; the folder for temporary files")
    parser.add_argument("--out", type=Path, default=Path("results"), help="where the results go")
    asked = parser.parse_args()
    document = measure_files(Results(asked.out), asked.count, asked.dir)
    print("\n\n".join(table.markdown() for table in tables(document)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        _read(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
