"""The table profile: values, numbers, formats, statistics and correlations of its columns, as arrays.

Search uses 24 values per column, because a lake has millions of columns. Two tables can be compared more
closely: all sampled values with their frequencies, all numbers, and the rank correlations of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.align.column_notations import Agreed, ColumnNotations
from gentus.align.numeric_values import NumericValues, parse_values
from gentus.align.value_keys import text_keys
from gentus.arrays import F64, I64
from gentus.features.extract import (
    ALPHA_BIT,
    DIGIT_BIT,
    SPACE_BIT,
    UPPER_BIT,
    classes_of,
    counted,
    hashed_text,
    points_of,
    tokens_of,
)
from gentus.table import Table, evenly_spaced

MOST_CELLS = 512  # used of a column ...
_ALL_CELLS, _LEAST = 300_000, 64  # ... fewer of a wide table, but not less
VALUES = 24  # distinct values whose characters are used ...
_FEWER_VALUES, _VERY_WIDE = 12, 1024  # ... fewer of tables with more columns than this
LENGTHS = 64  # longer values count as this long
CHARACTERS = 128
_CATEGORIES = 64  # text with more values is not a category; it gets no ranks
_NONE = np.zeros(0)
_DAYS = 0x5DAD0C1E  # makes the keys of days differ from those of numbers
DECIMALS = 7  # 0 to 5 decimal places, or more
# What people write for a missing value: not a value that two columns could share.
PLACEHOLDERS = frozenset(("NA", "na", "N.A.", "n.a.", "#N/A", "-", "--", "---", "?", ".", "..", "\\N"))
STATISTICS = (
    "empty cells",
    "equal cells",
    "distinct values",
    "ascending rows",
    "whole numbers",
    "negative numbers",
    "median",
    "digits",
    "letters",
    "capitals",
    "spaces",
)
_CLASSES = (DIGIT_BIT, ALPHA_BIT, UPPER_BIT, SPACE_BIT)  # of characters: the last four statistics


@dataclass(frozen=True, slots=True)
class TableProfile:
    """The C columns of a table. Of empty ones everything is zero."""

    table: Table
    notations: ColumnNotations
    cell_counts: F64  # (C,) cells used
    distinct_counts: F64  # (C,) distinct values among them
    value_columns: I64  # (n,) the column of every distinct value ...
    value_keys: I64  # (n,) ... a number that equal values share, however they are written ...
    value_counts: F64  # (n,) ... and how often it occurs
    numbers: list[F64]  # per column: its numbers, or its dates in days, sorted
    units: list[str]  # per column: the unit of its numbers, or the notation of its dates
    type_shares: F64  # (C, 3) share of cells that are numbers, dates and text
    decimal_places: F64  # (C, DECIMALS) roots of the shares of numbers with so many decimal places
    length_cdf: F64  # (C, LENGTHS) share of values up to this length
    characters: F64  # (C, CHARACTERS) roots of the shares of characters
    statistics: F64  # (C, STATISTICS)
    ranks: F64  # (C, rows) of the cells of complete columns, of length one and mean zero; 0 for others
    complete: NDArray[np.bool_]  # (C,) whether a column has a value in every row
    text_starts: I64  # (C + 1,) where the text of each column begins; columns of numbers have none ...
    text_ids: NDArray[np.uint32]  # (m,) ... its words, n-grams, shapes and tokens, as ids of `features` ...
    text_counts: F64  # (m,) ... and how often each occurs

    @property
    def correlations(self) -> F64:
        """(C, C) rank correlations of complete columns; 0 for others."""
        correlations = self.ranks @ self.ranks.T
        np.fill_diagonal(correlations, 0)
        return np.asarray(correlations, np.float64)

    def select(self, some: Sequence[int]) -> TableProfile:
        """The profile of some of the columns."""
        at = np.array(some, np.int64)
        starts = np.concatenate([[0], np.cumsum(self.distinct_counts.astype(np.int64))])
        values, value_columns = _gathered(starts, at)
        texts, text_columns = _gathered(self.text_starts, at)
        return TableProfile(
            replace(self.table, columns=[self.table.columns[one] for one in some]),
            self.notations.select(some),
            self.cell_counts[at],
            self.distinct_counts[at],
            value_columns,
            self.value_keys[values],
            self.value_counts[values],
            [self.numbers[one] for one in some],
            [self.units[one] for one in some],
            self.type_shares[at],
            self.decimal_places[at],
            self.length_cdf[at],
            self.characters[at],
            self.statistics[at],
            self.ranks[at],
            self.complete[at],
            np.searchsorted(text_columns, np.arange(len(at) + 1)),
            self.text_ids[texts],
            self.text_counts[texts],
        )


def _gathered(starts: I64, columns: I64) -> tuple[I64, I64]:
    """Positions of what some columns have, column by column, and the number of the column of each."""
    lengths = (starts[1:] - starts[:-1])[columns]
    owner = np.repeat(np.arange(len(columns)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + (starts[columns] - before)[owner], owner


def profile_table(table: Table, agreed: Agreed | None = None) -> TableProfile:
    """Profile a sampled table, to compare it with others.

    Its cells are read as it decides itself (`notation`), or for some columns as was agreed with others.
    """
    most = max(_LEAST, min(MOST_CELLS, _ALL_CELLS // max(1, len(table.columns))))
    distinct = [_distinct(column.cells, table.rows, most) for column in table.columns]
    notations = ColumnNotations.of(table, [(one.values, one.occurrences) for one in distinct])
    parsed = [
        parse_values(one.values, *notations.reading(at, agreed or {})) for at, one in enumerate(distinct)
    ]
    columns = list(map(_profile_column, distinct, parsed, _text_keys(distinct, parsed)))
    values = VALUES if len(columns) <= _VERY_WIDE else _FEWER_VALUES
    some = [[column.values[at] for at in evenly_spaced(len(column.values), values)] for column in columns]
    type_shares = np.array([column.type_shares for column in columns]).reshape(len(columns), 3)
    distinct_counts = np.array([len(column.keys) for column in columns], np.int64)
    value_columns = np.repeat(np.arange(len(columns)), distinct_counts)
    value_counts = _joined([column.counts for column in columns])
    cell_counts = np.bincount(value_columns, value_counts, len(columns)).astype(np.float64)
    characters, length_cdf, decimals, classes = _characters(some)
    statistics = [
        *_repetition(cell_counts, distinct_counts, value_columns, value_counts, min(table.rows, most)),
        *_ascending(columns),
        *_number_statistics(columns),
    ]
    complete = np.array([column.ranks is not None for column in columns], bool)
    return TableProfile(
        table,
        notations,
        cell_counts,
        distinct_counts.astype(np.float64),
        value_columns,
        np.concatenate([np.zeros(0, np.int64), *(column.keys for column in columns)]),
        value_counts,
        [column.numbers for column in columns],
        [column.unit for column in columns],
        type_shares,
        decimals * (type_shares[:, :1] > 0),
        length_cdf,
        characters,
        np.stack([*statistics, *classes], 1),
        _stacked_ranks(columns, min(table.rows, most)),
        complete,
        *_text(some, type_shares[:, 2] > 0.3),
    )


def is_placeholder(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell in PLACEHOLDERS


def _joined(parts: Iterable[F64]) -> F64:
    return np.concatenate([np.zeros(0), *parts])


# --- one column --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    values: list[str]  # distinct, as written
    keys: I64  # of distinct values, however they are written ...
    counts: F64  # ... and how often each occurs
    type_shares: tuple[float, float, float]
    unit: str
    numbers: F64  # sorted
    series: F64  # in the order of the rows
    ranks: F64 | None  # (rows,) of length one and mean zero; None if cells are missing or all are equal


@dataclass(frozen=True, slots=True)
class _Distinct:
    """The distinct values of a column."""

    values: list[str]
    occurrences: F64  # of each
    value_of: I64  # the value of every cell
    complete: bool  # every cell is in its row


def _distinct(cells: list[str], rows: int, most: int) -> _Distinct:
    complete = len(cells) == rows  # then every cell is in its row
    if len(cells) > most:
        cells = [cells[at] for at in evenly_spaced(len(cells), most)]
    values = list(dict.fromkeys(cells))
    if not PLACEHOLDERS.isdisjoint(values):
        unknown = PLACEHOLDERS.intersection(values)
        cells, complete = [cell for cell in cells if cell not in unknown], False
        values = [value for value in values if value not in unknown]
    value_of = _value_indices(values, cells)
    occurrences = np.bincount(value_of, minlength=len(values)).astype(np.float64)
    return _Distinct(values, occurrences, value_of, complete)


def _text_keys(distinct: Sequence[_Distinct], parsed: Sequence[NumericValues]) -> list[I64]:
    """Per column: the keys of those values that are neither numbers nor dates."""
    texts = [
        one.values
        if read.type == "text"
        else [one.values[at] for at in np.flatnonzero(np.isnan(read.values)).tolist()]
        for one, read in zip(distinct, parsed, strict=True)
    ]
    keys = text_keys(list(chain.from_iterable(texts)))
    ends = list(accumulate(map(len, texts)))
    return [keys[end - len(some) : end] for end, some in zip(ends, texts, strict=True)]


def _profile_column(one: _Distinct, parsed: NumericValues, text_keys: I64) -> _Column:
    return (
        _profile_text(one, text_keys) if parsed.type == "text" else _profile_numbers(one, parsed, text_keys)
    )


def _profile_text(one: _Distinct, keys: I64) -> _Column:
    values, counts, filled = one.values, one.occurrences, len(one.value_of) > 0
    if len(set(keys.tolist())) < len(keys):
        keys, counts = _merged(keys, counts)
    ranks = None
    if one.complete and len(values) <= _CATEGORIES:  # in the order of the alphabet, as in the other table
        order = np.array(sorted(range(len(values)), key=values.__getitem__), np.int64)
        ranks = _ranks(order, one.occurrences, one.value_of)
    return _Column(values, keys, counts, (0.0, 0.0, float(filled)), "", _NONE, _NONE, ranks)


def _profile_numbers(one: _Distinct, parsed: NumericValues, text_keys: I64) -> _Column:
    occurrences, value_of = one.occurrences, one.value_of
    order = np.argsort(parsed.values)  # NaN comes last
    ordered = parsed.values[order]
    numbers = np.repeat(ordered, occurrences[order].astype(np.int64))
    keys = (parsed.values + 0.0).view(np.int64) ^ (_DAYS if parsed.type == "date" else 0)
    series = parsed.values[value_of]
    if np.isnan(ordered[-1]):  # some are text
        numbers, series = numbers[: numbers.searchsorted(np.nan)], series[np.isfinite(series)]
        keys[np.isnan(parsed.values)] = text_keys
    counts = occurrences
    if not (ordered[1:] != ordered[:-1]).all():
        keys, counts = _merged(keys, occurrences)
    share = len(numbers) / len(value_of)
    type_shares = (share, 0.0, 1 - share) if parsed.type == "number" else (0.0, share, 1 - share)
    ranks = _ranks(order, occurrences, value_of) if one.complete else None
    return _Column(one.values, keys, counts, type_shares, parsed.unit, numbers, series, ranks)


def _merged(keys: I64, occurrences: F64) -> tuple[I64, F64]:
    """Keys without duplicates: values that differ only in how they are written are one."""
    unique, at = np.unique(keys, return_inverse=True)
    return unique, np.bincount(at, occurrences).astype(np.float64)


def _value_indices(values: list[str], cells: list[str]) -> I64:
    """(n,) the index of every cell's value."""
    if len(values) == len(cells):
        return np.arange(len(cells))
    at = dict(zip(values, range(len(values)), strict=True))
    return np.fromiter(map(at.__getitem__, cells), np.int64, len(cells))


