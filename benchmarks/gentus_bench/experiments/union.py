"""Time and memory of a union: a query and five tables of a million rows each, written as Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gentus.lake.formats.typed import file_literal
from gentus.union import OutputColumn, Placement, PlannedTable, UnionPlan
from gentus_bench.experiment import Request
from gentus_bench.processes import peak_bytes
from gentus_bench.results import Document
from gentus_bench.table import Table

_COLUMNS = ("order", "customer", "city", "day", "amount", "paid")
# Every table has its own file format, column names, order and notations; all but the numbers are the same.
_QUERY = {
    "order": "i + {first}",
    "customer": "'customer ' || (hash(i + {first}) % 250000)",
    "city": "list_extract(['Berlin', 'Wien', 'Zürich', 'Paris', 'Roma', 'Madrid'], 1 + i % 6)",
    "day": "strftime(DATE '2010-01-01' + CAST(i % 5000 AS INT), '%Y-%m-%d')",
    "amount": "printf('%.2f', (hash(i) % 10000000) / 100)",
    "paid": "CASE WHEN i % 3 = 0 THEN 'no' ELSE 'yes' END",
}
_GERMAN = {
    **_QUERY,
    "day": "strftime(DATE '2010-01-01' + CAST(i % 5000 AS INT), '%d.%m.%Y')",
    "amount": "replace(printf('%.2f', (hash(i) % 10000000) / 100), '.', ',') || ' €'",
}
_AMERICAN = {
    **_QUERY,
    "day": "strftime(DATE '2010-01-01' + CAST(i % 5000 AS INT), '%m/%d/%Y')",
    "amount": "'$' || format('{:,.2f}', (hash(i) % 10000000) / 100)",
    "paid": "CASE WHEN i % 3 = 0 THEN 'N' ELSE 'Y' END",
}
_TYPED = {
    **_QUERY,
    "day": "DATE '2010-01-01' + CAST(i % 5000 AS INT)",
    "amount": "CAST((hash(i) % 10000000) / 100 AS DOUBLE)",
    "paid": "i % 3 <> 0",
}
_TABLES = (
    ("query.csv", _QUERY, "FORMAT csv, HEADER"),
    ("german.csv", _GERMAN, "FORMAT csv, HEADER, DELIMITER ';'"),
    ("american.csv.gz", _AMERICAN, "FORMAT csv, HEADER, COMPRESSION gzip"),
    ("lines.jsonl", _QUERY, "FORMAT json"),
    ("typed.parquet", _TYPED, "FORMAT parquet"),
    ("quoted.csv", _QUERY, "FORMAT csv, HEADER, FORCE_QUOTE *"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The size of tables."""

    rows: int = 1_000_000  # of the query, and of each of five tables


def run(request: Request, options: Options) -> Iterator[Document]:
    """Make the tables, and union them in a process of its own: plainly, and with equal rows removed."""

    def measure() -> Document:
        with tempfile.TemporaryDirectory(prefix="gentus-union-") as scratch:
            plan = _make(Path(scratch), options.rows)
            bytes_in = sum(Path(table.path or "").stat().st_size for table in plan.sources)
            runs = {"plain": _run(Path(scratch), plan), "distinct": _run(Path(scratch), plan, "--distinct")}
        return {"bytes_in": bytes_in, "runs": runs}

    what = {"rows": options.rows, "tables": len(_TABLES) - 1}
    yield request.results.measured("union", what, measure)


def _make(folder: Path, rows: int) -> UnionPlan:
    """Write the tables, and a plan that knows which column is which and nothing else."""
    import duckdb

    planned = []
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "1GB"}) as duck:
        for number, (name, columns, options) in enumerate(_TABLES):
            turned = [*_COLUMNS[number:], *_COLUMNS[:number]]
            called = {column: column if number == 0 else f"{column} {number}" for column in _COLUMNS}
            values = (columns[column].replace("{first}", str(number * rows)) for column in turned)
            chosen = ", ".join(f'{v} AS "{called[c]}"' for v, c in zip(values, turned, strict=True))
            file = file_literal(str(folder / name))
            duck.execute(f"COPY (SELECT {chosen} FROM range({rows}) AS t(i)) TO {file} ({options})")
            placed = tuple(Placement(called[column], column) for column in _COLUMNS)
            planned.append(PlannedTable(name, str(folder / name), None, placed))
    return UnionPlan(planned[0], tuple(planned[1:]), tuple(OutputColumn(column) for column in _COLUMNS))


def _run(folder: Path, plan: UnionPlan, *options: str) -> dict[str, Any]:
    path, out = folder / "plan.json", folder / "out.parquet"
    plan.save(path)
    started = time.perf_counter()
    command = [sys.executable, "-m", "gentus_bench.experiments.union", "union", "--plan", str(path)]
    ran = subprocess.run(
        [*command, "-o", str(out), "--force", "--json", *options], check=True, stdout=subprocess.PIPE
    )
    seconds = time.perf_counter() - started
    report, peak = map(json.loads, ran.stdout.decode().rsplit("\n", 2)[:2])
    return {
        "rows": report["rows"],
        "duplicates_removed": report["duplicates_removed"],
        "unconverted": report["unconverted"],
        "bytes_out": report["bytes"],
        "seconds": round(seconds, 2),
        "rows_per_second": round(sum(table["rows"] for table in report["tables"]) / seconds),
        "peak_mb": peak["peak_mb"],
    }


def tables(document: Document) -> list[Table]:
    """Time and memory of both runs."""
    what = document["what"]
    rows = [
        [
            *(name, f"{run['rows']:,}", f"{run['duplicates_removed']:,}", f"{run['unconverted']:,}"),
            *(f"{run['seconds']:.1f}", f"{run['rows_per_second']:,}", f"{run['peak_mb']:,.0f}"),
        ]
        for name, run in document["runs"].items()
    ]
    columns = ["run", "rows written", "equal rows removed", "not converted", "s", "rows/s", "peak memory, MB"]
    note = (
        f"A query and {what['tables']} tables of {what['rows']:,} rows each"
        f" ({document['bytes_in'] / 1e6:,.0f} MB: CSV in three notations, JSON Lines and Parquet) to one"
        " Parquet file, in a process of its own."
    )
    return [Table(columns, rows, note=note)]


if __name__ == "__main__":  # the process that is measured
    from gentus.app.cli.main import main

    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    print(json.dumps({"peak_mb": round(peak_bytes() / 1e6, 1)}))
