"""Choosing settings over lakes."""

from __future__ import annotations

import pytest

from gentus_bench.experiments.choose import DEFAULT, candidates, judge, score_over


def test_the_worst_lake_counts_twice() -> None:
    assert score_over({"a": 0.6, "b": 0.2}, {"a": 0.5, "b": 0.4}, ["a", "b"]) == pytest.approx(
        (1.2 + 0.5 + 0.5) / 3
    )


def test_a_choice_is_judged_on_the_lake_that_had_no_part_in_it() -> None:
    lexical = {"a": 0.5, "b": 0.5, "c": 0.5}
    maps = {
        DEFAULT: {"a": 0.6, "b": 0.6, "c": 0.6},
        "tuned to a": {"a": 0.99, "b": 0.55, "c": 0.55},
    }
    found = judge(maps, lexical)
    assert found["left_out"]["a"] == {"chosen": DEFAULT, "map": 0.6, "default": 0.6}
    assert found["left_out"]["b"]["chosen"] == "tuned to a"  # which has 0.55 there
    assert found["left_out"]["b"]["map"] == 0.55


def test_every_candidate_changes_one_setting() -> None:
    found = candidates()
    usual = found.pop(DEFAULT)
    assert not usual.names
    assert found["ridge 0.01"].space.ridge == 0.01
    assert found["hubness 0"].graph.hubness == 0
    assert found["smoothing 0.5"].smoothing == 0.5
    assert all(settings != usual for settings in found.values())
