"""Tables with the same rows: the sketch of rows, what it says of two tables, and `gentus duplicates`."""

from __future__ import annotations

import csv
import datetime
import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gentus
from gentus.app.cli import main as cli
from gentus.index.check import check
from gentus.index.folder import IndexFolderError
from gentus.index.row_overlap import SameRows, SketchMatrix, tell_duplicates
from gentus.lake import from_frame, read_path
from gentus.lake.row_sketch import KEPT, sketch_rows
from gentus.table import Head, Limits, Rows, RowSketch

LIMITS = Limits()


def people(count: int, seed: int = 0) -> list[list[str]]:
    """Rows of made-up content."""
    chance = random.Random(seed)
    return [[f"person {seed} {n}", str(chance.randrange(10**6)), chance.choice("abc")] for n in range(count)]


def sketch(rows: Rows, complete: bool = True) -> RowSketch:
    found = sketch_rows(rows, Head(rows, complete), LIMITS)
    assert found is not None
    return found


def told(first: Rows, second: Rows, min_share: float = 0.8) -> SameRows | None:
    """What is said of the second table as a hit for the first."""
    return tell_duplicates(sketch(first), [7], {7: sketch(second)}, min_share)[0]


# --- the sketch of one table ------------------------------------------------------------------------------


def test_a_row_is_its_cells_in_any_order_and_spelling() -> None:
    rows = [*people(20), ["Ada", "2020-01-02", "1.5", "true"], ["Bob", "2020-01-03 10:00:00", "2", "false"]]
    spelled: list[list[str | None]] = [
        *([row[1], None, row[2].upper(), f" {row[0]}\t"] for row in people(20)),
        ["1.50", "ADA", "2020-01-02T00:00:00.000", "1", "n/a"],
        ["2.000", "bob", "", "2020-01-03T10:00:00Z", "False"],
    ]
    assert sketch(rows) == sketch(spelled) == sketch(list(reversed(rows)))
    assert sketch(rows) != sketch([[*row, "x"] for row in rows])  # one more column is other rows
    moved = [list(row) for row in rows]
    moved[0][0], moved[1][0] = moved[1][0], moved[0][0]
    assert sketch(rows).digest != sketch(moved).digest  # the same cells in other rows
    assert sketch([*rows, rows[0]]).digest != sketch(rows).digest
    assert sketch([*rows, rows[0]]).smallest == sketch(rows).smallest


def test_words_with_a_dot_and_long_cells_stay_what_they_are() -> None:
    base = [[f"{n}", "x" * 300] for n in range(10)]
    assert sketch([*base, ["Vol. 10", "a"]]).digest != sketch([*base, ["Vol. 1", "a"]]).digest
    assert sketch([*base, ["10", "a"]]).digest != sketch([*base, ["1", "a"]]).digest
    assert sketch([*base, ["a\x1fb", "c"]]).digest == sketch([*base, ["a b", "c"]]).digest
    clipped = [[row[0], row[1][: LIMITS.cell_chars]] for row in base]
    assert sketch(base) == sketch(clipped)


def test_small_content_is_nobodys_duplicate() -> None:
    counted = [[str(n)] for n in range(1, 1000)]
    months = [[month] for month in ("January", "February", "March", "April", "May", "June", "July")]
    flags = [["yes", "1"], ["no", "0"]] * 50
    tiny = [["1", "2"], ["2", "4"], ["3", "6"]]
    for rows in (counted, months, flags, tiny, [["", None]] * 9, people(2)):
        assert sketch_rows(rows, Head(rows, True), LIMITS) is None
    assert sketch([[f"state of {n}"] for n in range(20)])  # a list of words is content


def test_hashes_do_not_depend_on_the_process() -> None:
    code = (
        "from gentus.lake.row_sketch import sketch_rows; from gentus.table import *;"
        "rows = [[f'person {n}', str(n * 7919)] for n in range(100)];"
        "print(sketch_rows(rows, Head(rows, True), Limits()))"
    )
    rows = [[f"person {n}", str(n * 7919)] for n in range(100)]
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ran.stdout.strip() == str(sketch(rows))


