"""What runs where files are read: batches come in, results go out, and no file may cost more than its limits.

A damaged or hostile file can bring a native parser down, hold it for ever or have it fill the memory. Time is
kept by whoever watches the process, since a native parser may hold the interpreter; memory by the system.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from gentus.lake.base import Skipped, Source, Unreadable, failure_reason
from gentus.lake.location import Remote
from gentus.lake.reader import read
from gentus.table import Limits, Table

R = TypeVar("R")
Work: TypeAlias = Callable[[Sequence[tuple[Source, Table]]], Sequence[R]]  # some tables at once, for speed
Begin: TypeAlias = Callable[[int], None]  # told which source of a batch is read next

TOGETHER = -1  # told where a batch is worked on as one
_CELLS = 200_000  # that are worked on together, or those of one table


def read_all(
    sources: Sequence[Source], work: Work[R], limits: Limits, begin: Begin = lambda at: None
) -> list[R | Skipped]:
    """What `work` makes of sources, or why one cannot be read; it is never given too many cells at once."""
    results: list[R | Skipped] = []
    found: list[tuple[Source, Table] | Skipped] = []
    room = _CELLS
    begin(TOGETHER)
    if any(isinstance(source.path, Remote) for source in sources):
        from gentus.lake.remote.file import look_ahead

        look_ahead(sources)
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


def serve(connection: Connection, progress: Any, work: Work[Any], limits: Limits) -> None:
    """Run in a worker: read the batches that come in, and send the results of each.

    `progress` is shared with the parent: how often something was begun, and what it is in its batch.
    """
    from_parent()
    waiting: SimpleQueue[list[Source] | None] = SimpleQueue()

    def take_in() -> None:
        """Batches are taken in at once, or both sides might wait for the other to do so."""
        with suppress(EOFError, OSError):
            while True:
                waiting.put(connection.recv())
        waiting.put(None)

    def begin(at: int) -> None:
        progress[1] = at
        progress[0] += 1

    with suppress(BrokenPipeError, ConnectionResetError):  # the parent is done, or gone
        connection.send(None)  # ready
        Thread(target=take_in, daemon=True).start()
        with bounded_memory(limits):
            while (batch := waiting.get()) is not None:
                answer: tuple[bool, object]
                try:
                    answer = True, read_all(batch, work, limits, begin)
                except Exception as error:
                    answer = False, portable(error)
                connection.send(answer)


def from_parent() -> None:
    """Leave it to the parent when to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    """End in order, so that no scratch file is left; who asks twice does not cut that short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


@contextmanager
def bounded_memory(limits: Limits) -> Iterator[None]:
    """Let this process take so much more memory and no more: then allocations fail, in native code too.

    On Linux only: elsewhere the system does not count what is mapped, or has no such limit. Files that are
    mapped to be read do not count.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/statm") as file:
        own = int(file.read().split()[5]) * resource.getpagesize()
    lower = [limit for limit in before if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([own + (limits.memory_mb << 20), *lower]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def bounded_time(limits: Limits) -> Iterator[Begin]:
    """End this process if one file takes too long, where nobody else does: in a task on a cluster."""
    with open(os.devnull, "w") as nowhere:

        def begin(at: int) -> None:
            # It waits in a thread that needs nothing of Python's, so that native code cannot hold it up.
            faulthandler.dump_traceback_later(limits.seconds, exit=True, file=nowhere)

        try:
            yield begin
        finally:
            faulthandler.cancel_dump_traceback_later()


def portable(error: Exception) -> Exception:
    """Return an error that survives the way to the parent: made anew from its words, or told in words."""
    kind = type(error)
    with suppress(Exception):
        if "<locals>" not in kind.__qualname__ and all(isinstance(part, str | int) for part in error.args):
            return kind(*error.args)
    return RuntimeError(f"{kind.__name__}: {error}")
