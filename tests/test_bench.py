from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import QUICK, make_lake, rows_of, subject_of, write_pairs, write_table
from stress import files
from test_cli import Run, run

import gentus
from gentus.features import weights
from gentus.metrics import load_groundtruth
from gentus.table import Column, Table
from gentus_bench import machine, ours
from gentus_bench.baselines import MiniLMColumns, Retriever, TfidfChars, TfidfWords, best, distinct
from gentus_bench.experiment import Request
from gentus_bench.experiments import updates
from gentus_bench.experiments.cold import cold_search
from gentus_bench.experiments.incremental import labels_within
from gentus_bench.experiments.quality import Part, Systems, compare, tables
from gentus_bench.lakes.benchmarks import recognise
from gentus_bench.methods import METHODS
from gentus_bench.registry import EXPERIMENTS, chosen
from gentus_bench.results import Document, Results

__all__ = ["run"]

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
    not (find_spec("transformers") and find_spec(weights.MINILM.module)),
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


def test_methods_are_scored_and_timed_and_a_failure_stops_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "tus_tidy" / "datalake" / "empty.csv").write_text("")
    monkeypatch.setitem(METHODS, "broken", lambda lake: Fixed("broken", works=False))
    monkeypatch.setitem(METHODS, "perfect", lambda lake: Fixed("perfect"))
    benchmark = recognise(data / "tus_tidy", 1)
    results = Results(tmp_path / "out")
    document = compare(benchmark, Systems(["broken", "perfect"], 2), results)
    assert (document["lake"]["tables"], [row["seeds"] for row in document["rows"]]) == (4, [0, 2])
    assert document["rows"][0]["error"] == "RuntimeError: no | luck"
    perfect = results.read(Part("perfect").name("tus_tidy"))
    assert perfect is not None
    assert (perfect["map"], perfect["recall"], perfect["queries"]) == (1.0, 1.0, 2)
    assert (perfect["precision"], perfect["extra"]) == (1.0, 1)
    assert perfect["ms_p95"] >= perfect["ms_p50"] > perfect["read_ms_p50"] > 0
    assert perfect["timing"]["passes"] == 2
    assert perfect["timing"]["threads"]["torch"] >= 1
    assert perfect["offline_seconds"] > perfect["fit_seconds"]
    assert perfect["rankings"] == {"cities.csv": ["cities_2.csv"], "fish.csv": ["fish_2.csv"]}
    text = tables(document)[0].markdown()
    assert "| perfect | **1.000 ± 0.000** |" in text
    assert "| broken (failed, see below) |" in text
    assert "broken failed:\n\n```\nRuntimeError: no | luck\n```" in text  # whole
    assert results.read(Part("broken").name("tus_tidy")) is None  # a failure is not kept
    assert document["curves"]["perfect"]["recall"] == [1.0] * len(document["ks"])
    monkeypatch.setitem(METHODS, "perfect", lambda lake: Fixed("perfect", works=False))
    (again,) = compare(benchmark, Systems(["perfect"], 2), results)["rows"]
    assert again == document["rows"][1]  # measured once, and kept


def test_what_the_lake_lacks_is_said_and_published_figures_stand_beside(data: Path, tmp_path: Path) -> None:
    (data / "ugen_v1" / "groundtruth_dev.csv").write_text(TRUTH + "cities.csv,gone.csv\n")
    document = compare(recognise(data / "ugen_v1"), Systems(["tfidf-words"]), Results(tmp_path / "out"))
    assert document["rows"][0]["map"] == 0.75
    text = tables(document)[0].markdown()
    assert "candidate tables not in the lake: 1 (gone.csv)" in text
    assert "| Starmie (published: authors' own result files, MAP@10) | 0.382 |" in text


