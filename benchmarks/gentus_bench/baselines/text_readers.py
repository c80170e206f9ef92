"""Readers of delimited text, each with its own detection: GenTUS, DuckDB, clevercsv and polars."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

Rows = list[list[str]]


@dataclass(slots=True)
class Reading:
    """What a reader made of a file."""

    names: list[str] = field(default_factory=list)  # none: it found no header
    rows: Rows = field(default_factory=list)
    delimiter: str = ""
    quote: str = ""
    told: bool = False  # it said that something was left out, or may be
    refused: str = ""  # why it did not read the file
    crashed: bool = False
    seconds: float = 0.0  # of CPU time


def read_by(reader: str, path: Path) -> Reading:
    """What one reader makes of a file."""
    read = READERS[reader]
    started = time.process_time()
    try:
        found = read(path)
    except Exception as error:
        found = Reading(refused=f"{type(error).__name__}: {error}"[:200])
    except BaseException as error:  # what polars raises where its Rust code panics
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        found = Reading(refused=f"{type(error).__name__}: {error}"[:200], crashed=True)
    found.seconds = time.process_time() - started
    return found


@cache
def _duck() -> Any:
    """One connection for all files; opening one takes longer than reading a small file."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


def _gentus(path: Path) -> Reading:
    """As a union reads it: by DuckDB where that is safe, else by Python."""
    import duckdb

    from gentus.lake import Limits
    from gentus.lake.formats.dialect import NO_DELIMITER
    from gentus.lake.formats.text import sample_text
    from gentus.lake.full.open import open_full
    from gentus.lake.full.rows import Tally
    from gentus.lake.reader import only_table

    source = only_table(path)
    full = open_full(source, _duck())
    sampled = sample_text(source.path, Limits())
    for way in (full.strict, full):
        if way is None or not way.is_plain():
            continue
        tally = Tally()
        try:
            with way.scan(_duck(), range(len(way.names)), tally) as relation:
                found = _duck().sql(f"SELECT * EXCLUDE (row) FROM {relation} ORDER BY row").fetchall()
            break
        except duckdb.Error:
            if way is full:
                raise
    dialect = sampled.dialect
    return Reading(
        [name if named else "" for name, named in zip(full.names, full.named, strict=True)]
        if any(full.named)
        else [],
        _texts(found),
        "" if dialect.delimiter == NO_DELIMITER else dialect.delimiter,
        dialect.quote or "",
        bool(full.reading or tally.rejected or tally.beyond),
    )


def _duckdb(path: Path, options: str) -> Reading:
    file = str(path).replace("'", "''")
    sniffer = f"SELECT Delimiter, Quote, HasHeader FROM sniff_csv('{file}'{options})"
    ((delimiter, quote, headed),) = _duck().sql(sniffer).fetchall()
    found = _duck().sql(f"FROM read_csv('{file}', all_varchar = true{options})")
    names = list(found.columns) if headed else []
    return Reading(names, _texts(found.fetchall()), _sign(delimiter), _sign(quote))


def _sign(sniffed: str) -> str:
    return {"(empty)": "", "\\0": "", "\\t": "\t"}.get(sniffed, sniffed)


def _duckdb_default(path: Path) -> Reading:
    return _duckdb(path, "")


def _duckdb_lenient(path: Path) -> Reading:
    return _duckdb(path, ", ignore_errors = true, null_padding = true, strict_mode = false")


def _clevercsv(path: Path) -> Reading:
    import clevercsv
    from clevercsv.encoding import get_encoding

    with path.open(newline="", encoding=get_encoding(str(path))) as file:
        text = file.read()
    detector = clevercsv.Detector()
    dialect = detector.detect(text)
    if dialect is None:
        raise ValueError("it detects no dialect")
    rows = list(clevercsv.reader(text.splitlines(keepends=True), dialect))
    try:
        headed = detector.has_header(text)
    except clevercsv.exceptions.NoDetectionResult:
        headed = True
    names, rows = (rows[0], rows[1:]) if headed and rows else ([], rows)
    return Reading(names, rows, dialect.delimiter or "", dialect.quotechar or "")


def _polars(path: Path) -> Reading:
    import polars

    found = polars.read_csv(path, infer_schema=False)
    return Reading(list(found.columns), _texts(found.rows()), ",", '"')


def _texts(rows: list[Any]) -> Rows:
    return [["" if cell is None else str(cell) for cell in row] for row in rows]


READERS: dict[str, Callable[[Path], Reading]] = {
    "gentus": _gentus,
    "DuckDB": _duckdb_default,
    "DuckDB, lenient": _duckdb_lenient,
    "clevercsv": _clevercsv,
    "polars": _polars,
}
