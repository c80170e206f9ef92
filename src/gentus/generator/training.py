"""Training a generator: the paper's two losses, in a loop that can be stopped and started again at any time.

What a step does depends on its number and the state before it only, dropout included, so a run that was
killed ends with the weights of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from gentus.features.bert import best_device
from gentus.files import write_file
from gentus.generator.model import Generator, Inputs
from gentus.progress import Progress
from gentus.settings import TrainingSettings

Batches = Callable[[int], Iterable["Batch"]]
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Batch:
    """Targets of some queries, and hard negatives of some targets."""

    inputs: Inputs
    owner: Tensor  # (n,) the query of each target
    symbols: Tensor  # (n, T) padded with -1
    valid: Tensor | None  # (n, T, V) what may stand at each place; None: anything
    weight: Tensor  # (n,) in the cross-entropy; 0 for a target that only outranks its negatives
    negative_symbols: Tensor | None = None  # (m, T)
    negative_valid: Tensor | None = None  # (m, T, V)
    negative_of: Tensor | None = None  # (m,) the target each is to score below
    whole: tuple[float, int] | None = None  # the totals of what this is a part of

    @property
    def totals(self) -> tuple[float, int]:
        """What losses are divided by: the weight of all targets, and how many negatives there are."""
        return self.whole or (
            float(self.weight.sum()),
            0 if self.negative_of is None else len(self.negative_of),
        )

    def part(self, at: int, of: int) -> Batch:
        """One of so many parts, by queries; their losses add up to that of the whole."""
        mine = self.owner % of == at  # (n,)
        place = mine.cumsum(0) - 1  # (n,) what a target of this part is numbered in it
        inputs = Inputs(self.inputs.content[at::of], self.inputs.mask[at::of], self.inputs.latents[at::of])
        valid = None if self.valid is None else self.valid[mine]
        part = Batch(inputs, self.owner[mine] // of, self.symbols[mine], valid, self.weight[mine])
        if self.negative_symbols is not None and self.negative_of is not None:
            kept = mine[self.negative_of]
            part = replace(
                part,
                negative_symbols=self.negative_symbols[kept],
                negative_valid=None if self.negative_valid is None else self.negative_valid[kept],
                negative_of=place[self.negative_of[kept]],
            )
        return replace(part, whole=self.totals)


@dataclass(slots=True)
class TrainingReport:
    """What a training came to. Scores are those of `validate`, the first one before any step."""

    losses: list[float] = field(default_factory=list)  # mean of an epoch
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0  # whose weights were kept; 0: training did not help
    steps: int = 0
    seconds: float = 0.0
    stopped: Literal["epochs", "patience", "time"] = "epochs"
    device: str = "cpu"
    precision: str = "float32"

    @property
    def best(self) -> float:
        """The score of the weights that were kept."""
        return self.scores[self.best_epoch]


class Helping(Protocol):
    """Other processes that each work on a part of every batch."""

    def begin(self, generator: Generator, settings: TrainingSettings, bfloat16: bool) -> None:
        """Tell them what is to be trained, and how."""

    def backward(self, batch: Batch, batches: int, seed: int) -> float:
        """Add the gradients of one of the batches of a step to those that are there; its loss."""


def batch_loss(generator: Generator, batch: Batch, margin: float, margin_weight: float) -> Tensor:
    """Cross-entropy of targets, a mean over their symbols, and how far negatives are within the margin."""
    memory = generator.encode(batch.inputs)
    owner, symbols, weight = (t.to(generator.device) for t in (batch.owner, batch.symbols, batch.weight))
    scores = _mean(generator.score(memory, owner, symbols, batch.valid), symbols)  # (n,)
    total, ranked = batch.totals
    loss = -(weight * scores).sum() / max(total, 1e-12)
    if batch.negative_symbols is None or batch.negative_of is None or not len(batch.negative_of):
        return loss
    of, negatives = batch.negative_of.to(generator.device), batch.negative_symbols.to(generator.device)
    below = _mean(generator.score(memory, owner[of], negatives, batch.negative_valid), negatives)  # (m,)
    return loss + margin_weight * (margin - scores[of] + below).clamp_min(0).sum() / ranked


def gradients(
    generator: Generator, batch: Batch, settings: TrainingSettings, bfloat16: bool, batches: int
) -> float:
    """Add the gradients of one of the batches of a step to those that are there; its loss."""
    if not len(batch.owner):
        return 0.0
    with torch.autocast(generator.device.type, torch.bfloat16) if bfloat16 else nullcontext():
        loss = batch_loss(generator, batch, settings.margin, settings.margin_weight)
    (loss / batches).backward()  # type: ignore[no-untyped-call]
    return loss.item()


def _mean(log_p: Tensor, symbols: Tensor) -> Tensor:
    """(n,) mean log-likelihood of targets, each over its own length."""
    return log_p.sum(1) / (symbols >= 0).sum(1).clamp_min(1)


def train(
    generator: Generator,
    batches: Batches,
    batches_per_epoch: int,
    validate: Callable[[], float],
    settings: TrainingSettings | None = None,
    folder: Path | None = None,
    time_budget: float | None = None,
    progress: Progress | None = None,
    fingerprint: str = "",
    team: Helping | None = None,
) -> TrainingReport:
    """Train, and leave the generator with the weights of its best epoch, on the device it was trained on.

    `batches(epoch)` gives the batches of an epoch from 0 on, the same ones whenever it is asked; `validate`
    says how good the generator is now, higher is better. With a `folder`, a run that was stopped goes on
    there if its settings and its `fingerprint`, which stands for the data, are the same. With a
    `time_budget` of seconds, over all runs together, the learning rate is planned to come down in that time.
    A `team` shares the work of every batch.
    """
    settings = settings or TrainingSettings()
    run = _Run(generator, batches_per_epoch, settings, folder, time_budget, fingerprint, team)
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        return run.train(batches, validate, progress or Progress())


class _Run:
    """The state of a training, most of which is what a checkpoint holds."""

    def __init__(
        self,
        generator: Generator,
        batches_per_epoch: int,
        settings: TrainingSettings,
        folder: Path | None,
        budget: float | None,
        fingerprint: str,
        team: Helping | None = None,
    ) -> None:
        self.generator, self.settings, self.budget, self.team = generator, settings, budget, team
        self.per_epoch = batches_per_epoch
        self.path = folder and folder / "training.safetensors"
        self.device = best_device()
        self.bfloat16 = settings.precision == "bfloat16" or (
            # Not on a CPU: measured with the hardware for it, a tenth faster at most, at half the digits.
            settings.precision == "auto"
            and self.device.type == "cuda"
            and torch.cuda.is_bf16_supported(False)
        )
        if team is not None:
            team.begin(generator, settings, self.bfloat16)
        generator.to(self.device)
        self.parameters = dict(generator.named_parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), settings.rate, fused=self.device.type != "mps"
        )
        self.report = TrainingReport(
            device=self.device.type, precision="bfloat16" if self.bfloat16 else "float32"
        )
        self.epoch, self.done, self.loss = 0, 0, 0.0  # batches done in this epoch, and their summed loss
        self.best: State = {}
        self.began = time.monotonic()
        self.validating = 0.0  # seconds a validation takes
        self.written, self.writing = self.began, 0.0  # when the last checkpoint was, and how long it took
        about = {
            "settings": asdict(settings),
            "generator": asdict(generator.settings),
            "shapes": [[name, *p.shape] for name, p in self.parameters.items()],
            "batches": batches_per_epoch,
            "data": fingerprint,
        }
        self.fingerprint = hashlib.sha256(json.dumps(about).encode()).hexdigest()

    @property
    def elapsed(self) -> float:
        """Seconds spent, in earlier runs, too."""
        return self.report.seconds + time.monotonic() - self.began

    def train(self, batches: Batches, validate: Callable[[], float], progress: Progress) -> TrainingReport:
        """Epochs until one of three reasons to stop."""
        if not self.resume():
            self.validate(validate)  # so that a generator which training only makes worse is left as it was
        report = self.report
        while not (stop := self.stop()):
            with progress.stage(self.title(), self.per_epoch, "batches") as tick:
                tick(self.done)
                self.generator.train()
                left = islice(iter(batches(self.epoch)), self.done, None)
                while not self.late() and (group := list(islice(left, self.settings.accumulate))):
                    self.step(group)
                    tick(len(group))
                    self.checkpoint()
            if not self.done:
                if self.late():
                    continue
                raise ValueError("there are no batches to train on")
            report.losses.append(self.loss / self.done)
            self.epoch, self.done, self.loss = self.epoch + 1, 0, 0.0
            self.validate(validate)
            self.checkpoint(now=True)
        report.stopped, report.seconds = stop, self.elapsed
        self.generator.load_state_dict(self.best, strict=False)
        self.generator.eval()
        if self.path:
            self.path.unlink(missing_ok=True)
        return report

    def stop(self) -> Literal["", "epochs", "patience", "time"]:
        """Why not to begin another epoch."""
        if self.late():
            return "time"
        trained = self.report.scores[1:]  # an epoch may be below where it started and still be on its way up
        if trained and len(trained) - 1 - trained.index(max(trained)) >= self.settings.patience:
            return "patience"
        return "epochs" if self.epoch >= self.settings.epochs else ""

    def late(self) -> bool:
        """Whether there is only time left to validate."""
        return self.budget is not None and self.elapsed + self.validating >= self.budget

    def step(self, group: list[Batch]) -> None:
        """One step of the optimizer."""
        settings = self.settings
        # Dropout depends on the number of a step, not on those before it: nothing to store.
        seed = (settings.seed << 32) + self.report.steps
        torch.manual_seed(seed)
        for place in self.optimizer.param_groups:
            place["lr"] = settings.rate * self.pace()
        self.optimizer.zero_grad()
        for batch in group:
            if self.team is None:
                self.loss += gradients(self.generator, batch, settings, self.bfloat16, len(group))
            else:
                self.loss += self.team.backward(batch, len(group), seed)
        if not math.isfinite(self.loss):
            raise FloatingPointError("the loss is not finite: is every target among its valid symbols?")
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), settings.clip)
        self.optimizer.step()
        self.report.steps += 1
        self.done += len(group)

    def pace(self) -> float:
        """The learning rate as a share of the highest: a line up, then a line down to the planned end."""
        warmup = self.settings.warmup
        steps = self.settings.epochs * -(-self.per_epoch // self.settings.accumulate)
        spent = (self.report.steps + 0.5) / max(steps, 1)
        if self.budget is not None:
            spent = max(spent, self.elapsed / max(self.budget - self.validating, 1e-9))
        return max(0.0, min(spent / warmup if warmup else 1.0, (1 - spent) / (1 - warmup)))

    def validate(self, validate: Callable[[], float]) -> None:
        """Score the generator, and keep its weights if it never was as good."""
        self.generator.eval()
        began = time.monotonic()
        with torch.no_grad():
            score = float(validate())
        self.validating = time.monotonic() - began
        scores = self.report.scores
        if not scores or score > max(scores):
            self.report.best_epoch = len(scores)
            self.best = {name: p.detach().cpu().clone() for name, p in self.parameters.items()}
        scores.append(score)

    def title(self) -> str:
        """Which epoch comes, the loss of the one before, and how long all that may come will take."""
        report, left = self.report, self.settings.epochs - self.epoch
        title = f"epoch {self.epoch + 1}"
        if report.losses:
            seconds = self.elapsed / self.epoch * left
            seconds = seconds if self.budget is None else min(seconds, self.budget - self.elapsed)
            title += (
                f", loss {report.losses[-1]:.3f}, score {report.scores[-1]:.3f}, {seconds / 60:.0f} min left"
            )
        return title

    # --- checkpoints -----------------------------------------------------------------------------------

    def checkpoint(self, now: bool = False) -> None:
        """Write all that the next step depends on, as one file, which is there whole or not at all.

        Now and then only: writing takes a twentieth of the time at most, however large the model is.
        """
        began = time.monotonic()
        due = max(self.settings.checkpoint_seconds, 20 * self.writing)
        if self.path is None or not (now or began - self.written >= due):
            return
        tensors = {f"best {name}": tensor for name, tensor in self.best.items()}
        for name, parameter in self.parameters.items():
            tensors[f"weight {name}"] = parameter.detach().contiguous()
            for key, tensor in self.optimizer.state[parameter].items():
                tensors[f"{key} {name}"] = tensor
        about = asdict(replace(self.report, seconds=self.elapsed))
        about |= {"epoch": self.epoch, "done": self.done, "loss": self.loss, "validating": self.validating}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"fingerprint": self.fingerprint, "state": json.dumps(about)}
        write_file(self.path, to_bytes({key: tensor.cpu() for key, tensor in tensors.items()}, metadata))
        self.written = time.monotonic()
        self.writing = self.written - began

    def resume(self) -> bool:
        """Go on where an earlier run of the same training was; whether there was one."""
        if self.path is None:
            return False
        try:
            with safe_open(self.path, "pt") as file:
                metadata = file.metadata() or {}
            if metadata.get("fingerprint") != self.fingerprint:
                return False
            state, tensors = json.loads(metadata["state"]), load_file(self.path)
        except (OSError, SafetensorError):  # there is none, or it is damaged
            return False
        self.epoch, self.done, self.loss = state.pop("epoch"), state.pop("done"), state.pop("loss")
        self.validating = state.pop("validating")
        now = self.report
        self.report = replace(TrainingReport(**state), device=now.device, precision=now.precision)
        with torch.no_grad():
            for key, tensor in tensors.items():
                kind, name = key.split(" ", 1)
                # Copies, as a file that is still mapped cannot be replaced on every system.
                if kind == "best":
                    self.best[name] = tensor.clone()
                elif kind == "weight":
                    self.parameters[name].copy_(tensor)
                else:
                    self.optimizer.state[self.parameters[name]][kind] = tensor.to(self.device, copy=True)
        return True
