"""Searches of very many queries at once: in one process, and read in as many as there are cores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gentus.index.index import Index
from gentus.lake import Skipped
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

ALONE = 1000  # queries that one process searches for, at most


@dataclass(frozen=True, slots=True)
class Options:
    """How many queries."""

    count: int = 5000


def run(request: Request, options: Options) -> Iterator[Document]:
    """Search for files of a folder; the start of processes counts."""
    chosen = [str(source.file) for source in request.query_files(options.count)]
    index, k, workers = request.index(), request.k or 10, os.cpu_count() or 1
    what = {"index": index.resolve().name, "queries": len(chosen), "workers": workers, "k": k}

    def measure() -> Document:
        with Index(index) as opened:
            opened.search(chosen[:64], k=k)  # warm
            begun = time.perf_counter()
            alone = opened.search(chosen[:ALONE], k=k)
            alone_seconds = time.perf_counter() - begun
            begun = time.perf_counter()
            together = [hits for _, hits in opened.search_many(chosen, k=k, workers=workers)]
            seconds = time.perf_counter() - begun
        same = sum(
            not isinstance(other, Skipped) and [hit.table for hit in one] == [hit.table for hit in other]
            for one, other in zip(alone, together, strict=False)
        )
        return {
            "one_process": {"queries": len(alone), "per_second": round(len(alone) / alone_seconds, 1)},
            "all_cores": {"queries": len(together), "per_second": round(len(together) / seconds, 1)},
            "same_answers": round(same / len(alone), 4),
        }

    yield request.results.measured(f"batch-{index.resolve().name}", what, measure)


def tables(document: Document) -> list[Table]:
    """Queries per second."""
    what = document["what"]
    kinds = {"one process": "one_process", f"read in {what['workers']} processes": "all_cores"}
    rows = [
        [name, f"{document[key]['queries']:,}", f"{document[key]['per_second']:.0f}"]
        for name, key in kinds.items()
    ]
    note = f"{what['k']} tables per query; {document['same_answers']:.1%} of the answers are the same."
    return [Table(["", "queries", "per second"], rows, what["index"], note)]
