"""One benchmark folder, whatever its layout, measured and written down as the standard lakes are."""

from __future__ import annotations

import csv
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gentus.bench.baselines import Retriever
from gentus.bench.benchmarks import Benchmark
from gentus.bench.machine import describe
from gentus.bench.published import K, rows_for
from gentus.bench.quality import METHODS, Lake, markdown, run
from gentus.bench.truths import resolved, write_truth
from gentus.lake import Source, scan
from gentus.lake.typed import quoted


def measure_benchmark(
    benchmark: Benchmark, methods: Sequence[str] | None = None, out: Path = Path("results")
) -> dict[str, Any]:
    """Measure methods on one benchmark, write `quality.json` and `quality.md` to `out`, return the former.

    Published figures stand beside the measured ones where the paper has them at the same k.
    """
    wanted = list(methods or METHODS)
    if unknown := [name for name in wanted if name not in METHODS]:
        raise ValueError(f"unknown method {', '.join(unknown)}; known are {', '.join(METHODS)}")
    with tempfile.TemporaryDirectory(prefix="gentus-bench-") as name:
        scratch = Path(name)
        benchmark = as_files(benchmark, scratch / "tables")
        labels = write_truth(benchmark.labels, scratch / "labels.csv") if benchmark.labels else None
        result = run(
            benchmark.lake,
            write_truth(benchmark.truth, scratch / "groundtruth.csv"),
            benchmark.k,
            _made(wanted, benchmark, labels, scratch),
            benchmark.queries,
            name=benchmark.name,
        )
    if K.get(benchmark.name) == benchmark.k:
        result.rows.extend(rows_for(benchmark.name))
    document = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "lakes": [{**asdict(result), "evidence": benchmark.evidence, "notes": list(benchmark.notes)}],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "quality.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (out / "quality.md").write_text(markdown(document), encoding="utf-8")
    return document


def as_files(benchmark: Benchmark, folder: Path) -> Benchmark:
    """Export a lake that is one database, since queries are searched for by file."""
    if benchmark.lake.is_dir():
        return benchmark
    folder.mkdir()
    tables = [item.name for item in scan(benchmark.lake) if isinstance(item, Source)]
    uri = f"{benchmark.lake.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        for table in tables:
            cursor = database.execute(f"SELECT * FROM {quoted(table)}")
            with (folder / f"{table}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(column[0] for column in cursor.description)
                writer.writerows(cursor)
    files = [f"{table}.csv" for table in tables]
    labels = benchmark.labels and resolved(benchmark.labels, files, files)
    return replace(benchmark, lake=folder, truth=resolved(benchmark.truth, files, files), labels=labels)


def _made(
    methods: Sequence[str], benchmark: Benchmark, labels: Path | None, scratch: Path
) -> Iterator[Retriever]:
    for method in methods:
        retriever = METHODS[method](Lake(benchmark.lake, benchmark.queries, labels, scratch / method))
        if retriever is not None:
            yield retriever
