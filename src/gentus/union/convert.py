"""Cells to values of the result's types, in SQL. A cell that is not of the type, or would change, is null."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gentus.align.notation import DAY_FIRST
from gentus.lake.formats.typed import literal, text_of
from gentus.lake.full.rows import FullTable
from gentus.union.plain import Notation, plain_cast
from gentus.union.plan import FRACTION, OutputColumn, PlannedTable, Reading
from gentus.union.sql_macros import FALSE, TRUE, is_any, is_one_of
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


@dataclass(slots=True)
class Conversion:
    """A query that converts a table to the result's columns.

    It selects d0, d1, .. (values) and r (the number of the row). For the columns in `words` it also selects
    w0, w1, .. (words that may stand for a missing value), for those in `failing` f0, f1, .. (the text of
    cells that are not of their column's type).
    """

    sql: str = ""
    words: list[int] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of a table on its way into a column of the result."""

    at: int  # the position in the result
    position: int  # and in the table
    native: str  # the type in the table
    target: str  # and in the result
    read: Reading
    plain: Notation | None  # how all cells are written, if a cast can convert them


@dataclass(frozen=True, slots=True)
class KnownCells:
    """What is known of the cells of a table."""

    plain: Mapping[int, Notation]  # by position, of columns that a cast converts
    null_values: Sequence[str] = ()  # cells that a person takes as null
    converted: Collection[int] = ()  # positions of columns whose values are there already: v0, v1, ..


def conversion_sql(
    table: PlannedTable,
    full: FullTable,
    columns: Sequence[OutputColumn],
    relation: str,
    known: KnownCells,
) -> Conversion:
    """The query for a table, given what is known of its cells."""
    placed, positions = {column.into: column for column in table.columns}, full.positions
    steps = _Steps(known.null_values, full.delimiter is not None)
    for at, column in enumerate(columns):
        target, placement = column.type or "VARCHAR", placed.get(column.name)
        if placement is None:
            steps.values.append(f"CAST(NULL AS {target}) AS d{at}")
            continue
        position = positions[placement.source]
        if position in known.converted:
            steps.cells.append(f"v{position} AS d{at}")
            continue
        read = placement.read or Reading()
        cell = Cell(at, position, full.types[position], target, read, known.plain.get(position))
        steps.convert(cell)
    return Conversion(steps.sql(relation, len(columns)), steps.words, steps.failing)


class _Steps:
    """Expressions of nested queries, each around the last one, so that nothing is computed twice."""

    def __init__(self, null_values: Sequence[str], delimited: bool) -> None:
        self.null_values, self.delimited = null_values, delimited
        self.cells, self.texts, self.bares, self.parsed, self.values = (list[str]() for _ in range(5))
        self.words: list[int] = []
        self.failing: list[int] = []
        self.lost: list[str] = []

    def sql(self, relation: str, columns: int) -> str:
        """All steps over a relation."""
        sql = f"SELECT {', '.join([*self.cells, 'row AS r'])} FROM {relation}"
        for step in filter(None, (self.texts, self.bares, self.parsed, self.values)):
            sql = f"SELECT *, {', '.join(step)} FROM ({sql})"
        kept = [f"d{at}" for at in range(columns)]
        return f"SELECT {', '.join([*kept, *self.lost, 'r'])} FROM ({sql})"

    def convert(self, cell: Cell) -> None:
        """Add the steps of a column."""
        own, raw, text = union_type(cell.native), f"c{cell.position}", f"t{cell.at}"
        typed = raw if cell.native == own else f"CAST({raw} AS {own})"
        value = _from_typed(text, own, cell.target)
        cast = None if self.null_values else plain_cast(cell.plain, raw, cell.target, cell.read.decimal)
        if cast is not None:
            self._take(cell, cast)
        elif value is None and cell.target == "VARCHAR":
            as_text = raw if cell.native == "VARCHAR" else text_of(raw, cell.native)
            self._take(cell, f"nullif({as_text}, '')" if self.delimited else as_text)
        elif value is None:
            self._parse(cell, raw)
        elif value == text or (own in FLOATS and cell.target in FLOATS):
            self._take(cell, value.replace(text, typed), own)
        else:
            word = _null_word(typed, own, self.null_values)
            self.cells += [f"{word} AS w{cell.at}", f"CASE WHEN {word} IS NULL THEN {typed} END AS {text}"]
            self._count_words(cell.at)
            self._check(cell, value, text)

    def _take(self, cell: Cell, value: str, own: str = "VARCHAR") -> None:
        """A value that no cell of the column fails to give; NaN stays NaN."""
        at = cell.at
        self.cells.append(f"{value} AS t{at}")
        if not self.null_values:
            self.values.append(f"t{at} AS d{at}")
            return
        words = is_any(text_of(f"t{at}", own), self.null_values)
        kept = f" OR gentus_is_null_word(t{at})" if own == "VARCHAR" else ""
        self.texts.append(f"CASE WHEN {words}{kept} THEN CAST(t{at} AS VARCHAR) END AS w{at}")
        self._count_words(at)
        self.values.append(f"CASE WHEN NOT {words} THEN t{at} END AS d{at}")

    def _count_words(self, at: int) -> None:
        self.words.append(at)
        self.lost.append(f"w{at}")

    def _parse(self, cell: Cell, raw: str) -> None:
        """Text in any notation. Blanks around it are no part of a number or a date."""
        at, text, read = cell.at, f"t{cell.at}", f"v{cell.at}"
        is_null = f"(gentus_is_null_word({text}) OR {is_any(text, self.null_values)})"
        self.cells.append(f"nullif({trimmed(raw, cell.native)}, '') AS {text}")
        self.texts.append(f"CASE WHEN {is_null} THEN {text} END AS w{at}")
        self.texts.append(f"CASE WHEN NOT {is_null} THEN {text} END AS {read}")
        self._count_words(at)
        self.bares.append(f"{bare(read) if is_number(cell.target) else 'NULL'} AS b{at}")
        self.parsed.append(f"{_parsed(read, f'b{at}', cell.target, cell.read)} AS p{at}")
        self._check(cell, _from_text(read, f"p{at}", cell.target), read)

    def _check(self, cell: Cell, value: str, text: str) -> None:
        """A value that is null where a cell is not of the type."""
        at = cell.at
        self.values.append(f"{value} AS d{at}")
        self.failing.append(at)
        self.lost.append(f"CASE WHEN d{at} IS NULL THEN CAST({text} AS VARCHAR) END AS f{at}")


def _null_word(value: str, own: str, null_values: Sequence[str]) -> str:
    """The text of a typed value that is taken as null: NaN, or one of some texts."""
    text = text_of(value, own)
    nan = f"WHEN isnan({value}) THEN 'NaN'" if own in FLOATS else ""
    return f"(CASE {nan} WHEN {is_any(text, null_values)} THEN {text} END)"


def _from_typed(value: str, own: str, target: str) -> str | None:
    """A typed value, cast to another type; None if it has to become text first. NaN stays NaN."""
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
