"""Slices of one table, unioned and without duplicates, give back its rows."""

from __future__ import annotations

import csv
import datetime
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from gentus.union import OutputColumn, Placement, PlannedTable, Union, UnionPlan
from gentus.union.decision import Decision

Value = Any


@dataclass(frozen=True)
class Kind:
    """A kind of column: its values, the notations that a slice may have them in, and the way back."""

    values: some.SearchStrategy[Value]
    notations: tuple[Callable[[Value], str], ...]
    read: Callable[[Value], Value]


def _german(value: float) -> str:
    # Four places: a column of nothing but 1,000 is a thousand by default.
    return f"{value:,.4f}".translate(str.maketrans(",.", ".,"))


LETTERS = some.characters(codec="utf-8", categories=["L", "P", "Zs"])
WORDS = some.text(LETTERS, max_size=12).map(lambda text: f"w {text}".strip())
KINDS = (
    Kind(WORDS, (str,), str),
    Kind(
        some.integers(-(10**12), 10**12) | some.integers(1000, 9999),
        (str, "{:,}".format),
        lambda value: int(value) if value == int(value) else value,
    ),
    Kind(
        (some.floats(-1e9, 1e9) | some.floats(1, 99)).map(lambda value: round(value, 3)),
        (repr, "{:.3f}".format, "${:,.3f}".format, _german),
        float,
    ),
    Kind(
        some.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
        (str, "{:%d.%m.%Y}".format, "{:%d %b %Y}".format, "{:%B %d, %Y}".format),
        lambda value: value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value),
    ),
    Kind(
        some.booleans(),
        (lambda value: "yes" if value else "no", lambda value: str(value).lower()),
        lambda value: value in (True, "yes", "true"),
    ),
    Kind(some.integers(0, 99_999), ("{:05}".format,), int),  # postcodes
)


@some.composite
def tables(draw: some.DrawFn) -> tuple[list[Kind], list[tuple[Value, ...]], list[dict[str, Any]]]:
    """A table without equal rows, and slices that have all of them; the first is the query."""
    kinds = draw(some.lists(some.sampled_from(KINDS), min_size=2, max_size=5))
    row = some.tuples(*(some.none() | kind.values for kind in kinds))
    full = draw(some.tuples(*(kind.values for kind in kinds)))  # so that no column of the query is empty
    rows = list(dict.fromkeys([full, *draw(some.lists(row, max_size=25))]))
    slices: list[dict[str, Any]] = []
    for number in range(draw(some.integers(2, 4))):
        chosen = draw(some.lists(some.sampled_from(rows), min_size=1, max_size=len(rows)))
        slices.append(
            {
                "rows": [rows[0], *chosen] if number == 0 else list(chosen),
                "order": draw(some.permutations(range(len(kinds)))),
                "notations": [draw(some.sampled_from(kind.notations[: number * 9 or 1])) for kind in kinds],
                "format": draw(some.sampled_from(["csv", "jsonl", "parquet"])),
            }
        )
    missing = set(rows) - {row for one in slices for row in one["rows"]}
    slices[-1]["rows"] = [*slices[-1]["rows"], *sorted(missing, key=rows.index)]
    return kinds, rows, slices


def write(path: Path, header: list[str], rows: list[list[str | None]]) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [header, *(["" if cell is None else cell for cell in row] for row in rows)]
            )
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows))
    else:
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, header), path)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_slices_give_back_their_table(
    drawn: tuple[list[Kind], list[tuple[Value, ...]], list[dict[str, Any]]],
) -> None:
    kinds, _, slices = drawn
    names = [f"column {at}" for at in range(len(kinds))]
    with tempfile.TemporaryDirectory() as folder:
        planned = []
        for number, one in enumerate(slices):
            path = Path(folder) / f"s{number}.{'csv' if number == 0 else one['format']}"
            called = [names[at] if number == 0 else f"part {number}: {at}" for at in one["order"]]
            cells = [
                [None if row[at] is None else one["notations"][at](row[at]) for at in one["order"]]
                for row in one["rows"]
            ]
            write(path, called, cells)
            placed = tuple(Placement(own, names[at]) for own, at in zip(called, one["order"], strict=True))
            planned.append(PlannedTable(path.name, str(path), None, placed))
        output = tuple(OutputColumn(name) for name in names)
        union = Union(UnionPlan(planned[0], tuple(planned[1:]), output, distinct=True))
        found = union.to_arrow().select(names).to_pylist()
    assert union.report is not None
    assert union.report.unconverted == 0
    assert union.ran is not None
    expected = [
        tuple(
            _as_told(value, write, source.decision("decimal"))
            for value, write, source in zip(row, one["notations"], _in_order(table, names), strict=True)
        )
        for one, table in zip(slices, union.ran.sources, strict=True)
        for row in one["rows"]
    ]
    back = [
        tuple(
            None if row[name] is None else kind.read(row[name])
            for name, kind in zip(names, kinds, strict=True)
        )
        for row in found
    ]
    assert sorted(map(repr, back)) == sorted(map(repr, dict.fromkeys(expected)))


