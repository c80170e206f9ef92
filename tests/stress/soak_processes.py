"""Processes of a soak: some that change an index and come to harm, and one that reads it all the time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gentus_bench.processes import resident_bytes
from stress.soak_model import Operation

_PATIENCE = 120.0  # seconds until a process is taken for hanging
_NOBODY = 65534


def context() -> Any:
    """Processes are forked from one that has imported all they need and has done nothing yet."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(
        ["stress.soak_processes", "gentus.index.index", "gentus.index.updater", "gentus.lake.formats.text"]
    )
    return made


def carry_out(index: Path, operation: Operation) -> None:
    """Do it, in this process."""
    import gentus

    if operation.kind == "refit":
        gentus.refit(index, workers=1).close()
        return
    with gentus.open(index) as opened:
        if operation.kind == "add":
            opened.add(operation.what)
        elif operation.kind == "remove":
            opened.remove(operation.what)
        elif operation.kind == "sync":
            opened.sync(force=True)
        elif operation.kind == "compact":
            opened.compact()


def _work(index: Path, operation: Operation, room: int | None, humble: bool, told: Connection) -> None:
    """The life of a process: what becomes of it is told in one word or, if it is refused, in more."""
    if room is not None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write fails rather than the process
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    if humble and os.geteuid() == 0:
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    try:
        told.send("begun")
        carry_out(index, operation)
        told.send("done")
    except Exception as error:
        told.send(f"{type(error).__name__}: {error}")


class Processes:
    """Starts processes that change an index."""

    def __init__(self) -> None:
        self._context = context()
        self._took: deque[float] = deque([0.3], maxlen=9)  # seconds of operations that were finished

    def usual(self) -> float:
        """How long an operation takes, when nothing happens to it."""
        return statistics.median(self._took)

    def start(
        self, index: Path, operation: Operation, room: int | None = None, humble: bool = False
    ) -> Callable[[float | None], str]:
        """Begin; call what is returned to wait for the end, or to kill it some seconds after its begin."""
        here, there = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(index, operation, room, humble, there))
        process.start()
        there.close()

        def end(kill_after: float | None) -> str:
            last, begun = "nothing", time.monotonic()
            try:
                until = begun + _PATIENCE
                while True:
                    if not here.poll(max(0.0, until - time.monotonic())):
                        process.kill()
                        return "killed" if kill_after is not None else "hangs"
                    last = here.recv()
                    if last == "begun":
                        begun = time.monotonic()
                        until = begun + _PATIENCE if kill_after is None else begun + kill_after
                    elif last == "done" and operation.kind != "refit":
                        self._took.append(time.monotonic() - begun)
            except EOFError:
                return last
            finally:
                process.join()
                here.close()

        return end


# --- a reader ------------------------------------------------------------------------------------------


def _read(index: Path, asked: Connection) -> None:
    import gentus

    with gentus.open(index) as opened, suppress(EOFError):
        while True:
            path = asked.recv()
            try:
                asked.send(sids(opened, path))
            except Exception as error:  # every one of them is a finding
                asked.send(f"{type(error).__name__}: {error}")


def sids(opened: Any, path: Path) -> list[tuple[str, str]]:
    """All tables that a search finds, best first, and their identifiers."""
    query = opened.read(path)  # as a table without a file: it may find itself
    return [(hit.table, hit.sid) for hit in opened.search(query, k=10_000, beam=10_000)]


class Reader:
    """A process that has an index open for as long as a soak lasts."""

    def __init__(self, index: Path) -> None:
        made = context()
        self._asked, there = made.Pipe()
        self._process = made.Process(target=_read, args=(index, there))
        self._process.start()
        there.close()

    def ask(self, path: Path) -> None:
        """Let it search; it does so while others write."""
        self._asked.send(path)

    def answer(self) -> list[tuple[str, str]] | str:
        """What it found, or what went wrong."""
        if not self._asked.poll(_PATIENCE):
            return "the reader hangs"
        found: list[tuple[str, str]] | str = self._asked.recv()
        return found

    def resident(self) -> int:
        """Its bytes in memory."""
        return resident_bytes(self._process.pid)

    def close(self) -> None:
        """End it."""
        self._asked.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
