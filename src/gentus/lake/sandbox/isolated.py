"""Calls made in another process, one at a time: what brings a native parser down or holds it costs one."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

from gentus.lake.base import Unreadable
from gentus.lake.sandbox.process_start import start
from gentus.lake.sandbox.worker import bounded_memory, from_parent, portable
from gentus.table import Limits

R = TypeVar("R")
_PATIENCE = 5.0  # seconds that the process may take to end


class SandboxProcess:
    """A process that is started with the first call, and anew after one that it did not survive."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __call__(self, function: Callable[..., R], *arguments: object) -> R:
        """Call a function there; all has to be picklable. Raises what it raises, or `Unreadable`."""
        if self._process is not None and not self._process.is_alive():  # the system may end it while it waits
            self.close()
        connection = self._connection or self._start()
        connection.send((function, arguments))
        if not connection.poll(self._limits.seconds):
            self.close()
            raise Unreadable(f"it took longer than {self._limits.seconds:g} s to open; leave it out")
        try:
            good, result = connection.recv()
        except (EOFError, ConnectionResetError) as error:
            code = self.close()
            reason = f"the process opening it died (exit code {code}): it is damaged; write it again"
            raise Unreadable(reason) from error
        if not good:
            raise result
        answer: R = result
        return answer

    def close(self) -> int | None:
        """End the process; returns its exit code."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is None or connection is None:
            return None
        connection.close()
        process.join(0.1)
        process.terminate()
        process.join(_PATIENCE)
        process.kill()
        process.join()
        return process.exitcode

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._limits), daemon=True)
        start(process)
        theirs.close()
        self._process, self._connection = process, ours
        try:
            ours.recv()  # ready
        except EOFError as error:
            raise RuntimeError(
                f"a process to open files could not be started (exit code {self.close()})"
            ) from error
        return ours


def _serve(connection: Connection, limits: Limits) -> None:
    from_parent()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), bounded_memory(limits):
        connection.send(None)
        while True:
            function, arguments = connection.recv()
            answer: tuple[bool, object]
            try:
                answer = True, function(*arguments)
            except Exception as error:
                answer = False, portable(error)
            connection.send(answer)


_LOCAL = threading.local()


@contextmanager
def sandbox_process() -> Iterator[SandboxProcess]:
    """The process of this thread for such calls; it ends with the outermost of those who hold it."""
    held: SandboxProcess | None = getattr(_LOCAL, "apart", None)
    if held is not None:
        yield held
        return
    _LOCAL.apart = made = SandboxProcess()
    try:
        yield made
    finally:
        _LOCAL.apart = None
        made.close()