@pytest.mark.parametrize("count", [200, 900, 3000])
def test_all_formats_have_one_sketch(tmp_path: Path, count: int) -> None:
    """Longer than a sample: the first rows are compared, and they are the same in every format."""
    chance = random.Random(count)
    day = datetime.datetime(2020, 1, 1)
    frame = pl.DataFrame(
        {
            "city": [f"City {chance.randrange(500)}" for _ in range(count)],
            "people": [float(chance.randrange(10**6)) for _ in range(count)],
            "share": [round(chance.random(), 3) for _ in range(count)],
            "seen": [day + datetime.timedelta(hours=chance.randrange(9999)) for _ in range(count)],
            "known": [chance.random() < 0.5 for _ in range(count)],
            "left": [chance.choice([None, 1, 2]) for _ in range(count)],
            "empty": [None] * count,
        }
    )
    frame.write_csv(tmp_path / "a.csv")
    frame.to_pandas().to_csv(tmp_path / "pandas.csv", index=False)
    frame.select(reversed(frame.columns)).write_csv(tmp_path / "turned.tsv", separator="\t")
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ipc(tmp_path / "a.arrow")
    frame.write_ndjson(tmp_path / "a.jsonl")
    frame.to_pandas().to_excel(tmp_path / "a.xlsx", index=False)
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        frame.with_columns(pl.col("seen").cast(pl.String)).to_pandas().to_sql("a", db, index=False)
    db.close()
    found = [read_path(path).row_sketch for path in sorted(tmp_path.iterdir())]
    found += [from_frame(obj, "q").row_sketch for obj in (frame, frame.to_pandas(), frame.to_arrow())]
    assert len({one.smallest for one in found if one}) == 1
    assert None not in found
    assert {one.rows for one in found if one} == {min(count, LIMITS.head)}
    assert {one.complete for one in found if one} == {count <= LIMITS.head}
    if count <= LIMITS.head:
        assert len({one.digest for one in found if one}) == 1


# --- two tables -------------------------------------------------------------------------------------------


@given(st.integers(0, 600), st.integers(0, 600), st.integers(0, 600), st.integers(0, 10**6))
def test_shares_are_those_of_the_rows(common: int, ours: int, others: int, seed: int) -> None:
    """Against a slow count: exact for tables that fit into a sketch, near it for others."""
    both, mine, theirs = people(common, seed), people(ours, seed + 1), people(others, seed + 2)
    first, second = {tuple(row) for row in both + mine}, {tuple(row) for row in both + theirs}
    if min(len(first), len(second)) < 8:
        return
    matrix = SketchMatrix.of([sketch(both + mine), sketch(both + theirs)])
    (same,), (left,), (right,) = matrix.overlaps(np.array([0]), np.array([1]))
    if max(len(first), len(second)) <= KEPT:
        assert (same, left, right) == (len(first & second), len(first), len(second))
    true = len(first & second) / len(first | second)  # Jaccard
    compared = left + right - same
    assert compared >= min(KEPT, len(first | second))
    assert same / compared == pytest.approx(true, abs=4 * (0.25 / compared) ** 0.5)  # standard errors


def test_what_is_said_of_a_hit() -> None:
    rows = people(300)
    assert told(rows, rows[::-1]) == SameRows("exact", 1.0, 0)
    assert str(told(rows, rows)) == "same rows as your table"
    near = told(rows, [*rows[:285], *people(15, 1)])
    assert near is not None
    assert near.kind == "near"
    assert near.share == pytest.approx(0.95, abs=0.08)
    assert str(near).startswith("shares about 9")
    assert str(near).endswith(" % of its rows with your table")
    inside = told([*rows, *people(300, 1)], rows)
    assert inside is not None
    assert inside.kind == "contained"
    assert inside.share > 0.8
    around = told(rows, [*rows, *people(300, 1)])
    assert around is not None
    assert around.kind == "contains"
    assert told(rows, people(300, 1)) is None
    assert told(rows, [*rows[:100], *people(200, 1)]) is None
    few = people(5)
    assert told(few, [*few[:4], *people(1, 1)]) is None  # too few rows to say "nearly"


def test_what_is_said_of_hits_beside_each_other() -> None:
    rows, others = people(100), people(100, 1)
    tables = {1: others, 2: rows, 3: others, 4: [*others[:97], *people(3, 2)], 6: people(90, 3)}
    sketches = {table: sketch(some) for table, some in tables.items()}
    found = tell_duplicates(sketch(rows), [1, 2, 3, 4, 5, 6], sketches)
    assert [one and (one.kind, one.rank) for one in found] == [
        *(None, ("exact", 0), ("exact", 1), ("near", 1), None, None)
    ]
    assert str(found[2]) == "same rows as #1"
    assert found[1] is not None
    words = {"words": "same rows as your table"}
    assert found[1].to_dict() == {"kind": "exact", "share": 1.0, "rank": 0} | words
    alone = tell_duplicates(None, [1, 2, 3, 4, 5, 6], sketches)
    assert [one and one.rank for one in alone] == [None, None, 1, 1, None, None]
    assert tell_duplicates(None, [], {}) == []
    assert tell_duplicates(sketch(rows), [5], {}) == [None]


# --- a lake -----------------------------------------------------------------------------------------------


