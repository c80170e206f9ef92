"""Training a generator (section 4.4): the paper's two losses, in a loop that can be resumed at any step.

A step depends on its number and the state before it only, dropout included, so a run that was killed and
resumed ends with the weights of one that was not.
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


@dataclass(frozen=True, slots=True)
class Batch:
    """Targets of some queries, and hard negatives of some targets."""

    inputs: Inputs
    owner: Tensor  # (n,) the query of each target
    symbols: Tensor  # (n, T) padded with -1
    valid: Tensor | None  # (n, T, V) the symbols allowed at each position; None: all
    weight: Tensor  # (n,) in the cross-entropy; 0 for a target of the ranking loss only
    negative_symbols: Tensor | None = None  # (m, T)
    negative_valid: Tensor | None = None  # (m, T, V)
    negative_of: Tensor | None = None  # (m,) the target of each, which is to score above it
    whole: tuple[float, int] | None = None  # the totals of the batch that this is a part of

    @property
    def totals(self) -> tuple[float, int]:
        """The divisors of the losses: the summed weight of targets, and the number of negatives."""
        return self.whole or (
            float(self.weight.sum()),
            0 if self.negative_of is None else len(self.negative_of),
        )

    def part(self, at: int, of: int) -> Batch:
        """Part `at` of `of`, split by queries; the losses of the parts add up to that of the batch."""
        mine = self.owner % of == at  # (n,)
        number = mine.cumsum(0) - 1  # (n,) of a target within its part
        inputs = Inputs(self.inputs.content[at::of], self.inputs.mask[at::of], self.inputs.latents[at::of])
        valid = None if self.valid is None else self.valid[mine]
        part = Batch(inputs, self.owner[mine] // of, self.symbols[mine], valid, self.weight[mine])
        if self.negative_symbols is not None and self.negative_of is not None:
            kept = mine[self.negative_of]
            part = replace(
                part,
                negative_symbols=self.negative_symbols[kept],
                negative_valid=None if self.negative_valid is None else self.negative_valid[kept],
                negative_of=number[self.negative_of[kept]],
            )
        return replace(part, whole=self.totals)


@dataclass(slots=True)
class TrainingReport:
    """The course of a training. Scores are those of `validate`, the first one before any step."""

    losses: list[float] = field(default_factory=list)  # mean of each epoch
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0  # its weights are kept; 0: those before training
    steps: int = 0
    seconds: float = 0.0
    stopped: Literal["epochs", "patience", "time", "prior"] = "epochs"  # prior: it could not be beaten
    device: str = "cpu"
    precision: str = "float32"

    @property
    def best(self) -> float:
        """The score of the weights that were kept."""
        return self.scores[self.best_epoch]


class GradientWorkers(Protocol):
    """Other processes that compute the gradients of a part of every batch."""

    def begin(self, generator: Generator, settings: TrainingSettings, bfloat16: bool) -> None:
        """Send the model and the settings."""

    def backward(self, batch: Batch, batches: int, seed: int) -> float:
        """Accumulate the gradients of one of the `batches` of a step; returns its loss."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """The training data."""

    batches: Callable[[int], Iterable[Batch]]  # of an epoch, from 0 on; the same ones at every call
    count: int  # batches per epoch


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where and how long a training runs; none of it changes what is learnt, but for the time budget."""

    folder: Path | None = None  # for checkpoints: a run that stopped is resumed from there ...
    fingerprint: str = ""  # ... if settings and this, which stands for the data, are the same
    time_budget: float | None = None  # seconds of all runs together; the learning rate reaches 0 by then
    workers: GradientWorkers | None = None


def batch_loss(generator: Generator, batch: Batch, margin: float, margin_weight: float) -> Tensor:
    """The generation loss (mean cross-entropy per symbol), and `margin_weight` times the ranking loss."""
    memory = generator.encode(batch.inputs)
    owner, symbols, weight = (t.to(generator.device) for t in (batch.owner, batch.symbols, batch.weight))
    scores = _mean(generator.score(memory, owner, symbols, batch.valid), symbols)  # (n,)
    total, ranked = batch.totals
    loss = -(weight * scores).sum() / max(total, 1e-12)
    if batch.negative_symbols is None or batch.negative_of is None or not len(batch.negative_of):
        return loss
    of, negatives = batch.negative_of.to(generator.device), batch.negative_symbols.to(generator.device)
    wrong = _mean(generator.score(memory, owner[of], negatives, batch.negative_valid), negatives)  # (m,)
    return loss + margin_weight * (margin - scores[of] + wrong).clamp_min(0).sum() / ranked


def gradients(
    generator: Generator, batch: Batch, settings: TrainingSettings, bfloat16: bool, batches: int
) -> float:
    """Accumulate the gradients of one of the `batches` of a step; returns its loss."""
    if not len(batch.owner):
        return 0.0
    with torch.autocast(generator.device.type, torch.bfloat16) if bfloat16 else nullcontext():
        loss = batch_loss(generator, batch, settings.margin, settings.margin_weight)
    (loss / batches).backward()  # type: ignore[no-untyped-call]
    return loss.item()


def _mean(log_p: Tensor, symbols: Tensor) -> Tensor:
    """(n,) mean log-probability per symbol of each target."""
    return log_p.sum(1) / (symbols >= 0).sum(1).clamp_min(1)


