"""DuckDB and SQLite files as the tables inside them, always opened read-only."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.lake.base import Unreadable, table_from_rows
from gentus.lake.files import SQLITE, magic
from gentus.lake.formats.typed import Chosen, quoted, relation_table, session, windows
from gentus.lake.location import Location
from gentus.lake.remote.download import local_copy
from gentus.table import Head, Limits, Table

if TYPE_CHECKING:
    import duckdb

_RUNS = 8
_LARGEST = 256 << 20  # bytes of one SQLite value: a computed column may have any size
_STEPS = 10_000  # of SQLite's virtual machine between checks of the time


def tables_of(path: Location, limits: Limits) -> list[str]:
    """List the tables of a database, sorted; views are left out, since they may read other files."""
    with local_copy(path, limits) as file:
        if magic(file) == SQLITE:
            with _with_time_limit(open_sqlite(file), limits) as connection:
                return sorted(sqlite_tables(connection))
        with _attached(file, limits) as duck:
            return sorted(duckdb_tables(duck))


def read_database(path: Location, part: str, name: str, limits: Limits) -> Table:
    """Read rows spread over one table of a database."""
    with local_copy(path, limits) as file:
        return _read_local(file, part, name, limits)


def _read_local(path: Path, part: str, name: str, limits: Limits) -> Table:
    if magic(path) == SQLITE:
        with _with_time_limit(open_sqlite(path), limits) as connection:
            if part not in sqlite_tables(connection):
                raise Unreadable(f"the database has no table {part!r} any more")
            return _read_sqlite(connection, part, name, limits)
    with _attached(path, limits) as duck:
        known = duckdb_tables(duck)
        if part not in known:
            raise Unreadable(f"the database has no table {part!r} any more")
        relation, rows = known[part]
        if rows > limits.rows:
            try:
                spread = windows("rowid", rows, limits.rows)
                top = f"{relation} WHERE rowid < {limits.head}"
                chosen = Chosen(spread, top=top, complete=rows <= limits.head)
                return relation_table(relation, name, limits, chosen)
            except Unreadable:
                pass  # the sampled rows were deleted: take the first ones
        return relation_table(relation, name, limits, Chosen(complete=rows <= limits.rows))


@contextmanager
def _with_time_limit(connection: sqlite3.Connection, limits: Limits) -> Iterator[sqlite3.Connection]:
    """Use and close a connection with a time limit for statements: computed columns may run without end."""
    end = time.monotonic() + limits.seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    with closing(connection):
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            raise Unreadable(f"it took longer than {limits.seconds:g} s to read; leave it out") from error


@contextmanager
def _attached(path: Path, limits: Limits) -> Iterator[duckdb.DuckDBPyConnection]:
    file = str(path.resolve()).replace("'", "''")
    with session(limits) as duck:
        duck.execute(f"ATTACH '{file}' AS source (TYPE duckdb, READ_ONLY)")
        yield duck
        duck.execute("DETACH source")  # after a failure the session is replaced


def duckdb_tables(duck: duckdb.DuckDBPyConnection, database: str = "source") -> dict[str, tuple[str, int]]:
    """SQL name and approximate number of rows of each table of an attached file."""
    found = duck.execute(
        "SELECT schema_name, table_name, estimated_size FROM duckdb_tables()"
        " WHERE database_name = ? AND NOT internal",
        [database],
    )
    return {
        dotted(schema, table): (f"{quoted(database)}.{quoted(schema)}.{quoted(table)}", int(size or 0))
        for schema, table, size in found.fetchall()
    }


def dotted(schema: str, table: str, default: str = "main") -> str:
    """The name of a table as shown to people; the default schema is left out, names with dots are quoted."""
    pieces = [table] if schema == default else [schema, table]
    return ".".join(quoted(piece) if "." in piece or '"' in piece else piece for piece in pieces)


def open_sqlite(path: Path, any_thread: bool = False) -> sqlite3.Connection:
    """Open an SQLite file to read it."""
    # Even a reader writes a shared-memory file next to a database in WAL mode, and lakes are not written to.
    # Without a log, the file is complete as it is.
    path = path.resolve()
    log = path.with_name(path.name + "-wal")
    complete = not log.exists() or not os.path.getsize(log)
    uri = path.as_uri() + ("?mode=ro&immutable=1" if complete else "?mode=ro")
    connection = sqlite3.connect(uri, uri=True, timeout=1.0, check_same_thread=not any_thread)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def sqlite_tables(connection: sqlite3.Connection) -> list[str]:
    """List the tables of an SQLite file."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%'"  # a virtual table runs code that we may not have
    )
    return [str(name) for (name,) in found]


def _read_sqlite(connection: sqlite3.Connection, table: str, name: str, limits: Limits) -> Table:
    source = quoted(table)
    header = sqlite_columns(connection, table)
    texts = ", ".join(
        f"CASE typeof({column}) WHEN 'blob' THEN NULL WHEN 'real' THEN {_real(column)}"
        f" ELSE substr({column}, 1, {limits.cell_chars + 64}) END"
        for column in map(quoted, header[: limits.columns])
    )
    rowid = next((one for one in ("rowid", "_rowid_", "oid") if one not in map(str.lower, header)), None)
    rows: list[tuple[str | None, ...]] = []
    try:
        first, last = connection.execute(f"SELECT min({rowid}), max({rowid}) FROM {source}").fetchone()
    except sqlite3.OperationalError:  # a table WITHOUT ROWID
        first = last = None
    if first is None or last - first < limits.rows:
        rows = [
            _texts(row) for row in connection.execute(f"SELECT {texts} FROM {source} LIMIT {limits.rows}")
        ]
        complete = first is not None or len(rows) < limits.rows
        return table_from_rows(name, header, rows, limits, Head(rows, complete))
    length = -(-limits.rows // _RUNS)
    after = first - 1
    for run in range(_RUNS):
        start = max(after + 1, first + (last - first) * run // _RUNS)
        found = connection.execute(
            f"SELECT {rowid}, {texts} FROM {source} WHERE {rowid} >= {start} ORDER BY {rowid} LIMIT {length}"
        ).fetchall()
        if not found:
            break
        after = found[-1][0]
        rows += [_texts(row[1:]) for row in found]
    select = f"SELECT {texts} FROM {source} ORDER BY {rowid} LIMIT {limits.head + 1}"
    top = [_texts(row) for row in connection.execute(select)]
    head = Head(top[: limits.head], len(top) <= limits.head)
    return table_from_rows(name, header, rows[: limits.rows], limits, head)


def sqlite_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """List the columns of an SQLite table."""
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({quoted(table)})")]


def sqlite_rows(connection: sqlite3.Connection, table: str, columns: list[str]) -> sqlite3.Cursor:
    """Select all rows of a table, whole floats as whole numbers."""
    values = [
        f"CASE typeof({column}) WHEN 'real' THEN {_real(column)} ELSE {column} END"
        for column in map(quoted, columns)
    ]
    return connection.execute(f"SELECT {', '.join(values) or '1'} FROM {quoted(table)}")


def _real(column: str) -> str:
    """Write whole floats as whole numbers."""
    return f"CASE WHEN {column} = CAST({column} AS INTEGER) THEN CAST({column} AS INTEGER) ELSE {column} END"


def _texts(row: tuple[object, ...]) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in row)
