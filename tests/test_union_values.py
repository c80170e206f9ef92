"""Values in many notations under one type: what they become, what is counted, what is said."""

from __future__ import annotations

import csv
import datetime
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gentus.union import OutputColumn, Placement, PlannedTable, Union, UnionPlan
from gentus.union.report import Report

Cells = Sequence[str | None]


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


class Unioned:
    """One column of a query and of a table under it."""

    def __init__(self, folder: Path, query: Any, table: Any, kind: str | None = None) -> None:
        sources = [self.write(folder / name, cells) for name, cells in (("q", query), ("t", table))]
        column = (Placement("a", "a"),)
        planned = [PlannedTable(path.stem, str(path), None, column) for path in sources]
        self.plan = Union(UnionPlan(planned[0], (planned[1],), (OutputColumn("a", kind),))).settled()
        union = Union(self.plan)
        rows = union.to_arrow().to_pylist()
        assert union.report is not None
        self.report: Report = union.report
        self.query = [row["a"] for row in rows if row["_source_table"] == "q"]
        self.table = [row["a"] for row in rows if row["_source_table"] == "t"]
        self.type = self.plan.columns[0].type
        self.said = " ".join(
            [self.plan.columns[0].note, *(c.note for t in self.plan.tables for c in t.columns)]
        )

    @staticmethod
    def write(path: Path, cells: Any) -> Path:
        if isinstance(cells, pa.Array):
            pq.write_table(pa.table({"a": cells}), path.with_suffix(".parquet"))
            return path.with_suffix(".parquet")
        with path.with_suffix(".csv").open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *([cell, "x"] for cell in cells)])
        return path.with_suffix(".csv")


NUMBERS: list[tuple[str, Cells, Cells, str, list[Any]]] = [
    ("plain", ["1", "-20"], ["3", "+4", "−5"], "BIGINT", [3, 4, -5]),
    ("int with float", ["1", "2"], ["3", "4.5"], "DOUBLE", [3.0, 4.5]),
    ("float with int", ["1.5"], ["3", "4"], "DOUBLE", [3.0, 4.0]),
    ("whole floats", ["1", "2"], ["3.0", "4.00"], "DOUBLE", [3.0, 4.0]),
    ("commas", ["1"], ["1,234", "1,234,567"], "BIGINT", [1234, 1234567]),
    ("commas and a point", ["1.5"], ["1,234.5", "999"], "DOUBLE", [1234.5, 999.0]),
    ("points and a comma", ["1.5"], ["1.234,5", "999", "1.234"], "DOUBLE", [1234.5, 999.0, 1234.0]),
    ("decimal comma", ["1.5"], ["0,25", "12,125", "1,125"], "DOUBLE", [0.25, 12.125, 1.125]),
    ("blanks", ["1.5"], ["1 234", "1\u202f234,5", "12\u00a0345"], "DOUBLE", [1234.0, 1234.5, 12345.0]),
    ("apostrophes", ["1.5"], ["1'234.5", "1’000"], "DOUBLE", [1234.5, 1000.0]),
    ("exponents", ["1.5"], ["1e3", "2.5E-1"], "DOUBLE", [1000.0, 0.25]),
    ("dollars", ["1.5"], ["$1,200", "-$5", "$ 3.50"], "DOUBLE", [1200.0, -5.0, 3.5]),
    ("euros", ["1.5"], ["1200 €", "1.200,50 €", "EUR 7"], "DOUBLE", [1200.0, 1200.5, 7.0]),
    ("the query's own euros", ["1.200,50 €", "3,00 €"], ["4", "5,5"], "DOUBLE", [4.0, 5.5]),
    ("percent as in the query", ["12 %", "3.5%"], ["4 %", "5"], "DOUBLE", [4.0, 5.0]),
    ("percent under fractions", ["0.12", "0.5"], ["12 %", "7.5%"], "DOUBLE", [0.12, 0.075]),
    ("percent under numbers", ["12.5", "50"], ["12 %", "7.5%"], "DOUBLE", [12.0, 7.5]),
    ("yes under 1", ["1", "0"], ["yes", "No"], "BIGINT", [1, 0]),
    ("empty ones", ["1", "", "N/A"], ["null", "NaN", "none", " ", "2"], "BIGINT", [None] * 4 + [2]),
]


