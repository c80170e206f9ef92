"""The scale benchmark on small lakes: what it makes up, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_cli import Run, run

from gentus.index.index import Index
from gentus_bench.experiments import scale_trees
from gentus_bench.experiments.scale_identifiers import LakeModel, fit_model, real_codes, skew

__all__ = ["run"]


@pytest.fixture
def model(index: Index) -> LakeModel:
    return fit_model(index.decoder.trie, index.decoder.codebooks)


def test_skew_tells_how_identifiers_are_spread() -> None:
    codes = np.array([[0, 1], [1, 0], [0, 0], [0, 1]], np.uint8)
    facts = skew(codes, size=2)
    assert (facts["prefixes"], facts["largest"]) == ({"1": 2, "2": 3}, {"1": 3, "2": 2})
    assert (facts["collisions"], facts["most_alike"]) == (0.5, 2)
    assert facts["codes_until_alone"] == (2 + 2 + 2 + 1) / 4
    assert facts["perplexity"][1] == 2.0
    assert facts["perplexity"][0] == pytest.approx(0.25**-0.25 * 0.75**-0.75, abs=0.01)


def test_a_made_up_lake_is_like_the_real_one(model: LakeModel, index: Index) -> None:
    real = skew(real_codes(index.decoder.trie), index.decoder.codebooks.size)
    made_up = skew(model.trial(), index.decoder.codebooks.size)
    assert made_up["tables"] == real["tables"] == 36
    assert made_up["perplexity"][0] == pytest.approx(real["perplexity"][0], rel=0.35)
    assert made_up["prefixes"]["2"] == pytest.approx(real["prefixes"]["2"], rel=0.35)


def test_a_small_made_up_lake_begins_a_large_one_and_queries_are_in_neither(model: LakeModel) -> None:
    few, many = (np.concatenate(list(model.tables(count))) for count in (100, 9000))
    assert (len(few), len(many)) == (100, 9000)
    assert (few == many[:100]).all()
    queries = model.queries(20)
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    assert not (model.codebooks.decode(many[:20]) == queries).all(1).any()


@pytest.mark.slow
def test_the_command_measures_and_tells(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(scale_trees, "OPENED", 1)
    out = tmp_path / "out"
    command = ["bench", "run", "scale", "--index", index_path, "--out", out]
    for setting in ("sizes=2000,200", "queries=3", "beam=20"):
        command += ["--set", setting]
    ran = run(*command)
    assert ran.code == 0
    (file,) = out.glob("scale-*.json")
    document = json.loads(file.read_text())
    small, large = document["trees"]["200"], document["trees"]["2000"]
    assert small["skew"]["tables"] == 200
    on_disk = sum(path.stat().st_size for path in (out / "scale" / "my.index" / "tree-2000").iterdir())
    assert large["disk_bytes_per_table"] == on_disk / 2000
    assert 0 < large["resident"] < 2 * on_disk + (1 << 20)
    assert all(times["ms_p95"] >= times["ms_p50"] > 0 for times in document["search"]["times"].values())
    for ending in ("md", "png", "svg"):
        assert (out / f"scale-my.index.{ending}").stat().st_size
    assert "| made up | 2,000 |" in ran.out
    assert "| tables | search, p50 | p95 |" in ran.out
