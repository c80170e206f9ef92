"""NaN and infinity in formats that lack them: they become null, and are counted while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gentus.lake.formats.typed import quoted
from gentus.union.errors import PlanError
from gentus.union.sql_types import FLOATS

if TYPE_CHECKING:
    import duckdb

Columns = Sequence[tuple[str, str]]  # names and types of the result
_LACKS = {
    "jsonl": ("NOT isfinite", "NaN or infinite, which JSON lacks"),
    "sqlite": ("isnan", "NaN, which SQLite lacks"),
}
_COUNT = "gentus_not_finite_"


def null_not_finite(duck: duckdb.DuckDBPyConnection, sql: str, columns: Columns, format: str) -> str:
    """The query with null for what the format lacks; a sequence per column counts it as rows go by.

    A query that counts would read all tables once more.
    """
    if format not in _LACKS or not any(kind in FLOATS for _, kind in columns):
        return sql
    cells = []
    for at, (name, kind) in enumerate(columns):
        cell = quoted(name)
        if kind in FLOATS:
            duck.execute(f"CREATE OR REPLACE SEQUENCE {_COUNT}{at}")
            lacks, null = f"{_LACKS[format][0]}({cell})", f"if(nextval('{_COUNT}{at}') > 0, NULL, {cell})"
            cell = f"CASE WHEN {lacks} THEN {null} ELSE {cell} END AS {cell}"
        cells.append(cell)
    return f"SELECT {', '.join(cells)} FROM ({sql})"


def not_finite_notes(
    duck: duckdb.DuckDBPyConnection, columns: Columns, format: str, strict: bool
) -> list[str]:
    """What became null, in words; `PlanError` instead if the union is strict."""
    counted = dict(duck.execute("SELECT sequence_name, last_value FROM duckdb_sequences()").fetchall())
    found = [(name, counted.get(f"{_COUNT}{at}") or 0) for at, (name, _) in enumerate(columns)]
    notes = [
        f"{count:,} {'value' if count == 1 else 'values'} of {name!r} {'is' if count == 1 else 'are'} "
        f"{_LACKS[format][1]}, and became null"
        for name, count in found
        if count
    ]
    if strict and notes:
        lost = (f"  {note}" for note in notes)
        raise PlanError(f"{format} cannot hold all values, and --strict allows no loss:", *lost)
    return notes
