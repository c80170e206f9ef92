"""Time of `gentus search` from the shell: a new process, its imports, the index, the answer."""

from __future__ import annotations

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
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
    median, worst = statistics.median(seconds), max(seconds)
    return {"runs": runs, "seconds_median": round(median, 3), "seconds_worst": round(worst, 3)}


def tables(document: Document) -> list[Table]:
    """Median and worst."""
    row = [f"{document['seconds_median']:.2f}", f"{document['seconds_worst']:.2f}", str(document["runs"])]
    return [Table(["index", "median, s", "worst, s", "runs"], [[document["what"]["index"], *row]])]