def _ranks(order: I64, occurrences: F64, value_of: I64) -> F64 | None:
    """(n,) ranks of cells, ties averaged, centred and of length one: their dot products are correlations."""
    if len(order) < 2 or len(value_of) < 8:
        return None
    ranks = np.empty(len(order))
    ranks[order] = np.cumsum(occurrences[order]) - occurrences[order] / 2
    ranks -= len(value_of) / 2  # their mean
    return np.asarray((ranks / np.sqrt(ranks**2 @ occurrences))[value_of], np.float64)


# --- all columns at once -----------------------------------------------------------------------------


def _stacked_ranks(columns: Sequence[_Column], rows: int) -> F64:
    """(C, rows) ranks of complete columns; 0 for others."""
    ranks = np.zeros((len(columns), rows))
    for at, column in enumerate(columns):
        if column.ranks is not None:
            ranks[at] = column.ranks
    return ranks


def _repetition(sizes: F64, distinct: I64, owner: I64, counts: F64, rows: int) -> list[F64]:
    """(C,) each: share of empty cells, root of the chance of two equal cells, share of distinct values."""
    pairs = np.bincount(owner, counts * (counts - 1), len(sizes))
    empty = np.where(sizes > 0, 1 - np.minimum(sizes / max(rows, 1), 1), 0)
    equal = np.sqrt(pairs / np.maximum(sizes * (sizes - 1), 1))
    return [empty, equal, distinct / np.maximum(sizes, 1)]


