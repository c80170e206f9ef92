"""The presets, end to end: labels in, a generator out, and never a worse ranking than without it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import HASTY, QUICK, SMALL_GENERATOR, SUBJECTS, rows_of, subject_of, write_pairs, write_table
from typer.testing import CliRunner

import gentus
from gentus.app.cli import main as cli
from gentus.generator import supervision, training
from gentus.generator.supervision import WEIGHTS, Supervision
from gentus.index import stages_labelled as labelled
from gentus.index.index import Index
from gentus.settings import (
    BuildSettings,
    TrainingSettings,
    preset_settings,
)
from gentus_bench.cli import bench_app
from gentus_bench.experiments import t5_cost
from gentus_bench.experiments.parts import measure_parts

TRAINED = replace(QUICK, generation=SMALL_GENERATOR)


def all_pairs(lake: Path) -> list[tuple[str, str]]:
    """Every two tables of a subject, named as the index names them."""
    names = [str(path.relative_to(lake)) for path in sorted(lake.rglob("*")) if path.is_file()]
    return [(a, b) for a in names for b in names if a != b and subject_of(a) == subject_of(b)]


@pytest.fixture(scope="module")
def labels(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("labels") / "labels.csv", all_pairs(lake))


@pytest.fixture(scope="module")
def trained(lake: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose generator was trained, although its prior makes no mistake."""
    folder = tmp_path_factory.mktemp("trained") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervision, "prior_is_perfect", lambda *_: False)
        gentus.build(lake, folder, labels, settings=TRAINED, workers=1).close()
    return folder


def found_subjects(index: Index, tmp_path: Path, k: int = 5) -> float:
    """Share of right answers for tables that nobody indexed."""
    right = []
    for subject in SUBJECTS:
        query = write_table(tmp_path / f"{subject}_query.csv", rows_of(subject, 99))
        right += [subject_of(hit.table) == subject for hit in index.search(query, k=k)]
    return float(np.mean(right))


def test_labels_train_a_generator_and_info_says_what_won(trained: Path, tmp_path: Path) -> None:
    with gentus.open(trained) as index:
        facts = index.info()
        generator = facts["generator"]
        figures = generator["validation_map"]
        assert {"prior alone", "generator alone"} <= figures.keys()
        assert len(facts["labels"]["validation_queries"]) == 3
        gain = max(figures.values()) - figures["prior alone"]
        assert generator["shipped"] == (gain > generator["standard_error"])
        assert (facts["bytes"]["generator"] > 0) == generator["shipped"]
        assert found_subjects(index, tmp_path) > 0.9


