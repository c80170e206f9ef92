"""Several processes that train one generator, each on its part of every batch.

They are launched together (`torchrun`, `accelerate launch`). The first one leads: it alone reads the lake,
writes the index, holds the optimizer, the clock and the checkpoints, and decides when to stop. The others
keep nothing: for every batch they get the weights and their part of it, and give gradients back. So they
cannot come apart, and a training that was stopped goes on with any number of them.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from gentus.features.bert import best_device
from gentus.generator.model import Generator
from gentus.generator.training import Batch, gradients
from gentus.settings import TrainingSettings

_PATIENCE = timedelta(days=30)  # a lake may take long to read; that a process has died the launcher sees
_APART = 1 << 24  # between the seeds of two processes: more than there are steps


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What all batches of a training have in common."""

    generator: Generator
    settings: TrainingSettings
    bfloat16: bool


@dataclass(frozen=True, slots=True)
class _Order:
    """A part of a batch to find gradients for."""

    part: Batch
    batches: int  # of this step
    seed: int


class Workers:
    """The helpers of the process that leads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lesson: _Lesson | None = None

    def begin(self, generator: Generator, settings: TrainingSettings, bfloat16: bool) -> None:
        """Tell them what is to be trained, and how."""
        self._lesson = _Lesson(generator, settings, bfloat16)
        self._tell([self._lesson] * self._size)

    def backward(self, batch: Batch, batches: int, seed: int) -> float:
        """Add the gradients of a batch to those that are there; its loss."""
        assert self._lesson is not None
        orders = [_Order(batch.part(at, self._size), batches, seed) for at in range(self._size)]
        self._tell(orders)
        return _learn(self._lesson, orders[0])

    def dismiss(self) -> None:
        """Let them go."""
        self._tell([None] * self._size)

    def _tell(self, orders: list[Any]) -> None:
        dist.scatter_object_list([None], orders, src=0)


@contextmanager
def launched_workers() -> Iterator[Workers | None]:
    """The helpers there are; None if this process was launched alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or _rank():
        yield None
        return
    _join()
    team = Workers(size)
    yield team
    # Only if all went well. After an error they may be in the middle of anything; the launcher ends them.
    team.dismiss()


def serve_leader() -> bool:
    """Work for the process that leads until it needs nobody any more; False if it is this one."""
    if not _rank():
        return False
    _join()
    lesson: _Lesson | None = None
    seed = None
    while (order := _told()) is not None:
        if isinstance(order, _Lesson):
            lesson = order
            lesson.generator.to(best_device()).train()
            continue
        assert lesson is not None
        if order.seed != seed:
            seed = order.seed
            torch.manual_seed(seed + _APART * _rank())
        lesson.generator.zero_grad()
        _learn(lesson, order)
    return True


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _join() -> None:
    """Once a process: a second group would meet what the first has left in the launcher's store."""
    if dist.is_initialized():
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE)
    atexit.register(dist.destroy_process_group)


def _told() -> Any:
    told: list[Any] = [None]
    dist.scatter_object_list(told, None, src=0)
    return told[0]


def _learn(lesson: _Lesson, order: _Order) -> float:
    """What all do at once: take the weights of the first process, and add up gradients and losses there."""
    generator = lesson.generator
    parameters = list(generator.parameters())
    with torch.no_grad():
        weights = parameters_to_vector(parameters)
        dist.broadcast(weights, src=0)
        if _rank():
            vector_to_parameters(weights, parameters)
    loss = gradients(generator, order.part, lesson.settings, lesson.bfloat16, order.batches)
    found = torch.cat([*map(_gradient, parameters), weights.new_tensor([loss])])
    dist.reduce(found, dst=0)
    if not _rank():
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, gradient in zip(parameters, torch.split(found[:-1], sizes), strict=True):
            if parameter.grad is not None or gradient.any():  # one that nobody used is not to be decayed
                parameter.grad = gradient.view_as(parameter)
    return float(found[-1])


def _gradient(parameter: Tensor) -> Tensor:
    return (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).flatten()
