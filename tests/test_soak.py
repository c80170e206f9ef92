"""A short soak: an index lives through random changes and faults. `make soak` is the hour of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from stress.soak import FAULTS, Life, growth, measure_soak, tables
from stress.soak_model import Model
from stress.soak_processes import Processes, Reader

import gentus
from gentus_bench.results import Results

MINUTES = 0.35
MOST_GROWTH = 0.15  # in so short a time; over an hour less is asked for


@pytest.mark.slow
def test_random_changes_and_faults(tmp_path: Path) -> None:
    document = measure_soak(Results(tmp_path / "results"), MINUTES, seed=0, folder=tmp_path)
    assert document["lost"] == []
    assert document["wrong"] == []
    assert document["operations"] > 25
    assert {"add", "remove", "sync", "search"} <= document["done"].keys()
    assert sum(document["done"].get(kind, 0) for kind in FAULTS) > 2
    assert {"here", "another process", "beside", "over HTTP"} <= document["looks"].keys()
    for who in ("reader", "server"):
        assert growth(document["memory"], who) < MOST_GROWTH, document["memory"]
    assert "Lost: 0, wrong: 0." in tables(document)[-1].note
    assert list(tmp_path.glob("gentus-soak-*")) == []


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """An index that is looked at, by nobody else than this process."""
    from stress.soak import _build

    model = Model(tmp_path_factory.mktemp("soak"), random.Random(0))
    model.fill()
    _build(model)
    reader = Reader(model.index)
    return Life(model, Processes(), reader, gentus.open(model.index), "http://127.0.0.1:9", 0)


def test_a_soak_notices_what_is_lost_and_what_is_wrong(life: Life) -> None:
    """It would be of no use if it could not fail."""
    model, tally = life.model, life.tally
    for _ in range(4):
        life.look()
    assert (tally.lost, tally.wrong) == ([], [])
    kept = model.make()  # which nobody tells the index
    life.look()
    assert tally.lost.pop().startswith(f"{kept} was not found")
    life.settle()
    life.look()
    gone = next(iter(sorted(model.tables - {kept})))
    model.drop(gone)
    life.look()
    assert tally.wrong.pop().startswith(f"{gone} was found")
    life.settle()
    life.look()
    life.known[kept] = "1-2-3"
    life.look()
    assert tally.wrong.pop().startswith(f"{kept} had the identifier 1-2-3")
    life._by_http()
    assert tally.wrong.pop().startswith("over HTTP: ")
    (model.index / "cache" / "features-000000.npz").write_bytes(b"")
    life.check()
    assert tally.wrong.pop() == "check: cache/features-000000.npz: its features cannot be read"
    assert (tally.lost, tally.wrong) == ([], [])
    life.reader.close()
    life.opened.close()
