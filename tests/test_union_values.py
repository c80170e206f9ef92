"""Values in many notations under one type: what they become, what is counted, what is said."""

from __future__ import annotations

import csv
import datetime
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gentus.union import OutputColumn, Placement, PlanError, PlannedTable, Union, UnionPlan
from gentus.union.decision import Choices, Decision
from gentus.union.report import ColumnReport

Cells = Sequence[str | None]


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


@dataclass
class Column:
    """What became of a column of a query and of one of a table under it."""

    type: str | None
    query: list[Any]
    table: list[Any]
    said: str
    report: ColumnReport

    @property
    def unconverted(self) -> int:
        return self.report.unconverted


def write(path: Path, columns: Sequence[Any]) -> Path:
    """Write columns of any lengths: Arrow arrays as Parquet, lists of text as CSV."""
    header = [f"c{at}" for at in range(len(columns))]
    if isinstance(columns[0], pa.Array):
        longest = max(map(len, columns))
        padded = [pa.concat_arrays([cells, pa.nulls(longest - len(cells), cells.type)]) for cells in columns]
        pq.write_table(pa.table(padded, header), path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    with path.with_suffix(".csv").open("w", newline="") as file:
        rows = zip_longest(*columns, fillvalue="")
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([[*header, "x"], *([*row, "x"] for row in rows)])
    return path.with_suffix(".csv")


def unite(
    folder: Path, pairs: Sequence[tuple[Any, Any]], kind: str | None = None
) -> tuple[Union, list[Column]]:
    """One union for all pairs of columns; all are of the same kinds, text or typed."""
    sources = [write(folder / name, [pair[at] for pair in pairs]) for at, name in enumerate("qt")]
    names = [f"c{at}" for at in range(len(pairs))]
    placed = tuple(Placement(name, name) for name in names)
    query, table = (PlannedTable(path.stem, str(path), None, placed) for path in sources)
    union = Union(UnionPlan(query, (table,), tuple(OutputColumn(name, kind) for name in names)))
    rows = union.to_arrow().to_pylist()
    plan = union.ran
    assert union.report is not None
    assert plan is not None
    sides = [[row for row in rows if row["_source_table"] == side] for side in "qt"]
    reports = {one.into: one for one in union.report.tables[1].columns}
    columns = []
    for name, pair, target, under in zip(names, pairs, plan.columns, plan.tables[0].columns, strict=True):
        values = [[row[name] for row in side][: len(cells)] for side, cells in zip(sides, pair, strict=True)]
        said = f"{target.note} {under.note}"
        columns.append(Column(target.type, values[0], values[1], said, reports[name]))
    return union, columns


def many(folder: Path, *pairs: tuple[Any, Any]) -> list[Column]:
    return unite(folder, pairs)[1]


def one(folder: Path, query: Any, table: Any, kind: str | None = None) -> Column:
    return unite(folder, [(query, table)], kind)[1][0]


Case = tuple[str, Cells, Cells, str, list[Any]]
NUMBERS: list[Case] = [
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


Columns = dict[str, Column]


@pytest.fixture(scope="module")
def unioned(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    cases = NUMBERS + DATES
    columns = many(tmp_path_factory.mktemp("values"), *(case[1:3] for case in cases))
    return dict(zip((case[0] for case in cases), columns, strict=True))


@pytest.mark.parametrize(("name", "kind", "expected"), [(c[0], *c[3:]) for c in NUMBERS])
def test_numbers(unioned: Columns, name: str, kind: str, expected: list[Any]) -> None:
    found = unioned[name]
    assert (found.type, found.table, found.unconverted) == (kind, expected, 0)


def test_identifiers_stay_text(tmp_path: Path) -> None:
    values = [["007", "123"], ["1234567890123456"], ["+4912345678", "+4987654321"]]
    for found, cells in zip(many(tmp_path, *((cells, ["8"]) for cells in values)), values, strict=True):
        assert (found.type, found.query, found.table) == ("VARCHAR", cells, ["8"])
    for found, cells in zip(many(tmp_path, *((["8"], cells) for cells in values)), values, strict=True):
        assert (found.type, found.query, found.table) == ("VARCHAR", ["8"], cells)
    found = one(tmp_path, ["8"], ["007", "x"])  # not all of it digits: the query's type wins
    assert (found.type, found.table, found.unconverted) == ("BIGINT", [7, None], 1)


def test_what_stays_text(tmp_path: Path) -> None:
    columns = many(
        tmp_path,
        (["612 345 678", "698 765 432"], ["1"]),  # telephone numbers
        (["$5", "7 €"], ["1"]),
        (["5 %", "7"], ["1"]),
        (["1,5", "1.5"], ["1"]),
        (["31/12/2020", "12/31/2020"], ["x"]),
        (["f", "f"], ["m"]),  # not false: a column of women
        (["no", "no"], ["none at all"]),
        (["2020-01-01T10:00Z", "2020-01-01T10:00"], ["x"]),
        (["", ""], ["1"]),
        (["12:30"], ["x"]),
        (["1.2.20"], ["x"]),
    )
    assert [column.type for column in columns] == ["VARCHAR"] * len(columns)
    found = one(tmp_path, ["612 345 678", "7 432", "12"], ["1"])
    assert (found.type, found.query) == ("BIGINT", [612345678, 7432, 12])


MARCH, APRIL = day("2020-03-04"), day("2020-04-03")
FILE = "as in other columns of the table"
DECISIONS: dict[str, tuple[str, str, list[Any], str]] = {
    # the query, the table, what becomes of the table's first column, and the decision on it in words
    "column": ("a\n1.5", 'a\n"1,234"\n"0,5"', [1.234, 0.5], ""),
    "another column": ("a\n1.5", "a|b\n1,234|0,5", [1.234], f"decimal comma, {FILE}"),
    "a decimal point": ("a\n1.5", "a;b\n1,234;0.5", [1234.0], f"thousands, {FILE}"),
    "dotted dates": ("a\n1.5", "a\tb\n1,234\t25.06.2024", [1.234], f"comma, {FILE}"),
    "dotted dates, commas": ("a\n1", 'a,b\n"1,234",25.06.2024', [1234.0], "undecided: "),
    "points": ("a\n1.5", "a;b\n1,234;x\n1.234.567;x", [1.234, 1234567.0], ""),
    "delimiter": ("a\n1.5", "a;b\n1,234;x", [1.234], "decimal comma, because the file's delimiter is ;"),
    "thousands by it": ("a\n1.5", "a;b\n1.234;x", [1234.0], "point between thousands, because the file's"),
    "query": ("a|b\n5,25|x", 'a\n"1,234"', [1.234], "1,234 are read with a decimal comma, as in the query"),
    "default": (*("a\n5", 'a\n"1,234"\n"2,345"', [1234, 2345]),
                "undecided: numbers like 1,234 are read with a comma between thousands, by default"),
    "a date": ("a\n2020-01-31", "a\n3/4/2020\n31/1/2020", [APRIL, day("2020-01-31")], ""),
    "a date of another": ("a\n2020-01-31", "a,b\n3/4/2020,31/1/2020", [APRIL], f"day first, {FILE}"),
    "a month of another": ("a\n2020-01-31", "a;b\n3.4.2020;1/31/2020", [MARCH], f"month first, {FILE}"),
    "a comma of another": ("a\n2020-01-31", "a\tb\n3/4/2020\t0,5", [APRIL], f"day first, {FILE}"),
    "a date by delimiter": ("a\n2020-01-31", "a;b\n3/4/2020;x", [APRIL], "first, because the file's del"),
    "a date by the query": ("a\n31/12/2020", "a\n3/4/2020", [APRIL], "day first, as in the query"),
    "a date by default": (*("a\n2020-01-31", "a\n3/4/2020\n3/4/2020", [MARCH, MARCH]),
                          "undecided: dates like 3/4/2020 are read month first, by default"),
    "points by default": ("a\n2020-01-31", "a\n3.4.2020", [APRIL], "day first, by default"),
    "both": (*("a\n2020-01-31", "a\n31/1/2020\n3/4/2020\n1/31/2020\n30/1/2020"),
             [day("2020-01-31"), APRIL, None, day("2020-01-30")],
             "day and month come in both orders; most have the day first"),
    "other currencies": ("a\n$5.10", "a\n7 €", [7.0], "amounts in € stay as they are; the query's are in $"),
}  # fmt: skip


def two_files(folder: Path, query: str, *tables: str, **options: Any) -> UnionPlan:
    """A plan for texts of files with a column `a`, which belong together."""
    sources = []
    for name, text in zip(("q", "t", "u", "v"), (query, *tables), strict=False):
        path = folder / f"{name}.csv"
        path.write_text(f"{text}\n")
        sources.append(PlannedTable(path.name, str(path), None, (Placement("a", "a"),)))
    return UnionPlan(sources[0], tuple(sources[1:]), (OutputColumn("a"),), **options)


def values_of(plan: UnionPlan, table: str = "t.csv") -> list[Any]:
    return [row["a"] for row in Union(plan).to_arrow().to_pylist() if row["_source_table"] == table]


@pytest.mark.parametrize("name", DECISIONS)
def test_what_decides_a_notation(tmp_path: Path, name: str) -> None:
    query, table, values, said = DECISIONS[name]
    plan = Union(two_files(tmp_path, query, table)).resolved_plan()
    assert values_of(plan) == values
    (column,) = plan.tables[0].columns
    assert said in column.note
    assert bool(said) == bool(column.note)
    (decided,) = column.decided
    assert decided.undecided == ("undecided" in said or "default" in said)
    assert UnionPlan.from_dict(plan.to_dict()) == plan
    if decided.undecided:
        with pytest.raises(
            PlanError, match=f"t.csv: column 'a' has '{decided.examples[0]}'; decide with --d"
        ):
            values_of(replace(plan, strict=True))


def test_dotted_dates_decide_in_delimited_text_only(tmp_path: Path) -> None:
    """A table of text without a delimiter need not be written in one locale."""
    plan = two_files(tmp_path, "a\n1", "a\n1", strict=True)
    pq.write_table(pa.table({"a": ["1,234"], "b": ["25.06.2024"]}), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text('{"a": "1,234", "b": "25.06.2024"}\n')
    for name in ("t.parquet", "t.jsonl"):
        table = replace(plan.tables[0], name=name, path=str(tmp_path / name))
        with pytest.raises(PlanError, match=f"{name}: column 'a' has '1,234'; decide with --decimal"):
            Union(replace(plan, tables=(table,))).resolved_plan()
        assert values_of(replace(plan, tables=(table,), strict=False), name) == [1234]


def test_strict_takes_what_tables_decide_and_refuses_a_default(tmp_path: Path) -> None:
    """Other columns, the delimiter, the query and other tables are evidence; only a default is undecided."""
    decided = {
        "other columns": ("a\n2020-01-31", "a,b\n3/4/2020,31/1/2020"),
        "delimiter": ("a\n2020-01-31", "a;b\n3/4/2020;x"),
        "query": ("a\n31/12/2020", "a\n3/4/2020"),
        "tables": ("a\n2020-01-31", "a\n3/4/2020", "a\n31/12/2020"),
    }
    for source, texts in decided.items():
        plan = two_files(tmp_path, *texts, strict=True)
        resolved = Union(plan).resolved_plan()
        (found,) = resolved.tables[0].columns[0].decided
        assert (found.source, found.undecided, values_of(plan)) == (source, False, [APRIL])
    tables = ("a\n3/4/2020", "a\n31/12/2020", "a\n12/31/2020")  # the others do not agree
    plan = two_files(tmp_path, "a\n2020-01-31", *tables, strict=True)
    with pytest.raises(PlanError, match=r"t.csv: column 'a' has '3/4/2020'; decide with --dates"):
        values_of(plan)


def test_the_tables_decide(tmp_path: Path) -> None:
    """For the query, and for each other."""
    plan = Union(two_files(tmp_path, "a\n3/4/2020", "a\n31/12/2020", "a\n5/6/2020")).resolved_plan()
    assert (values_of(plan, "q.csv"), values_of(plan, "u.csv")) == ([day("2020-04-03")], [day("2020-06-05")])
    assert [table.columns[0].decided[0].source for table in plan.sources] == ["tables", "column", "tables"]
    plan = Union(two_files(tmp_path, 'a\n"1,234"', 'a\n"0,5"\n2')).resolved_plan()
    assert (values_of(plan, "q.csv"), plan.columns[0].type) == ([1.234], "DOUBLE")


def test_a_person_decides(tmp_path: Path) -> None:
    plan = two_files(tmp_path, "a\n5", 'a\n"1,234"\n"2,345"', strict=True)
    for choice in (Choices(","), Choices(".")):
        value = 1.234 if choice.decimal == "," else 1234
        table = replace(plan.tables[0], choices=choice)
        for chosen in (replace(plan, choices=choice), replace(plan, tables=(table,), choices=Choices("."))):
            resolved = Union(chosen).resolved_plan()
            assert values_of(resolved)[0] == value
            assert resolved.tables[0].columns[0].decided[0].source == "person"
            assert "as decided by a person" in resolved.tables[0].columns[0].note
    document = Union(replace(plan, strict=False)).resolved_plan().to_dict()
    (written,) = document["tables"][0]["columns"]
    assert written["decided"] == [
        {"what": "decimal", "as": ".", "from": "default", "examples": ["1,234"], "undecided": True}
    ]
    written["read"] = {"decimal": ","}  # a person edits it
    document["columns"][0]["type"] = "DOUBLE"
    document["strict"] = True
    edited = Union(UnionPlan.from_dict(document)).resolved_plan()
    assert (values_of(edited)[0], edited.tables[0].columns[0].decided[0].source) == (1.234, "person")
    cells = two_files(
        tmp_path, "a\n5.5", 'a\n"1,234"\n1.5'
    )  # a choice for a table is not one against its cells
    assert values_of(replace(cells, choices=Choices(","))) == [1234.0, 1.5]
    named = replace(
        cells.tables[0], columns=(Placement("a", "a", decided=(Decision("decimal", ",", "person"),)),)
    )
    assert values_of(replace(cells, tables=(named,))) == [1.234, None]
    with pytest.raises(PlanError, match=r"--strict allows no loss:\s+t.csv: 1 value of 'a' is not DOUBLE"):
        Union(replace(cells, tables=(named,), strict=True)).write_csv(tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_null_values_of_a_person(tmp_path: Path) -> None:
    plan = two_files(tmp_path, "a\n5\n-999", "a\n-999\n-99\n7", choices=Choices(null_values=("-999",)))
    table = replace(plan.tables[0], choices=Choices(null_values=("-99",)))
    union = Union(replace(plan, tables=(table,)))
    assert union.to_arrow()["a"].to_pylist() == [5, None, None, None, 7]
    assert union.report
    assert union.report.tables[1].columns[0].taken_as_null == {"-999": 1, "-99": 1}
    words = two_files(tmp_path, "a\nx", "a\nunknown\nN/A", choices=Choices(null_values=("unknown",)))
    assert values_of(words) == [None, "N/A"]


NOON, NIGHT = moment("2020-01-01 12:00"), moment("2020-01-01")
DATES: list[Case] = [
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


@pytest.mark.parametrize(("name", "kind", "expected"), [(c[0], *c[3:]) for c in DATES])
def test_dates(unioned: Columns, name: str, kind: str, expected: list[Any]) -> None:
    found = unioned[name]
    assert (found.type, found.table, found.unconverted) == (kind, expected, 0)


def test_evidence_far_down_decides(tmp_path: Path) -> None:
    """The first ten thousand rows can be read in either way."""
    early = [f"{1 + i % 12}/{1 + i % 11}/2020" for i in range(12_000)]
    found = one(tmp_path, ["2020-01-31"], [*early, "31/1/2020"])
    assert (found.table[1], found.table[-1]) == (day("2020-02-02"), day("2020-01-31"))
    assert found.unconverted == 0
    found = one(tmp_path, [*map(str, range(2, 12_000)), "Year"], ["7"])
    assert (found.type, found.table) == ("VARCHAR", ["7"])
    found = one(tmp_path, [*map(str, range(2, 12_000)), "$1,234.50"], ["7"])
    assert (found.type, found.table, found.query[-1]) == ("DOUBLE", [7.0], 1234.5)


BOOLEANS = ["true", "false", "TRUE", "Yes", "no", "y", "N", "t", "F", "1", "0"]


def test_booleans(tmp_path: Path) -> None:
    found, mixed, bits = many(
        tmp_path, (["yes", "no"], BOOLEANS), (["yes", "no", "1", "0"], ["t"]), (["0", "1"], ["0"])
    )
    assert (found.type, found.query) == ("BOOLEAN", [True, False])
    assert found.table == [word.lower() in ("true", "yes", "y", "t", "1") for word in BOOLEANS]
    assert (mixed.type, bits.type) == ("BOOLEAN", "BIGINT")


def test_what_does_not_convert_is_counted(tmp_path: Path) -> None:
    cells = ["3", "many", "n/a", "", "few", "some", "many", "31.12.2020", "none"]
    union, (found,) = unite(tmp_path, [(["1", "2"], cells)])
    assert found.table == [3] + 8 * [None]
    assert union.report is not None
    assert union.report.unconverted == 5
    (told,) = union.report.to_dict()["tables"][1]["columns"]
    assert told == {
        **{"from": "c0", "into": "c0", "type": "BIGINT", "nulls": 8, "empty": 1, "unconverted": 5},
        "taken_as_null": {"n/a": 1, "none": 1},
        "examples": ["many", "few", "some"],
    }
    lost, words, empty = union.report.tables[1].remarks()
    assert lost == "5 values of 'c0' are not BIGINT and became null: 'many', 'few', 'some', .."
    assert words == "'c0': 1 'n/a', 1 'none' taken as null"
    assert empty == "empty cells: 1 in 'c0'"


NULL_WORDS = ["None", "N/A", "nAN", "NULL", "NA", "#N/A", "-", "--", ".", "?"]


def test_words_for_a_missing_value(tmp_path: Path) -> None:
    """They are null in a column that is otherwise typed, and text in a column of text; both are counted."""
    typed = (["1.5", "2"], ["2020-01-31", "2020-02-28"], ["yes", "no"])
    cases = [([*cells, *NULL_WORDS], [*NULL_WORDS, *cells]) for cells in typed]
    *columns, text, ids, only = many(
        tmp_path,
        *cases,
        (["Mr. None", *NULL_WORDS], [*NULL_WORDS, " padded ", "  "]),
        (["007", "NA"], ["NA", "8"]),
        (["NA", "NA"], ["-"]),
    )
    assert [column.type for column in columns] == ["DOUBLE", "DATE", "BOOLEAN"]
    for column in columns:
        assert (column.query[2:], column.table[:10]) == ([None] * 10, [None] * 10)
        assert (column.report.taken_as_null.total(), column.report.taken_as_null["#N/A"]) == (10, 1)
        assert (column.report.unconverted, column.report.kept_as_text.total()) == (0, 0)
    assert (text.query[1:], text.table) == (NULL_WORDS, [*NULL_WORDS, " padded ", "  "])
    assert (text.report.kept_as_text.total(), text.report.nulls) == (10, 0)
    assert (ids.type, ids.query, ids.table) == ("VARCHAR", ["007", "NA"], ["NA", "8"])
    assert (only.type, only.query, only.table) == ("VARCHAR", ["NA", "NA"], ["-"])


TYPED: list[tuple[Any, Any, str, list[Any]]] = [
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
    (pa.array(["1", "2"]), ["3", "x", "null", ""], "VARCHAR", ["3", "x", "null", None]),
    (["1", "2"], pa.array(["3", "4,5"]), "DOUBLE", [3.0, 4.5]),
    (["x"], pa.array([1.0, 2.5]), "VARCHAR", ["1", "2.5"]),
    (["x"], pa.array([NIGHT, NOON]), "VARCHAR", ["2020-01-01", "2020-01-01 12:00:00"]),
    (pa.array([[1], [2, 3]]), ["[4]"], "VARCHAR", ["[4]"]),
    (["2020-01-31"], pa.array([NIGHT]), "DATE", [day("2020-01-01")]),
    (pa.array([datetime.time(1, 2)]), ["03:04:05", "x"], "TIME", [datetime.time(3, 4, 5), None]),
]  # fmt: skip


def test_typed_columns(tmp_path: Path) -> None:
    for typed in product((True, False), repeat=2):
        cases = [case for case in TYPED if tuple(isinstance(side, pa.Array) for side in case[:2]) == typed]
        columns = many(tmp_path, *(case[:2] for case in cases)) if cases else []
        for found, (_, table, kind, expected) in zip(columns, cases, strict=True):
            assert (found.type, found.table) == (kind, expected)
            nothing = sum(cell in (None, "") or cell != cell for cell in _cells(table))
            assert found.unconverted == sum(value is None for value in expected) - nothing, table


def _cells(table: Any) -> list[Any]:
    return table.to_pylist() if isinstance(table, pa.Array) else list(table)


def test_zoned_times(tmp_path: Path) -> None:
    found = one(tmp_path, ["2020-01-31T10:00:00Z"], ["2020-01-31 12:00+02:00", "2020-01-31 10:00:00"])
    assert found.type == "TIMESTAMP WITH TIME ZONE"
    assert {value.timestamp() for value in found.query + found.table} == {1580464800.0}


def test_a_type_that_a_person_gives(tmp_path: Path) -> None:
    found = one(tmp_path, ["1", "2"], ["007", "4.5"], "BIGINT")
    assert (found.query, found.table, found.unconverted) == ([1, 2], [7, None], 1)
    assert one(tmp_path, ["1", "2"], ["3,5 €"], "VARCHAR").table == ["3,5 €"]
    found = one(tmp_path, ["31.12.2020"], ["12/31/2020"], "TIMESTAMP")
    assert found.query + found.table == [moment("2020-12-31")] * 2


def _notations(number: float) -> Iterator[str]:
    us = f"{number:,.2f}"
    yield from (f"{number:.2f}", us, f"${us}", f"{us} USD", us.replace(",", " "), us.replace(",", "'"))
    german = us.translate(str.maketrans(",.", ".,"))
    yield from (german, f"{german} €", f"€{german}")


def test_every_notation_of_many_numbers(tmp_path: Path) -> None:
    chance = random.Random(0)
    numbers = [round(chance.uniform(-1, 1) * 10 ** chance.randint(0, 9), 2) for _ in range(200)]
    written = [list(cells) for cells in zip(*map(_notations, numbers), strict=True)]
    for found, cells in zip(many(tmp_path, *((["1.5"], cells) for cells in written)), written, strict=True):
        assert (found.table, found.unconverted) == (numbers, 0), cells[0]
