"""Alignment and union take the same values from the same cells, whatever decides how they are read."""

from __future__ import annotations

import csv
import datetime
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gentus.align import cell_evidence
from gentus.align.column_notations import agree
from gentus.align.matcher import align
from gentus.align.table_profile import profile_table
from gentus.lake.reader import read_path
from gentus.union import OutputColumn, Placement, PlannedTable, Union, UnionPlan
from gentus.union.session import open_session
from gentus.union.shapes import _shaped

NUMBERS = [  # cells of a column; only those of the last line leave nothing open
    ["1,234", "2,345"], ["1,234", "950"], ["1.234", "2.345"], ["$1,200", "$35,500"], ["-1.234", "7"],
    ["1,234", "1,234,567"], ["1,234", "0,5"], ["1.234,5", "1.234"], ["1'234.5", "1,234"], ["12 %", "3,5 %"],
]  # fmt: skip
DATES = [
    ["3/4/2020", "5/6/2020"], ["3.4.2020", "5.6.2020"], ["03-04-2020", "05-06-2020 10:30"],
    ["3/4/2020", "31/1/2020"], ["3.4.2020", "1.31.2020"], ["2020-03-04", "2020-12-31"],
]  # fmt: skip
OTHERS = [["x", "y"], ["0,5", "7,25"], ["0.5", "7.25"], ["25.06.2024", "1.2.2023"], ["1/31/2020", "2/3/2020"]]


def write(path: Path, cells: list[str], other: list[str], delimiter: str) -> None:
    with path.open("w", newline="") as file:
        rows = [["amount", "remark"], *zip(cells, other, strict=True)]
        csv.writer(file, delimiter=delimiter).writerows(rows)


def as_number(value: Any) -> float:
    if not isinstance(value, datetime.date):
        return float(value)
    midnight = value if isinstance(value, datetime.datetime) else datetime.datetime(*value.timetuple()[:3])
    return (midnight - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)


def united(folder: Path) -> tuple[str | None, list[list[float]]]:
    """The type of the column, and the values of the query and of the table, as numbers."""
    planned = [
        PlannedTable(name, str(folder / name), None, (Placement("amount", "amount"),))
        for name in ("query.csv", "table.csv")
    ]
    union = Union(UnionPlan(planned[0], (planned[1],), (OutputColumn("amount"),)))
    rows = union.to_arrow().to_pylist()
    assert union.ran is not None
    kind = union.ran.columns[0].type
    values: list[list[float]] = [[], []]
    for row in rows:
        if kind != "VARCHAR" and row["amount"] is not None:
            values[row["_source_table"] == "table.csv"].append(as_number(row["amount"]))
    return kind, values


sides = some.tuples(some.sampled_from(OTHERS), some.sampled_from([",", ";", "\t"]))
columns = some.sampled_from([NUMBERS, DATES]).flatmap(
    lambda kind: some.tuples(some.sampled_from(kind), some.sampled_from(kind))
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(columns, sides, sides)
def test_align_and_union_read_alike(
    cells: tuple[list[str], list[str]], query: tuple[list[str], str], table: tuple[list[str], str]
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write(folder / "query.csv", cells[0], *query)
        write(folder / "table.csv", cells[1], *table)
        kind, values = united(folder)
        if kind == "VARCHAR":
            return
        profiles = [profile_table(read_path(folder / name)) for name in ("query.csv", "table.csv")]
        agreed = agree(profiles[0].notations, profiles[1].notations, [(0, 0)])
        read = [
            profile_table(one.table, its).numbers[0].tolist()
            for one, its in zip(profiles, agreed, strict=True)
        ]
    for ours, theirs in zip(read, values, strict=True):
        if len(ours) == len(theirs):  # a union loses what does not fit its type
            assert ours == pytest.approx(sorted(theirs))


@pytest.mark.parametrize(
    ("query", "table", "delimiter", "reason"),
    [
        (["7.5", "1.304"], ["1,304", "9,951"], ";", "1.304-9.951"),
        (["7.5", "1.304"], ["1,304", "9,951"], ",", "1304-9951"),
        (["7,5", "1,304"], ["1.304", "9.951"], ",", "1304-9951"),
        (["1,304", "9,951"], ["0,25", "0,5"], ",", "1.304-9.951"),
    ],
)
def test_reasons_have_the_values_of_the_union(
    tmp_path: Path, query: list[str], table: list[str], delimiter: str, reason: str
) -> None:
    """By the delimiter, by the query, by the table."""
    write(tmp_path / "query.csv", query * 10, ["x"] * 20, ",")
    write(tmp_path / "table.csv", table * 10, ["y"] * 20, delimiter)
    (pair,) = (
        pair
        for pair in align(read_path(tmp_path / "query.csv"), read_path(tmp_path / "table.csv")).pairs
        if pair.query.name == "amount"
    )
    assert reason in pair.reason
    _, values = united(tmp_path)
    assert any(reason == f"{min(one):.4g}-{max(one):.4g}" for one in values)


def test_cells_of_a_form_have_the_same_shape() -> None:
    """Both look at each form of a cell once, which has fewer different digits."""
    chance = random.Random(0)
    patterns = (
        *("9", "99", "099", "$9,999.99", "9.999", "-9,9", "9 999 999", "+999999", "9e9", "99 %", "A9-99"),
        *("9.9.9", "9/9/2020", "99.99.2020", "2020-99-99", "99 May 2020", "999 999 999", "99:99", "9" * 16),
    )
    cells = [
        "".join(chance.choice("0123456789") if letter == "9" else letter for letter in pattern)
        for pattern in patterns
        for _ in range(60)
    ]
    for cell, form in zip(cells, cell_evidence._forms(cells), strict=True):
        alone = cell_evidence._date(cell) or cell_evidence._number(cell) or "text"
        assert cell_evidence._shape(cell, form) == alone, cell
    with open_session() as session, session.connect("test", thirds=3, macros=True) as duck:
        both = "(SELECT t, gentus_form(t) AS form FROM (SELECT unnest($1) AS t))"
        own, of_form = (
            duck.execute(
                f"SELECT shape FROM {_shaped(f'(SELECT {one} AS t FROM {both})')}", [cells]
            ).fetchall()
            for one in ("t", "form")
        )
    assert own == of_form
    assert len(set(own)) > 12
