"""Cells to values of the result's types, in SQL. A cell that is not of the type, or would change, is null."""

from __future__ import annotations

from collections.abc import Sequence

from gentus.lake.formats.typed import text_of
from gentus.lake.full.rows import FullTable
from gentus.union.decision import DAY_FIRST
from gentus.union.plan import FRACTION, OutputColumn, PlannedTable, Reading
from gentus.union.report import ColumnReport
from gentus.union.sql_macros import FALSE, TRUE, is_any, is_one_of, literal
from gentus.union.sql_types import EXACT, FLOATS, INTEGERS, ZONED, is_date, is_decimal, is_number, union_type

_DRESSED = r"[^\d.,+\- :/]"
_WHOLE = r"[+-]?\d+"
_LONG = r"[+-]?\d{16,}"


def trimmed(value: str, kind: str) -> str:
    """A cell as text without blanks around it."""
    return f"gentus_trimmed({value if kind == 'VARCHAR' else text_of(value, kind)})"


def bare(text: str) -> str:
    """A text without currency and percent sign; most have none, and replacing is slow."""
    return f"CASE WHEN regexp_matches({text}, {literal(_DRESSED)}) THEN gentus_bare({text}) ELSE {text} END"


# --- a table's rows ------------------------------------------------------------------------------------


def conversion_sql(
    table: PlannedTable,
    full: FullTable,
    columns: Sequence[OutputColumn],
    relation: str,
    null_values: Sequence[str] = (),
) -> tuple[str, list[ColumnReport]]:
    """A query that converts a table to the result's columns, and a report of each, still without counts.

    Cells that are one of `null_values` are null. The query selects d0, d1, .. (values) and r (the number of
    the row). For columns that need it, it also selects w0, w1, .. (words that may stand for a missing value)
    and f0, f1, .. (the text of cells that are not of their column's type). Every step is a query around the
    last one, so that nothing is computed twice.
    """
    placed = {column.into: column for column in table.columns}
    cells, texts, bares, parsed, values, lost = (list[str]() for _ in range(6))
    reports = []
    for at, column in enumerate(columns):
        target, placement = column.type or "VARCHAR", placed.get(column.name)
        reports.append(ColumnReport.of(column, placement, null_values))
        if placement is None:
            values.append(f"CAST(NULL AS {target}) AS d{at}")
            continue
        position = full.positions[placement.source]
        native, cell = full.types[position], f"t{at}"
        own = union_type(native)
        value = _from_typed(cell, own, target)
        if value is None:
            cells.append(f"{_text(f'c{position}', full, native, target)} AS {cell}")
            word, null = f"gentus_is_null_word({cell})", is_any(cell, null_values)
            texts.append(f"CASE WHEN {word} OR {null} THEN {cell} END AS w{at}")
            lost.append(f"w{at}")
            if null_values or target != "VARCHAR":
                null = null if target == "VARCHAR" else f"{word} OR {null}"
                texts.append(f"CASE WHEN {null} THEN NULL ELSE {cell} END AS v{at}")
                cell = f"v{at}"
            if target != "VARCHAR":
                bares.append(f"{bare(cell) if is_number(target) else 'NULL'} AS b{at}")
                parsed.append(f"{_parsed(cell, f'b{at}', target, placement.read or Reading())} AS p{at}")
            value = _from_text(cell, f"p{at}", target)
        else:
            typed = f"c{position}" if native == own else f"CAST(c{position} AS {own})"
            if own in FLOATS or null_values:
                word = _null_word(typed, own, null_values)
                cells.append(f"{word} AS w{at}")
                lost.append(f"w{at}")
                typed = f"CASE WHEN {word} IS NULL THEN {typed} END"
            cells.append(f"{typed} AS {cell}")
        values.append(f"{value} AS d{at}")
        if value != cell:
            lost.append(f"CASE WHEN d{at} IS NULL THEN CAST({cell} AS VARCHAR) END AS f{at}")
    sql = f"SELECT {', '.join([*cells, 'row AS r'])} FROM {relation}"
    for step in filter(None, (texts, bares, parsed, values)):
        sql = f"SELECT *, {', '.join(step)} FROM ({sql})"
    kept = [f"d{at}" for at in range(len(columns))]
    return f"SELECT {', '.join([*kept, *lost, 'r'])} FROM ({sql})", reports


