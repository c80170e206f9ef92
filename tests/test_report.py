from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import write_pairs, write_table
from test_cli import Run, run

import gentus
from gentus.lake import Source, scan
from gentus.table import Table
from gentus_bench import claims, timing
from gentus_bench.benchmarks import recognise
from gentus_bench.clock import Clock, conditions, time_searches
from gentus_bench.collected import collect
from gentus_bench.main import index_folder
from gentus_bench.methods import METHODS
from gentus_bench.overview import best_rows, filled, markdown, overviews
from gentus_bench.plots import COLOURS, OURS, colours
from gentus_bench.published import ITEMS
from gentus_bench.report import Page, link
from gentus_bench.results import Results
from gentus_bench.telling import write_report

__all__ = ["run"]


def row(title: str, value: float, **more: Any) -> dict[str, Any]:
    return {"title": title, "map": value, "precision": value, "recall": value, **more}


LAKES = {
    "a": [row("GenTUS", 0.5), row("GenTUS, labels", 0.9), row("Starmie-type", 0.6), row("D3L-type", 0.4)],
    "b": [row("GenTUS", 0.7), row("Starmie-type", 0.6), row("D3L-type", 0.1)],
    "c": [row("Starmie-type", 0.6), row("D3L-type", 0.8)],
}


# --- overview ------------------------------------------------------------------------------------------


def test_one_table_without_labels_and_one_with() -> None:
    plain, trained = overviews(LAKES, labelled=["a", "c"])
    assert list(plain.ranked) == ["a", "b"]  # GenTUS was not measured on c
    assert plain.ranks() == pytest.approx({"GenTUS": 1.5, "Starmie-type": 1.5, "D3L-type": 3})
    header, rows = plain.table()
    assert header == ["system", "a", "b", "c", "average rank by MAP", "by MAP, P and R"]
    assert rows[-1] == ["D3L-type", "0.400", "0.100", "0.800", "3.00", "3.00"]
    assert ["GenTUS", "0.500", "0.700", "", "1.50", "1.50"] in rows
    assert trained.ranks()["GenTUS, labels"] == 1
    assert trained.table()[1][0] == ["GenTUS, labels", "0.900", "0.700 (no labels)", "", "1.00", "1.00"]
    assert "GenTUS" not in {cells[0] for cells in trained.table()[1]}


def test_where_labels_wait_to_be_used_nothing_stands_in_for_them() -> None:
    _, trained = overviews(LAKES, labelled=["a", "b", "c"])
    assert trained.table()[1][0] == ["GenTUS, labels", "0.900", "", "", "1.00", "1.00"]
    assert list(trained.ranked) == ["a"]
    assert len(overviews({"b": LAKES["b"]}, labelled=["b"])) == 1
    (nothing,) = overviews({})
    assert nothing.ranks() == {}


def test_overview_as_markdown() -> None:
    text = markdown(overviews(LAKES, ["a"]), {"a": 10, "b": 20, "c": 5})
    assert text.startswith("MAP@k on each lake (a: k = 10, b: k = 20, c: k = 5).")
    assert "| GenTUS | 0.500 | **0.700** |  | **1.50** | **1.50** |" in text
    assert "| **0.700 (no labels)** |" in text
    assert "Average ranks are over a, b." in text
    lakes = {"a": LAKES["a"], "b": [*LAKES["b"], row("LIFTus-type", 0.8)]}
    assert "measured on all of these (not so: LIFTus-type)" in markdown(overviews(lakes), {})


def test_best_of_a_column_and_columns_without_anything() -> None:
    rows = [["x", "0.5 ± 0.1", "1,000"], ["y", "", "20"], ["z (published)", "0.9", "1"], ["w", "0.5", ""]]
    assert best_rows(rows, 1, True) == [0, 3]
    assert best_rows(rows, 2, False) == [1]
    assert best_rows([["x", ""]], 1, True) == []
    assert filled(["a", "b", "c"], [["x", "", "1"], ["y", "", ""]]) == (["a", "c"], [["x", "1"], ["y", ""]])


# --- claims --------------------------------------------------------------------------------------------