def _in_order(table: PlannedTable, names: list[str]) -> list[Placement]:
    return sorted(table.columns, key=lambda placed: names.index(placed.into))


def _as_told(value: Value, write: Callable[[Value], str], told: Decision | None) -> Value:
    """A value, or what its cell is if the plan says that other columns or tables decide its decimal mark."""
    if value is None or told is None or told.source not in ("other columns", "query", "tables"):
        return value  # so a default is right
    thousands = "." if told.value == "," else ","
    number = float(write(value).lstrip("$").replace(thousands, "").replace(told.value, "."))
    return int(number) if isinstance(value, int) and number == int(number) else number


# --- any notation --------------------------------------------------------------------------------------

NULLS = ["", "NA", "n/a", "None", "-", "#N/A", "?"]


@dataclass(frozen=True)
class Written:
    """A column as a file has it: the values, and the cells that say them."""

    values: list[Value]
    cells: list[str]
    delimiter: str
    header: bool


def _grouped(value: float, places: int, decimal: str, thousands: str) -> str:
    whole, _, rest = f"{value:,.{places}f}".partition(".")
    return whole.replace(",", thousands) + (decimal + rest if rest else "")


@some.composite
def columns(draw: some.DrawFn, kind: str) -> Written:
    """Values of a kind in any notation; some are missing, by an empty cell or by a word."""
    values: some.SearchStrategy[Value]
    write: Callable[[Value], str]
    if kind == "number":
        places = draw(some.integers(0, 4))
        decimal, thousands = draw(
            some.sampled_from([".,", ",.", ".", ",", ". ", ", ", ".'"]).map(lambda one: (one[0], one[1:]))
        )
        values = some.floats(-1e7, 1e7).map(lambda value: round(value, places) + 0.0)
        write = partial(_grouped, places=places, decimal=decimal, thousands=thousands)
    elif kind == "date":
        form = draw(
            some.sampled_from(["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d %b %Y"])
        )
        values = some.dates(datetime.date(1950, 1, 1), datetime.date(2050, 1, 1))
        write = lambda value: value.strftime(form)  # noqa: E731
    elif kind == "boolean":
        words = draw(some.sampled_from([("yes", "no"), ("true", "false"), ("T", "F"), ("1", "0")]))
        values = some.booleans()
        write = lambda value: words[not value]  # noqa: E731
    else:
        values = some.sampled_from(["None", "NA", "n/a", " padded ", "w x", "-", "Null Island", "1 kg"])
        write = str
    null = draw(some.sampled_from(NULLS))
    found = draw(some.lists(some.none() | values, min_size=3, max_size=8))
    cells = [null if value is None else write(value) for value in found]
    return Written(found, cells, draw(some.sampled_from(",;\t")), draw(some.booleans()))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    some.sampled_from(["number", "date", "boolean", "text"]).flatmap(
        lambda kind: some.tuples(*[columns(kind)] * 3)
    )
)
def test_values_come_back_or_the_report_names_the_column(written: tuple[Written, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        planned = []
        for number, one in enumerate(written):
            path = Path(folder) / f"t{number}.csv"
            with path.open("w", newline="") as file:
                head = [["name", "value", "more"]] if one.header else []
                rows = [*head, *(["x", cell, "y"] for cell in one.cells)]
                csv.writer(file, delimiter=one.delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
            header: Any = "yes" if one.header else "no"
            names = ["name", "value"] if one.header else ["column_1", "column_2"]
            placed = tuple(map(Placement, names, ["name", "value"]))
            planned.append(PlannedTable(path.name, str(path), None, placed, header=header))
        output = (OutputColumn("name"), OutputColumn("value"))
        union = Union(UnionPlan(planned[0], tuple(planned[1:]), output))
        found = union.to_arrow().to_pylist()
    assert union.report is not None
    (_, result) = union.report.result
    for one, table in zip(written, union.report.tables, strict=True):
        values = [row["value"] for row in found if row["_source_table"] == table.table]
        assert len(values) == len(one.values)
        as_text = result.type == "VARCHAR"
        expected = [cell or None for cell in one.cells] if as_text else one.values
        report = table.columns[1]
        told = bool(report.note or report.unconverted)
        assert told or values == expected, (result, one)
        assert report.nulls == sum(value is None for value in values)
        words = sum(value is None and cell != "" for value, cell in zip(one.values, one.cells, strict=True))
        counted = report.kept_as_text.total() if as_text else report.taken_as_null.total()
        assert counted >= words
