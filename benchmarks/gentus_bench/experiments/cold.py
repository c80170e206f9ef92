"""Time of `gentus search` from the shell: a new process, its imports, the index, the answer."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table


@dataclass(frozen=True, slots=True)
class Options:
    """How often."""

    runs: int = 9


def run(request: Request, options: Options) -> Iterator[Document]:
    """Search an index for one table."""
    index, query = request.index(), request.query_path()
    what = {"index": index.resolve().name, "query": query.name, "runs": options.runs}
    name = f"cold-{index.resolve().name}"
    yield request.results.measured(name, what, lambda: cold_search(index, query, options.runs))


def cold_search(index: Path, query: Path, runs: int = 9) -> Document:
    """Run `gentus search` in a new process several times; the operating system's file cache stays warm."""
    command = [sys.executable, "-m", "gentus.app.cli.main", "search", str(index), str(query), "--json"]
    seconds, busy = [], []
    for _ in range(runs):
        started, before = time.perf_counter(), _children()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
        busy.append(_children() - before)
    median, worst = statistics.median(seconds), max(seconds)
    return {
        "runs": runs,
        "seconds_median": round(median, 3),
        "seconds_worst": round(worst, 3),
        "cpu_seconds_median": round(statistics.median(busy), 3),
    }


def _children() -> float:
    """CPU seconds of processes that have ended: on a loaded machine the wall clock says little."""
    times = os.times()
    return times.children_user + times.children_system


def tables(document: Document) -> list[Table]:
    """Median and worst."""
    keys = ("seconds_median", "seconds_worst", "cpu_seconds_median")
    row = [*(f"{document[key]:.2f}" if key in document else "" for key in keys), str(document["runs"])]
    columns = ["index", "median, s", "worst, s", "CPU, median, s", "runs"]
    return [Table(columns, [[document["what"]["index"], *row]])]