def _ascending(columns: Sequence[_Column]) -> list[F64]:
    """(C,) how often numbers rise from row to row less how often they fall, -1 to 1."""
    lengths = np.array([len(column.series) for column in columns], np.int64)
    owner = np.repeat(np.arange(len(columns)), lengths)
    steps = np.sign(np.diff(_joined([column.series for column in columns])))
    steps[owner[1:] != owner[:-1]] = 0  # from one column to the next
    return [np.bincount(owner[1:], steps, len(columns)) / np.maximum(lengths - 1, 1)]


def _number_statistics(columns: Sequence[_Column]) -> list[F64]:
    """(C,) each: shares of whole and of negative numbers, and the median on a signed log scale."""
    plain = [column.numbers if column.type_shares[0] else _NONE for column in columns]
    lengths = np.array([len(numbers) for numbers in plain], np.int64)
    owner = np.repeat(np.arange(len(columns)), lengths)
    numbers = _joined(plain)
    total = np.maximum(lengths, 1)
    median = np.array([column[len(column) // 2] if len(column) else 0 for column in plain])
    return [
        np.bincount(owner, np.rint(numbers) == numbers, len(columns)) / total,
        np.bincount(owner, numbers < 0, len(columns)) / total,
        np.sign(median) * np.log1p(np.abs(median)) / 4,
    ]


def _characters(some: list[list[str]]) -> tuple[F64, F64, F64, list[F64]]:
    """Characters, lengths, decimal places and character classes of some values of each column.

    (C, CHARACTERS) and (C, DECIMALS) roots of shares, whose products are affinities; (C, LENGTHS); (C,) each.
    """
    count = len(some)
    owner = np.repeat(np.arange(count), [len(values) for values in some])
    cells = list(chain.from_iterable(some))
    values = np.maximum(np.bincount(owner, minlength=count), 1)[:, None]
    size = np.fromiter(map(len, cells), np.int64, len(cells))
    lengths = _histogram(owner, np.minimum(size, LENGTHS - 1), count, LENGTHS)
    places = [len(cell) - 1 - cell.find(".") if "." in cell else 0 for cell in cells]
    decimals = _histogram(owner, np.minimum(np.array(places, np.int64), DECIMALS - 1), count, DECIMALS)
    points = points_of("".join(cells))
    classes = classes_of(points)
    of = np.repeat(owner, size)  # the column of every character
    characters = _histogram(of, points % CHARACTERS, count, CHARACTERS)
    total = np.maximum(characters.sum(1), 1)
    return (
        np.sqrt(characters / total[:, None]),
        np.cumsum(lengths / values, 1),
        np.sqrt(decimals / values),
        [np.bincount(of, (classes & bit) > 0, count) / total for bit in _CLASSES],
    )


def _histogram(owner: I64, bins: NDArray[np.integer[Any]], count: int, width: int) -> I64:
    """(count, width) how often each owner has each bin."""
    return np.bincount(owner * width + bins, minlength=count * width).reshape(count, width)


def _text(some: list[list[str]], is_text: NDArray[np.bool_]) -> tuple[I64, NDArray[np.uint32], F64]:
    """Words, n-grams, shapes and tokens of columns that hold text, as ids and counts."""
    columns = np.flatnonzero(is_text)
    values = [some[at] for at in columns]
    found = [*hashed_text(values), tokens_of(values)] if values else []
    starts, ids, counts = counted(
        [columns[owner] for owner, _ in found], [ids for _, ids in found], len(some)
    )
    return starts, ids, counts.astype(np.float64)
