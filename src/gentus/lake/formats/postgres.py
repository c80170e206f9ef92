"""A Postgres database as a lake (the `postgres` extra): every table and view of its schemas, read-only.

The location of a table is `postgresql://user@host/database/schema.table`. Passwords are never part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from gentus.extras import install_extra
from gentus.lake.base import Skipped, Source, Unreadable, table_from_rows
from gentus.lake.formats.database import dotted
from gentus.lake.formats.typed import quoted
from gentus.lake.location import Remote
from gentus.lake.remote.storage import scrubbed
from gentus.table import Head, Limits, Table, evenly_spaced

_PAGES = 32  # pages read of a large table, chosen by the server
_FEW_PAGES = 128  # a smaller table is read from its beginning
_MORE = 8  # rows fetched at most per sampled row
_SECONDS = 60  # that the server may take for a sample
_NAME = re.compile(r'("(?:[^"]|"")*"|[^."]+)(?:\.("(?:[^"]|"")*"|[^."]+))?')
_LISTED = """
SELECT n.nspname, c.relname, has_table_privilege(c.oid, 'SELECT'), pg_table_size(c.oid),
  CASE WHEN c.relkind IN ('r', 'm') THEN concat_ws(':', c.relfilenode, s.n_tup_ins, s.n_tup_upd, s.n_tup_del,
    (SELECT md5(string_agg(concat(a.attname, a.atttypid), ',' ORDER BY a.attnum)) FROM pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)) ELSE '' END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL), c.relkind::text, pg_relation_size(c.oid) / 8192
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.oid = to_regclass({}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view: its SQL name, columns, kind and size."""

    sql: str
    columns: list[tuple[str, str]]  # names and types
    kind: str  # as `pg_class.relkind`
    pages: int


def scan_postgres(lake: Remote) -> Iterator[Source | Skipped]:
    """Yield the tables and views of a database, sorted by name."""
    database, table = split_url(lake)
    if table is not None:
        yield Source(lake.name, lake, None, 0, 0)
        return
    try:
        with connect(database) as cursor:
            rows = _all(cursor, _LISTED)
    except Unreadable as error:
        raise Unreadable(f"{lake}: {error.reason}") from error
    found = {_in_url(dotted(row[0], row[1], "public")): row for row in rows}
    for name in sorted(found):
        _, _, allowed, size, version = found[name]
        if allowed:
            yield Source(name, lake / name, None, int(size or 0), 0, version)
        else:
            yield Skipped(name, lake / name, "no permission to read it; GRANT SELECT on it, or leave it out")


def exists(location: Remote) -> bool:
    """Whether there is such a database, or table; raises `Unreadable` with what the server says."""
    database, table = split_url(location)
    try:
        with connect(database) as cursor:
            return table is None or _relation(cursor, table) is not None
    except Unreadable as error:
        raise Unreadable(f"{location}: {error.reason}") from error


def read_postgres(location: Remote, name: str, limits: Limits) -> Table:
    """Read rows of a table: of a large one, from pages that the server chooses at random, always the same."""
    database, table = split_url(location)
    with connect(database) as cursor:
        relation = relation_of(cursor, database, table)
        columns = relation.columns[: limits.columns]
        texts = ", ".join(f"left({text_of_column(*column)}, {limits.cell_chars + 64})" for column in columns)
        select = f"SELECT {texts} FROM {relation.sql}"
        rows: list[tuple[str | None, ...]] = []
        if relation.kind in ("r", "m") and relation.pages > _FEW_PAGES:
            share = 100 * _PAGES / relation.pages
            sample = f"TABLESAMPLE SYSTEM ({share:.6f}) REPEATABLE (0)"
            rows = _all(cursor, f"{select} {sample} LIMIT {limits.rows * _MORE}")
        complete = len(rows) < limits.rows // 2
        if complete:
            rows = _all(cursor, f"{select} LIMIT {limits.rows}")
            complete = len(rows) < limits.rows
    kept = [rows[at] for at in evenly_spaced(len(rows), limits.rows)]
    return table_from_rows(name, [column for column, _ in columns], kept, limits, Head(kept, complete))


@contextmanager
def connect(database: str, seconds: int = _SECONDS) -> Iterator[Any]:
    """Open a read-only connection; gives its cursor. Statements may take so many seconds, 0 for any time."""
    try:
        from adbc_driver_manager import Error
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise Unreadable(f"reading Postgres needs its driver: {install_extra('postgres')}") from error
    try:
        url = f"{database}?connect_timeout=10&application_name=gentus"
        with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
            cursor.execute(f"SET statement_timeout = {seconds * 1000}")
            yield cursor
    except Error as error:
        # The driver wraps the message of the server into lines of its own.
        told = " ".join(str(error).split())
        raise Unreadable(f"the server says: {scrubbed(told)[:300]}") from None


def _all(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    cursor.execute(sql)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def relation_of(cursor: Any, database: str, table: str | None) -> Relation:
    """Find a table; raises `Unreadable` if there is none."""
    relation = None if table is None else _relation(cursor, table)
    if relation is None:
        gone = "the database has no such table any more"
        raise Unreadable(gone if table else f"it is a database; name a table of it: {database}/TABLE")
    return relation


def _relation(cursor: Any, table: str) -> Relation | None:
    match = _NAME.fullmatch(table)
    if match is None:
        return None
    first, second = match.groups()
    pieces = ["public", first] if second is None else [first, second]
    plain = [piece[1:-1].replace('""', '"') if piece.startswith('"') else piece for piece in pieces]
    sql = ".".join(map(quoted, plain))
    literal = "'" + sql.replace("'", "''") + "'"
    found = _all(cursor, _COLUMNS.format(literal))
    if not found:
        return None
    return Relation(sql, [(row[0], row[1]) for row in found], found[0][2], int(found[0][3] or 0))


def text_of_column(column: str, sql_type: str) -> str:
    """SQL that turns a column into text as a person would write it."""
    text = f"{quoted(column)}::text"
    if sql_type == "bytea":
        return "NULL::text"
    if sql_type.startswith("timestamp"):
        return f"regexp_replace({text}, ' 00:00:00(\\+00)?$', '')"  # a date
    return text


def split_url(location: Remote) -> tuple[str, str | None]:
    """The URL of the database, and the table in it if one is named."""
    scheme, _, rest = location.url.partition("://")
    host, _, path = rest.partition("/")
    database, _, table = path.partition("/")
    return f"{scheme}://{host}/{database}", unquote(table) if table else None


def _in_url(table: str) -> str:
    """The name of a table, escaped for a URL."""
    return re.sub(r"[%/?#]", lambda sign: f"%{ord(sign[0]):02X}", table)
