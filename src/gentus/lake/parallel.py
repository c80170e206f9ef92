"""Reading many sources in several processes, where a file that kills its reader costs only itself."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from gentus.lake.base import Limits, Skipped, Source, Unreadable
from gentus.lake.reader import read
from gentus.table import Table

R = TypeVar("R")

_CHUNK = 32  # sources sent to a worker at once, so that small files cost little ...
_CHUNK_BYTES = 4 << 20  # ... unless they are large together
_PATIENCE = 5.0  # seconds that a worker may take to end
_AHEAD = 4  # chunks a worker may be ahead of the consumer


def each(
    sources: Iterable[Source],
    work: Callable[[Source, Table], R],
    workers: int = 1,
    limits: Limits | None = None,
) -> Iterator[tuple[Source, R | Skipped]]:
    """Read every source and yield `work(source, table)` in order; what cannot be read yields why.

    With several workers `work` and what it returns have to be picklable. An error in `work` itself is raised.
    """
    limits = limits or Limits()
    if workers <= 1:
        for source in sources:
            yield source, read_one(source, work, limits)
        return
    pool: _Pool[R] = _Pool(work, limits, workers)
    try:
        yield from pool.run(iter(sources))
    finally:
        pool.stop()


def read_one(source: Source, work: Callable[[Source, Table], R], limits: Limits) -> R | Skipped:
    """What `work` makes of a source, or why it cannot be read."""
    try:
        table = read(source, limits)
    except Unreadable as error:
        return Skipped(source.name, source.path, error.reason)
    return work(source, table)


def _serve(connection: Connection, work: Callable[[Source, Table], Any], limits: Limits) -> None:
    """Run in a worker: read the sources that come in, send each result as soon as it is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    try:
        connection.send(None)  # ready
        while True:
            for source in connection.recv():
                try:
                    connection.send((True, read_one(source, work, limits)))
                except BrokenPipeError:
                    raise
                except Exception as error:
                    connection.send((False, portable(error)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is done, or gone


def portable(error: Exception) -> Exception:
    """Return an error that survives the way to the parent: made anew from its words, or told in words."""
    kind = type(error)
    with suppress(Exception):
        if "<locals>" not in kind.__qualname__ and all(isinstance(part, str | int) for part in error.args):
            return kind(*error.args)
    return RuntimeError(f"{kind.__name__}: {error}")


@dataclass(slots=True, eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False
    waiting: deque[tuple[int, Source]] = field(default_factory=deque)  # sent, and not answered yet


class _Pool(Generic[R]):
    """Workers, what each is busy with, and the results that wait for their turn."""

    def __init__(self, work: Callable[[Source, Table], R], limits: Limits, workers: int) -> None:
        self.context = multiprocessing.get_context("spawn")  # threads and open files must not be forked along
        self.work, self.limits, self.wanted = work, limits, workers
        self.workers: list[_Worker] = []
        self.again: deque[tuple[int, Source]] = deque()  # what a worker that died had not come to
        self.done: dict[int, tuple[Source, R | Skipped]] = {}

    def run(self, sources: Iterator[Source]) -> Iterator[tuple[Source, R | Skipped]]:
        """Yield results in the order of the sources."""
        left = batches(sources)
        sent = given = 0
        exhausted = False
        while True:
            for worker in self._idle():
                chunk = self._retry() if self.again else []
                if not chunk and not exhausted and sent - given < self.wanted * _AHEAD * _CHUNK:
                    chunk = list(enumerate(next(left, []), sent))
                    exhausted = not chunk
                    sent += len(chunk)
                if not chunk:
                    break
                worker.waiting.extend(chunk)
                with suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # it died while idle: `_listen` will see
                    worker.connection.send([source for _, source in chunk])
            if given == sent and exhausted:
                return
            self._listen(block=given not in self.done)
            while given in self.done:
                yield self.done.pop(given)
                given += 1

    def stop(self) -> None:
        """End every worker, busy or not."""
        for worker in self.workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(_PATIENCE)
            worker.process.kill()
            worker.process.join()
        self.workers.clear()

    def _idle(self) -> Iterator[_Worker]:
        """Yield workers that have nothing to do; new ones are started only while there is need of them."""
        yield from [worker for worker in self.workers if not worker.waiting]
        while len(self.workers) < self.wanted:
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=_serve, args=(theirs, self.work, self.limits), daemon=True)
            process.start()
            theirs.close()
            self.workers.append(_Worker(process, ours))
            yield self.workers[-1]

    def _retry(self) -> list[tuple[int, Source]]:
        chunk = list(self.again)
        self.again.clear()
        return chunk

    def _listen(self, block: bool) -> None:
        """Take in what workers have sent; with `block`, wait until one has."""
        by_connection = {worker.connection: worker for worker in self.workers}
        for connection in wait(list(by_connection), timeout=None if block else 0):
            assert isinstance(connection, Connection)
            worker = by_connection[connection]
            try:
                message = connection.recv()
            except (EOFError, ConnectionResetError):
                self._bury(worker)
                continue
            if message is None:
                worker.ready = True
                continue
            good, result = message
            if not good:
                raise result
            number, source = worker.waiting.popleft()
            self.done[number] = (source, result)

    def _bury(self, worker: _Worker) -> None:
        """Lay a dead worker's file aside, and have another one do the rest of what it was given."""
        worker.process.join()
        code = worker.process.exitcode
        worker.connection.close()
        self.workers.remove(worker)
        if not worker.ready:
            raise RuntimeError(
                f"reading processes could not be started (exit code {code}); call this from a script that is "
                "guarded by `if __name__ == '__main__':`, or use one worker"
            )
        if worker.waiting:
            number, source = worker.waiting.popleft()
            reason = f"the process reading it died (exit code {code}), perhaps out of memory; split the file"
            self.done[number] = (source, Skipped(source.name, source.path, reason))
            self.again.extend(worker.waiting)


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
