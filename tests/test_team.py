"""Two processes that train one generator, launched by torchrun as people would launch them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import write_pairs
from safetensors.numpy import load_file
from test_trained import TRAINED, all_pairs

import gentus
from gentus.generator import Generator, GeneratorSettings, Inputs
from gentus.training import Batch, TrainingSettings, batch_loss

BUILD = """
import os, sys
from pathlib import Path
import gentus
from test_team import STEADY

lake, labels, folder = map(Path, sys.argv[1:])
for name, budget in (("whole", None), ("short", 0.01)):  # one after the other, in the same processes
    gentus.build(lake, folder / name, labels, settings=STEADY, workers=1, time_budget=budget).close()
(folder / f"ended-{os.environ['RANK']}").touch()
"""

# Without dropout, which every process draws for itself, the result is that of one process up to rounding.
STEADY = replace(
    TRAINED,
    generation=replace(
        TRAINED.generation,  # type: ignore[type-var]
        always=True,
        model=GeneratorSettings(width=32, layers=1, heads=2, feedforward=32, dropout=0.0),
        training=TrainingSettings(epochs=2, rate=1e-3, accumulate=2),
        soft=500,
        most_records=500,
        beam=10,
    ),
)


def a_batch(queries: int, targets: int, seed: int) -> Batch:
    """Some targets of some queries, with hard negatives of every second one."""
    draw = torch.Generator().manual_seed(seed)
    symbols = torch.randint(0, 4, (targets, 3), generator=draw)
    of = torch.arange(0, targets, 2)
    return Batch(
        Inputs(
            torch.randn(queries, 5, 8, generator=draw),
            torch.ones(queries, 5, dtype=torch.bool),
            torch.randn(queries, 6, generator=draw),
        ),
        torch.randint(0, queries, (targets,), generator=draw),
        symbols,
        None,
        torch.randint(0, 2, (targets,), generator=draw).float(),
        torch.randint(0, 4, (len(of), 3), generator=draw),
        None,
        of,
    )


@pytest.mark.parametrize(("queries", "targets", "parts"), [(6, 20, 2), (6, 20, 3), (2, 5, 4), (1, 1, 2)])
def test_the_losses_of_parts_add_up(queries: int, targets: int, parts: int) -> None:
    settings = GeneratorSettings(width=16, layers=1, heads=2, feedforward=16, dropout=0.0)
    generator = Generator.create(settings, np.ones((3, 4, 6), np.float32), 2, 8, sharpness=1.0)
    batch = a_batch(queries, targets, seed=targets)
    whole = batch_loss(generator, batch, 0.2, 0.5)
    split = [batch.part(at, parts) for at in range(parts)]
    assert sum(len(part.owner) for part in split) == targets
    losses = [batch_loss(generator, part, 0.2, 0.5).item() for part in split if len(part.owner)]
    assert sum(losses) == pytest.approx(whole.item(), rel=1e-5)


@pytest.fixture(scope="module")
def labels(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("labels") / "labels.csv", all_pairs(lake))


def launch(*command: object) -> subprocess.CompletedProcess[str]:
    """Run something in two processes."""
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    line = [*two, *map(str, command)]
    return subprocess.run(line, capture_output=True, text=True, env=environment, timeout=180)


def weights(folder: Path) -> dict[str, Any]:
    return load_file(next(folder.glob("generator-*")) / "model.safetensors")


def test_two_processes_train_what_one_does(lake: Path, labels: Path, tmp_path: Path) -> None:
    script = tmp_path / "build.py"
    script.write_text(BUILD)
    ran = launch(script, lake, labels, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert len(list(tmp_path.glob("ended-*"))) == 2
    gentus.build(lake, tmp_path / "one", labels, settings=STEADY, workers=1).close()
    with gentus.open(tmp_path / "one") as one, gentus.open(tmp_path / "whole") as two:
        assert one.config["generation"] == two.config["generation"] == 1  # written once
        alone, together = one.config["generator"], two.config["generator"]
        sids = [dict(index.catalogue.db.execute("SELECT name, codes FROM tables")) for index in (one, two)]
        assert sids[0] == sids[1]
    assert alone["epochs"] == together["epochs"] == 2
    assert alone["losses"] == pytest.approx(together["losses"], abs=2e-4)
    assert alone["losses"][1] < alone["losses"][0]
    first, second = weights(tmp_path / "one"), weights(tmp_path / "whole")
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_allclose(second[name], array, atol=2e-3, err_msg=name)
    with gentus.open(tmp_path / "short") as short:  # all ended when its time was over
        assert short.config["generator"]["stopped_by"] == "time"


def test_an_error_of_the_first_ends_all(lake: Path, tmp_path: Path) -> None:
    ran = launch("-m", "gentus", "index", lake, "-o", tmp_path / "index", "--labels", tmp_path / "gone.csv")
    assert ran.returncode != 0
    assert "gone.csv" in ran.stderr
