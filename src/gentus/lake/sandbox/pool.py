"""Reading many sources in processes of their own: a file that kills or holds its reader costs only itself."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeAlias, TypeVar

from gentus.lake.base import Skipped, Source
from gentus.lake.location import Remote
from gentus.lake.sandbox.process_start import start
from gentus.lake.sandbox.worker import TOGETHER, Work, read_all, serve
from gentus.table import Limits

R = TypeVar("R")
_Batch: TypeAlias = list[tuple[int, Source]]

_CHUNK = 32  # sources sent to a worker at once, so that small files cost little ...
_CHUNK_BYTES = 4 << 20  # ... unless they are large together
_QUEUE = 2  # batches a worker may have: while the parent stores results, it goes on with the next
_PATIENCE = 5.0  # seconds that a worker may take to end
_TICK = 0.5  # seconds after which a look is taken at how long workers have been busy with one file
_AFAR = 10  # times as long as a file here, one at a URL may take: waiting is not its fault
_AHEAD = 4  # chunks a worker may be ahead of the consumer


def each(
    sources: Iterable[Source], work: Work[R], workers: int = 0, limits: Limits | None = None
) -> Iterator[tuple[Source, R | Skipped]]:
    """Read every source and yield what `work` makes of its table, in order; what cannot be read yields why.

    With workers `work` and what it returns have to be picklable; without, nothing stops a file that takes too
    long, or that brings the process down. An error in `work` itself is raised.
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


@dataclass(slots=True, eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    progress: Any  # written by the worker: how often it has begun something, and what that is in its batch
    ready: bool = False
    waiting: deque[_Batch] = field(default_factory=deque)  # sent, and not answered yet
    begun: int = 0  # what its progress was when last looked at ...
    busy: float = 0.0  # ... and for how many seconds it has been so

    def stop(self) -> None:
        """End it, however busy it is."""
        self.process.terminate()
        self.process.join(_PATIENCE)
        self.process.kill()
        self.process.join()
        self.connection.close()

    def suspects(self) -> _Batch:
        """Take out what it was busy with: one source, or those that it worked on together."""
        batch, at = self.waiting[0], self.progress[1]
        return [batch.pop(at)] if 0 <= at < len(batch) else self.waiting.popleft()


class _Pool(Generic[R]):
    """Workers, what each is busy with, and the results that wait for their turn."""

    def __init__(self, work: Work[R], limits: Limits, workers: int) -> None:
        self.context = multiprocessing.get_context("spawn")  # threads and open files must not be forked along
        self.work, self.limits, self.wanted = work, limits, workers
        self.workers: list[_Worker] = []
        self.again: deque[_Batch] = deque()  # what a worker that died had not answered
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
                with suppress(BrokenPipeError, ConnectionResetError):  # it died: `_listen` will see
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
        """Yield workers that can take a batch; new ones are started only while there is need of them."""
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
        """Take in what workers have sent; with `block`, wait a little until one has."""
        by_connection = {worker.connection: worker for worker in self.workers}
        before = time.monotonic()
        heard = wait(list(by_connection), timeout=_TICK if block else 0)
        passed = min(time.monotonic() - before, 2 * _TICK)  # more: all of us were stopped for a while
        for connection in heard:
            assert isinstance(connection, Connection)
            worker = by_connection.pop(connection)
            try:
                message = connection.recv()
            except (EOFError, ConnectionResetError):
                self._bury(worker)
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
        afar = any(isinstance(source.path, Remote) for _, source in worker.waiting[0])
        allowed = self.limits.seconds * (_AFAR if afar else 1)
        if worker.busy > allowed:
            worker.stop()
            self._lay_aside(worker, f"it took longer than {allowed:g} s to read; split it or leave it out")

    def _bury(self, worker: _Worker) -> None:
        """Have others do what a dead worker was given."""
        worker.process.join()
        code = worker.process.exitcode
        worker.connection.close()
        if not worker.ready:
            self.workers.remove(worker)
            raise RuntimeError(f"reading processes could not be started (exit code {code})")
        alone = bool(worker.waiting) and len(worker.waiting[0]) == 1
        reason = f"the process reading it died (exit code {code}), perhaps out of memory; split the file"
        self._lay_aside(worker, reason if alone else None)

    def _lay_aside(self, worker: _Worker, reason: str | None) -> None:
        """Have others do what an ended worker was given; a file that is to blame is skipped.

        Without a reason, what it was busy with is tried once more, each source alone: that a process dies
        need not be the fault of what it reads.
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


def batches(sources: Iterator[Source]) -> Iterator[list[Source]]:
    """Sources that are sent to a reader together."""
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
