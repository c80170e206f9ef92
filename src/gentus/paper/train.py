"""Training of the generator (section 5.4), in one loop that can be stopped and goes on.

A step depends on its number and on the state before it only, dropout included. So a training of some number
of epochs that was killed ends with the same bytes as one that was not; one by time keeps its clock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import F32, I32, I64
from gentus.files import write_file
from gentus.paper.generator import Generator
from gentus.paper.losses import l_ce, l_gen, l_pairwise, s_theta
from gentus.paper.records import View, aug, r_idx, r_pairwise, r_pos
from gentus.paper.serialize import Serializer
from gentus.paper.settings import RecordSettings, TrainSettings
from gentus.table import Table

CHECKPOINT, BEST = "training.safetensors", "best.safetensors"


@dataclass(frozen=True, slots=True)
class Records:
    """What batches are made of."""

    tables: Sequence[Table]
    serializer: Serializer
    pairs: I64  # (n, 2) annotated
    indexed: I64  # (m,) tables with an indexing record
    negatives: dict[int, I32]  # of every query
    y: Tensor  # (N, L + 2) tok(sid(T)) of every table
    lengths: Tensor  # (N,) |y|
    z: F32  # (N, d) latents
    settings: RecordSettings
    seed: int
    key: str = ""  # what a training with these depends on

    def epoch(self, number: int, positives: int) -> list[View]:
        """The views of one pass over the annotated pairs, shuffled."""
        random = np.random.default_rng((self.seed, 0, number))
        views = r_pairwise(r_pos(self.pairs, self.settings, positives, random), self.negatives, random)
        return [views[at] for at in random.permutation(len(views))]

    def indexing(self, step: int, count: int) -> list[View]:
        """The indexing records of a step: all tables in turn, in another order each time."""
        turns, first = divmod(step * count, max(1, len(self.indexed)))
        order = np.concatenate(
            [
                np.random.default_rng((self.seed, 1, turns + at)).permutation(self.indexed)
                for at in range(2 + count // max(1, len(self.indexed)))
            ]
        )
        some = order[first : first + count].tolist()
        return r_idx(some, self.settings, np.random.default_rng((self.seed, 2, step)))


class Losses(NamedTuple):
    """Losses of a step."""

    total: Tensor
    ce: Tensor
    pairwise: Tensor


class Progress(NamedTuple):
    """What a report is given, after every epoch and at the end."""

    step: int
    share: float  # of the training that is done
    seconds: float
    regression: float  # losses of the last step; 0 before there was one
    ce: float
    pairwise: float
    map: float  # of the generator alone on held-out queries
    best: float

    @property
    def seconds_left(self) -> float:
        """At the pace so far."""
        return self.seconds * (1 - self.share) / max(self.share, 1e-9)


def generator_losses(
    model: Generator, views: Sequence[View], records: Records, settings: TrainSettings
) -> Losses:
    """L_gen of a batch: cross-entropy of positive and indexing targets, ranking of hard negatives."""
    sentences = [
        records.serializer.ser(aug(records.tables[view.table], view.number, records.settings))
        for view in views
    ]
    rows = [(at, table, 0) for at, view in enumerate(views) for table in view.targets]
    rows += [(at, view.negative, 1) for at, view in enumerate(views) if view.negative >= 0]
    owner, table, negative = torch.tensor(sorted(rows, key=lambda row: row[0])).T.contiguous()  # (n,) each
    lengths = records.lengths[table]
    y = records.y[table][:, : int(lengths.max())]
    on = model.device
    s = s_theta(
        model.log_p_theta(model.read(sentences), owner.to(on), y.to(on), lengths.to(on)), lengths.to(on)
    )
    # Every target of a view with a hard negative makes a ranking record with it.
    of = torch.full((len(views),), -1)
    of[owner[negative == 1]] = torch.nonzero(negative == 1)[:, 0]
    ranked = torch.nonzero((negative == 0) & (of[owner] >= 0))[:, 0]
    ce = l_ce(s[negative == 0])
    pairwise = l_pairwise(s[ranked], s[of[owner[ranked]]], settings.gamma)
    return Losses(l_gen(ce, pairwise, settings.lambda_r), ce, pairwise)


def train_generator(
    model: Generator,
    records: Records,
    settings: TrainSettings,
    folder: Path,
    evaluate: Callable[[], float],
    report: Callable[[Progress], None] = lambda progress: None,
) -> float:
    """Train G_θ, and leave it as it was after the epoch with the best MAP on held-out queries; returns that.

    What a stopped training of the same records left in the folder is continued.
    """
    rank, world = _join()
    run = _Run(model, nn.Linear(model.added.shape[1], records.z.shape[1]), settings, folder, records.key)
    begun = run.resume()
    each = max(1, len(records.epoch(0, settings.positives)) // settings.views)  # steps of an epoch
    views: list[View] = []
    regression = ce = pairwise = 0.0
    while True:
        seconds = _from_first(run.seconds, world)
        share = seconds / (60 * settings.minutes) if settings.minutes else run.step / (each * settings.epochs)
        epoch, at = divmod(run.step, each)
        if (run.step > begun and not at) or share >= 1:
            found = evaluate()
            if found >= run.best:
                run.best = found
                if not rank:
                    run.keep_best()
            shown = (regression, ce, pairwise, found, run.best)
            report(Progress(run.step, min(share, 1.0), seconds, *shown))
        if share >= 1:
            break
        if not rank and run.step > begun and (not at or run.unsaved > settings.save_seconds):
            run.save()
        if not at or not views:
            views = records.epoch(epoch, settings.positives)
        torch.manual_seed(records.seed * 1_000_003 + run.step)  # dropout
        model.train()
        with model.precision():
            if share < settings.regression:
                batch = records.indexing(run.step, 4 * settings.indexing)[rank::world]
                loss = _regression(model, run.head, batch, records)
                regression = float(loss.detach())
            else:
                batch = views[at * settings.views : (at + 1) * settings.views]
                batch = (batch + records.indexing(run.step, settings.indexing))[rank::world]
                losses = generator_losses(model, batch, records, settings)
                loss, ce, pairwise = losses.total, float(losses.ce.detach()), float(losses.pairwise.detach())
        run.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if world > 1:
            _average([*run.learning.values()], world)
        run.descend(_rate(run.step, share, settings), settings.clip)
    if world > 1:
        dist.barrier()  # until the first process has written it
    run.restore_best()
    return run.best


def _regression(model: Generator, head: nn.Linear, views: Sequence[View], records: Records) -> Tensor:
    """1 - cosine of latents of tables and what the encoder says of views of them; no labels are needed."""
    tables = [aug(records.tables[view.table], view.number, records.settings) for view in views]
    states, mask = model.states([records.serializer.ser(table) for table in tables])
    mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)  # (B, d)
    z = torch.from_numpy(records.z[[view.table for view in views]]).to(model.device)
    return 1 - functional.cosine_similarity(head(mean.float()).float(), z).mean()


def _rate(step: int, share: float, settings: TrainSettings) -> float:
    """The learning rate: up over the first steps, then linear to zero, and so for the regression before."""
    first = settings.regression
    left = (1 - share) / (1 - first) if share >= first else 1 - 0.9 * share / first
    return settings.rate * min(1.0, (step + 1) / settings.warmup) * left


# --- several processes -------------------------------------------------------------------------------


def _join() -> tuple[int, int]:
    """Rank and number of processes launched together (`torchrun`); each has a part of every batch."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return int(os.environ.get("RANK", "0")), world