def train(
    generator: Generator,
    epochs: Epochs,
    validate: Callable[[], float],
    settings: TrainingSettings | None = None,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> TrainingReport:
    """Train, and leave the generator with the weights of its best epoch, on the device it was trained on.

    `validate` scores the generator as it is; higher is better.
    """
    run = _Run(generator, epochs, settings or TrainingSettings(), options or RunOptions())
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        return run.train(validate, progress or Progress())


class _Run:
    """The state of a training; a checkpoint holds most of it."""

    def __init__(
        self, generator: Generator, epochs: Epochs, settings: TrainingSettings, options: RunOptions
    ) -> None:
        self.generator, self.epochs, self.settings = generator, epochs, settings
        self.budget, self.workers = options.time_budget, options.workers
        self.path = options.folder and options.folder / "training.safetensors"
        self.device = best_device()
        self.bfloat16 = settings.precision == "bfloat16" or (
            # Not on a CPU: measured on one with bfloat16 instructions, at most a tenth faster.
            settings.precision == "auto"
            and self.device.type == "cuda"
            and torch.cuda.is_bf16_supported(False)
        )
        if self.workers is not None:
            self.workers.begin(generator, settings, self.bfloat16)
        generator.to(self.device)
        self.parameters = dict(generator.named_parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), settings.rate, fused=self.device.type != "mps"
        )
        self.report = TrainingReport(
            device=self.device.type, precision="bfloat16" if self.bfloat16 else "float32"
        )
        self.epoch, self.done, self.loss = 0, 0, 0.0  # batches done in this epoch, and their summed loss
        self.best: dict[str, Tensor] = {}
        self.began = time.monotonic()
        self.validating = 0.0  # seconds of the last validation
        self.written, self.writing = self.began, 0.0  # time of the last checkpoint, and its seconds
        about = {
            "settings": asdict(settings),
            "generator": asdict(generator.settings),
            "shapes": [[name, *p.shape] for name, p in self.parameters.items()],
            "batches": epochs.count,
            "data": options.fingerprint,
        }
        self.fingerprint = hashlib.sha256(json.dumps(about).encode()).hexdigest()

    @property
    def elapsed(self) -> float:
        """Seconds of this run and those before it."""
        return self.report.seconds + time.monotonic() - self.began

    def train(self, validate: Callable[[], float], progress: Progress) -> TrainingReport:
        """Run epochs until there is a reason to stop."""
        if not self.resume():
            self.validate(validate)  # if training only makes it worse, these weights are kept
        report = self.report
        while not (stop := self.stop()):
            with progress.stage(self.title(), self.epochs.count, "batches") as tick:
                tick(self.done)
                self.generator.train()
                remaining = islice(iter(self.epochs.batches(self.epoch)), self.done, None)
                while not self.late() and (group := list(islice(remaining, self.settings.accumulate))):
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
        """The reason not to start another epoch, or nothing."""
        if self.late():
            return "time"
        trained = self.report.scores[1:]  # scores may first fall below that of the start
        if trained and len(trained) - 1 - trained.index(max(trained)) >= self.settings.patience:
            return "patience"
        return "epochs" if self.epoch >= self.settings.epochs else ""

    def late(self) -> bool:
        """Whether the time budget leaves no more than a validation."""
        return self.budget is not None and self.elapsed + self.validating >= self.budget

    def step(self, group: list[Batch]) -> None:
        """One step of the optimizer."""
        settings = self.settings
        # Dropout is seeded by the number of the step, so a checkpoint needs no state of the generator.
        seed = (settings.seed << 32) + self.report.steps
        torch.manual_seed(seed)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = settings.rate * self.pace()
        self.optimizer.zero_grad()
        for batch in group:
            if self.workers is None:
                self.loss += gradients(self.generator, batch, settings, self.bfloat16, len(group))
            else:
                self.loss += self.workers.backward(batch, len(group), seed)
        if not math.isfinite(self.loss):
            raise FloatingPointError("the loss is not finite: is every target among its valid symbols?")
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), settings.clip)
        self.optimizer.step()
        self.report.steps += 1
        self.done += len(group)

    def pace(self) -> float:
        """The learning rate as a share of the highest: linear warm-up, then linear decay."""
        warmup = self.settings.warmup
        steps = self.settings.epochs * -(-self.epochs.count // self.settings.accumulate)
        spent = (self.report.steps + 0.5) / max(steps, 1)
        if self.budget is not None:
            spent = max(spent, self.elapsed / max(self.budget - self.validating, 1e-9))
        return max(0.0, min(spent / warmup if warmup else 1.0, (1 - spent) / (1 - warmup)))

    def validate(self, validate: Callable[[], float]) -> None:
        """Score the generator, and keep its weights if the score is the best so far."""
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
        """The next epoch, loss and score of the one before, and the time left."""
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
        """Write all that the next step depends on, as one file, atomically.

        Only as often as writing takes a twentieth of the time at most.
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
        """Load the checkpoint of an earlier run of the same training; whether there was one."""
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
                # Copies, as a file that is still mapped cannot be replaced on some systems.
                if kind == "best":
                    self.best[name] = tensor.clone()
                elif kind == "weight":
                    self.parameters[name].copy_(tensor)
                else:
                    self.optimizer.state[self.parameters[name]][kind] = tensor.to(self.device, copy=True)
        return True
