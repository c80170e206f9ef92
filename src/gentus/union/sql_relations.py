"""How DuckDB by itself reads the tables of a plan: `read_csv`, `read_parquet`, `read_json`, ATTACH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.lake import Limits, as_location
from gentus.lake.files import SQLITE, magic
from gentus.lake.formats.database import duckdb_tables
from gentus.lake.formats.detect import JSON_FILES, Format, format_at
from gentus.lake.formats.text import sample_text
from gentus.lake.formats.typed import file_literal, literal
from gentus.lake.full.read_csv import read_csv_options
from gentus.union.errors import PlanError
from gentus.union.plan import PlannedTable
from gentus.union.sources import SourceTable

if TYPE_CHECKING:
    import duckdb

_EXTENSION = "DuckDB reads {} only with an extension"
_REFUSED = {
    Format.EXCEL: _EXTENSION.format("Excel files"),
    Format.DELTA: _EXTENSION.format("Delta tables"),
    Format.ICEBERG: _EXTENSION.format("Iceberg tables"),
    Format.POSTGRES: _EXTENSION.format("Postgres tables"),
    Format.ZIP: "it is in an archive; unpack it",
    Format.ARROW: _EXTENSION.format("Arrow files"),
}
_ENCODINGS = {"cp1252": "latin-1"}  # equal but for a few signs, and values are compared
_NUMBERED = "row_number() OVER ()"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as DuckDB reads it."""

    sql: str  # what follows FROM
    names: Sequence[str]  # of its columns, in the order of the table
    row: str = _NUMBERED  # the number of the row, from 1
    attach: str = ""  # a statement that has to come before


def relations(
    source: SourceTable, duck: duckdb.DuckDBPyConnection, limits: Limits, alias: str
) -> Iterator[Relation]:
    """The ways to read a table, the strictest first; raises `PlanError` if there is none.

    A database is attached under the alias as long as it is the current one.
    """
    table, full = source.planned, source.full
    if table.path is None:
        raise no_sql(table, "it is a data frame or standard input; save it as a file")
    path = as_location(table.path)
    known = format_at(path, table.part)
    if not isinstance(path, Path) or known in _REFUSED:
        raise no_sql(table, _REFUSED.get(known, "it is at a URL; download it"))
    file = file_literal(str(path))
    if known is Format.PARQUET:
        sql = f"read_parquet({file}, file_row_number = true, hive_partitioning = false)"
        names = [str(row[0]) for row in duck.execute(f"DESCRIBE FROM {sql}").fetchall()]
        yield Relation(sql, names[: len(full.names)], "file_row_number + 1")
    elif known is Format.DATABASE:
        yield from _attached(table, path, duck, alias)
    elif known in (Format.JSON, Format.JSON_FOLDER):
        if known is Format.JSON_FOLDER:
            file = f"{file[:-1]}/{JSON_FILES}'"
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in full.names)
        yield Relation(f"read_json({file}, columns = {{{columns}}})", full.names)
    else:
        sampled = sample_text(path, limits, known is Format.PROSE, table.header, table.encoding)
        names = _unique(full.names)
        for lenient in (False, True):
            options = read_csv_options(sampled.dialect, names, bool(sampled.layout.header), lenient)
            if sampled.encoding != "utf-8":
                known_as = _ENCODINGS.get(sampled.encoding, sampled.encoding)
                options += f",\n    encoding = {literal(known_as)}"
            yield Relation(f"read_csv(\n    {file},\n    {options}\n)", names)


def no_sql(table: PlannedTable, reason: str) -> PlanError:
    """The error for a table that the SQL cannot read."""
    return PlanError(
        f"{table.name} cannot be read by SQL that runs without gentus: {reason}. Write it as Parquet first,"
        " or leave it out with --tables"
    )


def _attached(
    table: PlannedTable, path: Path, duck: duckdb.DuckDBPyConnection, alias: str
) -> Iterator[Relation]:
    if magic(path) == SQLITE:
        raise no_sql(table, _EXTENSION.format("SQLite files"))
    attach = f"ATTACH IF NOT EXISTS {literal(str(path))} AS {alias} (READ_ONLY)"
    duck.execute(attach)
    try:
        found = duckdb_tables(duck, alias)
        if table.part not in found:
            raise no_sql(table, f"the database has no table {table.part!r}")
        relation = found[table.part][0]
        names = [str(row[0]) for row in duck.execute(f"DESCRIBE FROM {relation}").fetchall()]
        yield Relation(relation, names, attach=attach)
    finally:
        duck.execute(f"DETACH {alias}")


def _unique(names: Sequence[str]) -> list[str]:
    """Names that differ in more than case."""
    taken: set[str] = set()
    unique = []
    for name in names:
        one, number = name, 1
        while one.casefold() in taken:
            number += 1
            one = f"{name}_{number}"
        taken.add(one.casefold())
        unique.append(one)
    return unique