@pytest.mark.parametrize(
    ("query", "table", "kind", "expected"), [c[1:] for c in NUMBERS], ids=[c[0] for c in NUMBERS]
)
def test_numbers(tmp_path: Path, query: Cells, table: Cells, kind: str, expected: list[Any]) -> None:
    found = Unioned(tmp_path, query, table)
    assert (found.type, found.table, found.report.unconverted) == (kind, expected, 0)


@pytest.mark.parametrize(
    "values", [["007", "123"], ["1234567890123456"], ["+4912345678", "+4987654321"], ["1", "x"]]
)
@pytest.mark.parametrize("side", ["query", "table"])
def test_identifiers_stay_text(tmp_path: Path, values: list[str], side: str) -> None:
    found = Unioned(tmp_path, *((values, ["8"]) if side == "query" else (["8"], values)))
    if (values, side) == (["1", "x"], "table"):  # not digits: the query's type wins
        assert (found.type, found.table) == ("BIGINT", [1, None])
    else:
        assert (found.type, found.query + found.table) == (
            "VARCHAR",
            [*values, "8"] if side == "query" else ["8", *values],
        )


def test_telephone_numbers_are_no_millions(tmp_path: Path) -> None:
    assert Unioned(tmp_path, ["612 345 678", "698 765 432"], ["1"]).type == "VARCHAR"
    assert Unioned(tmp_path, ["612 345 678", "7 432", "12"], ["1"]).type == "BIGINT"


def test_mixed_units_stay_text(tmp_path: Path) -> None:
    assert Unioned(tmp_path, ["$5", "7 €"], ["1"]).type == "VARCHAR"
    assert Unioned(tmp_path, ["5 %", "7"], ["1"]).type == "VARCHAR"
    assert Unioned(tmp_path, ["1,5", "1.5"], ["1"]).type == "VARCHAR"
    found = Unioned(tmp_path, ["$5.10"], ["7 €"])
    assert (found.table, found.type) == ([7.0], "DOUBLE")
    assert "amounts in € stay as they are; the query's are in $" in found.said


def test_what_cannot_be_decided_is_said(tmp_path: Path) -> None:
    found = Unioned(tmp_path, ["5"], ["1,234", "2,345"])
    assert (found.table, "undecided: numbers like 1,234" in found.said) == ([1234, 2345], True)
    found = Unioned(tmp_path, ["5,25"], ["1,234", "2,345"])
    assert (found.table, "as in the query" in found.said) == ([1.234, 2.345], True)
    found = Unioned(tmp_path, ["2020-01-31"], ["3/4/2020", "5/6/2020"])
    assert found.table == [day("2020-03-04"), day("2020-05-06")]
    assert "undecided: dates like 3/4/2020 are read month first" in found.said
    found = Unioned(tmp_path, ["31/12/2020"], ["3/4/2020"])
    assert (found.table, "as in the query" in found.said) == ([day("2020-04-03")], True)
    found = Unioned(tmp_path, ["3/4/2020"], ["31/12/2020"])
    assert (found.query, found.table) == ([day("2020-04-03")], [day("2020-12-31")])
    assert "as in the tables" in found.said


NOON, NIGHT = moment("2020-01-01 12:00"), moment("2020-01-01")
DATES: list[tuple[str, Cells, Cells, str, list[Any]]] = [
    ("iso", ["2020-01-31"], ["2020-2-1", "2020/12/31"], "DATE", [day("2020-02-01"), day("2020-12-31")]),
    ("points", ["2020-01-31"], ["31.12.2020", "1.2.2020"], "DATE", [day("2020-12-31"), day("2020-02-01")]),
    ("months first", ["2020-01-31"], ["12/31/2020", "1/2/2020"], "DATE",
     [day("2020-12-31"), day("2020-01-02")]),
    ("days first", ["2020-01-31"], ["31/12/2020", "1/2/2020"], "DATE",
     [day("2020-12-31"), day("2020-02-01")]),
    ("names", ["2020-01-31"], ["31 Dec 2020", "December 31, 2020", "3-Sep-2001"], "DATE",
     [day("2020-12-31"), day("2020-12-31"), day("2001-09-03")]),
    ("the query's own", ["31.12.2020"], ["2020-12-30"], "DATE", [day("2020-12-30")]),
    ("dates with times", ["2020-01-31"], ["2020-12-31 14:05", "2020-01-01"], "TIMESTAMP",
     [moment("2020-12-31 14:05"), moment("2020-01-01")]),
    ("times", ["2020-01-31 10:00:00"], ["12/31/2020 2:05 PM", "2020-01-01T01:02:03.5"], "TIMESTAMP",
     [moment("2020-12-31 14:05"), moment("2020-01-01 01:02:03.5")]),
    ("zones become UTC", ["2020-01-31 10:00:00"], ["2020-01-01T14:00+02:00"], "TIMESTAMP", [NOON]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "table", "kind", "expected"), [c[1:] for c in DATES], ids=[c[0] for c in DATES]
)
def test_dates(tmp_path: Path, query: Cells, table: Cells, kind: str, expected: list[Any]) -> None:
    found = Unioned(tmp_path, query, table)
    assert (found.type, found.table, found.report.unconverted) == (kind, expected, 0)


