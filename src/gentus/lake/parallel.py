"""Reading many sources in several processes, where a file that kills its reader costs only itself."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeAlias, TypeVar

from gentus.lake.base import Limits, Skipped, Source, Unreadable
from gentus.lake.place import Remote
from gentus.lake.reader import read
from gentus.table import Table

R = TypeVar("R")
Work: TypeAlias = Callable[[Sequence[tuple[Source, Table]]], Sequence[R]]  # some tables at once, for speed
_Batch: TypeAlias = list[tuple[int, Source]]

_CHUNK = 32  # sources sent to a worker at once, so that small files cost little ...
_CHUNK_BYTES = 4 << 20  # ... unless they are large together
_CELLS = 200_000  # that are worked on together, or those of one table
_QUEUE = 2  # batches a worker may have: while the parent stores results, it goes on with the next
_PATIENCE = 5.0  # seconds that a worker may take to end
_AHEAD = 4  # chunks a worker may be ahead of the consumer


def each(
    sources: Iterable[Source], work: Work[R], workers: int = 1, limits: Limits | None = None
) -> Iterator[tuple[Source, R | Skipped]]:
    """Read every source and yield what `work` makes of its table, in order; what cannot be read yields why.

    With several workers `work` and what it returns have to be picklable. An error in `work` itself is raised.
    """
    limits = limits or Limits()
    if workers <= 1:
        for batch in batches(iter(sources)):
            yield from zip(batch, read_all(batch, work, limits), strict=True)
        return
    pool: _Pool[R] = _Pool(work, limits, workers)
    try:
        yield from pool.run(iter(sources))
    finally:
        pool.stop()


def read_all(sources: Sequence[Source], work: Work[R], limits: Limits) -> list[R | Skipped]:
    """What `work` makes of sources, or why one cannot be read; it is never given too many cells at once."""
    results: list[R | Skipped] = []
    found: list[tuple[Source, Table] | Skipped] = []
    room = _CELLS
    if any(isinstance(source.path, Remote) for source in sources):
        from gentus.lake.remote_file import look_ahead

        look_ahead(sources)
    for source in sources:
        try:
            table = read(source, limits)
        except Unreadable as error:
            found.append(Skipped(source.name, source.path, error.reason))
            continue
        found.append((source, table))
        room -= sum(len(column.cells) for column in table.columns)
        if room <= 0:
            results += _worked(found, work)
            found, room = [], _CELLS
    return results + _worked(found, work)


def _worked(found: list[tuple[Source, Table] | Skipped], work: Work[R]) -> list[R | Skipped]:
    tables = [one for one in found if not isinstance(one, Skipped)]
    made = iter(work(tables) if tables else [])
    return [one if isinstance(one, Skipped) else next(made) for one in found]


def _serve(connection: Connection, work: Work[Any], limits: Limits) -> None:
    """Run in a worker: read the batches that come in, and send the results of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # in order, so that no scratch file is left
    waiting: SimpleQueue[list[Source] | None] = SimpleQueue()

    def take_in() -> None:
        """Batches are taken in at once, or both sides might wait for the other to do so."""
        with suppress(EOFError, OSError):
            while True:
                waiting.put(connection.recv())
        waiting.put(None)

    with suppress(BrokenPipeError, ConnectionResetError):  # the parent is done, or gone
        connection.send(None)  # ready
        Thread(target=take_in, daemon=True).start()
        while (batch := waiting.get()) is not None:
            answer: tuple[bool, object]
            try:
                answer = True, read_all(batch, work, limits)
            except Exception as error:
                answer = False, portable(error)
            connection.send(answer)


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
    waiting: deque[_Batch] = field(default_factory=deque)  # sent, and not answered yet


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
            worker.connection.close()
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(_PATIENCE)
            worker.process.kill()
            worker.process.join()
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
            process = self.context.Process(target=_serve, args=(theirs, self.work, self.limits), daemon=True)
            process.start()
            theirs.close()
            self.workers.append(_Worker(process, ours))
            yield self.workers[-1]

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
            good, answer = message
            if not good:
                raise answer
            for (number, source), result in zip(worker.waiting.popleft(), answer, strict=True):
                self.done[number] = (source, result)

    def _bury(self, worker: _Worker) -> None:
        """Have others do what a dead worker was given, one file at a time: that which kills is laid aside."""
        worker.process.join()
        code = worker.process.exitcode
        worker.connection.close()
        self.workers.remove(worker)
        if not worker.ready:
            raise RuntimeError(
                f"reading processes could not be started (exit code {code}); call this from a script that is "
                "guarded by `if __name__ == '__main__':`, or use one worker"
            )
        if not worker.waiting:
            return
        suspect = worker.waiting.popleft()
        if len(suspect) == 1:
            ((number, source),) = suspect
            reason = f"the process reading it died (exit code {code}), perhaps out of memory; split the file"
            self.done[number] = (source, Skipped(source.name, source.path, reason))
        else:
            self.again.extend([one] for one in suspect)
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
