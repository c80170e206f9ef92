"""Processes that read files: started without the caller's script, bounded in memory, ended in time.

A damaged or hostile file can crash a native parser, block it for ever or make it fill the memory. The parent
keeps the time, since a native parser may hold the interpreter; the system limits the memory.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeAlias, TypeVar

from gentus.lake.base import Unreadable
from gentus.table import Limits

R = TypeVar("R")
Begin: TypeAlias = Callable[[int], None]  # called with the number of the source that is read next

_GRACE = 5.0  # seconds that a process may take to end
_ONE_AT_A_TIME = threading.Lock()
_LOCAL = threading.local()


# --- in the parent -------------------------------------------------------------------------------------


def start(process: BaseProcess) -> None:
    """Start a process without importing the script of the caller.

    A spawned process imports the main script again, in case its work is defined there. Ours never is, and a
    script that calls `gentus.build` without `if __name__ == "__main__":` would build again in every process.
    """
    main = sys.modules["__main__"]
    with _ONE_AT_A_TIME:
        spec, file = main.__spec__, main.__dict__.pop("__file__", None)
        main.__spec__ = None
        try:
            process.start()
        finally:
            main.__spec__ = spec
            if file is not None:  # `python -c` has none
                main.__file__ = file


def stop(process: BaseProcess) -> None:
    """End a process, however busy it is."""
    process.terminate()
    process.join(_GRACE)
    process.kill()
    process.join()


class SandboxProcess:
    """A process for calls, one at a time. It is started with the first one, and again after a crash."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __call__(self, function: Callable[..., R], *arguments: object) -> R:
        """Call a picklable function there. Raises what it raises, or `Unreadable`."""
        if self._process is not None and not self._process.is_alive():  # the system may have ended it
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
        stop(process)
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


@contextmanager
def sandbox_process() -> Iterator[SandboxProcess]:
    """The sandbox process of this thread; it ends with the outermost context."""
    held: SandboxProcess | None = getattr(_LOCAL, "sandbox", None)
    if held is not None:
        yield held
        return
    _LOCAL.sandbox = made = SandboxProcess()
    try:
        yield made
    finally:
        _LOCAL.sandbox = None
        made.close()


# --- in the child --------------------------------------------------------------------------------------


def _serve(connection: Connection, limits: Limits) -> None:
    leave_signals_to_parent()
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


def leave_signals_to_parent() -> None:
    """Ignore Ctrl-C, which reaches all processes, and end in order when the parent says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    """Exit normally, so that temporary files are deleted; a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


@contextmanager
def bounded_memory(limits: Limits) -> Iterator[None]:
    """Limit the memory that this process may allocate from now on, in native code too.

    On Linux only: other systems have no such limit, or do not count mapped memory. Files that are mapped to
    be read do not count.
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
    """End this process if one file takes too long, where no parent watches: in a task on a cluster."""
    with open(os.devnull, "w") as nowhere:

        def begin(at: int) -> None:
            # The timer is a native thread: it works while native code holds the interpreter.
            faulthandler.dump_traceback_later(limits.seconds, exit=True, file=nowhere)

        try:
            yield begin
        finally:
            faulthandler.cancel_dump_traceback_later()


def portable(error: Exception) -> Exception:
    """An error that can be pickled: made again from its arguments, or as text."""
    error_type = type(error)
    with suppress(Exception):
        if "<locals>" not in error_type.__qualname__ and all(
            isinstance(part, str | int) for part in error.args
        ):
            return error_type(*error.args)
    return RuntimeError(f"{error_type.__name__}: {error}")
