"""Rankings as TREC runs and CSV, and whether two systems differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import make_lake, write_pairs
from test_cli import Run, run

import gentus
from gentus.metrics import load_groundtruth, score
from gentus.runs import read_run, write_run
from gentus_bench.significance import average_precisions, randomisation_test

__all__ = ["run"]

RANKINGS = {"a query.csv": ["x y.csv", "100%.csv", "ü,\t1.csv"], "b": ["x y.csv"]}


@pytest.mark.parametrize("name", ["a.run", "a.CSV"])
def test_a_run_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / name, RANKINGS, "our system")
    assert read_run(tmp_path / name) == RANKINGS


def test_a_trec_run_has_six_words_a_line_and_falling_scores(tmp_path: Path) -> None:
    write_run(tmp_path / "a.run", RANKINGS, "our system")
    lines = [line.split() for line in (tmp_path / "a.run").read_text().splitlines()]
    assert lines[1] == ["a%20query.csv", "Q0", "100%25.csv", "2", "0.500000", "our%20system"]
    assert all(len(line) == 6 for line in lines)


def test_ranks_count_and_not_the_order_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q 0 b 2 0.1 s\nq 0 c 10 0.0 s\nq 0 a 1 0.9 s\n")
    assert read_run(tmp_path / "a.run") == {"q": ["a", "b", "c"]}


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q 0 b 1 0.1 s\nq b\n")
    with pytest.raises(ValueError, match=r"a\.run, line 2: it is no line of a run"):
        read_run(tmp_path / "a.run")
    (tmp_path / "a.csv").write_text("query_table,candidate_table,rank\nq,b,first\n")
    with pytest.raises(ValueError, match=r"a\.csv, line 2: it is no line of a run"):
        read_run(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["out.run", "out.csv"])
def test_an_evaluation_writes_what_it_has_scored(tmp_path: Path, run: Run, name: str) -> None:
    lake = make_lake(tmp_path / "lake", ["fish", "cities"], 4)
    gentus.build(lake, tmp_path / "index", workers=1).close()
    truth = write_pairs(
        tmp_path / "truth.csv", [("fish_0.csv", "fish_2.csv"), ("cities_0.csv", "fish_0.csv")]
    )
    ran = run(
        *("eval", tmp_path / "index", "--groundtruth", truth, "-k", 3, "--json"),
        *("--write-run", tmp_path / name),
    )
    found = read_run(tmp_path / name)
    assert {query: len(ranked) for query, ranked in found.items()} == {"fish_0.csv": 3, "cities_0.csv": 3}
    assert score(found, load_groundtruth(truth), 3).map == ran.json()["map"]


def test_a_difference_of_every_query_is_significant_and_none_is_not() -> None:
    random = np.random.default_rng(0)
    one = random.random(60)
    assert randomisation_test(one, one) == 1
    assert randomisation_test(one + 0.05, one) < 0.001
    shuffled = one + 0.3 * random.choice((-1, 1), 60)
    assert randomisation_test(shuffled, one) > 0.05
    # All 2 ** 3 signs can be counted: the observed ones, and all turned round, are as extreme.
    assert randomisation_test([0.3, 0.4, 0.5], [0.1, 0.1, 0.1]) == pytest.approx(2 / 8, abs=0.02)


def test_average_precision_is_of_every_query_with_an_answer() -> None:
    truth = {"q": ["a", "b"], "r": ["a"], "s": ["s"]}
    assert average_precisions({"q": ["a", "x", "b"]}, truth, 3) == {"q": (1 + 2 / 3) / 2, "r": 0.0}