def test_evidence_far_down_decides(tmp_path: Path) -> None:
    """The first ten thousand rows can be read in either way."""
    early = [f"{1 + i % 12}/{1 + i % 11}/2020" for i in range(12_000)]
    found = Unioned(tmp_path, ["2020-01-31"], [*early, "31/1/2020"])
    assert (found.table[1], found.table[-1]) == (day("2020-02-02"), day("2020-01-31"))
    assert found.report.unconverted == 0
    found = Unioned(tmp_path, [*map(str, range(2, 12_000)), "Year"], ["7"])
    assert (found.type, found.table) == ("VARCHAR", ["7"])
    found = Unioned(tmp_path, [*map(str, range(2, 12_000)), "$1,234.50"], ["7"])
    assert (found.type, found.table, found.query[-1]) == ("DOUBLE", [7.0], 1234.5)


BOOLEANS = ["true", "false", "TRUE", "Yes", "no", "y", "N", "t", "F", "1", "0"]


def test_booleans(tmp_path: Path) -> None:
    found = Unioned(tmp_path, ["yes", "no"], BOOLEANS)
    assert (found.type, found.query) == ("BOOLEAN", [True, False])
    assert found.table == [word.lower() in ("true", "yes", "y", "t", "1") for word in BOOLEANS]
    assert Unioned(tmp_path, ["yes", "no", "1", "0"], ["t"]).type == "BOOLEAN"
    assert Unioned(tmp_path, ["f", "f"], ["m"]).table == ["m"]  # not true and false: a column of women
    assert Unioned(tmp_path, ["no", "no"], ["none at all"]).table == ["none at all"]
    assert Unioned(tmp_path, ["0", "1"], ["0"]).type == "BIGINT"


def test_what_does_not_convert_is_counted(tmp_path: Path) -> None:
    found = Unioned(
        tmp_path, ["1", "2"], ["3", "many", "n/a", "", "few", "some", "many", "31.12.2020", "none"]
    )
    assert found.table == [3] + 8 * [None]
    (failed,) = found.report.tables[1].unconverted
    assert (failed.count, failed.examples) == (5, ["many", "few", "some"])
    assert found.report.tables[0].unconverted[0].count == 0
    (told,) = found.report.to_dict()["tables"][1]["unconverted"]
    assert told == {
        "from": "a",
        "into": "a",
        "type": "BIGINT",
        "count": 5,
        "examples": ["many", "few", "some"],
    }
    (remark,) = found.report.tables[1].remarks()
    assert remark == "5 values of 'a' are no BIGINT and became null: 'many', 'few', 'some', .."


def test_contradictions_go_with_the_majority(tmp_path: Path) -> None:
    found = Unioned(tmp_path, ["2020-01-31"], ["31.12.2020", "30.12.2020", "12/31/2020"])
    assert found.table == [day("2020-12-31"), day("2020-12-30"), None]
    assert found.report.unconverted == 1
    assert Unioned(tmp_path, ["31/12/2020", "12/31/2020"], ["x"]).type == "VARCHAR"