def test_quality_from_the_command_line(data: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "results"
    asked = ("bench", "run", "quality", "--data", data, "--out", out)
    found = run(*asked, "--method", "tfidf-words", "--json").json()
    maps = {one["what"]["lake"]: one["rows"][0]["map"] for one in found}
    assert maps == {"tus_tidy": 1.0, "ugen_v1": 1.0}
    ran = run(*asked, "--lake", "santos")
    assert (ran.code, "there is no folder" in ran.err) == (1, True)
    ran = run(*asked, "--method", "magic")
    assert (ran.code, "unknown method magic; known are tfidf-words" in ran.err) == (1, True)
    ran = run(
        "bench", "run", "pool", "--data", data, "--out", out, "--set", "draws=1", "--set", "shares=0.5,1"
    )
    assert (ran.code, "| TF-IDF words |" in ran.out) == (0, True)
    assert (out / "pool-tus_tidy.md").is_file()
    ran = run(*asked, "--set", "depth=1")
    assert (ran.code, "quality has no option depth; its options are: names, reuse" in ran.err) == (1, True)
    ran = run("bench", "run", "magic")
    assert (ran.code, "unknown experiment magic; known are quality" in ran.err) == (1, True)


def test_every_experiment_is_listed_with_its_options(run: Run) -> None:
    found = {one["name"]: one for one in run("bench", "list", "--json").json()}
    assert list(found) == list(EXPERIMENTS)
    assert found["beam"]["settings"] == {"beams": "(5, 10, 20, 40, 80, 100, 160, 320)"}
    assert found["beam"]["options"] == ["data", "lake", "minutes"]
    for experiment in EXPERIMENTS.values():
        assert callable(experiment.module.run)
        assert callable(experiment.module.tables)
    assert "--set beams=" in run("bench", "list").out


def test_gentus_as_a_retriever_reports_its_cost(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    orders: list[str | None] = []

    class Index:
        def sources(self) -> dict[str, str]:
            return {"cities.csv": "cities of the lake"}

        def search_as(
            self, queries: list[Any], tables: list[Table], k: int, order: str | None
        ) -> list[list[SimpleNamespace]]:
            seen.append((queries[0] if isinstance(queries[0], str) else queries[0].name, tables[0].name))
            orders.append(order)
            return [[SimpleNamespace(table=tables[0].name.replace(".csv", "_2.csv"), score=1.0)][:k]]

        def info(self) -> dict[str, Any]:
            return {"tables": 2, "bytes": {"trie": 48, "signatures": 4600}}

    def build(lake: Path, index: Path, options: dict[str, Any]) -> tuple[float, int]:
        write(index, "config.json", [["1"], ["2"]])
        seen.append(options)
        return 1.5, 3 << 20

    monkeypatch.setattr(ours, "build", build)
    monkeypatch.setattr(gentus, "open", lambda path: Index(), raising=False)
    monkeypatch.setattr(ours.GenTUS, "_serving_mb", lambda self: 2.5, raising=False)  # of a real index only
    (data / "ugen_v1" / "groundtruth_train.csv").write_text(
        "query_table,candidate_table\nfish_2.csv,cities_2.csv\n"
    )
    results = Results(tmp_path / "out")
    methods = ["gentus", "gentus-generated", "gentus-labels"]
    assert len(compare(recognise(data / "tus_tidy"), Systems(methods), results)["rows"]) == 2
    orders.clear()
    document = compare(recognise(data / "ugen_v1"), Systems(methods), results)
    plain, generated, _ = document["rows"]
    assert [row["title"] for row in document["rows"]] == [
        *("GenTUS (aligned)", "GenTUS (generated)", "GenTUS, labels")
    ]
    assert list(dict.fromkeys(orders)) == ["aligned", "generated", None]
    assert (generated["build_seconds"], generated["fit_seconds"]) == (None, None)  # the index was there
    assert (plain["map"], plain["build_seconds"], plain["peak_mb"]) == (1.0, 1.5, 3.0)
    assert (plain["bytes_per_table"], generated["bytes_per_table"]) == (2324, 24)  # with signatures, without
    assert ("cities of the lake", "cities.csv") in seen  # so that it is not its own answer
    assert ("fish.csv", "fish.csv") in seen
    assert {
        "labels": str(tmp_path / "out" / "truth" / "ugen_v1-train.csv"),
        "queries": str(data / "ugen_v1" / "query"),
        "seed": 0,
        "names": False,
    } in seen


def test_a_build_runs_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, json, time, gentus\n"
        "from gentus_bench import ours\n"
        "def build(lake, index, **options):\n"
        "    print('chatter'); block = bytearray(300 << 20); time.sleep(0.01)\n"
        "    assert (lake, index, options) == ('L', 'I', {'names': False})\n"
        "gentus.build = build\n"
        "ours.main()\n"
    )
    popen = subprocess.Popen

    def stub(command: list[str], **kwargs: Any) -> subprocess.Popen[str]:
        assert command[:3] == [sys.executable, "-m", "gentus_bench.ours"]
        return popen([sys.executable, "-c", code, command[3]], **kwargs)

    monkeypatch.setattr(subprocess, "Popen", stub)
    seconds, peak = ours.build(Path("L"), Path("I"), {"names": False})
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
    monkeypatch.setattr(
        "gentus_bench.experiments.cold.subprocess.run", lambda command, **_: calls.append(command)
    )
    facts = cold_search(tmp_path / "i", tmp_path / "q.csv", runs=3)
    assert len(calls) == 3
    assert all("search" in call and str(tmp_path / "i") in call for call in calls)
    assert facts["runs"] == 3
    assert 0 <= facts["seconds_median"] <= facts["seconds_worst"]


def small_benchmark(folder: Path) -> Path:
    """A lake of three subjects, queries in it, with labels of other queries."""
    lake = make_lake(folder / "small" / "datalake", subjects=("cities", "fish", "films"))
    names = sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*") if path.is_file())
    pairs = [(a, b) for a in names for b in names if a != b and subject_of(a) == subject_of(b)]
    write_pairs(lake.parent / "groundtruth_dev.csv", [pair for pair in pairs if "_0" in pair[0]])
    write_pairs(lake.parent / "groundtruth_train.csv", [pair for pair in pairs if "_0" not in pair[0]])
    return folder


def experiment(name: str, request: Request, *settings: str) -> list[Document]:
    (found,) = chosen([name])
    return [document for document, _ in found.execute(request, found.parse(settings))]


def test_the_incremental_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gentus, "build", partial(gentus.build, settings=QUICK))
    request = Request(Results(tmp_path / "out"), small_benchmark(tmp_path / "data"), k=5)
    (document,) = experiment("incremental", request)
    assert [row["tables"] for row in document["steps"]] == [9, 11, 13, 14, 16, 18]
    assert [row["step"] for row in document["steps"]] == ["D0", "D1", "D2", "D3", "D4", "D5"]
    assert document["whole"]["tables"] == 18
    assert document["share_kept"] == document["steps"][-1]["map"] / document["whole"]["map"]
    assert document["steps"][-1]["map"] > 0.5
    assert all(row["seconds_to_first_query"] > 0 for row in document["steps"][1:])
    assert document["drift"]["added"] == 9
    assert json.loads((tmp_path / "out" / "incremental-small.json").read_text()) == document
    assert "| D5 | 18 |" in (tmp_path / "out" / "incremental-small.md").read_text()
    for ending in ("png", "svg"):
        assert (tmp_path / "out" / f"incremental-small.{ending}").stat().st_size > 1000
    assert experiment("incremental", request) == [document]  # measured once


