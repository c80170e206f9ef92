"""Reading many sources in sandbox processes: a file that kills or blocks its reader costs only itself."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeAlias, TypeVar

from gentus.lake.base import Skipped, Source, Unreadable, failure_reason
from gentus.lake.formats.detect import Format, format_of
from gentus.lake.location import Remote
from gentus.lake.reader import read
from gentus.lake.sandbox.process import (
    Begin,
    bounded_memory,
    death_reason,
    leave_signals_to_parent,
    portable,
    silence,
    stop,
)
from gentus.lake.sandbox.start import start
from gentus.table import Limits, Table

R = TypeVar("R")
Work: TypeAlias = Callable[[Sequence[tuple[Source, Table]]], Sequence[R]]  # some tables at once, for speed
_Batch: TypeAlias = list[tuple[int, Source]]

TOGETHER = -1  # in place of the number of a source: a batch is worked on as one
_CELLS = 200_000  # cells that are worked on together, or those of one table
_CHUNK = 32  # sources sent to a worker at once, so that small files cost little ...
_CHUNK_BYTES = 4 << 20  # ... unless they are large together
_QUEUE = 2  # batches a worker may have: while the parent stores results, it goes on with the next
_TICK = 0.5  # seconds between checks of how long workers have been busy with one file
_REMOTE_FACTOR = 10  # an object at a URL may take this many times as long: most of it is waiting
_AHEAD = 4  # chunks a worker may be ahead of the consumer


def each(
    sources: Iterable[Source], work: Work[R], workers: int = 0, limits: Limits | None = None
) -> Iterator[tuple[Source, R | Skipped]]:
    """Read every source and yield, in order, the result of `work` on its table, or why it cannot be read.

    With workers, `work` and its results have to be picklable. Without, nothing stops a file that takes too
    long or crashes the process. An error in `work` itself is raised.
    """
    limits = limits or Limits()
    if not workers:
        for batch in batches(iter(sources)):
            yield from zip(batch, read_all(batch, work, limits), strict=True)
        return
    pool: _Pool[R] = _Pool(work, limits, workers)
    try:
        yield from pool.run(iter(sources))
    finally:
        pool.stop()


def batches(sources: Iterator[Source]) -> Iterator[list[Source]]:
    """Sources that are sent to a worker together."""
    batch: list[Source] = []
    room = _CHUNK_BYTES
    for source in sources:
        batch.append(source)
        room -= source.size
        if len(batch) == _CHUNK or room <= 0:
            yield batch
            batch, room = [], _CHUNK_BYTES
    if batch:
        yield batch


def read_all(
    sources: Sequence[Source], work: Work[R], limits: Limits, begin: Begin = lambda at: None
) -> list[R | Skipped]:
    """The results of `work`, or why a source cannot be read; `work` never gets too many cells at once."""
    results: list[R | Skipped] = []
    found: list[tuple[Source, Table] | Skipped] = []
    room = _CELLS
    begin(TOGETHER)
    if any(isinstance(source.path, Remote) for source in sources):
        _prefetch(sources)
    for at, source in enumerate(sources):
        begin(at)
        try:
            table = read(source, limits)
        except Unreadable as error:
            found.append(Skipped(source.name, source.path, error.reason))
            continue
        found.append((source, table))
        room -= sum(len(column.cells) for column in table.columns)
        if room <= 0:
            begin(TOGETHER)
            results += _worked(found, work)
            found, room = [], _CELLS
    begin(TOGETHER)
    return results + _worked(found, work)


def _prefetch(sources: Sequence[Source]) -> None:
    """Fetch what will be read first of objects at URLs: most of the time is spent waiting."""
    from gentus.lake.remote.file import prefetch

    listed = (source.path for source in sources)
    prefetch(
        [
            (one, one.state, known is Format.PARQUET)
            for one in listed
            if isinstance(one, Remote) and one.state and (known := format_of(one.name))
        ]
    )


def _worked(found: list[tuple[Source, Table] | Skipped], work: Work[R]) -> list[R | Skipped]:
    tables = [one for one in found if not isinstance(one, Skipped)]
    try:
        made = iter(work(tables) if tables else [])
    except MemoryError as error:
        if len(found) == 1:
            ((source, _),) = tables
            return [Skipped(source.name, source.path, failure_reason(error))]
        return [result for one in found for result in _worked([one], work)]
    return [one if isinstance(one, Skipped) else next(made) for one in found]


# --- the parent's side ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    progress: Any  # written by the worker: how many steps it has begun, and on which source of its batch
    ready: bool = False
    waiting: deque[_Batch] = field(default_factory=deque)  # sent, and not answered yet
    begun: int = 0  # its progress when last checked ...
    busy: float = 0.0  # ... and the seconds since it changed

    def stop(self) -> None:
        """End it, however busy it is."""
        stop(self.process)
        self.connection.close()

    def suspects(self) -> _Batch:
        """Remove and return what it was busy with: one source, or those that it worked on together."""
        batch, at = self.waiting[0], self.progress[1]
        return [batch.pop(at)] if 0 <= at < len(batch) else self.waiting.popleft()


class _Pool(Generic[R]):
    """Workers, the batches of each, and results that are not next in the order yet.

    Not pebble: as fast, but its time limit is per task, not per file of a batch, and its processes import the
    caller's script.
    """

    def __init__(self, work: Work[R], limits: Limits, workers: int) -> None:
        self.context = multiprocessing.get_context("spawn")  # threads and open files must not be inherited
        self.work, self.limits, self.wanted = work, limits, workers
        self.workers: list[_Worker] = []
        self.again: deque[_Batch] = deque()  # batches of workers that died
        self.done: dict[int, tuple[Source, R | Skipped]] = {}

    def run(self, sources: Iterator[Source]) -> Iterator[tuple[Source, R | Skipped]]:
        """Yield results in the order of the sources."""
        left = batches(sources)
        sent = given = 0
        exhausted = False
        while True:
            for worker in self._idle():
                batch = self.again.popleft() if self.again else []
                if not batch and not exhausted and sent - given < self.wanted * _AHEAD * _CHUNK:
                    batch = list(enumerate(next(left, []), sent))
                    exhausted = not batch
                    sent += len(batch)
                if not batch:
                    break
                worker.waiting.append(batch)
                with suppress(BrokenPipeError, ConnectionResetError):  # it died: `_listen` notices
                    worker.connection.send([source for _, source in batch])
            if given == sent and exhausted:
                return
            self._listen(block=given not in self.done)
            while given in self.done:
                yield self.done.pop(given)
                given += 1

    def stop(self) -> None:
        """End every worker, busy or not."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.stop()
        self.workers.clear()

    def _idle(self) -> Iterator[_Worker]:
        """Yield workers that can take a batch; new ones are started only when they are needed."""
        for queued in range(_QUEUE):
            yield from [worker for worker in self.workers if len(worker.waiting) == queued]
            if queued == 0:
                yield from self._started()

    def _started(self) -> Iterator[_Worker]:
        while len(self.workers) < self.wanted:
            ours, theirs = self.context.Pipe()
            progress = self.context.RawArray("q", [0, TOGETHER])
            arguments = theirs, progress, self.work, self.limits
            process = self.context.Process(target=serve, args=arguments, daemon=True)
            start(process)
            theirs.close()
            self.workers.append(_Worker(process, ours, progress))
            yield self.workers[-1]

    def _listen(self, block: bool) -> None:
        """Receive what workers have sent; with `block`, wait a little until one has."""
        by_connection = {worker.connection: worker for worker in self.workers}
        before = time.monotonic()
        heard = wait(list(by_connection), timeout=_TICK if block else 0)
        passed = min(time.monotonic() - before, 2 * _TICK)  # more: the machine was suspended
        for connection in heard:
            assert isinstance(connection, Connection)
            worker = by_connection.pop(connection)
            try:
                message = connection.recv()
            except (EOFError, ConnectionResetError):
                self._replace_dead(worker)
                continue
            if message is None:
                worker.ready = True
                continue
            good, answer = message
            if not good:
                raise answer
            for (number, source), result in zip(worker.waiting.popleft(), answer, strict=True):
                self.done[number] = (source, result)
        for worker in by_connection.values():
            self._watch(worker, passed)

    def _watch(self, worker: _Worker, passed: float) -> None:
        """End a worker that has been busy with one thing for too long."""
        if not worker.ready or not worker.waiting or worker.begun != worker.progress[0]:
            worker.begun, worker.busy = worker.progress[0], 0.0
            return
        worker.busy += passed
        remote = any(isinstance(source.path, Remote) for _, source in worker.waiting[0])
        allowed = self.limits.seconds * (_REMOTE_FACTOR if remote else 1)
        if worker.busy > allowed:
            worker.stop()
            self._requeue(worker, f"it took longer than {allowed:g} s to read; split it or leave it out")

    def _replace_dead(self, worker: _Worker) -> None:
        """Give the batches of a dead worker to others."""
        worker.process.join()
        code = worker.process.exitcode
        worker.connection.close()
        if not worker.ready:
            self.workers.remove(worker)
            raise RuntimeError(f"reading processes could not be started (exit code {code})")
        alone = bool(worker.waiting) and len(worker.waiting[0]) == 1
        self._requeue(worker, death_reason(code) if alone else None)

    def _requeue(self, worker: _Worker, reason: str | None) -> None:
        """Give the batches of an ended worker to others; the file that ended it is skipped.

        Without a reason, the sources that it was busy with are tried once more, each alone: a process may die
        for other causes than the file that it reads.
        """
        self.workers.remove(worker)
        if worker.waiting:
            suspects = worker.suspects()
            if reason is not None and len(suspects) == 1:
                ((number, source),) = suspects
                self.done[number] = (source, Skipped(source.name, source.path, reason))
            else:
                self.again.extend([one] for one in suspects)
        self.again.extend(batch for batch in worker.waiting if batch)


# --- the workers' side ---------------------------------------------------------------------------------


def serve(connection: Connection, progress: Any, work: Work[Any], limits: Limits) -> None:
    """Run in a worker: receive batches, and send the results of each.

    `progress` is shared with the parent: how many steps were begun, and the number of the last in its batch.
    """
    leave_signals_to_parent()
    silence()
    waiting: SimpleQueue[list[Source] | None] = SimpleQueue()

    def receive() -> None:
        """Receive in a thread of its own, or both sides might wait for the other to receive."""
        with suppress(EOFError, OSError):
            while True:
                waiting.put(connection.recv())
        waiting.put(None)

    def begin(at: int) -> None:
        progress[1] = at
        progress[0] += 1

    with suppress(BrokenPipeError, ConnectionResetError):  # the parent has ended
        connection.send(None)  # ready
        Thread(target=receive, daemon=True).start()
        with bounded_memory(limits):
            while (batch := waiting.get()) is not None:
                answer: tuple[bool, object]
                try:
                    answer = True, read_all(batch, work, limits, begin)
                except Exception as error:
                    answer = False, portable(error)
                connection.send(answer)
