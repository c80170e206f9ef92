"""The benchmark of large lakes, on a small one: what it makes, that it resumes, and what it reports."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from random import Random

import pytest
from test_cli import Run, run

from gentus_bench.experiments.large import lake_name
from gentus_bench.experiments.large_build import BETWEEN, STARTING, WRITING, Stage, stage_facts, with_gaps
from gentus_bench.lakes import large_lake
from gentus_bench.lakes.large_lake import (
    MOST_BYTES,
    MOST_ROWS,
    LakePlan,
    Sources,
    cut,
    make_large_lake,
    read_rows,
    to_csv,
)
from gentus_bench.processes import Sample

__all__ = ["run"]

TABLES = 60
HEADERS = (["city", "river", "height", "people"], ["fish", "weight, kg"], ["film", "year", "director"])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine real tables of three headers, and three files that no table can be cut from."""
    folder = tmp_path_factory.mktemp("large") / "rivers" / "datalake"
    (folder / "more").mkdir(parents=True)
    for number in range(9):
        header = HEADERS[number % 3]
        rows = [[f"{name} {number}-{row}, \n{row * row}" for name in header] for row in range(5 + 9 * number)]
        with (folder / ("more" if number % 2 else ".") / f"t{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("a,b\n")
    (folder / "narrow.csv").write_text("a\n1\n2\n")
    return folder


def plan_of(source: Path, lake: Path, seed: int = 0) -> LakePlan:
    return LakePlan(source, lake, TABLES, seed, in_a_folder=25, processes=1)


def bytes_of(lake: Path) -> dict[str, bytes]:
    return {str(path.relative_to(lake)): path.read_bytes() for path in sorted(lake.rglob("*.csv"))}


@pytest.fixture(scope="module")
def made(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake. Not to be changed by a test."""
    lake = tmp_path_factory.mktemp("made") / "lake"
    facts = make_large_lake(plan_of(source, lake))
    assert (facts["tables"], facts["source_tables"]) == (TABLES, 9)
    assert facts["bytes"] == sum(map(len, bytes_of(lake).values()))
    return lake


def test_folders_are_small_and_nothing_else_is_left(made: Path) -> None:
    assert [len(os.listdir(made / f"part-0000{part}")) for part in range(3)] == [25, 25, 10]
    assert sorted(os.listdir(made.parent)) == ["lake", "lake.json"]


def test_the_same_seed_gives_the_same_bytes(source: Path, made: Path, tmp_path: Path) -> None:
    make_large_lake(plan_of(source, tmp_path / "again"))
    assert bytes_of(tmp_path / "again") == bytes_of(made)
    make_large_lake(plan_of(source, tmp_path / "other", seed=1))
    assert bytes_of(tmp_path / "other") != bytes_of(made)
    with pytest.raises(ValueError, match="another lake"):
        make_large_lake(plan_of(source, tmp_path / "other", seed=2))


def test_rows_are_rows_of_tables_with_the_same_columns(source: Path, made: Path) -> None:
    real = [read_rows(path) for path in source.rglob("t*.csv")]
    narrow = mixed = 0
    for path in made.rglob("*.csv"):
        header, rows = read_rows(path)
        whole = next(one for one in HEADERS if set(header) <= set(one))
        at = [whole.index(name) for name in header]
        assert at == sorted(at)
        assert len(at) >= 2
        known = [{tuple(row[a] for a in at) for row in rows} for own, rows in real if own == whole]
        taken = set(map(tuple, rows))
        assert 3 <= len(taken) == len(rows) <= MOST_ROWS
        assert taken <= set().union(*known)
        narrow += len(at) < len(whole)
        mixed += not any(taken <= one for one in known)
    assert 0 < narrow < TABLES
    assert 0 < mixed < TABLES / 2


def test_an_interrupted_run_goes_on(
    source: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(source, tmp_path / "lake")
    make_large_lake(plan)
    for path in (plan.lake / "part-00001").iterdir():
        path.unlink()
    (plan.lake / "part-00001").rmdir()
    kept = plan.table(3)
    kept.write_bytes(b"not made again")
    usual, paths = large_lake.to_csv, [str(path) for path in source.rglob("t*.csv")]

    def stopped(header: list[str], rows: list[list[str]]) -> bytes:
        if len(os.listdir(tmp_path / "lake.making" / "part-00001")) == 7:
            raise KeyboardInterrupt
        return usual(header, rows)

    monkeypatch.setattr(large_lake, "to_csv", stopped)
    large_lake._begin(plan, Sources(paths, [0] * len(paths), [[0]]))
    with pytest.raises(KeyboardInterrupt):
        large_lake._make_part(1)
    assert not (plan.lake / "part-00001").exists()
    assert (tmp_path / "lake.making" / "part-00001").is_dir()
    seconds = json.loads((tmp_path / "lake.json").read_text())["seconds"]

    facts = make_large_lake(plan)
    assert facts["seconds"] > seconds  # of both runs
    assert kept.read_bytes() == b"not made again"
    kept.write_bytes(bytes_of(made)["part-00000/table-00000003.csv"])
    assert bytes_of(plan.lake) == bytes_of(made)
    assert sorted(os.listdir(tmp_path)) == ["lake", "lake.json"]


def test_files_stay_small() -> None:
    rows = [["x" * 700, str(row)] for row in range(40)]
    header, taken = cut(["text", "row"], rows, rows, Random(0))
    data = to_csv(header, taken)
    assert len(data) <= MOST_BYTES
    assert len(to_csv(["text"], [["x" * 9000]] * 3)) > MOST_BYTES  # two rows are kept


def test_columns_without_values_are_not_chosen_alone() -> None:
    rows = [["", "", "", "value"]] * 5
    for seed in range(30):
        assert "d" in cut(list("abcd"), rows, [], Random(seed))[0]


def test_no_source_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no CSV files"):
        make_large_lake(plan_of(tmp_path, tmp_path / "lake"))


def test_stages_cover_the_whole_build() -> None:
    stages = with_gaps([Stage("read", 1, 3), Stage("fit", 3.5, 4), Stage("read", 4, 5)], 0, 7)
    samples = [Sample(2, 10**6, 3 * 10**6), Sample(4.5, 2 * 10**6, 2 * 10**6), Sample(6, 10**6, 10**6)]
    facts = stage_facts(stages, samples)
    assert {name: of["seconds"] for name, of in facts.items()} == {
        STARTING: 1,
        "read": 3,
        BETWEEN: 0.5,
        "fit": 0.5,
        WRITING: 2,
    }
    assert facts["read"] == {"seconds": 3, "peak_mb": 3.0, "peak_main_mb": 2.0}
    assert facts["fit"]["peak_mb"] is None


@pytest.mark.slow
def test_the_command_writes_its_table_and_measures_once(run: Run, source: Path, tmp_path: Path) -> None:
    assert lake_name(source) == "rivers"
    command: list[object] = [
        "bench",
        "run",
        "large",
        "--data",
        source,
        "--set",
        f"tables={TABLES}",
        "--set",
        "queries=4",
    ]
    command += ["--out", tmp_path]
    first = run(*command, "--json").json()[0]["sizes"][str(TABLES)]
    assert first["build"]["tables"] == TABLES
    assert first["build"]["peak_mb"] >= first["build"]["peak_main_mb"] > 10
    assert {STARTING, "Reading tables", WRITING} <= first["build"]["stages"].keys()
    assert first["build"]["bytes"]["folder"] > first["build"]["bytes"]["trie"] > 0
    assert first["search"]["queries"] == 4
    assert 0 < first["search"]["ms"]["10"]["ms_p50"] <= first["search"]["ms"]["10"]["ms_p95"]
    assert first["search"]["cold_seconds"] > 0

    told = run(*command)
    assert told.code == 0, told.err
    assert (tmp_path / "large-rivers.md").read_text().strip() == told.out.strip()
    assert f"| {TABLES} |" in told.out
    assert "| Reading tables |" in told.out
    second = json.loads((tmp_path / "large-rivers.json").read_text())["sizes"][str(TABLES)]
    assert second == first  # nothing was measured again
