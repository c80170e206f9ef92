"""Tables, times side by side, and the report; docs/RESULTS.md is what it renders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import write_pairs, write_table
from test_cli import Run, run

import gentus
from gentus.lake import Source, scan
from gentus.table import Table as LakeTable
from gentus_bench.experiments import timing
from gentus_bench.experiments.quality import kept_index, time_searches
from gentus_bench.experiments.quality_tables import average_ranks, overview
from gentus_bench.lakes.benchmarks import recognise
from gentus_bench.methods import METHODS
from gentus_bench.plots import COLOURS, OURS, colours
from gentus_bench.registry import EXPERIMENTS
from gentus_bench.report import render
from gentus_bench.results import Results
from gentus_bench.table import Table, best_rows, figure
from gentus_bench.timer import Times, conditions, in_turn

__all__ = ["run"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


# --- tables --------------------------------------------------------------------------------------------


def test_a_table_as_markdown() -> None:
    rows = [["GenTUS", "0.5 ± 0.1", "1,000", ""], ["a|b", "0.4", "20", ""], ["z (published)", "0.9", "1", ""]]
    table = Table(["system", "MAP", "ms", "none"], rows, "one lake", "A note.", {1: True, 2: False})
    assert table.filled().markdown() == (
        "one lake:\n\n| system | MAP | ms |\n| --- | ---: | ---: |\n| GenTUS | **0.5 ± 0.1** | 1,000 |\n"
        "| a/b | 0.4 | **20** |\n| z (published) | 0.9 | 1 |\n\nA note."
    )
    assert best_rows([["x", ""]], 1, True) == []
    assert [figure(value) for value in (None, 0.12345, 12.345, 12345.6)] == ["", "0.123", "12.3", "12,346"]
    assert figure(0.5, ".3f") == "0.500"


def row(title: str, value: float | None) -> dict[str, Any]:
    return {"title": title, "map": value}


LAKES = {
    "a": [row("GenTUS", 0.5), row("GenTUS, labels", 0.9), row("Starmie-type", 0.6), row("D3L-type", 0.4)],
    "b": [row("GenTUS", 0.7), row("Starmie-type", 0.6), row("D3L-type", 0.1), row("SATO-type", None)],
}


def test_average_ranks_share_a_rank() -> None:
    lakes = {
        "a": [row("x", 0.5), row("y", 0.4), row("z", 0.4)],
        "b": [row("x", 0.2), row("y", 0.3), row("z", 0.1)],
        "c": [row("x", 0.2), row("y", 0.1), row("z", 0.0)],
    }
    assert average_ranks(lakes) == pytest.approx({"x": 4 / 3, "y": 5.5 / 3, "z": 8.5 / 3})
    lakes["c"][2]["map"] = None
    assert set(average_ranks(lakes)) == {"x", "y"}
    assert average_ranks({}) == {}


def test_all_lakes_at_a_glance() -> None:
    table = overview([{"what": {"lake": name}, "k": 10, "rows": rows} for name, rows in LAKES.items()])
    assert table.columns == ["system", "a, k = 10", "b, k = 10", "average rank"]
    assert table.rows[:2] == [
        ["GenTUS", "0.500", "0.700", "1.50"],
        ["Starmie-type", "0.600", "0.600", "1.50"],
    ]
    assert ["GenTUS, labels", "0.900", "", ""] in table.rows
    assert "| GenTUS, labels | **0.900** |" in table.markdown()


# --- times ---------------------------------------------------------------------------------------------


class Noted:
    """Finds what is asked for, and writes down who was asked."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen, self.fitted = name, seen, 0

    def fit(self, tables: Iterable[LakeTable]) -> None:
        self.fitted = len(list(tables))

    def search(self, table: LakeTable, k: int) -> list[str]:
        self.seen.append(self.name)
        return [table.name][:k]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("x.csv", "y.csv", "z.csv"):
        write_table(tmp_path / "data" / "small" / "datalake" / name, [["n", "v"], ["a", "1"], ["b", "2"]])
    (tmp_path / "data" / "small" / "datalake" / "empty.csv").write_text("")
    pairs = [("x.csv", "y.csv"), ("y.csv", "x.csv"), ("z.csv", "y.csv"), ("empty.csv", "x.csv")]
    write_pairs(tmp_path / "data" / "small" / "groundtruth_dev.csv", pairs)
    return tmp_path / "data" / "small"


def test_each_query_goes_to_all_in_turn_and_the_faster_pass_counts(lake: Path) -> None:
    seen: list[str] = []
    names = ("x.csv", "y.csv", "z.csv")
    sources = {item.name: item for item in scan(lake / "datalake") if isinstance(item, Source)}
    queries = {name: sources[name] for name in names}
    facts, answers = time_searches({name: Noted(name, seen) for name in "ab"}, queries, 2)
    warm, timed = seen[:6], seen[6:]
    assert warm == ["a", "b"] * 3
    assert timed == list("abbaab" + "baabba")  # two passes over three queries
    assert answers["a"] == {name: [name] for name in names}
    assert facts["b"]["ms_p95"] >= facts["b"]["ms_p50"] > facts["b"]["read_ms_p50"] > 0
    times = Times()
    times.add("x", 0.003)
    times.add("x", 0.002)
    times.add("x", 0.004)
    assert times.facts() == {"ms_p50": 2.0, "ms_p95": 2.0}
    assert Times().facts() == {}
    assert in_turn({"a": lambda query: None}, [])["a"].facts() == {}


def test_threads_and_load_are_told() -> None:
    told = conditions()
    assert told["threads"]["torch"] >= 1
    assert json.loads(json.dumps(told)) == told


