"""A lake of very many tables, cut from the rows of a real one.

A made table has some columns and some rows of one real table, now and then with rows of another table of the
same header. The same seed, number and source give the same bytes. Tables lie in folders of at most a
thousand; a folder is written elsewhere and renamed when it is complete, so that a run that was stopped goes
on with the next folder.
"""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from gentus.progress import Progress

IN_A_FOLDER = 1000
MOST_ROWS = 30
MOST_BYTES = 8000  # of a file; a table of two rows may have more
LEAST_ROWS = 3
LEAST_COLUMNS = 2
SOURCE_ROWS = 1000  # the first rows of a real table; others are not used
NARROWED = 0.5  # share of tables that have only some of the columns
MIXED = 0.25  # share of tables with rows of another, where there is one of the same header
_AT_ONCE = 500  # source files whose headers a process reads before it reports

Row = list[str]


@dataclass(frozen=True, slots=True)
class Sources:
    """The real tables that a lake is cut from, and which of them have the same header."""

    paths: list[str]
    group: list[int]  # of each path
    members: list[list[int]]  # of each group, positions in `paths`


@dataclass(frozen=True, slots=True)
class LakePlan:
    """Which lake is made: how many tables, from where, and where they go."""

    source: Path
    lake: Path
    tables: int
    seed: int = 0
    in_a_folder: int = IN_A_FOLDER
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def parts(self) -> int:
        """How many folders it has."""
        return -(-self.tables // self.in_a_folder)

    def numbers(self, part: int) -> range:
        """The tables in a folder."""
        return range(part * self.in_a_folder, min(self.tables, (part + 1) * self.in_a_folder))

    def table(self, number: int) -> Path:
        """Where a table is, by its number from 0."""
        return self.lake / part_name(number // self.in_a_folder) / f"table-{number:08d}.csv"


def part_name(part: int) -> str:
    """The name of a folder of the lake."""
    return f"part-{part:05d}"


def make_large_lake(plan: LakePlan, progress: Progress | None = None) -> dict[str, Any]:
    """Make the folders that are missing; returns the size of the lake, and the seconds of all runs together.

    What it was made of stands beside it in `LAKE.json`; another lake in the same place is refused.
    """
    started = time.perf_counter()
    beside, scratch = plan.lake.with_name(f"{plan.lake.name}.json"), _scratch(plan.lake)
    shutil.rmtree(scratch, ignore_errors=True)  # folders that were not completed
    with _processes(plan.processes) as pool:
        sources = _group(pool.map(_headers, _chunks(_csv_files(plan.source), _AT_ONCE)))
    if not sources.paths:
        raise ValueError(f"there are no CSV files of {LEAST_COLUMNS} columns or more in {plan.source}")
    facts = {"tables": plan.tables, "seed": plan.seed, "source_tables": len(sources.paths)}
    before = _seconds_before(beside, facts) if plan.lake.is_dir() else 0.0
    plan.lake.mkdir(parents=True, exist_ok=True)
    total = 0
    with (
        _processes(plan.processes, _begin, (plan, sources)) as pool,
        (progress or Progress()).stage("Making tables", plan.tables) as tick,
    ):
        for part, size in enumerate(pool.map(_make_part, range(plan.parts))):
            total += size
            tick(len(plan.numbers(part)))
            seconds = before + time.perf_counter() - started
            _write(beside, {**facts, "seconds": round(seconds, 2)})
    shutil.rmtree(scratch, ignore_errors=True)
    return {**facts, "bytes": total, "seconds": round(seconds, 2)}


@contextmanager
def _processes(
    count: int, begin: Callable[..., None] | None = None, given: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Processes to work in; if one dies, the results of the others raise instead of waiting for it."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, initializer=begin, initargs=given)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _scratch(lake: Path) -> Path:
    """Where folders are written; beside the lake, so that a rename is enough."""
    return lake.with_name(f"{lake.name}.making")


def _seconds_before(beside: Path, facts: dict[str, Any]) -> float:
    """The seconds of earlier runs; raises if these made another lake."""
    try:
        known = json.loads(beside.read_text("utf-8"))
    except FileNotFoundError:
        return 0.0
    seconds = float(known.pop("seconds"))
    if known != facts:
        raise ValueError(f"{beside} says that another lake was made there: {known}, not {facts}. Delete it.")
    return seconds


def _write(path: Path, facts: dict[str, Any]) -> None:
    temporary = path.with_name(f"{path.name}.part")
    temporary.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    os.replace(temporary, path)


# --- the real tables ---------------------------------------------------------------------------------


def _csv_files(folder: Path) -> list[str]:
    """All of them, in the order of names."""
    found = [
        os.path.join(root, name)
        for root, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(".csv")
    ]
    return sorted(found)


def _chunks(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    yield from (items[at : at + size] for at in range(0, len(items), size))


def _headers(paths: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Files that tables can be cut from, each with its header."""
    found = []
    for path in paths:
        header, rows = read_rows(path, 1)
        if rows and len(header) >= LEAST_COLUMNS:
            found.append((path, tuple(header)))
    return found


def _group(found: Iterable[list[tuple[str, tuple[str, ...]]]]) -> Sources:
    """Bring files of the same header together."""
    numbers: dict[tuple[str, ...], int] = {}
    sources = Sources([], [], [])
    for path, header in (one for some in found for one in some):
        number = numbers.setdefault(header, len(numbers))
        if number == len(sources.members):
            sources.members.append([])
        sources.members[number].append(len(sources.paths))
        sources.paths.append(path)
        sources.group.append(number)
    return sources


def read_rows(path: str | Path, most: int = SOURCE_ROWS) -> tuple[Row, list[Row]]:
    """Header and first rows of a CSV file, all rows as wide as the header, until one cannot be parsed."""
    header: Row = []
    rows: list[Row] = []
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            width = len(header)
            rows.extend((row + [""] * (width - len(row)))[:width] for row in islice(reader, most) if row)
    except (csv.Error, OSError):
        pass  # what was read until then is used
    return header, rows


# --- in the processes that write ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    plan: LakePlan
    sources: Sources
    order: list[int]  # of the real tables: the tables of a lake are cut from them one after the other


_task: list[_Task] = []  # of this process


def _begin(plan: LakePlan, sources: Sources) -> None:
    order = list(range(len(sources.paths)))
    Random(f"order {plan.seed}").shuffle(order)
    _task[:] = [_Task(plan, sources, order)]


def _make_part(part: int) -> int:
    """Write one folder of the lake, unless it is there; returns how many bytes its files have."""
    (task,) = _task
    plan = task.plan
    name = part_name(part)
    there, folder = plan.lake / name, _scratch(plan.lake) / name
    if there.is_dir():
        return sum(entry.stat().st_size for entry in os.scandir(there))
    folder.mkdir(parents=True)
    total = 0
    for number in plan.numbers(part):
        data = _made(task, number)
        (folder / plan.table(number).name).write_bytes(data)
        total += len(data)
    os.replace(folder, there)
    return total


def _made(task: _Task, number: int) -> bytes:
    """The file of one table. Neighbours in number have the same source, which is then read once."""
    chance = Random(f"{task.plan.seed} {number}")
    at = task.order[number * len(task.order) // task.plan.tables]
    header, rows = _source(task.sources.paths[at])
    others = task.sources.members[task.sources.group[at]]
    more: list[Row] = []
    if len(others) > 1 and chance.random() < MIXED:
        other = chance.choice([one for one in others if one != at])
        more = _source(task.sources.paths[other])[1]
    return to_csv(*cut(header, rows, more, chance))


_source = lru_cache(maxsize=64)(read_rows)


def cut(header: Row, rows: Sequence[Row], more: Sequence[Row], chance: Random) -> tuple[Row, list[Row]]:
    """Some columns and some rows of a table, then some of the rows of another one, in their order."""
    most = MOST_ROWS * 2 // 3 if more else MOST_ROWS
    taken = _some(rows, most, chance) + _some(more, MOST_ROWS - most, chance)
    columns = every = list(range(len(header)))
    if len(every) > LEAST_COLUMNS and chance.random() < NARROWED:
        columns = sorted(chance.sample(every, chance.randint(LEAST_COLUMNS, len(every) - 1)))
        if not any(row[at] for row in taken for at in columns):  # no index takes a table without values
            columns = every
    return [header[at] for at in columns], [[row[at] for at in columns] for row in taken]


def _some(rows: Sequence[Row], most: int, chance: Random) -> list[Row]:
    most = min(most, len(rows))
    count = chance.randint(min(LEAST_ROWS, most), most)
    return [rows[at] for at in sorted(chance.sample(range(len(rows)), count))]


def to_csv(header: Row, rows: list[Row]) -> bytes:
    """The file's bytes; rows of long cells are left out until it is small enough."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    data = text.getvalue().encode()
    return data if len(data) <= MOST_BYTES or len(rows) <= 2 else to_csv(header, rows[: len(rows) * 2 // 3])