def test_no_generator_is_trained_beside_a_prior_without_a_mistake(
    lake: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trains(*_: Any) -> Any:
        raise AssertionError("it was trained")

    monkeypatch.setattr(training, "batch_loss", trains)
    for module in ("gentus.settings", "gentus.index.build"):
        monkeypatch.setattr(f"{module}.preset_settings", lambda *_, **__: TRAINED)
    given = ["index", str(lake), "-o", str(tmp_path / "index"), "--labels", str(labels)]
    made = CliRunner().invoke(cli.app, [*given, "--preset", "trained"])
    assert made.exit_code == 0
    with gentus.open(tmp_path / "index") as index:
        facts = index.info()["generator"]
        assert (facts["chosen"], facts["epochs"], facts["stopped_by"]) == ("prior alone", 0, "prior")
        assert facts["validation_map"] == {"prior alone": 1.0}
        assert not facts["shipped"]
        assert found_subjects(index, tmp_path) > 0.9
    told = CliRunner().invoke(cli.app, ["info", str(tmp_path / "index")])
    for output in (made.output, told.output):
        assert "not trained: the prior alone ranks every validation query without a mistake" in output


@pytest.fixture(scope="module")
def shipped(lake: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose generator counts, as if it had won on the queries held out."""
    folder = tmp_path_factory.mktemp("shipped") / "index"
    with pytest.MonkeyPatch.context() as patch:
        won = {WEIGHTS[3]: np.ones(3)}
        patch.setattr(Supervision, "precisions", lambda self, _, weight: won.get(weight, np.zeros(3)))
        gentus.build(lake, folder, labels, settings=TRAINED, workers=1).close()
    return folder


def test_a_gain_within_the_noise_is_not_shipped(lake: Path, labels: Path, tmp_path: Path) -> None:
    once = replace(SMALL_GENERATOR, training=TrainingSettings(epochs=1, rate=1e-3))
    luck = {WEIGHTS[3]: np.array([1.0, 0.0, 0.1])}  # better by 0.03 on average, give or take far more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Supervision, "precisions", lambda self, _, weight: luck.get(weight, np.array([0.0, 1.0, 0.0]))
        )
        settings = replace(HASTY, generation=once)
        with gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1) as index:
            assert index.info()["generator"]["chosen"] == "prior alone"
            assert index.generator is None


def test_parts_of_a_score_add_up(shipped: Path, lake: Path) -> None:
    with gentus.open(shipped) as index:
        assert index.info()["generator"]["shipped"]
        hits = index.search(lake / "fish_0.csv", k=5)
        for hit in hits:
            assert hit.prior is not None
            assert hit.generator is not None
            assert hit.generated == pytest.approx(hit.prior + hit.generator, abs=1e-4)
        assert [h.generated for h in hits] == sorted((h.generated for h in hits), reverse=True)
        assert len({hit.table for hit in hits}) == 5


def test_parts_are_measured(shipped: Path, labels: Path, tmp_path: Path) -> None:
    command = ["run", "parts", "--index", str(shipped), "--set", f"groundtruth={labels}", "-k", "5", "--json"]
    command += ["--out", str(tmp_path)]
    result = CliRunner().invoke(bench_app, command)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)[0]["rows"]
    assert list(rows) == [
        *("dense latents", "prior", "generator", "generator, no prefix tree", "prior + generator"),
    ]
    assert rows["prior"]["map"] > 0.9
    assert rows["generator"]["invalid_share"] == 0
    assert rows["generator"]["map"] >= rows["generator, no prefix tree"]["map"]
    command.remove("--json")
    assert CliRunner().invoke(bench_app, command).stdout.count("|") > 40


def test_records_are_those_that_were_trained_on(trained: Path) -> None:
    result = CliRunner().invoke(cli.app, ["records", str(trained), "--show", "400", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    with gentus.open(trained) as index:
        held = set(index.info()["labels"]["validation_queries"])
    assert len(held) == 3
    inputs = {r["input"]["table"] for r in document["shown"] if r["kind"] != "indexing"}
    assert inputs
    assert not inputs & held


def test_explain_shows_both_parts(shipped: Path, lake: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(cli.app, ["search", str(shipped), str(lake / "fish_0.csv"), "--explain"])
    assert result.exit_code == 0, result.output
    assert "prior" in result.output
    assert "generator" in result.output


def test_a_build_stopped_while_training_goes_on_there(
    trained: Path, lake: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = TRAINED.generation
    assert generation is not None
    often = replace(generation, training=replace(generation.training, checkpoint_seconds=0))
    settings = replace(TRAINED, generation=often)
    steps = 0
    batch_loss = training.batch_loss

    def stopped(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt
        return batch_loss(*arguments)

    def again(*arguments: Any) -> Any:
        raise AssertionError("latents and codes were learnt already")

    monkeypatch.setattr(supervision, "prior_is_perfect", lambda *_: False)
    with monkeypatch.context() as patch:
        patch.setattr(training, "batch_loss", stopped)
        with pytest.raises(KeyboardInterrupt):
            gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1)
    monkeypatch.setattr(labelled, "fit_columns", again)
    with gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1) as index:
        resumed = index.info()["generator"]
    with gentus.open(trained) as index:
        assert resumed["losses"] == index.info()["generator"]["losses"]
        assert resumed["validation_map"] == index.info()["generator"]["validation_map"]


@pytest.mark.parametrize("settings", [TRAINED, replace(QUICK, bert="minilm"), preset_settings("trained")])
def test_a_generator_and_bert_need_labels(lake: Path, tmp_path: Path, settings: BuildSettings) -> None:
    with pytest.raises(ValueError, match="learn from labels: give labels"):
        gentus.build(lake, tmp_path / "index", settings=settings, workers=1)
    assert not (tmp_path / "index").exists()  # refused before anything is read


def test_labels_of_a_refit_teach_an_index_that_had_none(lake: Path, labels: Path, tmp_path: Path) -> None:
    gentus.build(lake, tmp_path / "index", settings=QUICK, workers=1).close()
    with gentus.open(tmp_path / "index") as index:
        assert (index.info()["labels"], index.info()["generator"]) == (None, None)
    with gentus.refit(tmp_path / "index", labels, workers=1) as index:
        facts = index.info()
        assert facts["labels"]["pairs"] == len(all_pairs(lake))
        assert facts["labels"]["ranking"]["training_queries"] > 0
        assert (facts["encoder"], facts["generator"]) == ("closed form", None)  # the settings of the build
        assert found_subjects(index, tmp_path) > 0.9


@pytest.mark.parametrize("variant", ["ordinary", "random", "atomic"])
def test_lesser_identifiers_can_be_had(variant: str, lake: Path, labels: Path, tmp_path: Path) -> None:
    once = replace(SMALL_GENERATOR, training=TrainingSettings(epochs=1, rate=1e-3))
    settings = replace(HASTY, identifiers=variant, generation=once)  # type: ignore[arg-type]
    with gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1) as index:
        assert index.info()["identifiers"] == variant
        assert len(index.search(lake / "fish_0.csv", k=5)) == 5
        if variant == "atomic":
            assert index.config.levels == 1
            assert index.config.codebook_size == len(index)


def test_identifiers_that_say_nothing_need_a_generator(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a generator"):
        gentus.build(lake, tmp_path / "index", settings=replace(QUICK, identifiers="random"))


def test_a_bert_reads_the_columns(lake: Path, labels: Path, tmp_path: Path, tiny_bert: Path) -> None:
    settings = replace(QUICK, bert=str(tiny_bert))
    with gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1) as index:
        assert index.info()["encoder"] == str(tiny_bert)
        opened = index.encoder
        assert len(index.search(lake / "fish_0.csv", k=3)) == 3
        assert (opened.states is None, index.encoder.states is None) == (True, False)  # a snapshot stays
    # Built again, nothing is read with BERT a second time.
    states = list((tmp_path / "index" / "cache").glob("features-*.*.npz"))
    assert states
    before = [path.stat().st_mtime_ns for path in states]
    gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1).close()
    assert [path.stat().st_mtime_ns for path in states] == before


def test_the_paper_end_to_end_on_tiny_models(
    lake: Path, labels: Path, tmp_path: Path, tiny_bert: Path, tiny_t5: Path
) -> None:
    paper = preset_settings("paper", t5=str(tiny_t5))
    generation = paper.generation
    assert generation is not None
    assert (generation.training.epochs, generation.batch, generation.training.rate) == (30, 32, 3e-4)
    assert (paper.quantizer.levels, paper.quantizer.codes, paper.teacher_weight) == (6, 256, 0.0)
    assert preset_settings("paper").generation.model.checkpoint == "google-t5/t5-base"  # type: ignore[union-attr]
    assert preset_settings("paper").bert == "google-bert/bert-base-uncased"
    settings = replace(
        paper,
        bert=str(tiny_bert),
        latent=QUICK.latent,
        quantizer=replace(paper.quantizer, steps=20),
        generation=replace(
            generation,
            training=replace(generation.training, epochs=1),
            records=replace(generation.records, views=1, negatives=2),
            always=True,
        ),
    )
    with gentus.build(lake, tmp_path / "index", labels, settings=settings, workers=1) as index:
        facts = index.info()
        assert (facts["levels"], facts["generator"]["epochs"]) == (6, 1)
        hits = index.search(lake / "fish_0.csv", k=5)
        assert len({hit.table for hit in hits}) == 5
        assert "fish_0.csv" not in {hit.table for hit in hits}
        rows = measure_parts(index, labels, 5)["rows"]
        assert (rows["generator"]["queries"], rows["generator"]["invalid_share"]) == (36, 0)
        assert rows["dense latents"]["map"] > 0.2  # by the states of BERT that were kept


def test_what_t5_base_would_need(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert t5_cost.BASE.parameters == pytest.approx(222.9e6, rel=0.01)  # as it was published
    monkeypatch.setattr(t5_cost, "flops_per_second", lambda shape: 1e10)
    command = ["run", "t5_cost", "--index", str(shipped), "--json", "--out", str(tmp_path)]
    result = CliRunner().invoke(bench_app, command)
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    base, small = document["rows"].values()
    assert document["tokens"] > 20
    assert base["flops_per_epoch"] > 100 * small["flops_per_epoch"] > 0
    assert base["hours"] == pytest.approx(30 * base["flops_per_epoch"] / 1e10 / 3600)
    (table,) = t5_cost.tables(document)
    assert table.rows[0][:2] == ["T5-base", "222.9 M"]


def test_paper_needs_labels(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give labels"):
        gentus.build(lake, tmp_path / "index", preset="paper")


def test_presets_by_name() -> None:
    assert preset_settings("fast") == BuildSettings()
    assert preset_settings("trained").generation is not None
    with pytest.raises(ValueError, match="there is no preset"):
        preset_settings("slow")  # type: ignore[arg-type]