def _from_first(seconds: float, world: int) -> float:
    """The clock of the first process, so that all stop at the same step."""
    if world == 1:
        return seconds
    clock = torch.tensor([seconds], dtype=torch.float64)
    dist.broadcast(clock, 0)
    return float(clock)


def _average(learning: Sequence[nn.Parameter], world: int) -> None:
    for p in learning:
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(p.grad, dist.ReduceOp.SUM)
        p.grad /= world


# --- checkpoints -------------------------------------------------------------------------------------


class _Run:
    """A training: what learns, its optimizer, where it is, and its files."""

    def __init__(
        self, model: Generator, head: nn.Linear, settings: TrainSettings, folder: Path, key: str
    ) -> None:
        self.head, self.folder, self.key = head.to(model.device), folder, key
        self.learning = {f"model.{name}": p for name, p in model.named_parameters() if p.requires_grad}
        self.learning |= {f"head.{name}": p for name, p in head.named_parameters()}
        others = [p for p in self.learning.values() if p is not model.added]
        groups: list[dict[str, Any]] = [{"params": others, "times": 1.0}]
        groups.append({"params": [model.added], "times": settings.added_rate})
        self.optimizer = torch.optim.AdamW(groups, settings.rate, settings.betas, weight_decay=0.0)
        self.step, self.best, self._before = 0, -1.0, 0.0
        self._began = self._saved = time.monotonic()

    @property
    def seconds(self) -> float:
        """Of this training, without the time in which it was stopped."""
        return self._before + time.monotonic() - self._began

    @property
    def unsaved(self) -> float:
        """Seconds since the last checkpoint."""
        return time.monotonic() - self._saved

    def descend(self, rate: float, clip: float) -> None:
        """One step of the optimizer."""
        nn.utils.clip_grad_norm_(self.learning.values(), clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["times"]
        self.optimizer.step()
        self.step += 1

    def save(self) -> None:
        """Weights, moments, and where the training is, in one file."""
        tensors = {name: p.detach() for name, p in self.learning.items()}
        for name, p in self.learning.items():
            for moment, value in self.optimizer.state[p].items():
                tensors[f"{moment}.{name}"] = value
        said = {"key": self.key, "step": self.step, "best": self.best, "seconds": self.seconds}
        write_file(self.folder / CHECKPOINT, save(tensors, {"training": json.dumps(said)}))
        self._saved = time.monotonic()

    def resume(self) -> int:
        """Go on where a training of this key was stopped, if there is one; returns its step."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return 0
        with safe_open(path, "pt") as file:
            said = json.loads(file.metadata()["training"])
            if said["key"] != self.key:
                return 0
            for name in file.keys():  # noqa: SIM118  # it is no dictionary
                moment, _, of = name.partition(".")
                if of in self.learning:
                    self.optimizer.state[self.learning[of]][moment] = file.get_tensor(name)
        self._load(path)
        self.step, self.best, self._before = said["step"], said["best"], said["seconds"]
        return self.step

    def keep_best(self) -> None:
        """Store the weights as the best so far."""
        write_file(self.folder / BEST, save({name: p.detach() for name, p in self.learning.items()}))

    def restore_best(self) -> None:
        """Back to the best weights."""
        self._load(self.folder / BEST)

    @torch.no_grad()
    def _load(self, path: Path) -> None:
        with safe_open(path, "pt") as file:
            for name, p in self.learning.items():
                p.copy_(file.get_tensor(name))
