"""Base tables into slices that belong together, and into distractors that do not.

What is cut depends on the seed and on the names and the content of the tables only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from gentus.lake import Unreadable
from gentus_bench.lakes.base_tables import BaseTable
from gentus_bench.lakes.noise import Noise, headers, noisy

SHARED = 2  # columns that two tables need to share to be unionable: one is what a distractor shares
_POOL_ROWS = 200


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """How base tables are cut."""

    seed: int = 0
    slices: int = 10  # tables cut from each base table
    columns: float = 0.5  # least share of the columns that a slice keeps; never fewer than two of them
    rows: int | None = None  # most rows of a slice; None: its whole part of the base table
    overlap: float = (
        0.0  # rows that a slice takes from the parts of others, as a share of its own; 0: disjoint
    )
    runs: bool = False  # a slice is a run of rows that follow one another, instead of rows from anywhere
    distractors: int = 2  # for each base table
    dev: float = 0.3  # share of the base tables whose queries go into groundtruth_dev.csv
    most_rows: int = 20_000  # of a base table that are used, the first ones
    noise: Noise = field(default_factory=Noise)

    def __post_init__(self) -> None:
        """Refuse what no lake can be made with."""
        if self.slices < 2:
            raise ValueError(f"a group needs at least 2 slices, not {self.slices}")
        if not (0 < self.columns <= 1 and 0 <= self.overlap <= 1 and 0 <= self.dev <= 1):
            raise ValueError("columns (above 0), overlap and dev are shares up to 1")
        if (
            self.distractors < 0
            or self.most_rows < 2 * self.slices
            or (self.rows is not None and self.rows < 2)
        ):
            raise ValueError("distractors cannot be negative, and a slice has at least 2 rows")


@dataclass(frozen=True, slots=True)
class Cut:
    """One table of the lake: its columns, and the base table and column each comes from."""

    name: str
    header: list[str]
    columns: list[list[str]]
    origins: list[tuple[str, str]]  # both empty for a column that was made up


def slices_of(table: BaseTable, options: LakeOptions) -> Iterator[Cut]:
    """Cut a base table into as many slices as the options say."""
    rng = random_of(options, table.name)
    width, count = len(table.columns), table.rows
    fewest = min(width, max(SHARED, round(options.columns * width)))
    order = list(range(count))
    if not options.runs:
        rng.shuffle(order)
    bounds = [count * part // options.slices for part in range(options.slices + 1)]
    for number in range(options.slices):
        own = order[bounds[number] : bounds[number + 1]]
        if options.overlap:
            others = order[: bounds[number]] + order[bounds[number + 1] :]
            own = own + rng.sample(others, min(len(others), round(options.overlap * len(own))))
        rows = sorted(
            own if options.rows is None or len(own) <= options.rows else rng.sample(own, options.rows)
        )
        chosen = rng.sample(range(width), rng.randint(fewest, width))  # in random order
        yield _cut(
            f"{table.name} {number}",
            [(table.name, table.header[at], [table.columns[at][row] for row in rows]) for at in chosen],
            options,
            rng,
        )


def distractor(table: BaseTable, pool: Sequence[BaseTable], number: int, options: LakeOptions) -> Cut:
    """Assemble a table that looks like those of the base table and has another subject.

    Either a column each of several base tables, or one column to join by beside figures that are made up.
    """
    rng = random_of(options, f"{table.name} distractor {number}")
    own = pool[-1]
    others = [one for one in pool[:-1] if one.header]
    parts: list[tuple[str, str, list[str]]] = []
    if number % 2 == 0 and others:
        for one in [own, *rng.sample(others, min(len(others), rng.randint(2, 5)))]:
            at = rng.randrange(len(one.header))
            parts.append((one.name, one.header[at], one.columns[at]))
    else:
        at = max(range(len(own.header)), key=lambda at: (len(set(own.columns[at])), -at))  # most like a key
        parts.append((own.name, own.header[at], own.columns[at]))
    while len(parts) < 3:
        scale = 10 ** rng.randint(1, 6)
        values = [f"{rng.uniform(0, scale):.{rng.choice((0, 2))}f}" for _ in range(own.rows)]
        parts.append(
            ("", rng.choice(("score", "index", "amount", "level", "weight")) + f"_{len(parts)}", values)
        )
    rows = min(options.rows or _POOL_ROWS, *(len(values) for _, _, values in parts))
    parts = [(base, name, values[:rows]) for base, name, values in parts]
    rng.shuffle(parts)
    return _cut(f"{table.name} distractor {number}", parts, options, rng)


def _cut(what: str, parts: Sequence[tuple[str, str, list[str]]], options: LakeOptions, rng: Random) -> Cut:
    digest = hashlib.blake2b(f"{options.seed} {what}".encode(), digest_size=8).hexdigest()
    return Cut(
        f"t_{digest}.csv",  # says nothing about what is inside
        headers([name for _, name, _ in parts], options.noise.headers, rng),
        [noisy(values, options.noise, rng) for _, _, values in parts],
        [(base, name if base else "") for base, name, _ in parts],
    )


def thinned(table: BaseTable, options: LakeOptions) -> BaseTable:
    """Keep what distractors need of a base table when it is gone."""
    rng = random_of(options, f"{table.name} pool")
    rows = sorted(rng.sample(range(table.rows), min(table.rows, _POOL_ROWS)))
    return BaseTable(table.name, table.header, [[column[row] for row in rows] for column in table.columns])


def random_of(options: LakeOptions, what: str) -> Random:
    """Give each thing its own dice, so that one more table changes nothing about the others."""
    return Random(f"{options.seed} {what}")


def check_size(table: BaseTable, options: LakeOptions) -> None:
    """Refuse a base table that cannot be cut."""
    if len(table.columns) < SHARED:
        raise Unreadable(f"it has {len(table.columns)} columns with values; at least {SHARED} are needed")
    if table.rows < 2 * options.slices:
        raise Unreadable(f"its {table.rows} rows are too few for {options.slices} slices of at least two")