@pytest.mark.parametrize(
    ("query", "table", "kind", "expected"),
    [
        (pa.array([1, 2], pa.int32()), pa.array([3, 4]), "INTEGER", [3, 4]),
        (pa.array([1, 2], pa.int32()), pa.array([3, 1 << 40]), "BIGINT", [3, 1 << 40]),
        (pa.array([1, 2], pa.int32()), pa.array([3.0, float("nan")]), "INTEGER", [3, None]),
        (pa.array([1, 2]), pa.array([3.5, None]), "DOUBLE", [3.5, None]),
        (pa.array([1 << 60]), pa.array([3.5, 3.0]), "BIGINT", [None, 3]),
        (pa.array([1.5, float("nan")]), ["2", "1e400", "12345678901234567"], "DOUBLE", [2.0, None, None]),
        (pa.array([1.5], pa.float32()), pa.array([0.1]), "DOUBLE", [0.1]),
        (pa.array([Decimal("1.50")]), ["2.25", "2.255", "3 €"], "DECIMAL(3,2)",
         [Decimal("2.25"), None, Decimal(3)]),
        (pa.array([True, False]), ["yes", "N", "2"], "BOOLEAN", [True, False, None]),
        (pa.array([day("2020-01-02")]), ["31.12.2020", "x"], "DATE", [day("2020-12-31"), None]),
        (pa.array([day("2020-01-02")]), pa.array([NIGHT, NOON]), "TIMESTAMP", [NIGHT, NOON]),
        (pa.array(["1", "2"]), ["3", "x", "null"], "VARCHAR", ["3", "x", None]),
        (["1", "2"], pa.array(["3", "4,5"]), "DOUBLE", [3.0, 4.5]),
        (["x"], pa.array([1.0, 2.5]), "VARCHAR", ["1", "2.5"]),
        (["x"], pa.array([NIGHT, NOON]), "VARCHAR", ["2020-01-01", "2020-01-01 12:00:00"]),
        (pa.array([[1], [2, 3]]), ["[4]"], "VARCHAR", ["[4]"]),
        (["2020-01-31"], pa.array([NIGHT]), "DATE", [day("2020-01-01")]),
        (pa.array([datetime.time(1, 2)]), ["03:04:05", "x"], "TIME", [datetime.time(3, 4, 5), None]),
    ],
)  # fmt: skip
def test_typed_columns(tmp_path: Path, query: Any, table: Any, kind: str, expected: list[Any]) -> None:
    found = Unioned(tmp_path, query, table)
    assert (found.type, found.table) == (kind, expected)
    nothing = sum(cell is None or cell in ("", "null") or cell != cell for cell in _cells(table))
    assert found.report.unconverted == sum(value is None for value in expected) - nothing


def _cells(table: Any) -> list[Any]:
    return table.to_pylist() if isinstance(table, pa.Array) else list(table)


def test_zoned_times(tmp_path: Path) -> None:
    found = Unioned(tmp_path, ["2020-01-31T10:00:00Z"], ["2020-01-31 12:00+02:00", "2020-01-31 10:00:00"])
    assert found.type == "TIMESTAMP WITH TIME ZONE"
    assert {value.timestamp() for value in found.query + found.table} == {1580464800.0}


def test_a_type_that_a_person_gives(tmp_path: Path) -> None:
    found = Unioned(tmp_path, ["1", "2"], ["007", "4.5"], "BIGINT")
    assert (found.query, found.table, found.report.unconverted) == ([1, 2], [7, None], 1)
    assert Unioned(tmp_path, ["1", "2"], ["3,5 €"], "VARCHAR").table == ["3,5 €"]
    found = Unioned(tmp_path, ["31.12.2020"], ["12/31/2020"], "TIMESTAMP")
    assert found.query + found.table == [moment("2020-12-31")] * 2


def _notations(number: float) -> Iterator[str]:
    us = f"{number:,.2f}"
    yield from (f"{number:.2f}", us, f"${us}", f"{us} USD", us.replace(",", " "), us.replace(",", "'"))
    german = us.translate(str.maketrans(",.", ".,"))
    yield from (german, f"{german} €", f"€{german}")


def test_every_notation_of_many_numbers(tmp_path: Path) -> None:
    chance = random.Random(0)
    numbers = [round(chance.uniform(-1, 1) * 10 ** chance.randint(0, 9), 2) for _ in range(200)]
    for cells in zip(*map(_notations, numbers), strict=True):
        found = Unioned(tmp_path, ["1.5"], list(cells))
        assert (found.table, found.report.unconverted) == (numbers, 0), cells[0]
