"""Measuring and learning alignment, on a lake that is cut for it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SUBJECTS, rows_of, write_pairs, write_table
from test_cli import Run, run

from gentus.align.matcher import align, pair_scores, shipped_weights
from gentus.align.pair_features import PAIR_FEATURES, pair_features
from gentus.align.table_profile import profile_table
from gentus.extras import install_extra
from gentus.table import Column, Table
from gentus_bench.experiments.aligners import Aligner, aligners
from gentus_bench.experiments.alignment import Options, measure_alignment, scored, tables
from gentus_bench.experiments.column_pairs import (
    Example,
    alike,
    base_tables,
    can_be_cut,
    lake_examples,
    training_examples,
    without_counters,
)
from gentus_bench.experiments.learn_alignment import learn
from gentus_bench.lakes.base_tables import BaseTable
from gentus_bench.lakes.make_lake import make_lake
from gentus_bench.lakes.shipped_tables import collect
from gentus_bench.lakes.slicing import LakeOptions
from gentus_bench.results import Results

__all__ = ["run"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases") / "base"
    for subject in SUBJECTS:
        write_table(folder / f"{subject}.csv", rows_of(subject, 0, 80))
    return folder


@pytest.fixture(scope="module")
def cut(base: Path) -> Path:
    make_lake(base, base.parent / "cut", LakeOptions(slices=4, columns=0.8, distractors=1))
    return base.parent / "cut"


def test_examples_of_a_cut_lake_know_their_columns(cut: Path) -> None:
    examples = lake_examples(cut, 3)
    assert len(examples) == 18
    assert {example.base for example in examples} == {f"{subject}.csv" for subject in SUBJECTS}
    for example in examples:  # headers were kept, so the truth can be read off them
        names = [[column.name for column in side.columns] for side in (example.query, example.table)]
        expected = [[one == other for other in names[1]] for one in names[0]]
        assert example.truth.tolist() == expected
        assert example.truth.sum() >= 2
    assert [e.query.name for e in lake_examples(cut, 3)] == [e.query.name for e in examples]


def test_examples_of_other_lakes_go_by_names(tmp_path: Path) -> None:
    for name, header in (("a.csv", "x,y,only NA"), ("b.csv", "y,z,x"), ("c.csv", "y,x,z")):
        (tmp_path / "datalake").mkdir(exist_ok=True)
        (tmp_path / "datalake" / name).write_text(f"{header}\n1,2,NA\n3,4,NA\n")
    write_pairs(tmp_path / "groundtruth_dev.csv", [("a.csv", "b.csv"), ("b.csv", "c.csv")])
    first, second = lake_examples(tmp_path, 5)
    assert (first.base, second.base) == ("a.csv", "a.csv")  # all three are of one table
    names = {
        "a.csv": ["x", "y"],
        "b.csv": ["y", "z"],
        "c.csv": ["y", "x"],
    }  # without columns that say nothing
    for example in (first, second):
        for side in (example.query, example.table):
            assert [column.name for column in side.columns] == names[side.name]


def test_precision_and_recall() -> None:
    nothing = Table("t", [Column("a", ["1"])] * 2, 1)
    examples = [Example(name, nothing, nothing, np.eye(2, dtype=bool)) for name in ("one", "other")]
    found = [[(0, 0, 0.9), (1, 1, 0.8)], [(0, 1, 0.7), (1, 1, 0.2)]]
    figures = scored(examples, found, 0.5)
    assert (figures["precision"], figures["recall"]) == (2 / 3, 2 / 4)
    assert figures["f1"] == pytest.approx(4 / 7)
    assert figures["mean_f1"] == pytest.approx((1 + 0) / 2)
    assert (figures["base_tables"], figures["table_pairs"], figures["column_pairs"]) == (2, 2, 4)
    assert scored(examples, found, 0.1)["recall"] == 3 / 4


def test_alignment_measured(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(query: Table, table: Table, names: bool) -> tuple[list[tuple[int, int, float]], float]:
        if len(table.columns) == 3:
            raise RuntimeError("it cannot")
        return [(at, at, 0.5 + 0.1 * at) for at in range(min(len(query.columns), len(table.columns)))], 1.0

    monkeypatch.setattr("gentus_bench.experiments.alignment.WIDTHS", (5,))
    both = {**aligners(["gentus"]), "blind": Aligner("Blind", blind)}
    document = measure_alignment(cut, both, Results(tmp_path), Options(pairs=2))
    rows = {(row["key"], row["names"]): row for row in document["rows"]}
    ours, others = rows["gentus", False], rows["blind", False]
    assert ours["base_tables"] == 6
    assert ours["f1"] > 0.9 > others["f1"]
    assert rows["gentus", True]["f1"] >= ours["f1"]
    assert (ours["threshold_is_best_for_it"], others["threshold_is_best_for_it"]) == (False, True)
    text = tables(document)[0].markdown()
    assert "12 pairs of slices of 6 base tables" in text
    assert "| Blind | hidden |" in text
    assert "5 x 5 columns" in text

    def never(*_: Any) -> Any:
        raise AssertionError("what was measured is not measured again")

    again = {key: replace(aligner, match=never) for key, aligner in both.items()}
    monkeypatch.setattr("gentus_bench.experiments.alignment.lake_examples", never)
    assert measure_alignment(cut, again, Results(tmp_path), Options(pairs=2))["rows"] == document["rows"]


def test_aligners_by_name() -> None:
    assert aligners(["gentus"])["gentus"].threshold == shipped_weights().threshold
    with pytest.raises(
        ValueError, match="there is no such; choose among gentus, jaccard, coma, distribution"
    ):
        aligners(["such"])


def test_valentine_beside_ours(cut: Path) -> None:
    pytest.importorskip("valentine")
    example = lake_examples(cut, 1)[0]
    for key in ("jaccard", "coma", "distribution"):
        found, milliseconds = aligners([key])[key].match(example.query, example.table, False)
        assert milliseconds > 0
        assert len({i for i, _, _ in found}) == len(found)


def test_valentine_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gentus_bench.experiments.aligners.find_spec", lambda name: None)
    assert list(aligners()) == ["gentus"]
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_extra("valentine"))):
        aligners(["coma"])


def test_training_examples_are_right(base: Path) -> None:
    tables = base_tables([base], 10)
    assert [table.name for table in tables] == [f"base/{subject}.csv" for subject in sorted(SUBJECTS)]
    assert len(base_tables([base], 2)) == 2
    examples = training_examples(tables)
    related = [example for example in examples if example.base]
    assert len(examples) > len(related) > 30
    columns = {table.name: dict(zip(table.header, table.columns, strict=True)) for table in tables}
    for example in related:
        assert example.truth.shape == (len(example.query.columns), len(example.table.columns))
        assert example.truth.sum(0).max() <= 1 >= example.truth.sum(1).max()
        assert example.truth.any()
    assert not any(example.truth.any() for example in examples if not example.base)
    plain = next(example for example in related if any(c.name == "kind" for c in example.query.columns))
    kinds = set(columns[plain.base]["kind"])
    (cells,) = (column.cells for column in plain.query.columns if column.name == "kind")
    assert sum(cell in kinds for cell in cells) > len(cells) / 2  # some cells may be spoilt
    other = training_examples(tables)
    assert [example.query for example in other] == [example.query for example in examples]


def test_tables_that_cannot_be_cut() -> None:
    rows = [str(number) for number in range(1, 31)]
    counted = BaseTable("t", ["column_1", "a", "b", "c"], [rows, rows[::-1], rows[::-1], rows[::-1]])
    assert without_counters(counted).header == ["a", "b", "c"]
    assert without_counters(BaseTable("t", ["id", "a"], [rows, rows])).header == ["id", "a"]
    assert can_be_cut(without_counters(counted))
    assert not can_be_cut(replace(counted, header=["1.5", "a", "b", "c"]))
    assert not can_be_cut(counted, rows=31)
    assert alike(["A", "b", "c"], [["x"], ["a", "B", "d"]])
    assert not alike(["a", "b", "c"], [["a", "x", "y"]])


def test_weights_are_learnt(base: Path) -> None:
    examples = training_examples(base_tables([base], 10))
    weights = learn(examples, {"from": "six tables"})
    assert weights.trained_on["from"] == "six tables"
    assert weights.pair["value overlap"] > 0
    assert weights.names["equal names"] > 0
    assert 0 < weights.threshold < 1
    hits = said = true = 0
    for example in examples:
        query, table = profile_table(example.query), profile_table(example.table)
        scores = pair_scores(query, table, pair_features(query, table, names=False), weights)
        assert np.isfinite(scores).all()
        chosen = scores >= weights.threshold
        hits, said = hits + int((chosen & example.truth).sum()), said + int(chosen.sum())
        true += int(example.truth.sum())
    assert 2 * hits / (said + true) > 0.8


def test_commands(run: Run, base: Path, cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gentus_bench.experiments.alignment.WIDTHS", (5,))
    command: list[object] = [
        "bench",
        "run",
        "alignment",
        "--data",
        cut,
        "--method",
        "gentus",
        "--set",
        "pairs=1",
    ]
    command += ["--out", tmp_path / "results"]
    ran = run(*command)
    assert ran.code == 0, ran.err
    assert "| GenTUS |" in ran.out
    (document,) = run(*command, "--json").json()
    assert document["what"]["lake"] == "cut"
    assert {path.name for path in (tmp_path / "results").glob("alignment-cut.*")} == {
        *("alignment-cut.json", "alignment-cut.md", "alignment-cut.png", "alignment-cut.svg"),
    }
    ran = run("bench", "learn-align", base, "-o", tmp_path / "weights.json", "--without", base)
    assert (ran.code, "there are no tables to learn from" in ran.err) == (1, True)
    ran = run("bench", "learn-align", base, "-o", tmp_path / "weights.json", "--most", 3)
    assert "Learnt from 3 tables" in ran.err
    assert tuple(json.loads((tmp_path / "weights.json").read_text())["pair"]) == PAIR_FEATURES


def test_tables_that_packages_ship(run: Run, tmp_path: Path) -> None:
    found = run("bench", "base-tables", "-o", tmp_path, "--package", "vega_datasets", "--json").json()
    assert {"cars", "seattle-weather"} <= set(found["vega_datasets"])
    header, *rows = (tmp_path / "vega_datasets" / "seattle-weather.csv").read_text().splitlines()
    assert header.startswith("date,precipitation,")
    assert len(rows) >= 100
    assert "vega_datasets: " in run("bench", "base-tables", "-o", tmp_path, "--package", "vega_datasets").out
    with pytest.raises(ValueError, match="choose among airportsdata"):
        collect(tmp_path, ["such"])


def test_archives_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tarfile
    import zipfile

    package = tmp_path / "shipper"
    package.mkdir()
    (package / "__init__.py").touch()
    text = "a,b,c\n" + "".join(f"{n},{n * n},{-n}\n" for n in range(120))
    with zipfile.ZipFile(package / "some.zip", "w") as archive:
        archive.writestr("data/zipped.csv", text)
        archive.writestr("data/short.csv", "d,e,f\n1,2,3\n")
    (tmp_path / "packed.csv").write_text(text.replace("a,b,c", "g,h,i"))
    with tarfile.open(package / "some.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "packed.csv", "data/packed.csv")
        packed.add(tmp_path / "packed.csv", "data/._packed.csv")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("gentus_bench.lakes.shipped_tables.PACKAGES", {"shipper": ("*.zip", "*.tar.gz")})
    assert collect(tmp_path / "out") == {"shipper": ["data_zipped", "data_packed"]}
    assert (tmp_path / "out" / "shipper" / "data_zipped.csv").read_text() == text


def test_ours_is_what_align_gives() -> None:
    rows = rows_of("fish", 1)
    made = Table("t", [Column(name, [row[at] for row in rows[1:]]) for at, name in enumerate(rows[0])], 12)
    found, _ = aligners(["gentus"])["gentus"].match(made, made, True)
    assert [(i, j) for i, j, _ in found] == [(p.query.at, p.table.at) for p in align(made, made).pairs]
