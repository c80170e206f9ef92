"""Reading tables that a person names: plain text here, what a native parser reads in sandbox processes.

They are started when they are first needed and then kept, so that only the first such table waits for one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from multiprocessing import current_process
from pathlib import Path
from queue import LifoQueue
from typing import TypeVar

from gentus.lake.base import Source
from gentus.lake.formats.detect import SEVERAL_TABLES, Format, is_plain, is_plain_file
from gentus.lake.location import POSTGRES, Location, Remote, is_url
from gentus.lake.reader import file_at, only_table, parts_of, read
from gentus.lake.sandbox.process import SandboxProcess
from gentus.table import Limits, Table

R = TypeVar("R")
_MOST = 4  # processes; each holds the libraries of its formats
REMOTE_FACTOR = 10  # an object at a URL may take this many times as long: most of it is waiting


def read_named(source: Source, limits: Limits) -> Table:
    """Read a bounded sample of a table; raises `Unreadable` and nothing else, also if its parser crashes."""
    return call_for(source, limits, read, source, limits)


def only_named(path: str | os.PathLike[str] | Remote, limits: Limits | None = None) -> Source:
    """Find the one table in a file, as `only_table` does."""
    return only_table(path, limits, _parts_of)


def call_for(source: Source, limits: Limits, function: Callable[..., R], *arguments: object) -> R:
    """Call a function that reads a table: here if only Python reads it, else in a sandbox."""
    if is_plain(source) or is_server(source.path):
        return function(*arguments)
    return in_sandbox(source.path, limits, function, *arguments)


def prepare(queries: Iterable[str]) -> None:
    """Start a process already if one of these paths needs it."""
    with suppress(OSError, ValueError):  # what is wrong with a path is said when it is read
        found = (file_at(Path(query)) for query in queries if not is_url(query))
        if any(at is not None and not is_plain_file(at[0]) for at in found):
            sandboxes = _sandboxes(Limits().memory_mb)
            sandbox = sandboxes.get()
            sandbox.begin()
            sandboxes.put(sandbox)


def _parts_of(path: Location, known: Format, limits: Limits) -> list[str] | list[None]:
    only_here = isinstance(path, Remote) and path.scheme == "memory"
    if known not in SEVERAL_TABLES or only_here:
        return parts_of(path, known, limits)
    return in_sandbox(path, limits, parts_of, path, known, limits)


def in_sandbox(path: Location, limits: Limits, function: Callable[..., R], *arguments: object) -> R:
    """Call a function that reads what lies at a path, in a sandbox; raises `Unreadable` if that dies."""
    if current_process().daemon:  # it may start no other process, and is a worker itself
        return function(*arguments)
    sandboxes = _sandboxes(limits.memory_mb)
    sandbox = sandboxes.get()  # the one that was used last; waits if all are busy
    try:
        return sandbox(function, *arguments, seconds=seconds_for(path, limits))
    finally:
        sandboxes.put(sandbox)


def seconds_for(path: Location, limits: Limits) -> float:
    """How long it may take to open what lies at a path."""
    return limits.seconds * (REMOTE_FACTOR if isinstance(path, Remote) else 1)


def is_server(path: Location) -> bool:
    """Whether a database server sends the table: it is no file, and its password stays in this process."""
    return isinstance(path, Remote) and path.scheme in POSTGRES


@cache
def _sandboxes(memory_mb: int) -> LifoQueue[SandboxProcess]:
    """The sandboxes of this process that are not busy; each is started when it is first used."""
    queue: LifoQueue[SandboxProcess] = LifoQueue()
    for _ in range(min(_MOST, os.cpu_count() or 1)):
        queue.put(SandboxProcess(Limits(memory_mb=memory_mb)))
    return queue


if hasattr(os, "register_at_fork"):  # a copy of this process would receive the answers of the original
    os.register_at_fork(after_in_child=_sandboxes.cache_clear)
