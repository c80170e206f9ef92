"""Typed data (Parquet, Arrow, DuckDB tables) as text: DuckDB casts, trims and clips it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from gentus.lake.base import Unreadable, log, table_from_rows
from gentus.table import Head, Limits, Table

if TYPE_CHECKING:
    import duckdb

_LOCK = threading.RLock()
_AT_ONCE = 1024  # columns of one query
WINDOWS = 8  # runs of rows that are taken of a large table
_DEEPEST = 16  # lists in lists; of Parquet, DuckDB takes twice as long for each further level
VARIANT = "VARIANT"  # a type of DuckDB and Parquet
_QUOTED = re.compile(r"""\"(?:[^"]|"")*"|'(?:[^']|'')*'""")


@contextmanager
def session(limits: Limits) -> Iterator[duckdb.DuckDBPyConnection]:
    """Lock the one DuckDB connection of this process for this thread.

    Fetch all rows of a statement: while a result is unfinished, DuckDB refuses some statements.
    After a failure the connection is replaced: damaged files can make DuckDB refuse all that follows.
    """
    with _LOCK:
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
    # At a URL, prefetching would fetch whole columns for a few rows.
    duck.execute("SET GLOBAL disable_parquet_prefetching = true")
    return duck


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows of a relation are read; without a condition, its first ones."""

    where: str = "true"  # the sampled ones
    hidden: str | None = None  # a column that is no part of the table
    top: str | None = None  # an SQL relation of the first rows; None: the sampled ones are those
    complete: bool = True  # there are no others


def relation_table(
    relation: str,
    name: str,
    limits: Limits,
    chosen: Chosen | None = None,
    header: list[str] | None = None,
) -> Table:
    """Read rows of anything DuckDB can select from, cells cast to text and clipped before fetching."""
    chosen = chosen or Chosen()
    with session(limits) as duck:
        described = duck.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described if row[0] != chosen.hidden]
    check_depth(columns)
    names = header or [column for column, _ in columns]
    if len(columns) > limits.columns:
        log.info("%s: %d columns were left out", name, len(columns) - limits.columns)
        columns, names = columns[: limits.columns], names[: limits.columns]
    texts = [_clipped(column, sql_type, limits.cell_chars) for column, sql_type in columns]
    with session(limits) as duck:
        rows = _fetch(duck, texts, f"{relation} WHERE {chosen.where} LIMIT {limits.rows}")
        head = Head(rows, chosen.complete and chosen.top is None)
        # Nested values can be large, and DuckDB makes the text of all rows at once.
        if chosen.top is not None and not any(_is_nested(sql_type) for _, sql_type in columns):
            # Not with LIMIT, which DuckDB applies to the values before they are clipped.
            top = _fetch(duck, texts, chosen.top)
            head = Head(top, chosen.complete) if top else head
    typed = {at for at, (_, sql_type) in enumerate(columns) if sql_type != "VARCHAR"}
    return table_from_rows(name, names, rows, limits, head, typed)


def _fetch(
    duck: duckdb.DuckDBPyConnection, columns: Sequence[str], source: str
) -> list[tuple[str | None, ...]]:
    """Rows of some columns; of very many, some at a time: DuckDB needs memory for all columns of a query."""
    parts = [
        duck.execute(f"SELECT {', '.join(columns[begin : begin + _AT_ONCE])} FROM {source}").fetchall()
        for begin in range(0, max(len(columns), 1), _AT_ONCE)
    ]
    return parts[0] if len(parts) == 1 else [tuple(chain(*row)) for row in zip(*parts, strict=True)]


def windows(row_number: str, total: int, wanted: int) -> str:
    """An SQL condition for the wanted number of `total` rows: all of them, or evenly spread runs."""
    if total <= wanted:
        return "true"
    runs = min(WINDOWS, wanted)
    length = wanted // runs
    return runs_at(row_number, [(total - length) * run // max(1, runs - 1) for run in range(runs)], length)


def runs_at(row_number: str, starts: Iterable[int], length: int) -> str:
    """An SQL condition for runs of rows of equal length."""
    return " OR ".join(f"{row_number} BETWEEN {start} AND {start + length - 1}" for start in starts)


def quoted(identifier: str) -> str:
    """Quote a name for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def file_literal(path: str) -> str:
    """A path as an SQL literal that DuckDB takes as that one file, whatever characters it has."""
    if re.search(r"[*?\[]", path):
        if "\\" in path:
            raise Unreadable("its path has both a backslash and one of * ? [ in it; rename it")
        path = re.sub(r"([*?\[])", r"[\1]", path)
    return literal(path)


def check_depth(columns: Iterable[tuple[str, str]]) -> None:
    """Refuse tables with a column of lists in lists that would take too long to read."""
    for column, sql_type in columns:
        if sql_type.endswith(("]", ")")) and _depth(sql_type) > _DEEPEST:
            raise Unreadable(
                f"its column {column[:100]!r} has lists in lists, over {_DEEPEST} deep; leave it out"
            )


def _depth(sql_type: str) -> int:
    """How deep the lists and structures of an SQL type are nested."""
    outside: list[int] = []  # of every type that is open, the deepest of its parts so far
    deepest = 0
    for sign in re.findall(r"[(),\[]", _QUOTED.sub("", sql_type)):
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


def text_of(value: str, sql_type: str, longest_blob: int | None = None) -> str:
    """SQL that turns a value of some type into text as a person would write it."""
    text = f"CAST({value} AS VARCHAR)"
    if _is_nested(sql_type) and sql_type != VARIANT:
        return f"CAST(to_json({value}) AS VARCHAR)"
    if sql_type in ("FLOAT", "DOUBLE"):
        return f"regexp_replace({text}, '\\.0$', '')"  # integers are floats only where some are missing
    if sql_type.startswith("TIMESTAMP"):
        return f"regexp_replace({text}, ' 00:00:00(\\+00)?$', '')"  # a date
    if sql_type == "BLOB":
        # Old writers store text as bytes; what is no text, or long, is a picture or the like.
        text = f"TRY(decode({value}))"
        return f"CASE WHEN octet_length({value}) <= {longest_blob} THEN {text} END" if longest_blob else text
    if sql_type == VARIANT:  # a value of any type: JSON where it is nested
        kind = f"variant_typeof({value})"
        return (
            f"CASE WHEN {kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%' THEN CAST(to_json({value}) AS VARCHAR)"
            f" ELSE {text} END"
        )
    return text


def _is_nested(sql_type: str) -> bool:
    return sql_type.endswith("]") or sql_type.startswith(("STRUCT", "MAP", "UNION", VARIANT))


def _clipped(column: str, sql_type: str, chars: int) -> str:
    # Clipped first, lest the trimmed copies of long cells fill the memory.
    return f"left(trim(left({text_of(quoted(column), sql_type, 4 * chars)}, {4 * chars})), {chars})"
