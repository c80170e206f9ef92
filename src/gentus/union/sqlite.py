"""A union as a table of an SQLite file, written in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.errors import system_reason
from gentus.lake.formats.typed import quoted
from gentus.union.errors import OutputError
from gentus.union.not_finite import not_finite_notes, null_not_finite
from gentus.union.sql_types import FLOATS, INTEGERS, is_decimal, is_number, is_zoned

if TYPE_CHECKING:
    import duckdb

MOST_COLUMNS = 2000  # of a table, as SQLite is usually compiled
SECONDS = 5.0  # that another program may keep the file
_BATCH = 2048


def sqlite_tables(path: Path) -> dict[str, str]:
    """The names of tables and views in lower case, each with what it is."""
    with as_sqlite_error(path, "cannot be opened"), closing(_connect(path)) as database:
        found = database.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
        return {str(name).casefold(): str(kind) for name, kind in found}


def write_sqlite(
    duck: duckdb.DuckDBPyConnection,
    sql: str,
    columns: Sequence[tuple[str, str]],
    file: Path,
    table: str,
    strict: bool = False,
) -> tuple[int, list[str]]:
    """Write the rows of a query as a table, in place of one of that name; the other tables stay.

    `columns` are the names and types of the result. Returns how many rows there are, and in words which
    numbers became text or null.
    """
    notes = [
        f"{name!r} is {kind}, which SQLite lacks, and is text there"
        for name, kind in columns
        if is_number(kind) and _cast(name, kind)[1] == "TEXT"
    ]
    casts = [_cast(quoted(name), kind) for name, kind in columns]
    values = ", ".join(
        f"{value} AS {quoted(name)}" for (name, _), (value, _) in zip(columns, casts, strict=True)
    )
    declared = ", ".join(
        f"{quoted(name)} {kind}" for (name, _), (_, kind) in zip(columns, casts, strict=True)
    )
    duck.execute("SET threads = 1")  # results that stream from several threads have no order
    sql = null_not_finite(duck, sql, columns, "sqlite")
    reader = duck.sql(f"SELECT {values} FROM ({sql})").to_arrow_reader(_BATCH)
    count = 0
    is_new = not file.exists()
    with closing(_connect(file)) as database:
        if is_new:  # it gets its name when it is complete
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN IMMEDIATE")
        database.execute(f"DROP TABLE IF EXISTS {quoted(table)}")
        database.execute(f"CREATE TABLE {quoted(table)} ({declared})")
        insert = f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * len(columns))})"
        for batch in reader:
            database.executemany(insert, zip(*(column.to_pylist() for column in batch.columns), strict=True))
            count += batch.num_rows
        notes += not_finite_notes(duck, columns, "sqlite", strict)
        database.execute("COMMIT")
    return count, notes


def _cast(value: str, kind: str) -> tuple[str, str]:
    """A value as SQLite can hold it without loss, and the type of the column there."""
    if kind == "BOOLEAN" or (kind in INTEGERS and kind != "UBIGINT"):
        return f"CAST({value} AS BIGINT)", "INTEGER"
    if kind in FLOATS or (is_decimal(kind) and int(kind[8:].split(",")[0]) <= 15):
        return f"CAST({value} AS DOUBLE)", "REAL"
    if kind == "BLOB":
        return value, "BLOB"
    if is_zoned(kind):  # in UTC; SQLite's functions want the minutes of the zone, too
        return f"CAST({value} AS VARCHAR) || ':00'", "TEXT"
    return f"CAST({value} AS VARCHAR)", "TEXT"


def _connect(path: Path) -> sqlite3.Connection:
    """Transactions begin and end only where the code says so."""
    return sqlite3.connect(path, timeout=SECONDS, isolation_level=None)


@contextmanager
def as_sqlite_error(path: Path, failed: str = "was not written") -> Iterator[None]:
    """Turn errors of SQLite into messages about the output that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        message = system_reason(error)
        if "locked" in message:
            message = "another program is writing to it; try again when it has ended"
        raise OutputError(f"{path} {failed}: {message}") from error
