from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

import gentus
from gentus.align.matched_columns import MatchedColumns
from gentus.app.demo import lake as demo
from gentus.app.demo.lake import Demo, make_lake
from gentus.app.demo.run import run
from gentus.extras import install_extra


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return make_lake(tmp_path_factory.mktemp("demo"))


def rows(path: Path) -> list[tuple[Any, ...]]:
    return duckdb.execute(f"select * from '{path}'").fetchall()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_lake_is_large_and_varied_enough(made: Demo) -> None:
    files = {p.relative_to(made.lake).as_posix() for p in made.lake.rglob("*") if p.is_file()}
    assert files == set(made.subjects)
    assert len(files) >= 240
    assert len(set(made.subjects.values())) >= 18
    assert len({name.partition(".")[2] for name in files}) == 5
    assert sum(len(data) for data in contents(made.lake).values()) < 5_000_000


def test_every_table_has_rows_and_columns(made: Demo) -> None:
    for name in made.subjects:
        table = rows(made.lake / name)
        assert len(table) >= 10, name
        assert len(table[0]) >= 3, name


def test_truth_is_the_query_subject(made: Demo) -> None:
    assert made.truth == {name for name, subject in made.subjects.items() if subject == "films"}
    with (made.query.parent / "truth.csv").open() as file:
        assert {line["candidate_table"] for line in csv.DictReader(file)} == made.truth


def test_lake_has_not_seen_the_query(made: Demo) -> None:
    titles = {str(row[0]) for row in rows(made.query)}
    assert len(titles) == demo.QUERY_ROWS
    for name in made.truth:
        cells = {str(cell) for row in rows(made.lake / name) for cell in row}
        assert not titles & cells, name


def test_no_table_fits_the_recipes(made: Demo, tmp_path: Path) -> None:
    with gentus.build(made.lake, tmp_path / "index") as index:
        assert {hit.fit for hit in index.search(made.unrelated)} == {"none"}
        assert {hit.fit for hit in index.search(made.query, k=5)} <= {"full", "partial"}


def test_many_headers_say_nothing(made: Demo) -> None:
    csvs = [made.lake / name for name in made.subjects if name.endswith(".csv")]
    telling = Counter(path.read_text().startswith("column_1") for path in csvs)
    assert telling[True] > 20


def test_same_seed_same_bytes(made: Demo, tmp_path: Path) -> None:
    again = make_lake(tmp_path / "new" / "folder")
    assert contents(again.query.parent) == contents(made.query.parent)
    assert (again.truth, again.subjects) == (made.truth, made.subjects)
    other = make_lake(tmp_path / "new" / "folder", seed=8)  # takes the place of the one before
    assert contents(other.query.parent) != contents(made.query.parent)
    assert len(contents(other.lake)) == len(other.subjects)


@pytest.mark.parametrize("name", ["lake", "index", "films.csv", "recipes.csv"])
def test_files_of_others_are_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="not made by the demo"):
        make_lake(tmp_path)
    assert contents(tmp_path) == {f"{name}/mine": b"precious"}


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_extra("demo"))):
        make_lake(tmp_path)


class Oracle:
    """An index that names the first tables of the lake in alphabetical order."""

    def __init__(self, lake: Path) -> None:
        self.names = sorted(p.relative_to(lake).as_posix() for p in lake.rglob("*") if p.is_file())

    def search(self, query: Path, k: int) -> list[gentus.Hit]:
        films = query.name == "films.csv"
        columns = MatchedColumns.of(["a", "b"], ["a", "c"], [(0, 0)] * films)
        return [
            gentus.Hit(i, name, 1 / i, "partial" if films else "none", columns, f"7-{i}", name, 1.0)
            for i, name in enumerate(self.names[:k], 1)
        ]


def test_run_tells_and_returns_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gentus, "build", lambda lake, out: Oracle(lake), raising=False)
    monkeypatch.chdir(tmp_path)
    paper = io.StringIO()
    story = run(Path("it's [here]"), k=12, console=Console(file=paper, width=100))
    assert json.loads(json.dumps(story)) == story
    assert len(story["results"]) == 12
    assert story["found"] == sum(hit["correct"] for hit in story["results"])
    assert all(hit["correct"] == (hit["subject"] == "films") for hit in story["results"])
    assert (story["fit"], story["unrelated"]["fit"]) == ("partial", "none")
    assert {hit["columns"]["matched"] for hit in story["results"]} == {1}
    told = " ".join(paper.getvalue().split())
    assert "some German recipes: No table in this lake fits yours." in told
    for expected in [*story["next"], *(hit["table"] for hit in story["results"]), "Title"]:
        assert expected in told


def test_run_is_silent_without_a_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gentus, "build", lambda lake, out: Oracle(lake), raising=False)
    run(tmp_path)
    assert capsys.readouterr() == ("", "")
