"""Updates of an index: one table until it is found, a thousand tables, and readers beside a writer."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import cycle, islice
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

import gentus
from gentus.lake import Source, scan
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

STALE = 1.0  # seconds after which an answer has to know of a change


@dataclass(frozen=True, slots=True)
class Options:
    """How much is added, and for how long readers watch."""

    count: int = 1000  # tables added in hundreds, and at once
    singles: int = 20  # tables added one by one before
    seconds: float = 60.0  # 0: no readers


def run(request: Request, options: Options) -> Iterator[Document]:
    """Add tables of a folder (`--data`) to copies of indexes, smallest first."""
    names = [path.resolve().name for path in request.indexes]
    if not names:
        raise ValueError("this experiment needs --index, once or several times")
    measure = partial(measure_updates, request.indexes, request.folder, *astuple(options))
    yield request.results.measured("updates", {"indexes": names, **asdict(options)}, measure)


def measure_updates(
    indexes: Sequence[Path], tables: Path, count: int = 1000, singles: int = 20, seconds: float = 60.0
) -> Document:
    """Add the same tables to copies of several indexes, side by side; then let two readers watch a writer.

    `tables` is a folder of tables that are in none of them.
    """
    files = [
        item.file for item in islice((i for i in scan(tables) if isinstance(i, Source)), count + singles)
    ]
    if len(files) < count + singles:
        raise ValueError(f"{tables} has {len(files):,} tables; {count + singles:,} are needed")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gentus-updates-") as scratch:
        copies = []
        for at, path in enumerate(indexes):
            copies.append(Path(scratch, str(at)))
            # The cache of features is not needed to add, and would only take time to copy.
            shutil.copytree(path, copies[-1], ignore=shutil.ignore_patterns("features-*", "fit.*"))
            rows.append({"index": path.resolve().name, "blocks": []})
        for copy, row in zip(copies, rows, strict=True):
            row |= _one_by_one(copy, files[:singles])
        # In turns of a hundred, so that what else the machine does hits all alike.
        for begin in range(singles, singles + count, 100):
            for copy, row in zip(copies, rows, strict=True):
                with gentus.open(copy) as index:
                    some = files[begin : begin + 100]
                    started = time.perf_counter()
                    index.add(some)
                    row["blocks"].append(len(some) / (time.perf_counter() - started))
        for row in rows:
            row["tables_per_second"] = float(np.median(row["blocks"]))
        for copy, row in zip(copies, rows, strict=True):
            with gentus.open(copy) as index:
                index.remove([table for table in index.tables() if Path(table).is_absolute()])
                row["at_once"] = _at_once(index, files[singles:])
        watched = _watched(copies[-1], files, seconds) if seconds else None
    return {
        "count": count,
        "rows": rows,
        "cost_ratio": rows[0]["tables_per_second"] / rows[-1]["tables_per_second"],
        "watched": watched,
    }


def _one_by_one(path: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Milliseconds from a file on disk to a search that finds its table, in one process."""
    took, found = [], 0
    with gentus.open(path) as index:
        before = len(index)
        index.search(files[0])  # what is loaded once is loaded
        for file in files:
            started = time.perf_counter()
            index.add(file)
            hits = index.search(index.read(file), k=50)  # as a table without a file: it may find itself
            took.append(1000 * (time.perf_counter() - started))
            found += any(hit.path == str(file) for hit in hits)
        index.remove([str(file) for file in files])
    return {
        "tables": before,
        "one_ms_p50": float(np.median(took)),
        "one_ms_worst": float(max(took)),
        "found": found,
        "tried": len(files),
    }


def _at_once(index: gentus.Index, files: Sequence[Path]) -> float:
    started = time.perf_counter()
    index.add(files)
    return len(files) / (time.perf_counter() - started)


# --- readers beside a writer ---------------------------------------------------------------------------