def _text(value: str, full: FullTable, native: str, target: str) -> str:
    """The text of a cell. In a text column it stays as written; only an empty cell of a CSV file is null."""
    if target != "VARCHAR":
        return f"nullif({trimmed(value, native)}, '')"
    text = value if native == "VARCHAR" else text_of(value, native)
    return text if full.delimiter is None else f"nullif({text}, '')"


def _null_word(value: str, own: str, null_values: Sequence[str]) -> str:
    """The text of a typed value that is taken as null: NaN, or one of some texts."""
    text = text_of(value, own)
    nan = f"WHEN isnan({value}) THEN 'NaN'" if own in FLOATS else ""
    return f"(CASE {nan} WHEN {is_any(text, null_values)} THEN {text} END)"


def _from_typed(value: str, own: str, target: str) -> str | None:
    """A typed value, not NaN, cast to another type; None if it has to become text first."""
    if own in FLOATS and target in FLOATS:
        return f"CAST({value} AS {target})"
    if own in FLOATS and target in INTEGERS:
        exact = f"{value} = trunc({value}) AND abs({value}) <= {EXACT}"
        return f"CASE WHEN {exact} THEN TRY_CAST({value} AS {target}) END"
    if own == "VARCHAR":
        return None  # text has other ways to write a missing value
    if own == target:
        return value
    if own in INTEGERS and (target in INTEGERS or target == "DOUBLE" or is_decimal(target)):
        return f"TRY_CAST({value} AS {target})"
    if (is_decimal(own) and target == "DOUBLE") or (own, target) == ("DATE", "TIMESTAMP"):
        return f"CAST({value} AS {target})"
    return None


def _parsed(text: str, bare: str, target: str, read: Reading) -> str:
    """A text, parsed: the digits of a number, the time of a date."""
    if is_number(target):
        digits = f"gentus_digits({bare}, {'true' if read.decimal == ',' else 'false'})"
        if read.percent == FRACTION:
            digits = f"({digits} || CASE WHEN suffix({text}, '%') THEN 'e-2' ELSE '' END)"
        if read.booleans:
            ones = f"WHEN {is_one_of(text, TRUE)} THEN '1' WHEN {is_one_of(text, FALSE)} THEN '0'"
            digits = f"CASE {ones} ELSE {digits} END"
        return digits
    if is_date(target):
        return f"gentus_zoned({text}, {'true' if read.dates == DAY_FIRST else 'false'})"
    return "NULL"


def _from_text(text: str, parsed: str, target: str) -> str:
    """The value of a text; null if it is not of the type, or if something would be lost."""
    if target == "VARCHAR":
        return text
    if target == "BOOLEAN":
        return f"CASE WHEN {is_one_of(text, TRUE)} THEN true WHEN {is_one_of(text, FALSE)} THEN false END"
    if is_number(target):
        return _number(parsed, target)
    if target == ZONED:
        return parsed
    if target == "DATE":
        return f"CASE WHEN {parsed} = date_trunc('day', {parsed}) THEN CAST({parsed} AS DATE) END"
    if is_date(target):
        return f"CAST({parsed} AT TIME ZONE 'UTC' AS {target})"
    return f"TRY_CAST({text} AS {target})"


def _number(digits: str, target: str) -> str:
    double = f"TRY_CAST({digits} AS DOUBLE)"
    value = f"TRY_CAST({digits} AS {target})"
    if target in FLOATS:
        long = f"regexp_full_match({digits}, {literal(_LONG)})"  # an identifier, rather than a measurement
        inexact = f"{long} AND TRY_CAST({double} AS HUGEINT) IS DISTINCT FROM TRY_CAST({digits} AS HUGEINT)"
        return f"CASE WHEN isfinite({double}) AND NOT ({inexact}) THEN {value} END"
    if is_decimal(target):
        return f"CASE WHEN CAST({value} AS DOUBLE) = {double} THEN {value} END"
    exact = f"{double} = trunc({double}) AND abs({double}) <= {EXACT}"
    whole = f"CASE WHEN {exact} THEN TRY_CAST({double} AS {target}) END"
    return f"CASE WHEN regexp_full_match({digits}, {literal(_WHOLE)}) THEN {value} ELSE {whole} END"
