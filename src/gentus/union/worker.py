"""Unions in processes of their own: progress comes back, and a table that crashes its parser is named.

A table that a search found is then left out, like one that cannot be read; one that was named is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import current_process
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from gentus.lake import Limits, Remote, arrow_of, as_location
from gentus.lake.sandbox.jobs import job_process
from gentus.lake.sandbox.process import Question, SandboxDiedError, SandboxProcess
from gentus.progress import Progress, Step
from gentus.scratch_folder import remove_abandoned, temporary_folder
from gentus.union.errors import PlanError
from gentus.union.local import LocalUnion
from gentus.union.output import STDOUT, Output
from gentus.union.plan import PlannedTable, UnionPlan
from gentus.union.report import UnionReport
from gentus.union.session import OPEN_CONNECTIONS
from gentus.union.sources import NOW_READING

R = TypeVar("R")
Emit = Callable[[Any], None]
Ran = tuple[UnionReport | None, UnionPlan | None]
_SMALL = 1 << 20  # bytes of a data frame that is sent as it is; a larger one is written to a file


@dataclass(frozen=True, slots=True)
class UnionJob:
    """What a union needs in another process."""

    plan: UnionPlan
    frame: Any  # of the table without a path: a pyarrow table, or the path of a file that has it
    limits: Limits
    memory: str

    def opened(self) -> LocalUnion:
        """The union, in this process."""
        return LocalUnion(self.plan, opened_frame(self.frame), self.limits, self.memory)


def run_union(
    job: UnionJob, method: Any, given: tuple[object, ...], progress: Progress, output: Output | None
) -> tuple[Any, UnionReport | None, UnionPlan | None]:
    """The result of a method of `LocalUnion`, the report and the plan that was run."""
    if runs_here(job.plan.sources):
        union = job.opened()
        return method(union, *given, progress=progress), union.report, union.ran
    with shared_frame(job.frame) as frame:
        while True:
            try:
                return in_worker(_run, replace(job, frame=frame), method, given, progress=progress)
            except CrashedTableError as error:
                if output is not None:
                    remove_abandoned(output.path)
                    if output.path == STDOUT:  # some rows may be there already
                        raise
                job = replace(job, plan=error.without(job.plan))


def _run(
    job: UnionJob, method: Any, given: tuple[object, ...], emit: Emit
) -> tuple[Any, UnionReport | None, UnionPlan | None]:
    union = job.opened()
    with naming_tables(emit):
        result = method(union, *given, progress=EmittedProgress(emit))
    return result, union.report, union.ran


def stream_union(job: UnionJob) -> Generator[Any, None, Ran]:
    """The schema and then all batches; returns the report and the plan that was run."""
    if runs_here(job.plan.sources):
        union = job.opened()
        yield from union.batches(None, Progress())
        return union.report, union.ran
    with shared_frame(job.frame) as frame:
        while True:
            events = worker_events(_stream, replace(job, frame=frame))
            try:
                schema = pa.ipc.read_schema(pa.py_buffer(next(events)))
                break
            except CrashedTableError as error:
                job = replace(job, plan=error.without(job.plan))
        with closing(events):
            yield schema
            while True:
                try:
                    data = next(events)
                except StopIteration as end:
                    ran: Ran = end.value
                    return ran
                yield pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def _stream(job: UnionJob, emit: Emit) -> Ran:
    union = job.opened()
    with naming_tables(emit), closing(union.batches(None, Progress())) as batches:
        for one in batches:
            emit(one.serialize().to_pybytes())
    return union.report, union.ran


@dataclass(frozen=True, slots=True)
class Message:
    """What a worker tells the process that asks, without waiting for an answer."""

    about: Any


@dataclass(frozen=True, slots=True)
class Asked:
    """What answers the messages and questions of a worker."""

    answer: Callable[[Any], Any]
    reading: str | None = None  # the table that is read first
    seconds: float | None = None  # within which the first message has to come
    meanwhile: Callable[[], None] = lambda: None  # work until then


class CrashedTableError(PlanError):
    """A table of a union whose parser has died, and its process with it."""

    def __init__(self, table: str | None, reason: str) -> None:
        super().__init__(f"{table or 'a table of this union'}: {reason}")
        self.table, self.reason = table, reason

    def without(self, plan: UnionPlan) -> UnionPlan:
        """The plan without the table, if a search found it; else the error is raised."""
        for one in plan.tables:
            if one.found and one.name == self.table:
                return plan.without(one, self.reason)
        raise self


# --- in the process that asks ----------------------------------------------------------------------------


def runs_here(tables: Iterable[PlannedTable]) -> bool:
    """Whether there can be no other process: this one may start none, or a table is in its memory."""
    locations = (as_location(one.path) for one in tables if one.path is not None)
    return current_process().daemon or any(
        isinstance(one, Remote) and one.scheme == "memory" for one in locations
    )


def in_worker(
    function: Callable[..., R],
    *arguments: object,
    progress: Progress,
    asked: Asked | None = None,
) -> R:
    """Call a function in a process of its own; its last argument is the channel that it emits with."""
    events = worker_events(function, *arguments, progress=progress, asked=asked)
    while True:
        try:
            next(events)
        except StopIteration as end:
            result: R = end.value
            return result


def worker_events(
    function: Callable[..., R],
    *arguments: object,
    progress: Progress | None = None,
    asked: Asked | None = None,
) -> Generator[bytes, None, R]:
    """The same, with the bytes that it emits."""
    asked = asked or Asked(lambda about: None)
    reading, reply = asked.reading, None
    with job_process() as sandbox, _interruptible(sandbox), _Stages(progress or Progress()) as stages:
        events = sandbox.events(function, *arguments, seconds=asked.seconds, meanwhile=asked.meanwhile)
        with closing(events):
            while True:
                try:
                    event = events.send(reply)
                except StopIteration as end:
                    result: R = end.value
                    return result
                except SandboxDiedError as error:
                    if sandbox.interrupted:
                        raise PlanError("the union was stopped") from error
                    raise CrashedTableError(reading, error.reason) from error
                reply = None
                match event:
                    case Message():
                        asked.answer(event.about)
                    case Question():
                        reply = asked.answer(event.about)
                    case bytes():
                        yield event
                    case str():
                        reading = event
                    case _:
                        stages.follow(*event)


@contextmanager
def _interruptible(sandbox: SandboxProcess) -> Iterator[None]:
    """Let a caller that may have to interrupt the work end the process."""
    connections = OPEN_CONNECTIONS.get()
    if connections is None:
        yield
        return
    connections.append(sandbox)
    try:
        yield
    finally:
        connections.remove(sandbox)


class _Stages(ExitStack):
    """Shows the progress of another process."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress, self.beside = progress, ""
        self.tick: Step | None = None

    def follow(self, kind: str, *given: Any) -> None:
        """Begin a stage, advance it, or end it."""
        if kind == "begin":
            self.tick = self.enter_context(self.progress.stage(*given))
        elif kind == "end":
            self.close()
        elif self.tick is not None:
            done, effort, self.beside = given
            self.progress.beside = (lambda: self.beside) if self.beside else None
            self.tick(done, effort)


@contextmanager
def shared_frame(frame: Any) -> Iterator[Any]:
    """A data frame as another process can open it."""
    data = None if frame is None else arrow_of(frame)
    if data is None or data.get_total_buffer_size() < _SMALL:
        yield data
        return
    with temporary_folder("frame") as folder:
        path = folder / "frame.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data.schema) as writer:
            writer.write_table(data)
        yield path


# --- in the other process --------------------------------------------------------------------------------


def opened_frame(frame: Any) -> Any:
    """A data frame that was shared."""
    return pa.ipc.open_file(pa.memory_map(str(frame))).read_all() if isinstance(frame, Path) else frame


@contextmanager
def naming_tables(emit: Emit) -> Iterator[None]:
    """Emit the name of every table before it is read."""
    NOW_READING.append(emit)
    try:
        yield
    finally:
        NOW_READING.remove(emit)


class EmittedProgress(Progress):
    """Progress that another process shows."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Emit its beginning, its steps and its end."""
        self.emit(("begin", title, total, unit, effort))

        def tick(done: int, effort: float | None = None, /) -> None:
            self.emit(("tick", done, effort, "" if self.beside is None else self.beside()))

        yield tick
        self.emit(("end",))