def _watched(path: Path, files: Sequence[Path], seconds: float) -> dict[str, Any]:
    """Two processes that search while this one adds and removes: how late they see it, and every error."""
    context = multiprocessing.get_context("spawn")
    reports: Queue[dict[str, Any]] = context.Queue()
    news: list[Queue[tuple[str, bool | None, float] | None]] = [context.Queue() for _ in range(2)]
    readers = [context.Process(target=_reader, args=(path, queue, reports)) for queue in news]
    for reader in readers:
        reader.start()
    for _ in readers:
        reports.get(timeout=120)  # ready

    def announce(file: Path, there: bool | None) -> None:
        for queue in news:
            queue.put((str(file), there, time.monotonic()))

    changes = 0
    end = time.monotonic() + seconds
    with gentus.open(path) as index:
        index.remove([table for table in index.tables() if Path(table).is_absolute()])
        for file in cycle(files):
            if time.monotonic() > end:
                break
            announce(file, None)  # from now on it may or may not be there
            index.add(file)
            announce(file, True)
            time.sleep(0.02)
            if changes % 2:
                announce(file, None)
                index.remove(str(file))
                announce(file, False)
                time.sleep(0.02)
            if changes % 100 == 99:
                index.compact()
            changes += 1
    for queue in news:
        queue.put(None)
    found = [reports.get(timeout=120) for _ in readers]
    for reader in readers:
        reader.join()
    return {
        "seconds": seconds,
        "changes": changes,
        "searches": sum(report["searches"] for report in found),
        "errors": [error for report in found for error in report["errors"]],
        "stale": sum(report["stale"] for report in found),
        "latest_ms": max(report["latest"] for report in found) * 1000,
    }


def _reader(path: Path, news: Queue[Any], reports: Queue[Any]) -> None:
    """Search for what changed last, and note every answer that does not know of it in time."""
    searches, stale, latest, errors = 0, 0, 0.0, []
    known: dict[str, tuple[bool | None, float]] = {}
    with gentus.open(path) as index:
        reports.put({})
        done = False
        while not done:
            last = None
            try:
                message = news.get(timeout=0.05)
                while True:
                    if message is None:
                        done = True
                    else:
                        last, there, at = message
                        known[last] = (there, at)
                    message = news.get_nowait()
            except Empty:
                pass
            if last is None:
                continue
            try:
                started = time.monotonic()
                hits = index.search(index.read(Path(last)), k=100)
                searches += 1
            except Exception as error:  # every one of them is a finding
                errors.append(f"{type(error).__name__}: {error}")
                continue
            there, at = known[last]
            if there is not None and news.empty():
                right = any(hit.path == last for hit in hits) == there
                age = started - at
                if not right and age > STALE:
                    stale += 1
                if not right:
                    latest = max(latest, age)
    reports.put({"searches": searches, "stale": stale, "latest": latest, "errors": errors[:20]})


def tables(document: Document) -> list[Table]:
    """A row per index, and what readers saw beside a writer."""
    rows = [
        [
            *(row["index"], f"{row['tables']:,}", f"{row['one_ms_p50']:.0f} ({row['one_ms_worst']:.0f})"),
            *(
                f"{row['found']} of {row['tried']}",
                f"{row['tables_per_second']:.0f}",
                f"{row['at_once']:.0f}",
            ),
        ]
        for row in document["rows"]
    ]
    columns = ["index", "tables", "one table, added and found, ms p50 (worst)", "found"]
    columns += ["tables/s in hundreds", f"tables/s, {document['count']:,} at once"]
    note = f"Cost per table, last index against first: {document['cost_ratio']:.2f} x."
    if watched := document["watched"]:
        note += (
            f" Two readers beside a writer for {watched['seconds']:.0f} s: {watched['changes']:,} changes,"
            f" {watched['searches']:,} searches, {len(watched['errors'])} errors, {watched['stale']} answers"
            " without a change older than a second; the latest answer without one began"
            f" {watched['latest_ms']:.0f} ms after it."
        )
    return [Table(columns, rows, note=note)]
