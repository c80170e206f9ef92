"""Processes that read files: bounded in memory, ended in time.

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
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias, TypeVar

from gentus.lake.base import Unreadable
from gentus.lake.sandbox.start import start
from gentus.table import Limits

R = TypeVar("R")
Begin: TypeAlias = Callable[[int], None]  # called with the number of the source that is read next

_GRACE = 5.0  # seconds that a process may take to end
_LOCAL = threading.local()


# --- in the parent -------------------------------------------------------------------------------------


def stop(process: BaseProcess) -> None:
    """End a process, however busy it is."""
    process.terminate()
    process.join(_GRACE)
    process.kill()
    process.join()


class SandboxDiedError(Unreadable):
    """The end of a process that was to read a table."""

    def __init__(self, code: int | None) -> None:
        super().__init__(death_reason(code))
        self.args = (code,)  # what another process needs to unpickle it


@dataclass(frozen=True, slots=True)
class Question:
    """An event of another process that waits for an answer."""

    about: Any


class Channel:
    """What a function in another process emits events with, and asks its caller."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def __call__(self, event: object) -> None:
        """Emit an event."""
        with self._lock:
            self._connection.send((None, event))

    def ask(self, about: object) -> Any:
        """Emit a question and wait for its answer."""
        self(Question(about))
        return self._connection.recv()


class SandboxProcess:
    """A process for calls, one at a time. It is started with the first one, and again after a crash."""

    def __init__(self, limits: Limits | None = None, bounded: bool = True) -> None:
        self._limits, self._bounded = limits or Limits(), bounded
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._ready = False
        self.interrupted = False  # since it was last started

    def __call__(self, function: Callable[..., R], *arguments: object, seconds: float | None = None) -> R:
        """Call a picklable function there, in this folder and environment.

        Raises what it raises, or `Unreadable`: also if it takes longer than the limit, or than `seconds`.
        """
        connection = self._send(function, arguments, False)
        seconds = seconds or self._limits.seconds
        try:
            if not connection.poll(seconds):
                self.close()
                raise Unreadable(_too_long(seconds))
            good, result = connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise SandboxDiedError(self.close()) from error
        except KeyboardInterrupt:  # its answer would be taken for that of the next call
            self.close()
            raise
        if not good:
            if self._holds_memory():  # that of a file that was refused; the next one has a right to all of it
                self.close()
            raise result
        answer: R = result
        return answer

    def _holds_memory(self) -> bool:
        """Whether the process has a quarter of what it may use for files, on Linux, which alone limits it."""
        with suppress(OSError):
            if self._process is not None and self._bounded and sys.platform.startswith("linux"):
                return _data_bytes(self._process.pid) > self._limits.memory_mb << 18
        return False

    def events(
        self,
        function: Callable[..., R],
        *arguments: object,
        seconds: float | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Generator[Any, Any, R]:
        """Call a function there that takes as long as it takes, and yield what it emits meanwhile.

        Its last argument is the `Channel` that it emits with; a `Question` has to be answered by what is sent
        to the generator. Its first event has to come within `seconds`, if they are given. If the generator is
        closed before its end, so is the process. Until the first event there is time for work `meanwhile`.
        """
        connection = self._send(function, arguments, True)
        good: bool | None = None
        result: Any = None
        try:
            meanwhile()
            if seconds is not None and not connection.poll(seconds):
                raise Unreadable(_too_long(seconds))
            while good is None:
                if result is not None:
                    answer = yield result
                    if isinstance(result, Question):
                        connection.send(answer)
                good, result = connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise SandboxDiedError(self.close()) from error
        except BaseException:
            self.close()
            raise
        if not good:
            raise result
        final: R = result
        return final

    def interrupt(self) -> None:
        """End the process from another thread; who waits for its answer learns that it died."""
        if self._process is not None:
            self.interrupted = True
            self._process.terminate()

    def _send(self, function: Callable[..., R], arguments: tuple[object, ...], emits: bool) -> Connection:
        if self._process is not None and not self._process.is_alive():  # the system may have ended it
            self.close()
        connection = self._started()
        connection.send((_folder(), dict(os.environ), function, arguments, emits))
        return connection

    def close(self) -> int | None:
        """End the process; returns its exit code."""
        process, connection = self._process, self._connection
        self._process, self._connection, self._ready = None, None, False
        if process is None or connection is None:
            return None
        connection.close()
        process.join(0.1)
        stop(process)
        return process.exitcode

    def begin(self, *modules: str) -> None:
        """Start the process, without waiting until it is ready; it may import modules already."""
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, self._limits if self._bounded else None, modules), daemon=True
        )
        start(process)
        theirs.close()
        self._process, self._connection, self.interrupted = process, ours, False

    def _started(self) -> Connection:
        self.begin()
        assert self._connection is not None
        if not self._ready:
            try:
                self._connection.recv()
            except EOFError as error:
                raise RuntimeError(
                    f"a process to open files could not be started (exit code {self.close()})"
                ) from error
            self._ready = True
        return self._connection