def test_a_claim_has_the_same_words_whether_it_holds_or_not() -> None:
    plain, _ = overviews(LAKES, ["a"])
    told = claims.rank(plain)
    assert told is not None
    assert told.text == (
        "The average rank of GenTUS by MAP is at most 1.3. Does not hold on a, b: 1.50 among 3 systems; "
        "by MAP, P and R together 1.50; ahead of it on a, where it has 0.500: Starmie-type 0.600."
    )
    (plain,) = overviews({"b": LAKES["b"]})
    told = claims.rank(plain)
    assert told is not None
    assert told.text.startswith("The average rank of GenTUS by MAP is at most 1.3. Holds on b: 1.00 among")
    assert claims.rank(overviews({"c": LAKES["c"]})[0]) is None


def test_speed_counts_only_at_equal_or_better_map_and_titles_match_by_how_they_begin() -> None:
    static = "Starmie-type, static vectors"
    fast, slow = {"ms_p50": 4.0, "ms_p95": 5.0}, {"ms_p50": 44.0, "ms_p95": 50.0}
    lakes = {
        "a": [row("GenTUS", 0.5, **fast), row("Starmie-type", 0.6, **slow), row(static, 0.5, **slow)],
        "b": [row("GenTUS", 0.7, **fast), row("Starmie-type", 0.6, **slow), row("D3L-type", 0.1, **slow)],
    }
    by_words = {claim.words: claim for claim in claims.speed(lakes, {})}
    wide = by_words["GenTUS searches at least 10 times faster than Starmie-type, at equal or better MAP"]
    assert [(one.where, one.holds) for one in wide.verdicts] == [("a", False), ("b", True)]
    assert wide.verdicts[1].measured == (
        "11.0 times by p50 (4.0 against 44.0 ms), 10.0 times by p95 (5.0 against 50.0 ms); "
        "MAP 0.700 against 0.600; not timed side by side"
    )
    assert len(by_words) == 2
    assert any(static in words for words in by_words)
    beside = {"b": {"GenTUS": fast, "Starmie-type": {"ms_p50": 20.0, "ms_p95": 30.0}}}
    (wide, _) = claims.speed(lakes, beside)
    assert not wide.verdicts[1].holds
    assert "5.0 times by p50" in wide.verdicts[1].measured
    assert "side by side" not in wide.verdicts[1].measured


def test_size_of_artifacts() -> None:
    lakes = {
        "a": [row("GenTUS", 0.1, bytes_per_table=30.0), row("TACTUS-type", 0.5, bytes_per_table=600.0)],
        "b": [row("GenTUS", 0.1, bytes_per_table=30.0), row("TACTUS-type", 0.5, bytes_per_table=599.0)],
        "c": [row("GenTUS", 0.1), row("TACTUS-type", 0.5, bytes_per_table=599.0)],
    }
    (told,) = claims.size(lakes)
    assert told.text == (
        "The artifacts of GenTUS are at least 20 times smaller than those of TACTUS-type. "
        "Holds on a: 20.0 times (30 against 600 bytes a table). "
        "Does not hold on b: 19.9 times (30 against 599 bytes a table)."
    )


# --- timing --------------------------------------------------------------------------------------------


