"""Searches of very many queries at once: in one process, and read in as many as there are cores."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gentus.index.hits import Hit
from gentus.index.index import Index
from gentus.lake import Skipped, Source, scan
from gentus.table import evenly_spaced
from gentus_bench.machine import sentence
from gentus_bench.results import Results, markdown_table

ALONE = 1000  # queries that one process searches for, at most


def measure_batch(
    results: Results, index: Path, queries: Path, count: int = 5000, k: int = 10
) -> dict[str, Any]:
    """Search for `count` files of a folder; the start of processes counts."""
    found = [item for item in scan(queries) if isinstance(item, Source) and item.part is None]
    if not found:
        raise ValueError(f"there are no tables in {queries}")
    chosen = [str(found[at].file) for at in evenly_spaced(len(found), count)]
    workers = os.cpu_count() or 1
    what = {"index": index.name, "queries": len(chosen), "workers": workers, "k": k}

    def measure() -> dict[str, Any]:
        with Index(index) as opened:
            opened.search(chosen[:64], k=k)  # warm
            begun = time.perf_counter()
            alone: list[list[Hit]] = opened.search(chosen[:ALONE], k=k)
            alone_seconds = time.perf_counter() - begun
            begun = time.perf_counter()
            together = [hits for _, hits in opened.search_many(chosen, k=k, workers=workers)]
            seconds = time.perf_counter() - begun
        same = sum(
            not isinstance(other, Skipped) and [hit.table for hit in one] == [hit.table for hit in other]
            for one, other in zip(alone, together, strict=False)
        )
        return {
            "one_process": {"queries": len(alone), "a_second": round(len(alone) / alone_seconds, 1)},
            "all_cores": {"queries": len(together), "a_second": round(len(together) / seconds, 1)},
            "same_answers": round(same / len(alone), 4),
        }

    return results.measured(f"batch-{index.name}", what, measure)


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table."""
    what = document["what"]
    rows = [
        [name, f"{document[key]['queries']:,}", f"{document[key]['a_second']:.0f}"]
        for name, key in (
            ("one process", "one_process"),
            (f"read in {what['workers']} processes", "all_cores"),
        )
    ]
    return "\n".join(
        [
            f"{sentence(document['machine'])}; {document['made'][:10]}.",
            "",
            f"{what['index']}, {what['k']} tables a query; {document['same_answers']:.1%} of the answers"
            " are the same tables in the same order.",
            "",
            markdown_table(["", "queries", "a second"], rows),
        ]
    )