def death_reason(code: int | None) -> str:
    """What to tell of a file whose reader died, by its exit code."""
    died = f"the process opening it died (exit code {code})"
    if code == -9:  # no parser does that; systems that have no memory left do
        return f"{died}: it was killed, perhaps for want of memory; split the file"
    return f"{died}: it is damaged, or its parser fails on it; write it again, or save it as CSV"


def _too_long(seconds: float) -> str:
    return f"it took longer than {seconds:g} s to open; leave it out"


def _folder() -> str | None:
    """The working folder; None if it was deleted."""
    with suppress(OSError):
        return os.getcwd()
    return None


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


def _serve(connection: Connection, limits: Limits | None, modules: tuple[str, ...]) -> None:
    leave_signals_to_parent()
    silence(stdout=limits is not None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    emit = Channel(connection)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), bounded_memory(limits):
        connection.send(None)
        for module in modules:
            import_module(module)
        while True:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is to be cleaned up: this takes no time
            folder, environment, function, arguments, emits = connection.recv()
            signal.signal(signal.SIGTERM, _end)
            answer: tuple[bool, object]
            try:
                _follow(folder, environment)
                answer = True, function(*arguments, emit) if emits else function(*arguments)
            except Exception as error:
                answer = False, portable(error)
            connection.send(answer)


def _end_with_parent() -> None:
    """End at once when the parent has: nobody waits for the result, and a file must not appear later."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def silence(stdout: bool = True) -> None:
    """Discard what native code prints: stdout is for the data of the parent, and errors are sent to it."""
    with open(os.devnull, "w") as nowhere:
        for descriptor in (1, 2) if stdout else (2,):
            os.dup2(nowhere.fileno(), descriptor)


def _follow(folder: str | None, environment: dict[str, str]) -> None:
    """Take the working folder and the environment of the parent, which may have changed since the start."""
    if folder is not None:
        os.chdir(folder)
    if environment != dict(os.environ):
        os.environ.clear()
        os.environ.update(environment)


def leave_signals_to_parent() -> None:
    """Ignore Ctrl-C, which reaches all processes, and end in order when the parent says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    """Exit normally, so that temporary files are deleted; a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _data_bytes(process: int | None = None) -> int:
    """The memory that a process has allocated, or this one; on Linux."""
    with open(f"/proc/{process or 'self'}/statm") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def bounded_memory(limits: Limits | None) -> Iterator[None]:
    """Limit the memory that this process may allocate from now on, in native code too.

    On Linux only: other systems have no such limit, or do not count mapped memory. Files that are mapped to
    be read do not count.
    """
    if limits is None or not sys.platform.startswith("linux"):
        yield
        return
    import resource

    before, own = resource.getrlimit(resource.RLIMIT_DATA), _data_bytes()
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
    """An error that can be pickled: made again from its arguments, as one of a base class, or as text."""
    if isinstance(error, OSError) and error.errno is not None:
        return type(error)(error.errno, error.strerror, *([str(error.filename)] if error.filename else []))
    if all(isinstance(part, str | int | None) for part in error.args):
        for kind in type(error).__mro__:
            with suppress(Exception):
                if (
                    "<locals>" not in kind.__qualname__
                    and issubclass(kind, Exception)
                    and kind is not Exception
                ):
                    return kind(*error.args)
    return RuntimeError(f"{type(error).__name__}: {error}")
