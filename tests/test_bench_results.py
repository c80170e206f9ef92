"""Results: kept for the same data, parameters and code; rows of others stay; runs are systems."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_bench import Fixed, data
from test_cli import Run, run

from gentus.runs import read_run, write_run
from gentus_bench import sources
from gentus_bench.experiments.quality import Part, Systems, compare, kept_index, tables
from gentus_bench.lakes.benchmarks import recognise
from gentus_bench.methods import METHODS
from gentus_bench.ours import IndexFolder
from gentus_bench.results import Document, Results

__all__ = ["data", "run"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of three modules: `one` imports `two` inside a function; beside them are weights."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "one.py").write_text("def f():\n    from made_up import two\n    return two\n")
    (folder / "two.py").write_text("X = 1\n")
    (folder / "three.py").write_text("X = 1\n")
    (folder / "weights.json").write_text("{}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "PACKAGES", ("made_up",))
    yield folder
    _forget()


def _forget() -> None:
    for cached in (sources.code_digest, sources._imported, sources._path, sources._of_file):
        cached.cache_clear()


def test_the_code_is_that_of_a_module_and_of_what_it_imports(package: Path) -> None:
    def digest() -> str:
        _forget()
        return sources.code_digest("made_up.one")

    first = digest()
    (package / "three.py").write_text("X = 2\n")
    assert digest() == first
    for name in ("two.py", "one.py", "weights.json"):
        before = digest()
        (package / name).write_text((package / name).read_text() + "\n")
        assert digest() != before


def test_gentus_depends_on_all_of_gentus() -> None:
    """Whatever file of the package changes, an index of it is another."""
    _forget()
    found, waiting = set[str](), ["gentus_bench.ours"]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += sources._imported(name)
    assert "gentus" in found


def test_a_document_is_kept_for_the_same_parameters_and_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, count = Results(tmp_path), 0

    def measure() -> Document:
        nonlocal count
        count += 1
        return {"count": count}

    caplog.set_level(logging.INFO, "gentus_bench")
    assert results.measured("a", {"k": 1}, measure)["count"] == 1
    assert "kept" not in caplog.text
    assert results.measured("a", {"k": 1}, measure)["count"] == 1
    assert "a: kept from 20" in caplog.text
    assert results.measured("a", {"k": 2}, measure)["count"] == 2
    monkeypatch.setattr("gentus_bench.results.code_digest", lambda *modules: "of other code")
    assert results.measured("a", {"k": 2}, measure)["count"] == 3
    assert results.measured("a", {"k": 2}, measure)["count"] == 3


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [{"error": "no memory"}, {"map": 1.0}]
    results = Results(tmp_path)
    assert results.measured("a", {}, lambda: answers[0])["error"] == "no memory"
    assert results.read("a") is None
    assert results.measured("a", {}, lambda: answers[1])["map"] == 1.0


def test_figures_of_a_lake_that_has_changed_are_measured_anew(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "perfect", lambda lake: Fixed("perfect"))
    monkeypatch.setitem(METHODS, "other", lambda lake: Fixed("other"))
    lake, results = data / "tus_tidy", Results(tmp_path / "out")
    compare(recognise(lake, 1), Systems(["perfect"], 2), results)
    document = compare(recognise(lake, 1), Systems(["other"]), results)
    rows = {row["method"]: row for row in document["rows"]}
    assert (rows["perfect"]["seeds"], rows["other"]["seeds"]) == (2, 1)  # a run of one keeps the other's
    assert document["what"]["methods"] == ["perfect", "other"]
    (lake / "datalake" / "fish_2.csv").unlink()
    document = compare(recognise(lake, 1), Systems(["other"]), results)
    assert [row["method"] for row in document["rows"]] == ["other"]  # the other's are of another lake
    assert document["lake"]["tables"] == 3
    assert "not in the lake: 1 (fish_2.csv)" in tables(document)[0].note
    part = results.read(Part("other").name("tus_tidy"))
    assert part is not None
    assert part["tables"] == 3


def test_an_index_of_other_data_or_code_is_not_opened(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, lake = Results(tmp_path / "out"), data / "tus_tidy"
    kept = kept_index(results, recognise(lake), "gentus")
    assert not kept.there
    kept.path.mkdir(parents=True)
    (kept.path / "config.json").write_text("{}")
    assert not kept.there
    kept.note({})
    assert kept_index(results, recognise(lake), "gentus").there
    assert IndexFolder(kept.path, "another", any=True).there
    (lake / "datalake" / "fish_2.csv").unlink()
    assert not kept_index(results, recognise(lake), "gentus").there


def test_rankings_are_written_and_those_of_others_are_compared(data: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    asked = ("bench", "run", "quality", "--data", data, "--out", out, "--lake", "tus_tidy", "-k", 1)
    first = run(*asked, "--method", "tfidf-words")
    assert first.code == 0, first.err
    for ending in ("run", "csv"):
        found = read_run(out / "quality" / "tus_tidy" / f"tfidf-words-0.{ending}")
        assert {query: ranked[0] for query, ranked in found.items()} == {
            "cities.csv": "cities.csv",  # as it was answered; the query is not scored
            "fish.csv": "fish.csv",
        }
    write_run(tmp_path / "tus_tidy.run", {"cities.csv": ["fish.csv"], "fish.csv": ["fish_2.csv"]})
    (document,) = run(*asked, "--run", f"Mine={tmp_path}", "--json").json()
    rows = {row["title"]: row for row in document["rows"]}
    assert {title: row["map"] for title, row in rows.items()} == {"TF-IDF words": 1.0, "Mine": 0.5}
    assert 0 < rows["Mine"]["p"] <= 1
    assert "p" not in rows["TF-IDF words"]
    shown = run(*asked, "--run", f"Mine={tmp_path}/tus_tidy.run").out
    assert "| p |" in shown
    assert "| Mine |" in shown
    assert json.loads((out / "quality-tus_tidy.json").read_text())["what"]["methods"][-1] == "run Mine"
    write_run(tmp_path / "tus_tidy.run", {"cities.csv": ["cities_2.csv"], "fish.csv": ["fish_2.csv"]})
    (document,) = run(*asked, "--run", f"Mine={tmp_path}/tus_tidy.run", "--json").json()
    assert {row["title"]: row["map"] for row in document["rows"]}["Mine"] == 1.0  # the file has changed
    ran = run(*asked, "--run", f"Mine={out}")
    assert (ran.code, "there is no run" in ran.err) == (1, True)
    ran = run(*asked, "--run", "Mine")
    assert (ran.code, "give NAME=FILE, not Mine" in ran.err) == (2, True)
