"""Delimited text read by DuckDB: several times as fast as Python's reader, for files without faults.

DuckDB's strict reader and Python's cut such files into the same cells (a fuzz test compares them). Where they
could differ, DuckDB refuses the file or `is_plain` does, and `full/text.py` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.lake.files import GZIP, ZSTD, opened, stream_raw, to_text
from gentus.lake.formats.text import NO_DELIMITER, TextSample
from gentus.lake.formats.typed import file_literal
from gentus.lake.full.rows import Scan, Tally
from gentus.lake.location import Location

if TYPE_CHECKING:
    import duckdb


def strict_scan(path: Location, sampled: TextSample, headed: bool) -> Scan | None:
    """A scan by DuckDB; None for text that it reads in another way than the sample was read."""
    dialect, width = sampled.dialect, len(sampled.header)
    usual = sampled.encoding == "utf-8" and not sampled.rule and dialect.escape is None
    if not isinstance(path, Path) or not usual or _is_packed(path):
        return None
    first = to_text(sampled.head)[0].partition("\n")[0]
    if not first.strip() or any("\n" in name or "\r" in name for name in sampled.header):
        return None  # the header is not the first line, or is longer than it
    if width == 1 or dialect.delimiter == NO_DELIMITER:  # in one column, a blank line may be a cell
        return None

    @contextmanager
    def scan(duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally) -> Iterator[str]:
        with opened(path):
            pass  # refuses what is no regular file
        relation = read_csv_sql(path, dialect.delimiter, dialect.quote, width, headed)
        cells = [f"c{at}" for at in positions]
        yield f"(SELECT {', '.join([*cells, 'row_number() OVER () AS row'])} FROM {relation})"

    return scan


def _is_packed(path: Path) -> bool:
    """Whether the content is compressed, whatever the name says; the sample of it is unpacked."""
    with opened(path) as file:
        return file.read(4).startswith((GZIP, ZSTD))


def read_csv_sql(path: Path, delimiter: str, quote: str | None, width: int, headed: bool) -> str:
    """SQL that reads a file with DuckDB as text, in columns c0, c1, .."""
    quote = "''''" if quote == "'" else f"'{quote or ''}'"
    columns = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(width))
    options = {
        "auto_detect": "false",
        "header": "true" if headed else "false",
        "delim": f"'{delimiter}'",
        "quote": quote,
        "escape": quote,
        "columns": f"{{{columns}}}",
        "strict_mode": "true",
    }
    given = ", ".join(f"{name} = {value}" for name, value in options.items())
    return f"read_csv({file_literal(str(path.resolve()))}, {given})"


def is_plain(path: Location) -> bool:
    """Whether all lines of a file end alike as far as it matters to DuckDB, which loses cells otherwise."""
    returns = pairs = feeds = 0
    cut = False  # the last piece ended in a carriage return
    for piece in stream_raw(path):
        feeds += piece.count(b"\n")
        if cut and piece.startswith(b"\n"):
            pairs += 1
        if b"\r" in piece:
            returns += piece.count(b"\r")
            pairs += piece.count(b"\r\n")
        cut = piece.endswith(b"\r")
    return returns in (0, pairs) or feeds == 0
