"""Lakes cut from tables of one's own: what is declared to belong together does."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
import sys
from collections import Counter, defaultdict
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import duckdb
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import rows_of, write_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gentus.lake import Limits, Source, Unreadable, read_path, scan
from gentus.metrics import load_groundtruth
from gentus_bench import cli
from gentus_bench.lakes.base_tables import BaseTable, read_whole
from gentus_bench.lakes.benchmarks import recognise
from gentus_bench.lakes.make_lake import FILES, make_lake
from gentus_bench.lakes.noise import Headers, Noise, headers, noisy
from gentus_bench.lakes.slicing import LakeOptions, slices_of

ROWS = [["name", "size", "day"], ["Oslo", "1", "2024-01-02"], ["Rome", "", "2024-01-03"], ["Bonn", "3", ""]]


def base_table(name: str, width: int, rows: int) -> BaseTable:
    """Every cell says where it comes from."""
    columns = [[f"{name} c{column} r{row}" for row in range(rows)] for column in range(width)]
    return BaseTable(name, [f"column {at}" for at in range(width)], columns)


def write_base(folder: Path, name: str, width: int, rows: int) -> None:
    table = base_table(name, width, rows)
    write_table(folder / name, [table.header, *map(list, zip(*table.columns, strict=True))])


def cells(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def origins(lake: Path) -> dict[str, list[tuple[str, str]]]:
    """The column ground truth."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for table, position, base, column in cells(lake / "columns.csv")[1:]:
        assert int(position) == len(found[table])
        found[table].append((base, column))
    return found


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for at, name in enumerate(("birds.csv", "deep/cars.csv", "fish.csv", "trees.csv")):
        write_base(tmp_path / "base", name, 4 + at, 40 + at)
    return tmp_path / "base"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shapes=st.lists(st.tuples(st.integers(2, 7), st.integers(12, 40)), min_size=1, max_size=4),
    slices=st.integers(2, 6),
    share=st.floats(0.01, 1),
    overlap=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    runs=st.booleans(),
    seed=st.integers(0, 9),
)
def test_the_column_ground_truth_is_right(
    shapes: list[tuple[int, int]],
    slices: int,
    share: float,
    overlap: float,
    runs: bool,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("lake")
    for at, (width, rows) in enumerate(shapes):
        write_base(root / "base", f"b{at}.csv", width, rows)
    options = LakeOptions(seed, slices, share, overlap=overlap, runs=runs, distractors=3)
    facts = make_lake(root / "base", root / "out", options)
    columns = origins(root / "out")
    assert facts["tables"] == len(columns) == len(shapes) * (slices + 3)
    taken: dict[str, Counter[str]] = defaultdict(Counter)  # rows of each base table in its slices
    truth = load_groundtruth(root / "out" / "groundtruth.csv")
    distractors = 0
    for table, froms in columns.items():
        header, *rows_ = cells(root / "out" / "datalake" / table)
        bases = {name for name, _ in froms}
        for at, (name, column) in enumerate(froms):
            if name:  # every value of the column is one of its base column
                assert header[at] == column
                number = column.removeprefix("column ")
                assert all(row[at].startswith(f"{name} c{number} r") for row in rows_)
        if len(bases) == 1 and "" not in bases and len(froms) >= 2:
            for row in rows_:  # a row of a slice is one row of the base table
                (own,) = {cell.rsplit(" ", 1)[1] for cell in row}
                taken[froms[0][0]][own] += 1
        else:
            distractors += 1
            assert max(Counter(name for name, _ in froms if name).values()) == 1
            assert table not in truth
    assert distractors == facts["distractors"]
    for at, (_, rows) in enumerate(shapes):  # together, the slices give the rows back
        assert set(taken[f"b{at}.csv"]) == {f"r{row}" for row in range(rows)}
        if not overlap:
            assert set(taken[f"b{at}.csv"].values()) == {1}
    slices_ = [table for table, froms in columns.items() if len({name for name, _ in froms}) == 1]
    expected = {
        (one, other)
        for one in slices_
        for other in slices_
        if one != other and len(set(columns[one]) & set(columns[other])) >= 2
    }
    assert {(query, name) for query, found in truth.items() for name in found} == expected


def test_a_slice_alone_is_the_projection_of_its_rows() -> None:
    table = base_table("t", 5, 60)
    cuts = list(slices_of(table, LakeOptions(slices=4, runs=True)))
    for number, cut in enumerate(cuts):
        for (_, name), column in zip(cut.origins, cut.columns, strict=True):
            whole = table.columns[table.header.index(name)]
            assert column == whole[15 * number : 15 * number + 15]
    assert len({tuple(cut.origins) for cut in cuts}) > 1  # not all the same columns in the same order
    small = list(slices_of(table, LakeOptions(slices=4, rows=3)))
    assert {len(cut.columns[0]) for cut in small} == {3}


def test_the_same_seed_gives_the_same_bytes(base: Path, tmp_path: Path) -> None:
    loud = Noise(0.2, 0.1, 0.5, 0.5, 0.5, Headers.MIX)
    for name in ("one", "two"):
        make_lake(base, tmp_path / name, LakeOptions(seed=3, noise=loud))
    assert content(tmp_path / "one") == content(tmp_path / "two")
    make_lake(base, tmp_path / "three", LakeOptions(seed=4, noise=loud))
    assert (
        content(tmp_path / "one")
        .keys()
        .isdisjoint(name for name in content(tmp_path / "three") if name.startswith("datalake/"))
    )


def test_the_split_is_by_base_table(base: Path, tmp_path: Path) -> None:
    facts = make_lake(base, tmp_path / "out", LakeOptions(dev=0.3))
    truth, train, dev = (load_groundtruth(tmp_path / "out" / name) for name in FILES[:3])
    assert train
    assert dev
    assert truth == dict(sorted((train | dev).items(), key=lambda item: list(truth).index(item[0])))
    columns = origins(tmp_path / "out")
    bases = [{columns[query][0][0] for query in part} for part in (train, dev)]
    assert bases[0].isdisjoint(bases[1])
    assert len(bases[1]) == 1
    assert facts == json.loads((tmp_path / "out" / "lake.json").read_text())
    assert facts["options"]["seed"] == 0
    found = recognise(tmp_path / "out")
    assert (found.name, found.truth, found.labels) == ("out", dev, train)


def test_a_folder_is_not_overwritten(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_lake(base, out, LakeOptions(seed=1))
    (out / "notes.txt").write_text("mine")
    before = content(out)
    with pytest.raises(FileExistsError, match="not empty; --force"):
        make_lake(base, out)
    assert content(out) == before
    make_lake(base, out, LakeOptions(seed=2), force=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert not [name for name in before if name.startswith("datalake/") and (out / name).exists()]
    other = tmp_path / "other" / "datalake"
    other.mkdir(parents=True)
    (other / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileExistsError, match="was not made by make-lake"):
        make_lake(base, other.parent, force=True)
    assert (other / "mine.csv").exists()
    with pytest.raises(ValueError, match="is inside of"):
        make_lake(base, base / "out")


def test_base_tables_of_one_subject_are_pointed_out(base: Path, tmp_path: Path) -> None:
    assert make_lake(base, tmp_path / "one")["same_columns"] == []
    write_base(base, "more birds.csv", 4, 50)
    assert make_lake(base, tmp_path / "two")["same_columns"] == [["birds.csv", "more birds.csv"]]


def test_what_cannot_be_cut_is_left_out(base: Path, tmp_path: Path) -> None:
    (base / "empty.csv").write_text("")
    write_base(base, "narrow.csv", 1, 50)
    write_base(base, "short.csv", 5, 9)
    facts = make_lake(base, tmp_path / "out")
    assert facts["base_tables"] == 4
    assert facts["skipped"] == {
        "empty.csv": "it is empty",
        "narrow.csv": "it has 1 columns with values; at least 2 are needed",
        "short.csv": "its 9 rows are too few for 10 slices of at least two",
    }
    with pytest.raises(ValueError, match=r"no table of .* can be cut \(narrow.csv: it has 1 columns"):
        make_lake(base / "narrow.csv", tmp_path / "none")
    assert list((tmp_path / "none").iterdir()) == []
    (tmp_path / "bare").mkdir()
    with pytest.raises(ValueError, match="no tables in"):
        make_lake(tmp_path / "bare", tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="there is no"):
        make_lake(tmp_path / "gone", tmp_path / "none")
    for wrong in ({"slices": 1}, {"columns": 0.0}, {"overlap": 2.0}, {"rows": 1}, {"distractors": -1}):
        with pytest.raises(ValueError, match=r"slice|share"):
            LakeOptions(**wrong)
    with pytest.raises(ValueError, match="typos is a chance"):
        Noise(typos=3)


@pytest.mark.parametrize(
    "name", ["t.csv", "t.jsonl", "t.json", "t.parquet", "t.arrow", "t.xlsx", "t.sqlite", "t.duckdb"]
)
def test_every_kind_of_file_keeps_its_rows(name: str, tmp_path: Path) -> None:
    path, (header, *body) = tmp_path / name, ROWS
    empty = [[cell or None for cell in row] for row in body]
    data = pa.table(dict(zip(header, map(list, zip(*empty, strict=True)), strict=True)))
    records = [dict(zip(header, row, strict=True)) for row in empty]
    match path.suffix:
        case ".csv":
            write_table(path, ROWS)
        case ".jsonl":
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        case ".json":
            path.write_text(json.dumps({"rows": records}))
        case ".parquet":
            pq.write_table(data, path)
        case ".arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, data.schema) as writer:
                writer.write_table(data)
        case ".xlsx":
            book = openpyxl.Workbook()
            for row in [header, *empty]:
                book.active.append(row)
            book.save(path)
        case ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                database.execute("create table t (name, size, day)")
                database.executemany("insert into t values (?, ?, ?)", empty)
                database.commit()
        case ".duckdb":
            with closing(duckdb.connect(str(path))) as duck:
                duck.execute("create table t (name varchar, size varchar, day varchar)")
                duck.executemany("insert into t values (?, ?, ?)", empty)
    (source,) = [item for item in scan(tmp_path) if isinstance(item, Source)]
    table = read_whole(source, 100)
    assert table.header == header
    assert [list(row) for row in zip(*table.columns, strict=True)] == body
    assert read_whole(source, 2).rows == 2
    path.unlink()
    with pytest.raises(Unreadable, match="no longer there"):
        read_whole(source, 2)


# --- noise --------------------------------------------------------------------------------------------


def test_without_noise_nothing_changes() -> None:
    column = ["Oslo", "", "12345.5", "2024-01-02"]
    assert noisy(column, Noise(), random.Random(0)) == column
    assert headers(["a b", ""], Headers.KEEP, random.Random(0)) == ["a b", ""]


def test_numbers_and_dates_keep_their_meaning() -> None:
    seen = {tuple(noisy(["12345.5", "", "7"], Noise(numbers=1), random.Random(seed))) for seed in range(40)}
    assert seen == {("12,345.5", "", "7"), ("12.345,5", "", "7"), ("12345.50", "", "7.00")}
    dates = {
        tuple(noisy(["2024-03-09", "2024/12/01 08:00"], Noise(dates=1), random.Random(s))) for s in range(40)
    }
    assert dates == {
        ("09/03/2024", "01/12/2024 08:00"),
        ("3/9/2024", "12/1/2024 08:00"),
        ("9 Mar 2024", "1 Dec 2024 08:00"),
        ("20240309", "20241201 08:00"),
    }
    text = ["Oslo", "2024-13-40"]
    assert noisy(text, Noise(numbers=1, dates=1), random.Random(0)) == text


def test_typos_case_and_missing_cells() -> None:
    column = ["Copenhagen"] * 400
    typed = noisy(column, Noise(typos=0.5), random.Random(0))
    changed = [cell for cell in typed if cell != "Copenhagen"]
    assert 100 < len(changed) < 300
    assert all(abs(len(cell) - 10) <= 1 and cell[0] in "Co" for cell in changed)
    assert noisy(["42", "a"], Noise(typos=1), random.Random(0)) == ["42", "a"]
    assert {noisy(["ab Cd"], Noise(case=1), random.Random(s))[0] for s in range(20)} == {
        "AB CD",
        "ab cd",
        "Ab Cd",
    }
    emptied = noisy(column, Noise(missing=0.25), random.Random(1))
    assert 60 < sum(cell != "Copenhagen" for cell in emptied) < 140
    assert {cell for cell in emptied if cell != "Copenhagen"} <= {"", "N/A", "null"}


def test_headers() -> None:
    names = ["Release Date", "unitPrice", "größe", "?"]
    assert headers(names, Headers.NUMBER, random.Random(0)) == ["col_1", "col_2", "col_3", "col_4"]
    assert headers(names, Headers.DROP, random.Random(0)) == [""] * 4
    mangled = [headers(names, Headers.MANGLE, random.Random(seed)) for seed in range(30)]
    assert all(name for table in mangled for name in table)
    assert len({table[0] for table in mangled}) > 15
    assert sum(table[0] == names[0] for table in mangled) < 6
    mixed = {tuple(headers(names, Headers.MIX, random.Random(seed))) for seed in range(30)}
    assert {("",) * 4, tuple(names), ("col_1", "col_2", "col_3", "col_4")} < mixed


def test_a_lake_of_noisy_tables_can_be_read(tmp_path: Path) -> None:
    for subject in ("fish", "films", "metals"):
        write_table(tmp_path / "base" / f"{subject}.csv", rows_of(subject, 1, 60))
    loud = Noise(0.3, 0.2, 0.5, 1, 1, Headers.DROP)
    make_lake(tmp_path / "base", tmp_path / "out", LakeOptions(slices=5, noise=loud))
    for table, froms in origins(tmp_path / "out").items():
        read = read_path(tmp_path / "out" / "datalake" / table, Limits())
        assert len(read.columns) <= len(froms)  # one without name and cells is none
        assert read.rows >= 12


# --- the command --------------------------------------------------------------------------------------


@pytest.mark.skipif(not find_spec("vega_datasets"), reason="needs the tables of the demo")
def test_from_real_tables_to_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = find_spec("vega_datasets")
    assert spec
    assert spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0]) / "_data"
    for name in ("airports.csv", "barley.json", "cars.json", "seattle-weather.csv"):
        (tmp_path / "base").mkdir(exist_ok=True)
        (tmp_path / "base" / name).write_bytes((data / name).read_bytes())

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gentus-bench", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    lake = tmp_path / "lake"
    make = ("make-lake", tmp_path / "base", "-o", lake, "--slices", 6, "--rows", 40, "--typos", 0.02)
    code, out, _ = run(*make, "--headers", "mix", "--dates", 0.5, "--json")
    assert code == 0
    assert json.loads(out)["tables"] == 4 * 8
    code, _, err = run(*make)
    assert (code, "not empty" in err) == (1, True)
    code, out, _ = run(*make, "--force", "--seed", 5)
    assert (code, out.split(": ")[1][:9]) == (0, "32 tables")
    assert run(*make, "--force", "--headers", "odd")[0] == 2

    quality = ("run", "quality", "--data", lake, "--out", tmp_path / "results", "--method", "tfidf-words")
    code, out, err = run(*quality, "-k", 3, "--json")
    assert code == 0
    assert "lake, k = 3: recognised by datalake and groundtruth_dev.csv" in err
    (document,) = json.loads(out)
    assert document["rows"][0]["map"] > 0.8
    assert run("run", "quality", "--data", data, "--method", "tfidf-words")[0] == 1
