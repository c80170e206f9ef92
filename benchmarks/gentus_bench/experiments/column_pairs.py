"""Pairs of tables whose columns are known to belong together, to learn alignment from and to measure it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from gentus.align.table_profile import is_placeholder
from gentus.lake import Limits, Skipped, Unreadable, read_path, scan
from gentus.lake.base import table_from_rows
from gentus.metrics import load_groundtruth
from gentus.table import Table
from gentus_bench.lakes.base_tables import BaseTable, read_whole
from gentus_bench.lakes.noise import Headers, Noise
from gentus_bench.lakes.slicing import SHARED, Cut, LakeOptions, check_size, slices_of

FEWEST_COLUMNS, FEWEST_ROWS = 3, 16  # of a base table to learn from
_NUMBER = re.compile(r"[-+]?[\d.]+([eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Example:
    """Two tables, and which of their columns are the same. Columns without any value were taken out."""

    base: str  # the base table of both; empty if they have nothing to do with each other
    query: Table
    table: Table
    truth: NDArray[np.bool_]  # (q, t)


def example(base: str, query: Table, table: Table, ours: Sequence[str], theirs: Sequence[str]) -> Example:
    """Two tables whose columns were cut from these base columns, or made up, if that is empty."""
    left, right = (
        [at for at, column in enumerate(side.columns) if not all(map(is_placeholder, column.cells))]
        for side in (query, table)
    )
    truth = np.array([[bool(ours[i]) and ours[i] == theirs[j] for j in right] for i in left], bool)
    return Example(base, _only(query, left), _only(table, right), truth.reshape(len(left), len(right)))


def _only(table: Table, columns: Iterable[int]) -> Table:
    return replace(table, columns=[table.columns[at] for at in columns])


# --- lakes that were cut -----------------------------------------------------------------------------


def lake_examples(lake: Path, pairs: int, seed: int = 0) -> list[Example]:
    """So many unionable pairs of each base table of a lake, by chance but the same every time.

    A lake of `make-lake` says which columns are the same. In others, columns of tables that belong together
    are taken to be the same if they have the same name.
    """
    origins = _origins(lake / "columns.csv")
    truths = [path for path in sorted(lake.glob("groundtruth*.csv")) if path.name != "groundtruth.csv"]
    linked = sorted({(q, c) for path in truths for q, found in load_groundtruth(path).items() for c in found})
    groups: dict[str, list[tuple[str, str]]] = {}
    bases = _bases(linked) if origins is None else {name: columns[0][0] for name, columns in origins.items()}
    for query, table in linked:
        groups.setdefault(bases[query], []).append((query, table))
    out = []
    for base, found in sorted(groups.items()):
        for query, table in Random(f"{seed} {base}").sample(found, min(pairs, len(found))):
            sides = [read_path(lake / "datalake" / name) for name in (query, table)]
            if origins is None:
                known = [[column.name for column in side.columns] for side in sides]
            else:
                known = [[column for _, column in origins[name]] for name in (query, table)]
            # A column without name and cells is no column to a reader: then it is not known which is which.
            if all(len(side.columns) == len(columns) for side, columns in zip(sides, known, strict=True)):
                out.append(example(base, sides[0], sides[1], *known))
    return out


def _origins(path: Path) -> dict[str, list[tuple[str, str]]] | None:
    """(base table, base column) of every column of every table of a lake that `make-lake` cut."""
    if not path.is_file():
        return None
    found: dict[str, list[tuple[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["table"], []).append((row["base_table"], row["base_column"]))
    return found


def _bases(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first of all tables that are linked with each other stands for their base table."""
    leader: dict[str, str] = {}

    def of(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for one, other in pairs:
        first, second = sorted((of(one), of(other)))
        leader[second] = first
    return {name: of(name) for name in leader}


# --- slices to learn from ----------------------------------------------------------------------------


def base_tables(folders: Iterable[Path], most: int, seed: int = 0, most_rows: int = 5000) -> list[BaseTable]:
    """Tables to cut, at most so many of each folder, by chance; without columns that only count the rows."""
    out = []
    for folder in folders:
        sources = [item for item in scan(folder) if not isinstance(item, Skipped)]
        Random(f"{seed} {label(folder)}").shuffle(sources)
        found: list[BaseTable] = []
        for source in sources:
            if len(found) == most:
                break
            try:
                table = without_counters(read_whole(source, most_rows))
            except Unreadable:
                continue
            if can_be_cut(table):
                found.append(replace(table, name=f"{label(folder)}/{table.name}"))
        out += sorted(found, key=lambda table: table.name)
    return out


def label(folder: Path) -> str:
    """What a folder of tables is called."""
    return folder.parent.name if folder.name == "datalake" else folder.name


def without_counters(table: BaseTable) -> BaseTable:
    """Leave out a first column without a name that only counts the rows: exports add it."""
    rows = list(map(str, range(1, table.rows + 1)))
    if table.header and table.header[0] == "column_1" and table.columns[0] in (rows, ["0", *rows[:-1]]):
        return BaseTable(table.name, table.header[1:], table.columns[1:])
    return table


def can_be_cut(table: BaseTable, columns: int = FEWEST_COLUMNS, rows: int = FEWEST_ROWS) -> bool:
    """Whether a table is large enough, and its first row is a header and no data."""
    named = not any(map(_NUMBER.fullmatch, table.header))
    return len(table.columns) >= columns and table.rows >= rows and named


def alike(header: Sequence[str], others: Iterable[Sequence[str]], share: float = 0.4) -> bool:
    """Whether one of several tables has mostly the same column names: then it may be the same table."""
    ours = {name.lower() for name in header}
    for other in others:
        theirs = {name.lower() for name in other}
        if len(ours & theirs) >= share * len(ours | theirs):
            return True
    return False


def training_examples(tables: Sequence[BaseTable], seed: int = 0, total: int = 6000) -> list[Example]:
    """Pairs of slices of many kinds, and a sixth as many pairs of tables that have nothing in common.

    Rows from anywhere, runs of rows, or runs after sorting by a column, as a selection gives them; few rows
    or many, with overlap or without; cells spoilt or not; column names of all kinds; columns shuffled or not.
    """
    each = max(2, min(10, total // max(len(tables), 1)))
    found = [
        pair
        for table in tables
        if len(table.columns) <= 60
        for pair in _cut_pairs(table, each, f"{seed} {table.name}")
    ]
    chance = Random(f"{seed} unrelated")
    unrelated = []
    for _ in range(len(found) // 6):
        one, other = chance.sample(found, 2)
        if one.base != other.base:
            nothing = np.zeros((len(one.query.columns), len(other.table.columns)), bool)
            unrelated.append(Example("", one.query, other.table, nothing))
    return found + unrelated


def _cut_pairs(table: BaseTable, count: int, seed: str) -> Iterator[Example]:
    chance = Random(seed)
    for number in range(count):
        slices = chance.choice([2, 2, 3, 5, 10])
        rows = chance.choice(["anywhere", "anywhere", "run", "sorted"])
        spoilt = chance.random() < 0.5
        # Often both tables have the same names, or each its own; or one of them has none.
        headers = chance.choice([Headers.KEEP, Headers.KEEP, Headers.MANGLE, Headers.MIX])
        noise = Noise(headers=headers)
        if spoilt:
            typos, missing = chance.choice([0, 0.1]), chance.choice([0, 0.2])
            noise = Noise(typos, missing, case=0.3, numbers=0.3, dates=0.3, headers=headers)
        options = LakeOptions(
            seed=number,
            slices=slices if table.rows >= 8 * slices else 2,
            columns=chance.choice([0.3, 0.5, 0.5, 0.8]),
            runs=rows != "anywhere",
            overlap=chance.choice([0, 0, 0.2]),
            rows=chance.choice([None, None, 30, 100]),
            noise=noise,
        )
        in_order = chance.random() < 0.4
        source = _sorted(table, chance) if rows == "sorted" else table
        try:
            check_size(source, options)
        except Unreadable:
            continue
        cuts = [_in_order(cut, table) if in_order else cut for cut in slices_of(source, options)]
        shared = [pair for pair in combinations(cuts, 2) if _shared(*pair) >= SHARED]
        if shared:
            one, other = chance.choice(shared)
            pair = _tables(table.name, one, other)
            if pair is not None and pair.truth.any():
                yield pair


def _sorted(table: BaseTable, chance: Random) -> BaseTable:
    by = chance.choice(table.columns)
    rows = sorted(range(table.rows), key=by.__getitem__)
    return replace(table, columns=[[column[row] for row in rows] for column in table.columns])


def _in_order(cut: Cut, table: BaseTable) -> Cut:
    order = sorted(range(len(cut.origins)), key=lambda at: table.header.index(cut.origins[at][1]))
    return replace(
        cut,
        header=[cut.header[at] for at in order],
        columns=[cut.columns[at] for at in order],
        origins=[cut.origins[at] for at in order],
    )


def _shared(one: Cut, other: Cut) -> int:
    return len(set(one.origins) & set(other.origins))


def _tables(base: str, one: Cut, other: Cut) -> Example | None:
    """Two cuts as they would be read from files."""
    sides, origins = [], []
    for cut in (one, other):
        kept = [at for at, column in enumerate(cut.columns) if any(column)]  # a reader leaves out others too
        rows = list(zip(*(cut.columns[at] for at in kept), strict=True))
        try:
            sides.append(table_from_rows(cut.name, [cut.header[at] for at in kept], rows, Limits()))
        except Unreadable:
            return None
        origins.append([cut.origins[at][1] for at in kept])
    if any(len(side.columns) != len(known) for side, known in zip(sides, origins, strict=True)):
        return None  # all cells of a column say "null"
    return example(base, sides[0], sides[1], *origins)
