"""The paper's tables and figures by one command, with tiny models on a tiny lake."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_bench import Fixed, experiment, small_benchmark
from test_cli import Run, run

import gentus
from gentus.paper import train
from gentus.paper.settings import PaperSettings, SerialSettings, SidSettings
from gentus.table import Table
from gentus_bench import ours, paper_system, reproduce
from gentus_bench.experiment import Request
from gentus_bench.experiments import identifiers, pool, quality, unconstrained
from gentus_bench.experiments.quality import Part, Systems, compare, kept_index
from gentus_bench.lakes.benchmarks import recognise
from gentus_bench.methods import METHODS, Lake
from gentus_bench.ours import GenTUS, IndexFolder
from gentus_bench.paper_report import main_table, ranks_of
from gentus_bench.results import Document, Results

__all__ = ["run"]

MINUTES = 0.01


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tiny_bert: Path, tiny_t5_tied: Path) -> list[dict[str, Any]]:
    """Tiny models, and builds in this process; returns the options of each build."""
    usual = PaperSettings(bert=str(tiny_bert), t5=str(tiny_t5_tied), text=SerialSettings(tokens=32))
    sid = SidSettings(L=3, K=4, d_z=8, hidden=16, steps=60, start=20, batch=16, anchors=4)
    tiny = replace(usual, sid=sid, train=replace(usual.train, views=2, indexing=4, save_seconds=0.0))
    monkeypatch.setattr(paper_system, "SETTINGS", tiny)
    seen: list[dict[str, Any]] = []

    def build(lake: Path, index: Path, options: dict[str, Any]) -> tuple[float, int]:
        gentus.build(lake, index, **options, workers=1).close()
        seen.append(options)
        return 1.5, 1 << 20

    monkeypatch.setattr(ours, "build", build)
    return seen


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    return Request(Results(tmp_path / "out"), small_benchmark(tmp_path / "data"), k=5, minutes=MINUTES)


# --- one command -----------------------------------------------------------------------------------------


def test_all_tables_and_figures_by_one_command_that_goes_on(
    tmp_path: Path, built: list[dict[str, Any]], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, data = tmp_path / "out", small_benchmark(tmp_path / "data")
    asked: list[object] = ["bench", "reproduce", "--data", data, "--out", out, "-k", 5, "--minutes", MINUTES]
    asked += ["--seeds", 2, "--method", "tfidf-words", "--method", "gentus-paper"]

    def stop(*_: object) -> Iterator[Document]:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(pool, "run", stop)
        assert run(*asked).code != 0
    assert len([options for options in built if "paper" in options]) == 2
    documents = {path.name: path.stat().st_mtime_ns for path in (out / "quality" / "small").glob("*.json")}
    assert {"gentus-paper-0.01min-0.json", "gentus-paper-0.01min-1.json"} <= documents.keys()
    took = json.loads((out / "reproduce" / "times-0.01min.json").read_text())
    assert list(took) == [f"small, quality, {method}, 2 seeds" for method in ("tfidf-words", "gentus-paper")]

    ran = run(*asked)
    assert ran.code == 0, ran.err
    assert len([options for options in built if "paper" in options]) == 2  # nothing was trained twice
    for name, made in documents.items():
        assert (out / "quality" / "small" / name).stat().st_mtime_ns == made
    for words in (
        "## Table 1: lakes",
        "| system | small MAP@5 | small P@5 | small R@5 | average rank |",
        "| GenTUS (paper, ",
        " ± ",
        "## Table 3: memory",
        "## Table 4: size of the candidate pool",
        "## Table 5: identifiers",
        "| unionability-aware |",
        "| no suffix |",
        "+0.058 to +0.342",  # what the paper prints
        "## Table 6: decoding without the prefix tree",
        "| with the tree |",
        "## Figures 5 to 8",
        "## Figure 9: tables that are added",
        "| D5 | 18 |",
        "## Figure 10: beam width",
        "eight A100",
        "| LakeBench_1k, GenTUS (published) | 0.627 | 0.634 | 0.627 | 0.602 |",
    ):
        assert words in ran.out, words
    assert ran.out.strip() == (out / "PAPER.md").read_text().strip()
    images = [line.split("(")[1].rstrip(")") for line in ran.out.splitlines() if line.startswith("![")]
    assert len(images) == 6
    assert all((out / image).stat().st_size > 1000 for image in images)
    assert run("bench", "report", "--results", out).code == 0


def test_a_step_that_fails_stops_no_other(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: Request, options: object) -> Iterator[Document]:
        raise RuntimeError("no luck")

    monkeypatch.setattr(pool, "run", fail)
    out, data = tmp_path / "out", small_benchmark(tmp_path / "data")
    ran = run("bench", "reproduce", "--data", data, "--out", out, "--method", "tfidf-words", "-k", 5)
    assert ran.code == 1
    assert "small, pool failed: RuntimeError: no luck" in ran.err
    assert "small, pool: RuntimeError: no luck" in ran.out
    assert "| TF-IDF words | 1.000 |" in ran.out or "| TF-IDF words | **" in ran.out


def test_steps_and_the_time_they_take(request_: Request, tmp_path: Path) -> None:
    request = replace(request_, methods=("tfidf-words", "gentus", "gentus-paper-closed"), minutes=5, seeds=3)
    steps = reproduce.plan(request)
    assert [(step.experiment, *step.methods) for step in steps] == [
        *(("quality", "tfidf-words"), ("quality", "gentus"), ("quality", "gentus-paper-closed")),
        *(("pool",), ("incremental", "gentus"), ("incremental", "gentus-paper-closed"), ("beam",)),
        *(("identifiers",), ("unconstrained",)),
    ]
    assert [step.minutes for step in steps] == [0, 0, 15, 0, 0, 5, 0, 25, 0]
    assert steps[-2].settings == ("vectors=closed-form",)
    clock = reproduce.Clock(tmp_path, 5)
    assert clock.left(steps) == 60 * 45 + 60 * len(steps)
    clock.note(steps[0], 10)
    clock.note(steps[2], 15 * 60 + 20)
    clock.note(steps[2], 1)  # it was kept
    assert reproduce.Clock(tmp_path, 5).left(steps) == 60 * 30 + 15 * (len(steps) - 2)  # 15 s beside training
    assert reproduce.Clock(tmp_path, 6).left(steps) > 60 * 45  # another time of training
    (request_.folder / "small" / "groundtruth_train.csv").unlink()
    assert not any(step.minutes or "paper" in step.title for step in reproduce.plan(request))


def test_the_average_rank_is_over_lakes_and_metrics() -> None:
    def lake(name: str, **maps: float) -> Document:
        of = [
            {"title": title, "map": value, "precision": value, "recall": 0.5} for title, value in maps.items()
        ]
        return {"what": {"lake": name}, "k": 10, "lake": {"labels": 1}, "rows": of}

    lakes = [lake("a", x=0.5, y=0.4), lake("b", x=0.1, y=0.4, z=0.9), lake("ugen_v2", x=0.9, y=0.1)]
    assert ranks_of(lakes) == pytest.approx({"x": (4 / 3 * 2 + 1.5) / 3, "y": (5 / 3 * 2 + 1.5) / 3})
    table = main_table(lakes)
    assert [row[0] for row in table.rows][:3] == ["x", "y", "z"]
    assert table.rows[0][-1] == "1.39"
    assert table.rows[2][-1] == ""  # not everywhere
    (starmie,) = [row for row in table.rows if row[0].startswith("Starmie")]
    assert "0.480" in starmie
    assert "published" in starmie[0]


# --- the paper's own system ------------------------------------------------------------------------------


def test_minutes_are_part_of_the_key(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark, results = next(request_.benchmarks()), request_.results
    made: list[float] = []

    class Trained(Fixed):
        def fit(self, tables: Iterable[Table]) -> None:
            made.append(float(self.name))

    monkeypatch.setitem(METHODS, "gentus-paper", lambda lake: Trained(f"{lake.minutes:g}"))

    def measured(minutes: float) -> Document:
        return compare(benchmark, Systems(["gentus-paper"], minutes=minutes), results)

    assert measured(5)["what"]["minutes"] == 5
    measured(5)
    assert made == [5]  # kept
    assert [row["title"] for row in measured(40)["rows"]] == ["40"]
    assert [row["title"] for row in measured(5)["rows"]] == ["5"]
    assert made == [5, 40]  # neither has replaced the other
    part = results.read(Part("gentus-paper", 0, 40).name("small"))
    assert part is not None
    assert part["what"]["minutes"] == 40


def test_a_stopped_build_goes_on_and_is_built_once(
    request_: Request, built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped within its training, and again between build and searches."""
    benchmark, results = next(request_.benchmarks()), request_.results
    systems, save, resume = Systems(["gentus-paper-closed"], minutes=0.02), train._Run.save, train._Run.resume
    begun: list[int] = []

    def save_and_stop(self: Any) -> None:
        save(self)
        raise KeyboardInterrupt

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def noted(self: Any) -> int:
        begun.append(resume(self))
        return begun[-1]

    monkeypatch.setattr(train._Run, "resume", noted)
    with monkeypatch.context() as stopped:
        stopped.setattr(train._Run, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            compare(benchmark, systems, results)
    with monkeypatch.context() as stopped:
        stopped.setattr(quality, "time_searches", stop)
        with pytest.raises(KeyboardInterrupt):
            compare(benchmark, systems, results)
    (row,) = compare(benchmark, systems, results)["rows"]
    first, second = begun
    assert (first, len(built)) == (0, 1)
    assert second > 0
    assert row["title"] == "GenTUS (paper, closed form, 0.02 min), labels"
    assert (row["build_seconds"], row["fit_seconds"] >= 1.5, row["map"] > 0) == (1.5, True, True)
    (options,) = built
    assert (options["preset"], options["time_budget"], options["names"]) == ("paper", 1.2, False)
    assert options["paper"].vectors == "closed-form"


def test_without_labels_there_is_no_paper(tmp_path: Path) -> None:
    lake = Lake(tmp_path, None, None, IndexFolder(tmp_path / "index"))
    assert METHODS["gentus-paper"](lake) is None
    found = METHODS["gentus-paper"](replace(lake, labels=tmp_path / "labels.csv", seed=3, minutes=7))
    assert isinstance(found, GenTUS)
    assert (found.name, found.order) == ("GenTUS (paper, MiniLM, 7 min), labels", "generated")
    assert (found.options["time_budget"], found.options["paper"].seed) == (420, 3)


def test_settings_reach_the_process_that_builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}
    told: list[str] = []

    def watched(command: list[str]) -> tuple[str, list[Any]]:
        told.append(command[-1])
        return '{"seconds": 1, "peak": 2}', []

    monkeypatch.setattr(ours, "watched", watched)
    settings = paper_system.settings_for("closed-form", 4)
    with pytest.raises(TypeError):  # no sample of memory
        ours.build(tmp_path, tmp_path / "index", {"paper": settings})
    monkeypatch.setattr(gentus, "build", lambda lake, index, **options: seen.update(options))
    monkeypatch.setattr(sys, "argv", ["ours", told[0]])
    ours.main()
    assert seen["paper"] == settings
    assert "progress" in seen


