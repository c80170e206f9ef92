"""A union beside DuckDB alone, for the same result: about a gigabyte of CSV, and the same rows as Parquet.

Both add the file and the row that each row is from. They run in turn, each in a process of its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gentus.union import OutputColumn, Placement, PlannedTable, UnionPlan
from gentus_bench.experiment import Request
from gentus_bench.processes import costs
from gentus_bench.results import Document
from gentus_bench.table import Table

_COLUMNS = {  # like a table of flights: mostly numbers, short codes, a time, a text with commas
    "year": "2013 + i % 10",
    "month": "1 + i % 12",
    "day": "1 + i % 28",
    "dep_time": "CAST(hash(i) % 2400 AS INT)",
    "arr_time": "CAST(hash(i + 1) % 2400 AS INT)",
    "delay": "CASE WHEN i % 50 > 0 THEN CAST(hash(i + 2) % 200 AS INT) - 60 END",
    "fare": "CAST(hash(i + 3) % 100000 AS DOUBLE) / 100",
    "carrier": "['UA', 'AA', 'B6', 'DL', 'EV', 'MQ'][1 + i % 6]",
    "flight": "CAST(hash(i + 4) % 9000 AS INT)",
    "tailnum": "'N' || hash(i + 5) % 99999",
    "origin": "['EWR', 'LGA', 'JFK'][1 + i % 3]",
    "dest": "['IAH', 'MIA', 'BQN', 'ATL', 'ORD'][1 + i % 5]",
    "air_time": "CAST(hash(i + 6) % 600 AS INT)",
    "distance": "CAST(hash(i + 7) % 3000 AS INT)",
    "hour": "i % 24",
    "minute": "i % 60",
    "time_hour": "TIMESTAMP '2013-01-01 05:00:00' + INTERVAL (i % 100000) HOUR",
    "note": "'Some remark, number ' || i",
}
_RUNS = (("csv", "csv"), ("csv", "parquet"), ("parquet", "parquet"))
_OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd"}


@dataclass(frozen=True, slots=True)
class Options:
    """The size of tables."""

    rows: int = 8_500_000  # of the table; the query has a hundredth
    times: int = 3  # runs of each, of which the fastest counts


def run(request: Request, options: Options) -> Iterator[Document]:
    """Make the tables, then union them by gentus and by DuckDB in turn."""

    def measure() -> Document:
        with tempfile.TemporaryDirectory(prefix="gentus-union-") as scratch:
            folder = Path(scratch)
            _make(folder, options.rows)
            runs = {
                f"{source} to {target}": _pair(folder, source, target, options.times)
                for source, target in _RUNS
            }
            sizes = {path.suffix[1:]: path.stat().st_size for path in folder.glob("table.*")}
        return {"bytes_in": sizes, "runs": runs, "processors": os.cpu_count()}

    yield request.results.measured("union_speed", {"rows": options.rows, "times": options.times}, measure)


def _make(folder: Path, rows: int) -> None:
    import duckdb

    columns = ", ".join(f"{value} AS {name}" for name, value in _COLUMNS.items())
    with duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "1GB"}) as duck:
        for name, count in (("query", rows // 100), ("table", rows)):
            for kind, options in _OPTIONS.items():
                rows_sql = f"SELECT {columns} FROM range({count}) AS t(i)"
                duck.execute(f"COPY ({rows_sql}) TO '{folder / name}.{kind}' ({options})")


def _pair(folder: Path, source: str, target: str, times: int) -> dict[str, Any]:
    """The fastest of several runs of gentus and of DuckDB, in turn."""
    placed = tuple(Placement(name, name) for name in _COLUMNS)
    query, table = (
        PlannedTable(f"{name}.{source}", str(folder / f"{name}.{source}"), None, placed)
        for name in ("query", "table")
    )
    UnionPlan(query, (table,), tuple(map(OutputColumn, _COLUMNS))).save(folder / "plan.json")
    ours, theirs, plans = [], [], []
    for _ in range(times):
        ours.append(_timed("gentus", folder / "plan.json", folder / f"ours.{target}"))
        theirs.append(_timed("duckdb", folder / f"query.{source}", folder / f"theirs.{target}"))
        plans.append(_timed("plan", folder / "plan.json", folder / f"none.{target}"))
    best, anchor, plan = (min(some, key=lambda one: one["seconds"]) for some in (ours, theirs, plans))
    return {
        "gentus": best,
        "duckdb": anchor,
        "plan": plan,
        "ratio": best["seconds"] / anchor["seconds"],
        "cpu_ratio": best["cpu"] / anchor["cpu"],
    }


def _timed(who: str, given: Path, out: Path) -> dict[str, float]:
    return costs([sys.executable, "-m", __name__, who, str(given), str(out)])


def _by_duckdb(query: Path, out: Path) -> None:
    import duckdb

    branches = (
        f"SELECT *, '{name}' AS _source_table, row_number() OVER () AS _source_row"
        f" FROM '{query.with_name(name)}'"
        for name in (query.name, f"table{query.suffix}")
    )
    with duckdb.connect(":memory:", config={"temp_directory": str(out.parent / "spill")}) as duck:
        sql = " UNION ALL BY NAME ".join(branches)
        duck.execute(f"COPY ({sql}) TO '{out}' ({_OPTIONS[out.suffix[1:]]})")


def tables(document: Document) -> list[Table]:
    """Seconds of both, and their ratio."""
    rows = [
        [
            *(name, f"{run['duckdb']['seconds']:.1f}", f"{run['gentus']['seconds']:.1f}"),
            *(f"{run['ratio']:.2f}", f"{run['cpu_ratio']:.2f}"),
            *(f"{run['gentus']['peak_mb']:,.0f}", f"{run['plan']['seconds']:.1f}"),
        ]
        for name, run in document["runs"].items()
    ]
    columns = ["", "DuckDB, s", "GenTUS, s", "ratio", "ratio of CPU", "peak memory, MB", "`--dry-run`, s"]
    sizes = " and ".join(f"{size / 1e6:,.0f} MB as {kind}" for kind, size in document["bytes_in"].items())
    note = (
        f"A table of {document['what']['rows']:,} rows ({sizes}) under a query of a hundredth, with the file"
        " and the row that each row is from. DuckDB infers types from the first rows; GenTUS reads all rows"
        " twice and counts what changes. The fastest of"
        f" {document['what']['times']} runs in turn, with the start of the process."
    )
    return [Table(columns, rows, note=note)]


if __name__ == "__main__":  # the process that is measured
    who, given, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if who == "duckdb":
        _by_duckdb(given, out)
    else:
        from gentus.union.output import Output
        from gentus.union.union import Union

        union = Union(UnionPlan.load(given))
        if who == "plan":
            union.resolved_plan()
        else:
            union.write(Output.by_name(out, force=True))
