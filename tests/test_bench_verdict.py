"""Measuring and learning verdicts, on lakes that are cut for it."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SUBJECTS, rows_of, write_table
from hypothesis import given
from hypothesis import strategies as st
from test_cli import Run, run

from gentus.align.verdict import VerdictWeights
from gentus_bench.experiments.learn_verdict import _context, balanced, learn, logistic, matches_of
from gentus_bench.experiments.verdict import _ece, _reliability, auc
from gentus_bench.experiments.verdict_pairs import BY_CHANCE, LakeLooks, Look, collect
from gentus_bench.lakes.benchmarks import find
from gentus_bench.lakes.make_lake import make_lake
from gentus_bench.lakes.slicing import LakeOptions

__all__ = ["run"]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two lakes about different things."""
    folder = tmp_path_factory.mktemp("verdict")
    for name, subjects in (("one", sorted(SUBJECTS)[:3]), ("other", sorted(SUBJECTS)[3:])):
        for subject in subjects:
            write_table(folder / f"base-{name}" / f"{subject}.csv", rows_of(subject, 0, 80))
        make_lake(
            folder / f"base-{name}", folder / "lakes" / name, LakeOptions(slices=8, distractors=1, dev=0.5)
        )
    return folder / "lakes"


@pytest.fixture(scope="module")
def looks(lakes: Path, tmp_path_factory: pytest.TempPathFactory) -> list[LakeLooks]:
    from gentus.progress import Progress

    return list(collect(list(find(lakes)), tmp_path_factory.mktemp("indexes"), 6, 3, Progress()))


def test_queries_of_other_lakes_have_no_answer(looks: list[LakeLooks]) -> None:
    for lake in looks:
        for look in lake.looks:
            assert look.own == (look.lake == look.query_lake)
            assert look.answers.any() == look.own
            assert look.query not in look.tables or not look.own
            assert look.taught[look.ranks <= 10].all()
            assert not look.taught[look.ranks == BY_CHANCE].any()
        assert 184 <= lake.signature_bytes <= 200


def test_answers_weigh_as_much_as_other_tables(looks: list[LakeLooks]) -> None:
    flat = [look for lake in looks for look in lake.looks]
    shares = balanced(flat)
    for lake in looks:
        mine = [
            (look, share)
            for look, share in zip(flat, shares, strict=True)
            if look.lake == lake.benchmark.name
        ]
        assert sum(share[look.answers].sum() for look, share in mine) == pytest.approx(1)
        assert sum(share[~look.answers].sum() for look, share in mine) == pytest.approx(1)


@pytest.fixture(scope="module")
def learnt(looks: list[LakeLooks]) -> VerdictWeights:
    return learn([look for lake in looks for look in lake.looks], {})


def test_learning_separates_what_fits(looks: list[LakeLooks], learnt: VerdictWeights) -> None:
    assert isinstance(learnt, VerdictWeights)
    assert 0 < learnt.fits < 1
    assert 0 < learnt.matched < 1
    weights = learnt.look_weights()
    from gentus_bench.experiments.learn_verdict import probabilities

    for look in (look for lake in looks for look in lake.looks if look.own):
        said = probabilities(look, weights)
        assert said[look.answers].mean() > said[~look.answers].mean() + 0.3


def test_gradients_are_of_the_same_numbers_as_a_search(
    looks: list[LakeLooks], learnt: VerdictWeights
) -> None:
    look: Look = looks[0].looks[0]
    weights = learnt.look_weights()
    log_odds = look.pairs.padded(look.pairs.pair @ weights.pair + np.float32(weights.pair_bias))
    inside = torch.from_numpy(look.pairs.inside)
    found = _context(torch.from_numpy(log_odds), inside).numpy()
    there = np.broadcast_to(look.pairs.inside, log_odds.shape)
    np.testing.assert_allclose(found[there], look.pairs.context(log_odds)[there], atol=1e-4)
    assert matches_of(look, weights).scores.shape == log_odds.shape


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_auc_is_the_chance_of_a_higher_score(pairs: list[tuple[int, bool]]) -> None:
    scores, answers = np.array([float(one) for one, _ in pairs]), np.array([two for _, two in pairs])
    good, bad = scores[answers], scores[~answers]
    if not len(good) or not len(bad):
        assert np.isnan(auc(scores, answers))
        return
    expected = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(good, bad)])
    assert auc(scores, answers) == pytest.approx(float(expected))


def test_calibration_error() -> None:
    said, truth = np.array([0.05, 0.05, 0.95, 0.95]), np.array([False, False, True, False])
    share = np.ones(4)
    assert _ece(said, truth, share) == pytest.approx(0.5 * 0.05 + 0.5 * 0.45)
    assert [one["share"] for one in _reliability(said, truth, share)] == [0.5, 0.5]
    assert _ece(truth.astype(float), truth, share) == 0


def test_logistic_regression_finds_the_weights_that_made_the_data() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(20_000, 3))
    truth = np.array([1.5, -2.0, 0.0])
    chance = 1 / (1 + np.exp(-(features @ truth + 0.5)))
    target = random.random(len(features)) < chance
    weights, bias = logistic(features, target)
    np.testing.assert_allclose([*weights, bias], [*truth, 0.5], atol=0.08)
    weights, bias = logistic(features[:, :1], target, None, features[:, 1] * -2 + 0.5)
    assert bias == 0
    assert weights[0] == pytest.approx(1.5, abs=0.08)


def test_the_experiment(run: Run, lakes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gentus_bench.experiments.learn_verdict.EPOCHS", 1)
    arguments = ["--data", str(lakes), "--out", str(tmp_path), "--set", "queries=3", "--set", "foreign=2"]
    ran = run("bench", "run", "verdict", *arguments, "--set", f"ship={tmp_path / 'w.json'}")
    assert ran.code == 0, ran.err
    assert "nothing fits" in ran.out
    assert "MAP, aligned" in ran.out
    document = json.loads((tmp_path / "verdict.json").read_text("utf-8"))
    assert set(document["by_lake"]) == {"one", "other"}
    assert document["by_lake"]["one"]["foreign"] == 2
    assert (tmp_path / "verdict.png").stat().st_size > 5_000
    VerdictWeights(**json.loads((tmp_path / "w.json").read_text("utf-8"))).look_weights()