def test_side_by_side_opens_an_index_that_is_there(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    rival = Noted("Starmie-type", [])
    monkeypatch.setitem(METHODS, "starmie", lambda place: rival)
    results = Results(tmp_path / "out")
    benchmark = recognise(lake, 1)
    kept = kept_index(results, benchmark, "gentus")
    kept.path.mkdir(parents=True)
    (kept.path / "config.json").write_text("{}")
    kept.note({})

    def search_as(
        queries: list[Any], tables: list[LakeTable], k: int, order: str | None
    ) -> list[list[SimpleNamespace]]:
        return [[SimpleNamespace(table=table.name)] for table in tables]

    opened = SimpleNamespace(search_as=search_as, sources=dict)
    monkeypatch.setattr(gentus, "open", lambda path: opened)
    monkeypatch.setattr("gentus_bench.ours.build", lambda *_: pytest.fail("it was built again"))
    compared = timing.compared(benchmark, results)
    assert {"gentus", "gentus-generated"} <= set(compared)
    assert "gentus-labels" not in compared  # its index is not there
    methods = ["starmie", "gentus", "gentus-generated", "gentus-labels"]
    document = timing.measure_timing(benchmark, methods, results)  # there are no labels
    assert (rival.fitted, document["queries"]) == (3, 3)
    assert set(document["rows"]) == {"starmie", "gentus", "gentus-generated"}
    (table,) = timing.tables(document)
    assert table.columns[-2:] == [f"times GenTUS ({order}), p50 / p95" for order in ("aligned", "generated")]
    assert [cells[-2] for cells in table.rows if cells[0] == "GenTUS (aligned)"] == ["1.0 / 1.0"]
    assert "threads: torch" in table.note
    asked: list[object] = ["bench", "run", "timing", "--data", lake, "--out", tmp_path / "out", "--json"]
    asked += [part for method in methods for part in ("--method", method)]
    (again,) = run(*asked, "-k", 1).json()
    assert again == document
    assert (tmp_path / "out" / "timing-small.png").stat().st_size > 1000


# --- the report ----------------------------------------------------------------------------------------


def test_docs_have_the_report_that_is_rendered() -> None:
    assert (ROOT / "docs" / "RESULTS.md").read_text("utf-8") == render(RESULTS), (
        "make it anew: gentus-bench report --results benchmarks/results --out docs/RESULTS.md"
    )


def test_what_other_documents_link_to_is_there() -> None:
    text = (ROOT / "docs" / "RESULTS.md").read_text("utf-8")
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    anchors = {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    linked = set(re.findall(r"\]\(#([^)]+)\)", text))
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        linked |= set(re.findall(r"RESULTS\.md#([a-z0-9_-]+)", path.read_text("utf-8")))
    assert linked <= anchors, linked - anchors
    for image in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (ROOT / "docs" / image).is_file()


def test_a_report_of_what_was_measured(tmp_path: Path, run: Run) -> None:
    results = Results(tmp_path)
    metrics = dict.fromkeys(("map", "precision", "recall", "ms_p50", "ms_p95"), 0.5)
    what = {"lake": "small", "method": "gentus"}
    results.measured("beam-small-gentus", what, lambda: {"k": 3, "rows": [{"beam": 5, **metrics}]})
    assert run("bench", "report", "--results", tmp_path).code == 0
    text = (tmp_path / "RESULTS.md").read_text()
    assert "## Quality and time by beam width" in text
    assert "### beam-small-gentus" in text
    assert "| 5 | 0.5000 | 0.500 |" in text
    assert "cores" in text
    assert run("bench", "report", "--results", tmp_path / "nowhere").code != 0


def test_contents_and_documents_have_to_fit(tmp_path: Path) -> None:
    printed = {
        "title": "One",
        "tables": [{"columns": ["a"], "rows": [["b"]]}],
        "commit": "abc",
        "machine": "m",
    }
    (tmp_path / "one.json").write_text(json.dumps(printed))
    contents = {"text": "All.", "machine": "m", "sections": [{"title": "First", "documents": ["one"]}]}
    (tmp_path / "contents.json").write_text(json.dumps(contents))
    assert render(tmp_path) == (
        "# Results\n\nAll.\n\n## First\n\n### One\n\ncommit abc.\n\n| a |\n| --- |\n| b |\n"
    )
    (tmp_path / "two.json").write_text(json.dumps(printed))
    with pytest.raises(ValueError, match="do not fit: two"):
        render(tmp_path)


def test_a_system_has_one_colour_everywhere_and_ours_stands_out() -> None:
    shades = colours(["GenTUS", "TACTUS-type", "Starmie-type, static vectors", "GenTUS, labels", "other"])
    assert shades["GenTUS"] == OURS
    assert shades["TACTUS-type"] == colours(["TACTUS-type"])["TACTUS-type"] == COLOURS[1]
    assert shades["Starmie-type, static vectors"] == COLOURS[0]
    assert len(set(shades.values())) == 5
    papers = [f"GenTUS (paper, {vectors}, 40 min), labels" for vectors in ("MiniLM", "closed form")]
    assert len({OURS, *colours(["GenTUS, labels", *papers]).values()}) == 4


def test_what_the_paper_measures_is_measured() -> None:
    """Figures 1 to 4 are drawings."""
    found = {"Table": set[int](), "Figure": set[int]()}
    for experiment in EXPERIMENTS.values():
        for kind, first, last in re.findall(r"(Table|Figure)s? (\d+)(?:-(\d+))?", experiment.paper):
            found[kind] |= set(range(int(first), int(last or first) + 1))
    assert found == {"Table": set(range(1, 7)), "Figure": set(range(5, 11))}