# --- Tables 5 and 6 --------------------------------------------------------------------------------------


def test_identifiers_are_compared_and_a_stopped_training_goes_on(
    request_: Request, built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    resume, begun, reported = train._Run.resume, list[int](), list[int]()

    def noted(self: Any) -> int:
        begun.append(resume(self))
        return begun[-1]

    def once(message: str, *values: Any) -> None:
        if "min left" in message:
            reported.append(1)
            if len(reported) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(train._Run, "resume", noted)
    longer = replace(request_, minutes=0.03)
    with monkeypatch.context() as stopped:
        stopped.setattr(identifiers.log, "info", once)
        with pytest.raises(KeyboardInterrupt):
            experiment("identifiers", longer, "vectors=closed-form", "kinds=ordinary RQ")
    (document,) = experiment("identifiers", longer, "vectors=closed-form", "kinds=ordinary RQ,atomic")
    stopped_at, went_on, other = begun
    assert (stopped_at, other) == (0, 0)
    assert went_on > 0
    ordinary, atomic = document["rows"]
    assert (ordinary["kind"], atomic["kind"]) == ("ordinary RQ", "atomic")
    (curve,) = ordinary["curves"]
    assert curve[0]["step"] <= went_on < curve[-1]["step"]
    assert curve[-1]["seconds"] >= 0.03 * 60
    assert 0 <= ordinary["map"] <= 1
    assert ordinary["latents"] > 0.3
    folder = request_.results.folder
    assert (folder / "identifiers-small-closed-form-0.03min.png").stat().st_size > 1000
    assert not list((folder / "checkpoints").iterdir())
    experiment("identifiers", longer, "vectors=closed-form", "kinds=ordinary RQ,atomic")
    assert len(begun) == 3  # nothing was trained again


def test_kinds_of_identifiers_are_settings() -> None:
    usual = PaperSettings()
    found = {kind: identifiers.of_kind(kind, usual) for kind in identifiers.KINDS}
    assert found["unionability-aware"] == usual
    assert (found["ordinary RQ"].sid.lambda_u, found["ordinary RQ"].identifiers) == (0, "semantic")
    assert [found[kind].identifiers for kind in identifiers.KINDS[2:]] == ["random", "atomic", "no-suffix"]


def test_how_a_curve_rises() -> None:
    curve = [{"seconds": 10.0 * at, "map": 0.1 * at} for at in range(1, 11)]
    assert identifiers.rising(curve) == "0.500, 0.700, 1.000"
    assert identifiers.rising(curve[-1:]) == ", , 1.000"


def test_queries_outside_the_lake_are_learnt_from(tmp_path: Path) -> None:
    folder = small_benchmark(tmp_path) / "small"
    (folder / "query").mkdir()
    for name in ("fish_0.csv", "films_0.csv"):
        (folder / "datalake" / name).rename(folder / "query" / name)
    (folder / "groundtruth_dev.csv").write_text("films_0.csv,deep/er/films_1.csv\n")
    (folder / "groundtruth_train.csv").write_text("fish_0.csv,deep/er/fish_1.csv\n")
    lake = identifiers.labelled_lake(quality.BenchmarkData(recognise(folder)))
    assert (lake.N, len(lake.tables)) == (16, 17)
    ((query, table),) = lake.pairs.tolist()
    assert (lake.tables[query].name, lake.tables[table].name) == ("fish_0.csv", "deep/er/fish_1.csv")
    names = [one.name for one in lake.tables[: lake.N]]
    assert identifiers._map_of_latents(np.eye(16, dtype=np.float32), names, recognise(folder)) is None


def test_empty_slots_count_as_wrong() -> None:
    bound = {"q": ["q", "a", "b", "x"]}
    free = {"q": ["", "a", "", "q", "b"]}
    found = unconstrained.compared(bound, free, {"q": ["a", "b"]}, 2)
    way = {row["way"]: row for row in found["rows"]}
    assert way[unconstrained.WITH]["map"] == 1.0
    assert (way[unconstrained.WITHOUT]["map"], way[unconstrained.WITHOUT]["recall"]) == (0.25, 0.5)
    assert way[unconstrained.LEFT_OUT]["map"] == 1.0
    assert (found["invalid_rate"], found["added_relevant_per_query"]) == (0.5, 1.0)
    assert (found["map_gain"], found["recall_gain"]) == (0.75, 0.5)


def test_what_is_written_freely_is_found_in_the_tree(request_: Request, built: list[dict[str, Any]]) -> None:
    """With a vocabulary of which only identifiers are left, both ways find the same tables."""
    benchmark, results = next(request_.benchmarks()), request_.results
    compare(benchmark, Systems(["gentus-paper"], minutes=MINUTES), results)
    kept = kept_index(results, benchmark, "gentus-paper", 0, MINUTES)
    with gentus.open(kept.path) as index:
        trie, names = index._snapshot.retriever.decoder.trie, set(index.tables())
    freely = np.arange(len(trie))[::-1]

    def generate_freely(model: Any, sentences: Any, levels: int, beam: int) -> list[list[tuple[int, ...]]]:
        y, lengths = model.vocabulary.tok(trie.codes_of(freely), trie.suffix(freely))
        tokens = (y + model.vocabulary.text).tolist()
        every = [tuple(row[: n - 1]) for row, n in zip(tokens, lengths.tolist(), strict=True)]
        return [[(1, 2), *every] for _ in sentences]

    seen: dict[str, Any] = {}

    def compared(bound: Any, free: Any, truth: Any, k: int) -> Document:
        seen.update(bound=bound, free=free)
        return {}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unconstrained, "generate_freely", generate_freely)
        patched.setattr(unconstrained, "compared", compared)
        unconstrained._measure(kept.path, quality.BenchmarkData(benchmark))
    for query, found in seen["free"].items():
        assert found[0] == unconstrained.EMPTY
        assert len(found) == 1 + len(names)
        assert set(found[1:]) == set(seen["bound"][query]) == names
