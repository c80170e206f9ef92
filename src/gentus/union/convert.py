"""Cells to values of the result's types, in SQL. A cell that is not of the type, or would change, is null."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gentus.align.notation import DAY_FIRST
from gentus.lake.formats.arrow_mend import LONG_DECIMAL
from gentus.lake.formats.typed import literal, text_of
from gentus.lake.full.rows import FullTable
from gentus.union.plain import Notation, plain_cast
from gentus.union.plan import FRACTION, OutputColumn, PlannedTable, Reading
from gentus.union.sql_macros import FALSE, TRUE, is_any, is_one_of
from gentus.union.sql_types import (
    EXACT,
    FLOATS,
    ZONED,
    ZONED_NS,
    is_clock,
    is_date,
    is_decimal,
    is_number,
    is_zoned,
)

_DRESSED = r"[^\d.,+\- :/]"
_WHOLE = r"[+-]?\d+"
_ZEROS = r"\.0*"
_LONG = r"[+-]?\d{16,}(?:\.0*)?"
_FEW = 16  # characters of a number that a DOUBLE holds exactly
_NANOSECONDS = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}\.\d{7,9}"


def trimmed(value: str, kind: str) -> str:
    """A cell as text without blanks around it; bytes that are no text do not convert."""
    text = value if kind == "VARCHAR" else text_of(value, kind)
    return f"gentus_trimmed({f'coalesce({text}, CAST({value} AS VARCHAR))' if kind == 'BLOB' else text})"


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
        own, raw, text = cell.native, f"c{cell.position}", f"t{cell.at}"
        value = _from_typed(text, own, cell.target)
        cast = None if self.null_values else plain_cast(cell.plain, raw, cell.target, cell.read.decimal)
        if cast is not None:
            self._take(cell, cast)
        elif value is None and cell.target == "VARCHAR":
            as_text = raw if own == "VARCHAR" else _text_of(raw, own)
            self._take(cell, f"nullif({as_text}, '')" if self.delimited else as_text)
            if own == "BLOB":  # bytes may be no text
                self.cells.append(
                    f"CASE WHEN {as_text} IS NULL THEN CAST({raw} AS VARCHAR) END AS f{cell.at}"
                )
                self._count_lost(cell.at, f"f{cell.at}")
        elif value is None:
            self._parse(cell, raw)
        elif own == cell.target or (own, cell.target) == FLOATS:
            self._take(cell, value.replace(text, raw), own)
        else:
            word = _null_word(raw, own, cell.target, self.null_values)
            self.cells += [f"{word} AS w{cell.at}", f"CASE WHEN {word} IS NULL THEN {raw} END AS {text}"]
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
        value = _from_text(read, f"p{at}", cell.target)
        if cell.native == "INTERVAL":  # a second is no time of day, though it looks like one
            value = f"CAST(NULL AS {cell.target})"
        if cell.native == LONG_DECIMAL and cell.target in FLOATS:  # other text is rounded to a DOUBLE
            few = f"strlen(trim(replace(ltrim(p{at}, '-'), '.', ''), '0')) < {_FEW}"
            value = f"CASE WHEN {few} THEN {value} END"
        self._check(cell, value, read)

    def _check(self, cell: Cell, value: str, text: str) -> None:
        """A value that is null where a cell is not of the type."""
        at = cell.at
        self.values.append(f"{value} AS d{at}")
        self._count_lost(at, f"CASE WHEN d{at} IS NULL THEN CAST({text} AS VARCHAR) END AS f{at}")

    def _count_lost(self, at: int, text: str) -> None:
        self.failing.append(at)
        self.lost.append(text)


def _text_of(value: str, own: str) -> str:
    """A typed value in a column of text: times that have a zone keep it, at midnight too."""
    return f"CAST({value} AS VARCHAR)" if is_zoned(own) else text_of(value, own)


def _null_word(value: str, own: str, target: str, null_values: Sequence[str]) -> str:
    """The text of a typed value that is taken as null: NaN, unless there can be one, or one of some texts."""
    text = text_of(value, own)
    nan = f"WHEN isnan({value}) THEN 'NaN'" if own in FLOATS and target not in FLOATS else ""
    return f"(CASE {nan} WHEN {is_any(text, null_values)} THEN {text} END)"


def _from_typed(value: str, own: str, target: str) -> str | None:
    """A typed value as another type, null if it would change; None if it has to become text first."""
    if own == target != "VARCHAR":  # text has other ways to write a missing value
        return value
    if not any(both(own) and both(target) for both in (is_number, is_date, is_clock)):
        return None
    there = _cast(value, own, target)
    if (own, target) == FLOATS:
        return there
    return f"CASE WHEN {_cast(there, target, own)} = {value} THEN {there} END"


def _cast(value: str, own: str, target: str) -> str:
    """SQL of a cast that is null where it fails."""
    if (own in FLOATS and is_decimal(target)) or (is_decimal(own) and target in FLOATS):
        value = f"CAST({value} AS VARCHAR)"  # 0.1 is 0.1, and not what its bits come to
    if own == ZONED_NS:  # DuckDB lacks some casts of it; the session is in UTC
        value = f"TRY_CAST({value} AS TIMESTAMP_NS)"
    return f"TRY_CAST({value} AS {target})"


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
        value = f"TRY_CAST({parsed} AT TIME ZONE 'UTC' AS {target})"
        if "_NS" not in target:
            return value
        long = f"regexp_full_match({text}, {literal(_NANOSECONDS)})"
        return f"CASE WHEN {long} THEN TRY_CAST({text} AS {target}) ELSE {value} END"
    if is_clock(target):  # a cast would drop a date, a zone and further digits
        clock = rf"\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:\.\d{{1,{9 if target == 'TIME_NS' else 6}}})?)?"
        return f"CASE WHEN regexp_full_match({text}, {literal(clock)}) THEN TRY_CAST({text} AS {target}) END"
    return f"encode({text})" if target == "BLOB" else f"TRY_CAST({text} AS {target})"


def _number(digits: str, target: str) -> str:
    double, few = f"TRY_CAST({digits} AS DOUBLE)", f"strlen({digits}) < {_FEW}"
    value = f"TRY_CAST({digits} AS {target})"
    if target in FLOATS:
        long = f"regexp_full_match({digits}, {literal(_LONG)})"  # an identifier, rather than a measurement
        exact = f"TRY_CAST({double} AS HUGEINT) = TRY_CAST({digits} AS HUGEINT)"
        return f"CASE WHEN isfinite({double}) AND NOT ({long} AND ({exact}) IS NOT TRUE) THEN {value} END"
    if is_decimal(target):
        places = rf"[+-]?\d*\.?\d{{0,{target[8:-1].split(',')[1]}}}0*"
        exact = f"{few} OR regexp_full_match({digits}, {literal(places)})"
        return f"CASE WHEN CAST({value} AS DOUBLE) = {double} AND ({exact}) THEN {value} END"
    exact = f"{few} AND {double} = trunc({double}) AND abs({double}) < {EXACT}"
    return (
        f"CASE WHEN regexp_full_match({digits}, {literal(_WHOLE)}) THEN {value}"
        rf" WHEN regexp_full_match({digits}, {literal(_WHOLE + _ZEROS)})"
        f" THEN TRY_CAST(regexp_extract({digits}, {literal(_WHOLE)}) AS {target})"
        f" WHEN {exact} THEN TRY_CAST({double} AS {target}) END"
    )
