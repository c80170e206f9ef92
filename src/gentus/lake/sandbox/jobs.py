"""Long jobs over files, each in a process of its own without limits; processes are kept for the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gentus.lake.sandbox.process import SandboxProcess

_KEPT = 2  # processes that wait for the next job
_IDLE: list[SandboxProcess] = []
_LOCK = threading.Lock()


@contextmanager
def job_process() -> Iterator[SandboxProcess]:
    """A process that does nothing else meanwhile."""
    with _LOCK:
        sandbox = _IDLE.pop() if _IDLE else SandboxProcess(bounded=False)
    try:
        yield sandbox
    finally:
        with _LOCK:
            kept = len(_IDLE) < _KEPT
            if kept:
                _IDLE.append(sandbox)
        if not kept:
            sandbox.close()


def prepare_job(*modules: str) -> None:
    """Start a process already, without waiting until it is ready; it imports the modules of its job."""
    with job_process() as sandbox:
        sandbox.begin(*modules)


if hasattr(os, "register_at_fork"):  # a copy of this process would receive the answers of the original
    os.register_at_fork(after_in_child=_IDLE.clear)