class Noted:
    """Finds what is asked for, and writes down who was asked."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen, self.fitted = name, seen, 0

    def fit(self, tables: Iterable[Table]) -> None:
        self.fitted = len(list(tables))

    def search(self, table: Table, k: int) -> list[str]:
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
    sources = {item.name: item for item in scan(lake / "datalake") if isinstance(item, Source)}
    clocks = time_searches({name: Noted(name, seen) for name in "ab"}, sources, 2)
    warm, timed = seen[:6], seen[6:]
    assert warm == ["a", "b"] * 3
    assert timed == list("abbaab" + "baabba")  # two passes over three queries, the empty one left out
    assert set(clocks["a"].whole) == {"x.csv", "y.csv", "z.csv"}
    assert clocks["a"].answers["x.csv"] == ["x.csv"]
    facts = clocks["b"].facts()
    assert facts["ms_p95"] >= facts["ms_p50"] > facts["read_ms_p50"] > 0
    clock = Clock({"x.csv": 0.0}, {"x.csv": 0.0})
    clock.search(Noted("a", []), "x.csv", sources["x.csv"], 1)
    assert clock.whole == {"x.csv": 0.0}
    assert Clock().facts() == {}


def test_threads_and_load_are_told() -> None:
    told = conditions()
    assert told["threads"]["torch"] >= 1
    assert json.loads(json.dumps(told)) == told


def test_side_by_side_opens_an_index_that_is_there(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    seen: list[str] = []
    rival = Noted("Starmie-type", seen)
    monkeypatch.setitem(METHODS, "starmie", lambda place: rival)
    results = Results(tmp_path / "out")
    benchmark = recognise(lake, 1)
    folder = index_folder(results, "small", "gentus")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")

    def search_as(queries: list[Any], tables: list[Table], k: int) -> list[list[SimpleNamespace]]:
        return [[SimpleNamespace(table=table.name)] for table in tables]

    opened = SimpleNamespace(search_as=search_as, sources=dict)
    monkeypatch.setattr(gentus, "open", lambda path: opened)
    monkeypatch.setattr("gentus_bench.ours.build", lambda *_: pytest.fail("it was built again"))
    methods = timing.compared(["tfidf-words", "starmie", "gentus", "gentus-labels"], benchmark, results)
    assert methods == ["starmie", "gentus"]  # the index with labels is not there
    document = timing.measure_timing(benchmark, [*methods, "gentus-labels"], results)  # and there are none
    assert rival.fitted == 3
    assert (document["opened"], document["queries"]) == (["gentus"], 3)
    assert set(document["rows"]) == {"starmie", "gentus"}
    header, rows = timing.table(document)
    assert header[-1] == "times GenTUS, p50 / p95"
    assert [cells[-1] for cells in rows if cells[0] == "GenTUS"] == ["1.0 / 1.0"]
    assert "threads: torch" in (tmp_path / "out" / "timing-small.md").read_text()
    assert (tmp_path / "out" / "timing-small.png").stat().st_size > 1000
    told = [*("bench", "timing", "--data", lake, "--out", tmp_path / "out"), "--json"]
    told += [part for method in (*methods, "gentus-labels") for part in ("--method", method)]
    again = run(*told).json()["small"]
    assert set(again["rows"]) == {"starmie", "gentus"}


# --- the report ----------------------------------------------------------------------------------------


def put(folder: Path, name: str, what: dict[str, Any], **said: Any) -> None:
    Results(folder).measured(name, what, lambda: said)


def main_document(folder: Path, lake: str, method: str, title: str, value: float, **more: Any) -> None:
    what = {"lake": lake, "method": method, "seed": 0, "k": 2}
    scores = dict.fromkeys(("map", "map_full", "map_prefix", "precision", "recall"), value)
    costs = {"ms_p50": 4.0, "ms_p95": 8.0, "fit_seconds": 3.0, "bytes_per_table": 30.0}
    said = {"title": title, "tables": 100, "queries": 1, **scores, **costs, "rankings": {"q": ["a", "b"]}}
    put(folder, f"main-{lake}-{method}-0", what, **{**said, **more})


def test_a_report_from_what_there_is(tmp_path: Path, run: Run) -> None:
    main_document(tmp_path, "one", "gentus", "GenTUS", 0.9, serving_mb=50.0, read_ms_p50=0.5)
    main_document(tmp_path, "one", "starmie", "Starmie-type", 0.8, ms_p50=50.0, bytes_per_table=3000.0)
    main_document(tmp_path, "two", "starmie", "Starmie-type", 0.7, note="parts <replaced>")
    failed = {"lake": "two", "method": "d3l", "seed": 0, "k": 2}
    put(tmp_path, "main-two-d3l-0", failed, title="D3L-type", tables=0, error="MemoryError: all of it")
    (tmp_path / "main-broken.json").write_text("{")
    ran = run("bench", "report", "--out", tmp_path)
    assert (ran.code, "The report: " in ran.err) == (0, True)
    text = (tmp_path / "report.html").read_text()
    assert "GenTUS searches at least 10 times faster than Starmie-type, at equal or better MAP" in text
    assert '<li class="yes">Holds on one: 12.5 times by p50' in text
    assert "D3L-type (failed: MemoryError: all of it)" in text
    assert "parts &lt;replaced&gt;" in text
    assert "Serving: what a process holds to answer</h2>" in text
    assert "Precision and recall against k</h2>" not in text  # no ground truth lies there
    missing = text.count("<td>not measured in this run</td>")
    assert missing == 6  # curves, later tables, pools, identifiers, prefix tree, beam
    assert "| Starmie-type | 0.800 | **0.700** | 2.00 | 2.00 |" in (tmp_path / "main.md").read_text()
    (tmp_path / "truth").mkdir()
    write_pairs(tmp_path / "truth" / "one.csv", [("q", "a")])
    text = write_report(Results(tmp_path)).read_text()
    assert "Precision and recall against k</h2>" in text
    assert run("bench", "report", "--out", tmp_path / "nowhere").code != 0


def test_an_empty_folder_makes_a_report_too(tmp_path: Path) -> None:
    text = write_report(Results(tmp_path)).read_text()
    assert "Nothing of the main comparison has been measured yet" in text
    assert text.count("<td>not measured in this run</td>") == 12


def test_documents_are_found_by_name(tmp_path: Path) -> None:
    main_document(tmp_path, "b", "gentus", "GenTUS", 0.9)
    main_document(tmp_path, "b", "d3l", "D3L-type", 0.8)
    main_document(tmp_path, "a", "gentus", "GenTUS", 0.9, tables=500)
    what = {"lake": "b", "method": "sato", "seed": 0, "k": 99}
    put(tmp_path, "main-b-sato-0", what, title="SATO-type", tables=100, map=1.0)
    for name in ("a-gentus", "b-gentus-labels", "b-gentus"):
        put(tmp_path, f"beam-{name}", {}, k=2, rows=[])
    for variant in ("semantic", "no-suffix"):
        what = {"variant": variant, "k": 2, "seed": 0}
        put(tmp_path, f"identifiers-b-{variant}-0", what, map=0.5, recall=0.5, chosen="both")
    put(tmp_path, "pool-a", {}, k=2, rows=[])
    (tmp_path / "truth").mkdir()
    write_pairs(tmp_path / "truth" / "b-train.csv", [("q", "a")])
    found = collect(Results(tmp_path))
    assert list(found.main) == ["b", "a"]  # the smaller lake first
    assert [one["title"] for one in found.main["b"].rows] == ["D3L-type", "GenTUS"]  # and not another k
    assert list(found.beam) == ["b", "b, labels", "a"]
    assert set(found.identifiers["b"]["rows"]) == {"semantic", "no-suffix"}
    assert (set(found.pool), found.labelled) == ({"a"}, {"b"})


def test_a_page_marks_ours_and_the_best() -> None:
    page = Page("x & y")
    page.section("First")
    page.table(["system", "v"], [["GenTUS", "2"], ["<b>", "3"], ["old (published)", "9"]], {1: True})
    page.table(["a"], [[link("s1", "to & fro")]], words=True)
    with page.folded("more"):
        page.claim("It is", [(False, "Does not hold on a: 1.")])
    text = page.text()
    assert '<tr class="ours"><td>GenTUS</td><td>2</td></tr>' in text
    assert "<tr><td>&lt;b&gt;</td><td class=best>3</td></tr>" in text
    assert '<a href="#s1">to &amp; fro</a>' in text
    assert '<li class="no">Does not hold on a: 1.</li>' in text
    assert "prefers-color-scheme: dark" in text
    assert (page.anchor("First"), page.anchor("Second")) == ("s1", None)


def test_a_system_has_one_colour_everywhere_and_ours_stands_out() -> None:
    shades = colours(["GenTUS", "TACTUS-type", "Starmie-type, static vectors", "GenTUS, labels", "other"])
    assert shades["GenTUS"] == OURS
    assert shades["TACTUS-type"] == colours(["TACTUS-type"])["TACTUS-type"] == COLOURS[1]
    assert shades["Starmie-type, static vectors"] == COLOURS[0]
    assert len(set(shades.values())) == 5


def test_every_figure_and_table_of_the_paper_is_listed() -> None:
    assert sum(item.name.startswith("Figure") for item in ITEMS) == 10
    assert sum(item.name.startswith("Table") for item in ITEMS) == 6
    assert len({item.label for item in ITEMS}) == 16
