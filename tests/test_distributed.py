"""Two processes that train one generator, launched by torchrun as people would launch them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import HASTY, write_pairs
from safetensors.torch import load_file, save_file
from test_trained import TRAINED, all_pairs

import gentus
from gentus.generator.distributed import Workers
from gentus.generator.model import Generator, Inputs
from gentus.generator.training import Batch, Epochs, RunOptions, batch_loss, train
from gentus.settings import GeneratorSettings, TrainingSettings

SCRIPT = """
import json, os, sys
from pathlib import Path
import gentus
from gentus.generator.distributed import serve_leader, launched_workers
from test_distributed import LITTLE, trained

lake, labels, folder = map(Path, sys.argv[1:])
for name, budget in (("whole", None), ("short", 0.0)):
    if not serve_leader():
        with launched_workers() as workers:
            trained(folder / name, budget, workers)
gentus.build(lake, folder / "two", labels, settings=LITTLE, workers=1).close()
(folder / f"ended-{os.environ['RANK']}").touch()
"""

RUNS = ("alone", "whole", "short")

LITTLE = replace(
    TRAINED,
    latent=HASTY.latent,
    generation=replace(
        TRAINED.generation,  # type: ignore[type-var]
        always=True,
        affinity_targets=500,
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
    generator = a_generator()
    batch = a_batch(queries, targets, seed=targets)
    whole = batch_loss(generator, batch, 0.2, 0.5)
    split = [batch.part(at, parts) for at in range(parts)]
    assert sum(len(part.owner) for part in split) == targets
    losses = [batch_loss(generator, part, 0.2, 0.5).item() for part in split if len(part.owner)]
    assert sum(losses) == pytest.approx(whole.item(), rel=1e-5)


def a_generator() -> Generator:
    # Without dropout, which every process draws for itself, the result is that of one up to rounding.
    settings = GeneratorSettings(width=16, layers=1, heads=2, feedforward=16, dropout=0.0)
    words = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
    return Generator.create(settings, words, 2, 8).start_as_prior(1.0)


def trained(file: Path, budget: float | None, workers: Workers | None) -> None:
    """Train a generator whose every epoch is better than the one before, and write down what came of it."""
    generator, scores = a_generator(), count()
    settings = TrainingSettings(epochs=3, rate=1e-2, accumulate=2)
    report = train(
        generator,
        Epochs(lambda epoch: (a_batch(5, 16, seed=10 * epoch + at) for at in range(5)), 5),
        lambda: next(scores),
        settings,
        RunOptions(time_budget=budget, workers=workers),
    )
    save_file({name: p.detach() for name, p in generator.named_parameters()}, f"{file}.safetensors")
    told = {"losses": report.losses, "stopped": report.stopped, "steps": report.steps}
    Path(f"{file}.json").write_text(json.dumps(told))


@pytest.fixture(scope="module")
def labels(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("labels") / "labels.csv", all_pairs(lake))


def launch(*command: object) -> subprocess.CompletedProcess[str]:
    """Run something in two processes."""
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    line = [*two, *map(str, command)]
    return subprocess.run(line, capture_output=True, text=True, env=environment, timeout=180)


@pytest.mark.slow
def test_two_processes_train_what_one_does(lake: Path, labels: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = launch(script, lake, labels, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert len(list(tmp_path.glob("ended-*"))) == 2
    trained(tmp_path / "alone", None, None)
    alone, whole, short = (json.loads((tmp_path / f"{name}.json").read_text()) for name in RUNS)
    assert whole["losses"] == pytest.approx(alone["losses"], rel=1e-4)
    assert whole["steps"] == alone["steps"] == 9
    assert (whole["stopped"], short["stopped"]) == ("epochs", "time")
    one, two, untrained = (load_file(tmp_path / f"{name}.safetensors") for name in RUNS)
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(one["bias"], untrained["bias"], atol=1e-2)
    with gentus.open(tmp_path / "two") as index:
        assert index.config.generation == 1  # written once
        assert index.info()["generator"]["epochs"] == 2
        assert len(index.search(lake / "fish_0.csv", k=5)) == 5


def test_an_error_of_the_first_ends_all(lake: Path, tmp_path: Path) -> None:
    ran = launch("-m", "gentus", "index", lake, "-o", tmp_path / "index", "--labels", tmp_path / "gone.csv")
    assert ran.returncode != 0
    assert "gone.csv" in ran.stderr
