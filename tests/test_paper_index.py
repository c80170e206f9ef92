"""The paper's generator behind an index: built, searched, followed and learnt again, as a user would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import make_lake, rows_of, write_pairs, write_table
from safetensors import safe_open

import gentus
from gentus.index.hits import Hits
from gentus.paper.settings import PAPER, PaperSettings, SerialSettings, SidSettings, paper_settings

GENTUS = Path(sys.executable).with_name("gentus")


@pytest.fixture(scope="module")
def settings(tiny_bert: Path, tiny_t5_tied: Path) -> PaperSettings:
    usual = PaperSettings(bert=str(tiny_bert), t5=str(tiny_t5_tied), text=SerialSettings(tokens=32))
    sid = SidSettings(L=3, K=4, d_z=8, hidden=16, steps=60, start=20, batch=16, anchors=4)
    return replace(usual, sid=sid, train=replace(usual.train, epochs=2, views=2, indexing=4))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("paper") / "lake", ["cities", "fish"], 6)


@pytest.fixture(scope="module")
def labels(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every pair of a subject, of queries that all but one table of the lake are."""
    names = sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*_?.*"))
    same = [[name for name in names if subject in name] for subject in ("fish", "cities")]
    pairs = [(a, b) for some in same for a in some[:-1] for b in some if a != b]
    return write_pairs(tmp_path_factory.mktemp("labels") / "pairs.csv", pairs)


@pytest.mark.parametrize("vectors", ["bert", "closed-form"])
def test_an_index_of_the_papers_generator_lives(
    tmp_path: Path, lake: Path, labels: Path, settings: PaperSettings, vectors: str
) -> None:
    lake = shutil.copytree(lake, tmp_path / "lake")
    settings = replace(settings, vectors="bert" if vectors == "bert" else "closed-form")
    built = gentus.build(lake, tmp_path / "index", labels, preset="paper", paper=settings, workers=1)
    facts = built.info()
    assert facts["encoder"] == (settings.bert if vectors == "bert" else "closed form")
    assert set(facts["generator"]["validation_map"]) == {"generator alone", "closed form"}
    assert facts["levels"] == 3
    assert not list((tmp_path / "index" / "cache").glob("*.safetensors"))  # no checkpoints
    hits = built.search("fish_0.csv", k=11)
    assert {hit.table for hit in hits} == set(built.tables()) - {"fish_0.csv"}
    assert all(hit.generated <= 0 for hit in hits)  # log-probabilities of identifiers
    assert [hit.generated for hit in hits] == sorted((hit.generated for hit in hits), reverse=True)
    sids = {hit.table: hit.sid for hit in hits}
    assert len(set(sids.values())) == 11
    again = gentus.open(tmp_path / "index")
    assert [hit.table for hit in again.search("fish_0.csv", k=11)] == [hit.table for hit in hits]
    ((_, found),) = again.search_many(["fish_0.csv"], k=11, workers=1)
    assert isinstance(found, Hits)
    assert [hit.table for hit in found] == [hit.table for hit in hits]
    write_table(lake / "fish_7.csv", rows_of("fish", 7))
    assert again.sync(lake).added == ["fish_7.csv"]
    now = {hit.table: hit.sid for hit in again.search("fish_0.csv", k=12)}
    assert "fish_7.csv" in now
    assert {name: now[name] for name in sids} == sids  # the others kept their identifiers
    assert again.align("fish_0.csv", "fish_7.csv").pairs
    assert again.groups()
    gentus.refit(tmp_path / "index", workers=1).close()
    assert len(gentus.open(tmp_path / "index").search("fish_7.csv", k=12)) == 12


def test_two_builds_are_the_same(tmp_path: Path, lake: Path, labels: Path, settings: PaperSettings) -> None:
    for name in ("one", "two"):
        gentus.build(lake, tmp_path / name, labels, paper=settings, workers=1).close()
    one, two = (next((tmp_path / name).glob("model-*.safetensors")) for name in ("one", "two"))
    with safe_open(one, "np") as ours, safe_open(two, "np") as theirs:
        assert all((ours.get_tensor(name) == theirs.get_tensor(name)).all() for name in ours.keys())  # noqa: SIM118


def test_the_command_line(
    tmp_path: Path, lake: Path, labels: Path, tiny_bert: Path, tiny_t5_tied: Path
) -> None:
    index, made = tmp_path / "index", ("--bert", tiny_bert, "--t5", tiny_t5_tied, "--time-budget", "0.05")

    def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([GENTUS, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    done = run("index", lake, "-o", index, "--labels", labels, "--preset", "paper", *made, "--json")
    assert "MAP on held-out queries: generator alone" in done.stderr
    assert "Warning" not in done.stderr
    assert json.loads(done.stdout)["generator"]["t5"] == str(tiny_t5_tied)
    assert "fish" in run("search", index, "fish_0.csv", "-k", "3").stdout
    assert "parameters" in run("info", index).stdout
    failed = run("index", lake, "-o", tmp_path / "other", "--preset", "paper", code=1)
    assert "give labels" in failed.stderr
    failed = run("index", lake, "-o", tmp_path / "other", "--t5", "t5-base", code=2)
    assert "--preset paper" in failed.stderr
    failed = run(
        "index",
        lake,
        "-o",
        tmp_path / "other",
        "--labels",
        labels,
        "--preset",
        "paper",
        "--t5",
        "nowhere",
        code=1,
    )
    assert "nowhere" in failed.stderr
    assert "download" in failed.stderr


def test_with_a_trained_t5_the_constants_are_the_papers() -> None:
    found = paper_settings("bert", "bert-base-uncased", "t5-base", None, None, download=True)
    assert found == replace(PAPER, bert="bert-base-uncased", t5="t5-base", download=True)
    assert (found.sid.L, found.sid.K, found.sid.lambda_u, found.sid.tau) == (6, 256, 0.1, 0.1)
    assert (found.train.gamma, found.train.lambda_r, found.train.epochs, found.train.rate) == (
        0.2,
        0.2,
        30,
        3e-4,
    )
    assert paper_settings("closed-form", "minilm", "scratch", 4, 16, download=False).sid.K == 16