def write(path: Path, rows: Rows, header: list[str] | None = None) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header or [f"c{n}" for n in range(len(rows[0]))], *rows])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    rows, others = people(200), people(400, 1)
    write(folder / "a.csv", rows)
    pl.DataFrame(rows, schema=["name", "number", "letter"], orient="row").write_parquet(folder / "b.parquet")
    write(folder / "c.csv", [[row[2], row[0], row[1]] for row in rows])
    write(folder / "d.csv", [*rows, *people(10, 2)])
    write(folder / "e.csv", others)
    write(folder / "f.csv", others[:200])
    for number in range(3):
        write(folder / f"one_to_ten_{number}.csv", [[str(n)] for n in range(1, 11)], ["id"])
        write(folder / f"other_{number}.csv", [*people(30, 10 + number), *people(3)])
    return folder


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["gentus", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    assert not ended.value.code, captured.err
    return captured.out + captured.err


def test_duplicates_of_a_lake(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    write(lake / "long.csv", people(3000, 7))
    write(lake / "longer.csv", [*people(3000, 7), *people(100, 8)])
    run(capsys, monkeypatch, "index", lake, "-o", index)
    lake.rename(tmp_path / "gone")  # no file of it is needed
    printed = run(capsys, monkeypatch, "duplicates", index)
    lines = {line.strip() for line in printed.splitlines()}
    assert {"b.parquet has the same rows as a.csv", "c.csv has the same rows as a.csv"} <= lines
    assert any(line.startswith("a.csv shares ") and line.endswith(" rows with d.csv") for line in lines)
    assert any(line.startswith("f.csv: ") and "are in e.csv" in line for line in lines)
    assert "longer.csv shares nearly all of its rows with long.csv (the first rows were compared)" in lines
    assert "one_to_ten" not in printed
    assert "other_" not in printed
    found = json.loads(run(capsys, monkeypatch, "duplicates", index, "--json").split("\n}")[0] + "\n}")
    assert found["tables"] == 11
    assert [group["table"] for group in found["groups"]] == ["d.csv", "e.csv", "long.csv"]
    assert [one["kind"] for one in found["groups"][0]["duplicates"]] == ["exact", "exact", "near"]
    gone = tmp_path / "gone"
    assert found["exact_bytes"] == sum((gone / name).stat().st_size for name in ("b.parquet", "c.csv"))
    assert f"2 exact copies ({found['exact_bytes'] / 1000:.1f} kB), 2 near duplicates and 1" in printed


def test_duplicates_follow_the_lake(lake: Path, tmp_path: Path) -> None:
    with gentus.build(lake, tmp_path / "index") as index:

        def copies() -> dict[str, str]:
            return {one.table: one.of for group in index.duplicates().groups for one in group.duplicates}

        before = copies()
        assert before == {"b.parquet": "a.csv", "c.csv": "a.csv", "a.csv": "d.csv", "f.csv": "e.csv"}
        frame = pl.DataFrame(people(200), schema=["x", "y", "z"], orient="row")  # a query that is no file
        ids = [index.catalogue.tables.ids()[name] for name in ("e.csv", "b.parquet", "one_to_ten_0.csv")]
        sketches = index.catalogue.row_sketches.of(ids)
        assert len(sketches) == 2
        hits = tell_duplicates(index.read(frame).row_sketch, ids, sketches)
        assert hits == [None, SameRows("exact", 1.0, 0), None]
        index.remove("a.csv")
        assert copies() == {"b.parquet": "d.csv", "c.csv": "b.parquet", "f.csv": "e.csv"}
        write(lake / "g.csv", people(30, 10) + people(3))
        write(lake / "d.csv", people(90, 5))
        write(lake / "f.csv", [["1"], ["2"]])
        index.sync()
        after = copies()
        assert after["other_0.csv"] == "g.csv"
        assert "f.csv" not in after
        assert after["c.csv"] == "a.csv"
        (lake / "e.csv").write_bytes(b"\x89PNG")
        index.sync()
        stored = index.catalogue.db.execute("SELECT count(*), max(length(smallest)) FROM row_sketches")
        assert stored.fetchone() == (9, 4 * KEPT)  # that of e.csv stays until its file is gone
        (lake / "e.csv").unlink()
        index.sync()
        assert index.catalogue.db.execute("SELECT count(*) FROM row_sketches").fetchone() == (8,)
        with pytest.raises(ValueError, match="least share"):
            index.duplicates(0.2)
    with gentus.refit(tmp_path / "index") as refitted:
        assert {one.table for group in refitted.duplicates().groups for one in group.duplicates} == set(after)


def test_damaged_sketches_are_refused(lake: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    gentus.build(lake, folder).close()
    with sqlite3.connect(folder / "catalogue.sqlite") as db:
        db.execute("UPDATE row_sketches SET rows = rows + 1 WHERE id = 2")
    db.close()
    with gentus.open(folder) as index, pytest.raises(IndexFolderError, match="not what was written"):
        index.duplicates()
    assert any("in row_sketches" in problem.what for problem in check(folder))
