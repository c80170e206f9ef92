"""Typed data (Parquet, Arrow, DuckDB tables): DuckDB casts, trims and clips it into text."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from gentus.lake.base import Unreadable, build, log
from gentus.lake.files import opened
from gentus.lake.location import Location, Remote
from gentus.table import Limits, Table

if TYPE_CHECKING:
    import duckdb

_TURN = threading.RLock()
ROW_NUMBER = "file_row_number"
WINDOWS = 8  # places of a large table that rows are taken from
_DEEPEST = 16  # lists in lists; of Parquet, DuckDB takes twice as long for each further level
_QUOTED = re.compile(r"""\"(?:[^"]|"")*"|'(?:[^']|'')*'""")


@contextmanager
def session(limits: Limits) -> Iterator[duckdb.DuckDBPyConnection]:
    """Hold the one DuckDB connection of this process, which threads have to take turns with.

    Fetch all that a statement gives: while a result is unfinished, DuckDB refuses some work of the next.
    After a failure a new one is made: damaged files can make DuckDB refuse everything that follows.
    """
    with _TURN:
        duck = _connection(limits.memory)
        try:
            yield duck
        except BaseException:
            _connection.cache_clear()
            duck.close()
            raise


@cache
def _connection(memory: str) -> duckdb.DuckDBPyConnection:
    """Connect to a DuckDB that never downloads or loads an extension."""
    import duckdb

    duck = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": memory,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "temp_directory": "",  # spilling to disk is slower than refusing
        },
    )
    duck.execute("SET GLOBAL disable_parquet_prefetching = true")  # at a URL: whole columns for a few rows
    return duck


def read_parquet(path: Location, name: str, limits: Limits) -> Table:
    """Read rows from places spread over a Parquet file."""
    with session(limits) as duck, parquet_literal(path, duck) as file:
        found = duck.execute(f"SELECT num_rows FROM parquet_file_metadata({file})").fetchall()
        size = duck.execute(f"SELECT sum(total_uncompressed_size) FROM parquet_metadata({file})").fetchall()
        total = int(found[0][0]) if found else 0
        if not total:
            raise Unreadable("it has columns and no rows")
        wanted = _affordable(int(size[0][0] or 0) if size else 0, total, limits)
        if isinstance(path, Remote):
            from gentus.lake.remote.parquet import affordable_windows

            where = affordable_windows(path, file, total, wanted, duck)
        else:
            where = windows(ROW_NUMBER, total, wanted)
        relation = f"read_parquet({file}, {ROW_NUMBER} = true, hive_partitioning = false)"
        return relation_table(relation, name, limits, where, hidden=ROW_NUMBER)


@contextmanager
def parquet_literal(path: Location, duck: duckdb.DuckDBPyConnection, whole: bool = False) -> Iterator[str]:
    """Write as SQL what DuckDB is to read; an object at a URL is shown to it meanwhile."""
    if isinstance(path, Remote):
        from gentus.lake.remote.parquet import shown_to

        with shown_to(duck, path, whole) as name:
            yield f"'{name}'"
        return
    with opened(path):
        pass  # refuses what is no regular file
    yield file_literal(str(path.resolve()))


def relation_table(
    relation: str,
    name: str,
    limits: Limits,
    where: str = "true",
    hidden: str | None = None,
    header: list[str] | None = None,
) -> Table:
    """Read rows of anything DuckDB can select from, cells cast to text and clipped before fetching."""
    with session(limits) as duck:
        described = duck.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described if row[0] != hidden]
    check_depth(columns)
    names = header or [column for column, _ in columns]
    if len(columns) > limits.columns:
        log.info("%s: %d columns were left out", name, len(columns) - limits.columns)
        columns, names = columns[: limits.columns], names[: limits.columns]
    texts = ", ".join(_clipped(column, kind, limits.cell_chars) for column, kind in columns)
    with session(limits) as duck:
        rows = duck.execute(f"SELECT {texts} FROM {relation} WHERE {where} LIMIT {limits.rows}").fetchall()
    return build(name, names, rows, limits)


def windows(row_number: str, total: int, wanted: int) -> str:
    """Say in SQL which rows to take of `total`: all, or runs of them from evenly spread places."""
    if total <= wanted:
        return "true"
    runs = min(WINDOWS, wanted)
    length = wanted // runs
    return runs_at(row_number, [(total - length) * run // max(1, runs - 1) for run in range(runs)], length)


def runs_at(row_number: str, starts: Iterable[int], length: int) -> str:
    """Say in SQL to take so many rows from each of some places."""
    return " OR ".join(f"{row_number} BETWEEN {start} AND {start + length - 1}" for start in starts)


def quoted(identifier: str) -> str:
    """Quote a name for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _affordable(size: int, total: int, limits: Limits) -> int:
    """Return how many rows to read so that cells of megabytes stay within the limits."""
    return max(1, min(limits.rows, limits.typed_bytes * total // max(1, size)))


def file_literal(path: str) -> str:
    """Write a path as SQL text that DuckDB takes as that one file, whatever characters it has."""
    if re.search(r"[*?\[]", path):
        if "\\" in path:
            raise Unreadable("its path has both a backslash and one of * ? [ in it; rename it")
        path = re.sub(r"([*?\[])", r"[\1]", path)
    return "'" + path.replace("'", "''") + "'"


def check_depth(columns: Iterable[tuple[str, str]]) -> None:
    """Refuse tables with a column that would take for ever."""
    for column, kind in columns:
        if kind.endswith(("]", ")")) and _depth(kind) > _DEEPEST:
            raise Unreadable(
                f"its column {column[:100]!r} has lists in lists, over {_DEEPEST} deep; leave it out"
            )


def _depth(kind: str) -> int:
    """How deep the lists and structures of a type are, as DuckDB writes it."""
    outside: list[int] = []  # of every type that is open, the deepest of its parts so far
    deepest = 0
    for sign in re.findall(r"[(),\[]", _QUOTED.sub("", kind)):
        match sign:
            case "(":
                outside.append(0)
                deepest = 0
            case ",":
                outside[-1], deepest = max(outside[-1], deepest), 0
            case ")":
                deepest = max(outside.pop(), deepest) + 1
            case "[":
                deepest += 1
    return deepest


def text_of(value: str, kind: str, longest_blob: int | None = None) -> str:
    """Write the SQL that turns a value of some type into text as a person would write it."""
    text = f"CAST({value} AS VARCHAR)"
    if kind in ("FLOAT", "DOUBLE"):
        return f"regexp_replace({text}, '\\.0$', '')"  # whole numbers are floats only where some are missing
    if kind.startswith("TIMESTAMP"):
        return f"regexp_replace({text}, ' 00:00:00(\\+00)?$', '')"  # a date
    if kind == "BLOB":
        # Old writers store text as bytes; what is no text, or long, is a picture or the like.
        text = f"TRY(decode({value}))"
        return f"CASE WHEN octet_length({value}) <= {longest_blob} THEN {text} END" if longest_blob else text
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
        return f"CAST(to_json({value}) AS VARCHAR)"
    return text


def _clipped(column: str, kind: str, chars: int) -> str:
    return f"left(trim({text_of(quoted(column), kind, 4 * chars)}), {chars})"
