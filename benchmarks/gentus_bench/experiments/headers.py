"""Whether a first row is a header: alarms on files as they are, and misses when their first row is taken off.

DuckDB's sniffer judges the same rows beside it.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from gentus.lake import Limits, Source, Unreadable, scan
from gentus.lake.formats.header import header_doubt
from gentus.lake.formats.text import sample_text
from gentus.lake.rules import is_delimited
from gentus.table import evenly_spaced
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

Rows = Sequence[list[str]]
_FEWEST = 4  # rows, so that two are left below when one is taken off


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the experiment."""

    tables: int = 1500  # of a lake, evenly spread
    sniffer: bool = True  # ask DuckDB, too


def run(request: Request, options: Options) -> Iterator[Document]:
    """Every folder of delimited text."""
    for folder in request.folders():
        measure = partial(measure_headers, folder, options)
        what = {"folder": folder.name, "tables": options.tables, "sniffer": options.sniffer}
        yield request.results.measured(f"headers-{folder.name}", what, measure)


def measure_headers(folder: Path, options: Options) -> Document:
    """How often a first row is called data, with the names of the files; they are to be looked at."""
    found = [item for item in scan(folder) if isinstance(item, Source) and is_delimited(item)]
    ours: list[str] = []
    sniffed: list[str] = []
    files = missed = missed_by_sniffer = 0
    seconds = 0.0
    with TemporaryDirectory() as scratch:
        for source in (found[at] for at in evenly_spaced(len(found), options.tables)):
            try:
                rows = sample_text(source.path, Limits(), header="no").rows
            except Unreadable:
                continue
            if len(rows) < _FEWEST:
                continue
            files += 1
            started = time.process_time()
            if header_doubt(rows[0], rows[1:]):
                ours.append(source.name)
            seconds += time.process_time() - started
            missed += not header_doubt(rows[1], rows[2:])
            if options.sniffer:
                sniffed += [source.name] * (not _duckdb_finds_header(rows, Path(scratch)))
                missed_by_sniffer += _duckdb_finds_header(rows[1:], Path(scratch))
    return {
        "files": files,
        "alarms": ours,
        "missed": missed,
        "milliseconds": round(1000 * seconds / max(files, 1), 3),
        "duckdb": {"alarms": len(sniffed), "missed": missed_by_sniffer} if options.sniffer else None,
    }


def _duckdb_finds_header(rows: Rows, scratch: Path) -> bool:
    """DuckDB's verdict; a file that it cannot sniff counts as one with a header, which is its default."""
    path = scratch / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    try:
        (found,) = duckdb.execute("SELECT HasHeader FROM sniff_csv(?)", [str(path)]).fetchone() or (True,)
    except duckdb.Error:
        return True
    return bool(found)


def tables(document: Document) -> list[Table]:
    """One row."""
    files, sniffed = document["files"], document["duckdb"]
    columns = ["files", "count", "first rows called data", "missed without the first row", "ms per file"]
    cells = [
        document["what"]["folder"],
        f"{files:,}",
        f"{len(document['alarms']):,}",
        f"{document['missed']:,}",
        f"{document['milliseconds']:.2f}",
    ]
    if sniffed:
        columns += ["DuckDB: called data", "DuckDB: missed"]
        cells += [f"{sniffed['alarms']:,}", f"{sniffed['missed']:,}"]
    note = f"Called data: {', '.join(document['alarms'][:20])}" if document["alarms"] else ""
    return [Table(columns, [cells], note=note)]
