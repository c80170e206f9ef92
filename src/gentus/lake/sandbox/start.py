"""The start of a process: without the caller's script, the current folder's modules, or Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

_ONE_AT_A_TIME = threading.Lock()
_SAFE_PATH = "PYTHONSAFEPATH"


@contextmanager
def safe_path() -> Iterator[None]:
    """Keep the current folder from what is imported by a Python that is started meanwhile.

    A process of `multiprocessing`, and its resource tracker, start as `python -c`, which looks for modules in
    the current folder first. That may be somebody else's, with a `struct.py` in it. The environment reaches
    whatever such a process starts, too. Only as long as it takes: a caller's own processes keep the folder.
    """
    with _ONE_AT_A_TIME:
        before = os.environ.get(_SAFE_PATH)
        os.environ[_SAFE_PATH] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SAFE_PATH]
            else:
                os.environ[_SAFE_PATH] = before


def start(process: BaseProcess) -> None:
    """Start a process without importing the script of the caller.

    A spawned process imports the main script again, in case its work is defined there. Ours never is, and a
    script that calls `gentus.build` without `if __name__ == "__main__":` would build again in every process.
    """
    main = sys.modules["__main__"]
    with safe_path(), _ctrl_c_later():
        spec, file = main.__spec__, main.__dict__.pop("__file__", None)
        main.__spec__ = None
        path = sys.path  # which it inherits
        if "" in path:  # the current folder, as in notebooks and `python -c`; where gentus lies stays
            sys.path = [*filter(None, path), str(Path(__file__).parents[3])]
        try:
            process.start()
        finally:
            sys.path = path
            main.__spec__ = spec
            if file is not None:  # `python -c` has none
                main.__file__ = file


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Keep Ctrl-C, which reaches all processes, from one that is being started, and from starting it half.

    The new process inherits that the signal is blocked: while it imports, it would print a traceback. Another
    thread of this one may still receive it, so that Python's handler has to wait, too.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # else starting a process starts it, and unblocks the signal
    received: list[int] = []
    ours = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
    handler = signal.signal(signal.SIGINT, lambda number, _: received.append(number)) if ours else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if ours:
            signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(signal.SIGINT)
