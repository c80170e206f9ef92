"""Distributed training of a generator: several processes, each with a part of every batch.

They are launched together (`torchrun`, `accelerate launch`). The process of rank 0 is the leader: it alone
reads the lake, writes the index, has the optimizer and the checkpoints, and decides when to stop. The workers
have no state: for every batch they receive the weights and their part of it, and return gradients. So a run
can be resumed with any number of processes. (`DistributedDataParallel` and `accelerate` were considered: with
them every process has optimizer, data and checkpoints, and an empty part needs `join`; it is not shorter.)
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

_TIMEOUT = timedelta(days=30)  # reading a lake may take long; the launcher notices a dead process
_SEED_STEP = 1 << 24  # between the seeds of two processes: more than there are steps


@dataclass(frozen=True, slots=True)
class _Job:
    """What all batches of a training have in common."""

    generator: Generator
    settings: TrainingSettings
    bfloat16: bool


@dataclass(frozen=True, slots=True)
class _Task:
    """A part of a batch to compute gradients for."""

    part: Batch
    batches: int  # of this step
    seed: int


class Workers:
    """The leader's connection to all processes, its own included."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._job: _Job | None = None

    def begin(self, generator: Generator, settings: TrainingSettings, bfloat16: bool) -> None:
        """Send the model and the settings."""
        self._job = _Job(generator, settings, bfloat16)
        self._send([self._job] * self._size)

    def backward(self, batch: Batch, batches: int, seed: int) -> float:
        """Accumulate the gradients of one of the `batches` of a step; returns its loss."""
        assert self._job is not None
        tasks = [_Task(batch.part(at, self._size), batches, seed) for at in range(self._size)]
        self._send(tasks)
        return _backward(self._job, tasks[0])

    def stop(self) -> None:
        """End the workers' loops."""
        self._send([None] * self._size)

    def _send(self, messages: list[Any]) -> None:
        dist.scatter_object_list([None], messages, src=0)


@contextmanager
def launched_workers() -> Iterator[Workers | None]:
    """The processes that were launched with this one, the leader; None if it is alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or _rank():
        yield None
        return
    _join()
    workers = Workers(size)
    yield workers
    # Not after an error: workers may be in the middle of a task then, and the launcher ends them.
    workers.stop()


def serve_leader() -> bool:
    """Work for the leader until it stops; False, at once, if this process is the leader."""
    if not _rank():
        return False
    _join()
    job: _Job | None = None
    seed = None
    while (message := _receive()) is not None:
        if isinstance(message, _Job):
            job = message
            job.generator.to(best_device()).train()
            continue
        assert job is not None
        if message.seed != seed:
            seed = message.seed
            torch.manual_seed(seed + _SEED_STEP * _rank())
        job.generator.zero_grad()
        _backward(job, message)
    return True


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _join() -> None:
    """Join the process group, once: a second group would find data of the first in the launcher's store."""
    if dist.is_initialized():
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_TIMEOUT)
    atexit.register(dist.destroy_process_group)


def _receive() -> Any:
    received: list[Any] = [None]
    dist.scatter_object_list(received, None, src=0)
    return received[0]


def _backward(job: _Job, task: _Task) -> float:
    """Collective: all take the leader's weights, and gradients and losses are summed in the leader."""
    generator = job.generator
    parameters = list(generator.parameters())
    with torch.no_grad():
        weights = parameters_to_vector(parameters)
        dist.broadcast(weights, src=0)
        if _rank():
            vector_to_parameters(weights, parameters)
    loss = gradients(generator, task.part, job.settings, job.bfloat16, task.batches)
    summed = torch.cat([*map(_gradient, parameters), weights.new_tensor([loss])])
    dist.reduce(summed, dst=0)
    if not _rank():
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, gradient in zip(parameters, torch.split(summed[:-1], sizes), strict=True):
            if parameter.grad is not None or gradient.any():  # weight decay skips unused parameters
                parameter.grad = gradient.view_as(parameter)
    return float(summed[-1])


def _gradient(parameter: Tensor) -> Tensor:
    return (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).flatten()
