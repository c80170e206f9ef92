"""A plan and a union of wide tables by the command line: a query and a table of the same 3,000 columns.

Once all columns are written as DuckDB reads them; once many are money or dates with the day first.
"""

from __future__ import annotations

import csv
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gentus
from gentus_bench.experiment import Request
from gentus_bench.processes import costs
from gentus_bench.results import Document
from gentus_bench.table import Table

_SUBJECTS = ("price", "rate", "city", "day", "code", "share", "total")


@dataclass(frozen=True, slots=True)
class Options:
    """The size of tables."""

    columns: int = 3000
    rows: int = 500
    dressed: int = 1200  # columns of money or dates with the day first, in the second pair of tables
    times: int = 3  # runs of each, of which the fastest counts


def run(request: Request, options: Options) -> Iterator[Document]:
    """Make the tables, then plan and write their unions."""

    def measure() -> Document:
        runs = {}
        for name, dressed in (("plain", 0), (f"{options.dressed:,} of money or dates", options.dressed)):
            with tempfile.TemporaryDirectory(prefix="gentus-wide-") as scratch:
                folder = Path(scratch)
                _make(folder, options, dressed)
                gentus.build(folder / "lake", folder / "index")
                runs[name] = {
                    what: min(
                        (_timed(folder, given) for _ in range(options.times)), key=lambda one: one["seconds"]
                    )
                    for what, given in (("plan", ["--dry-run"]), ("write", ["-o", "out.parquet", "--force"]))
                }
        return {"runs": runs, "processors": os.cpu_count()}

    what = {"columns": options.columns, "rows": options.rows, "times": options.times}
    yield request.results.measured("union_wide", what, measure)


def _make(folder: Path, options: Options, dressed: int) -> None:
    """A query and a lake of one table, with the same columns."""
    chance = random.Random(0)
    (folder / "lake").mkdir()
    for path in (folder / "query.csv", folder / "lake" / "table.csv"):
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([f"{_SUBJECTS[at % 7]} of group {at}" for at in range(options.columns)])
            for _ in range(options.rows):
                rows.writerow([_cell(chance, at, at < dressed) for at in range(options.columns)])


def _cell(chance: random.Random, at: int, dressed: bool) -> str:
    if dressed:
        day = f"{chance.randint(1, 28)}/{chance.randint(1, 12)}/{2000 + at % 20}"
        return day if at % 2 else f"${chance.randint(1000, 99_999):,}.{chance.randint(10, 99)}"
    return (
        str(chance.randint(10 * at, 10 * at + 5000)),
        f"{chance.random() * (at + 1):.3f}",
        f"w{at}x{chance.randrange(30)}",
        f"{1990 + at % 30}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}",
        f"A{at}-{chance.randrange(1000)}",
    )[at % 5]


def _timed(folder: Path, given: list[str]) -> dict[str, float]:
    return costs([sys.executable, "-m", "gentus", "union", "index", "query.csv", "--quiet", *given], folder)


def tables(document: Document) -> list[Table]:
    """Seconds and memory of plan and union."""
    rows = [
        [
            name,
            *(f"{run[what][key]:,.1f}" for what in ("plan", "write") for key in ("seconds", "cpu")),
            *(f"{run[what]['peak_mb']:,.0f}" for what in ("plan", "write")),
        ]
        for name, run in document["runs"].items()
    ]
    columns = [
        "columns",
        "`--dry-run`, s",
        "CPU, s",
        "union, s",
        "CPU, s",
        "peak of plan, MB",
        "of union, MB",
    ]
    what = document["what"]
    note = (
        f"A query and a table of {what['columns']:,} columns and {what['rows']:,} rows: `gentus union INDEX"
        " QUERY`, with search and alignment, as CSV to Parquet. The fastest of"
        f" {what['times']} runs, with the start of the process. Processor time and memory are those of all"
        " processes of the command."
    )
    return [Table(columns, rows, note=note)]