def test_d0_learns_from_its_own_labels_only(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        write_table(tmp_path / "pool" / name, rows_of("fish", 1))
    labels = write_pairs(tmp_path / "all.csv", [("a.csv", "b.csv"), ("a.csv", "c.csv"), ("c.csv", "a.csv")])
    known = labels_within(labels, tmp_path / "pool", None, tmp_path / "some.csv")
    assert known is not None
    assert load_groundtruth(known) == {"a.csv": ["b.csv"]}


@pytest.mark.slow
def test_updates_are_timed_and_watched(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", subjects=("cities", "fish"), slices=4)
    gentus.build(lake, tmp_path / "index", settings=QUICK).close()
    for seed in range(120):
        write_table(tmp_path / "more" / f"films_{seed}.csv", rows_of("films", seed, 4))
    document = updates.measure_updates([tmp_path / "index"] * 2, tmp_path / "more", 100, 20, seconds=2)
    assert [(row["tables"], row["found"]) for row in document["rows"]] == [(8, 20), (8, 20)]
    watched = document["watched"]
    assert watched["errors"] == []
    assert watched["stale"] == 0
    assert watched["searches"] > 0
    assert "Two readers beside a writer for 2 s" in updates.tables(document)[0].note
    with gentus.open(tmp_path / "index") as index:
        assert len(index) == 8  # copies were changed, not this
    with pytest.raises(ValueError, match="120 tables; 1,020 are needed"):
        updates.measure_updates([tmp_path / "index"], tmp_path / "more")


@pytest.mark.slow
def test_experiments_one_after_the_other_make_one_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    def quick(lake: Path, index: Path, options: dict[str, Any]) -> tuple[float, int]:
        gentus.build(lake, index, settings=QUICK).close()
        return 1.0, 1 << 20

    monkeypatch.setattr(ours, "build", quick)
    out, data = tmp_path / "out", small_benchmark(tmp_path / "data")
    results = Results(out)
    request = Request(results, data, methods=["tfidf-words", "gentus", "gentus-generated"], k=3)

    def run_all() -> None:
        for name in ("quality", "timing", "pool", "beam"):
            assert len(experiment(name, request)) == 1

    run_all()
    assert run("bench", "report", "--results", out).code == 0
    text = (out / "RESULTS.md").read_text()
    for words in (
        "## Quality and costs of every system",
        "| GenTUS (aligned) | ",
        "| GenTUS (generated) | ",
        "bytes per table",
        "of it reading, p50",
        "MAP by the size of the candidate pool",
        "| beam | MAP@3 |",
    ):
        assert words in text
    made = {path.name for path in out.iterdir()}
    for name in ("quality-small", "timing-small", "pool-small", "beam-small-gentus"):
        assert {f"{name}.md", f"{name}.json", f"{name}.png", f"{name}.svg"} <= made
    parts = [path for path in out.rglob("*.json") if path.parent != out and "indexes" not in path.parts]
    stamps = {path: path.stat().st_mtime_ns for path in parts}
    assert len(stamps) == 4  # the lake, and three systems
    run_all()
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps  # nothing was measured twice


@pytest.mark.slow
def test_very_many_files_are_read_killed_and_read_on(tmp_path: Path) -> None:
    document = files.measure_files(Results(tmp_path), 1200, tmp_path)
    assert 400 <= document["killed_after"] < 1200
    # What was stored before the kill is not read again; the last ones of it may not have been.
    assert document["left_to_read"] <= 1200 - document["killed_after"] + document["read_again"]
    assert 0 <= document["read_again"] <= 256
    assert 20 < document["memory"]["100%"]["own_mb"] < 200
    assert all(told["actual"] >= 0 for told in document["estimates"].values())
    assert f"and read {document['left_to_read']:,} tables" in files.tables(document)[1].note
    assert [path.name for path in tmp_path.iterdir()] == ["files-1200.json"]  # the lake is gone
    assert files.make_files(tmp_path / "again", 1200) == document["bytes"]  # it is always the same
