"""DuckDB sessions: connections with bounded memory, a scratch folder for what exceeds it, no extensions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.scratch_folder import scratch_folder, temporary_folder
from gentus.union.sql_macros import define_macros

if TYPE_CHECKING:
    import duckdb

MEMORY = "576MB"
# Connections that are open, for a caller that may have to interrupt them; None: they are not recorded.
OPEN_CONNECTIONS: ContextVar[list[Any] | None] = ContextVar("OPEN_CONNECTIONS", default=None)
NO_EXTENSIONS = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)")
_THREADS = 4  # more take more memory, and wait for the one that reads
_MOST_COLUMNS = 800  # of all threads together


@dataclass(frozen=True, slots=True)
class DuckDBSession:
    """Memory that several connections share, and the folder to which they spill."""

    scratch: Path
    memory: str = MEMORY
    connections: list[Any] = field(default_factory=list)  # that are open

    def interrupt(self) -> None:
        """End what the connections do."""
        for duck in list(self.connections):
            duck.interrupt()

    @contextmanager
    def connect(
        self, name: str, thirds: int = 1, macros: bool = False
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A database in memory of its own, with some thirds of the memory limit; `macros` parse cells."""
        import duckdb

        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": min(_THREADS, os.cpu_count() or 1),
            "memory_limit": _thirds_of(self.memory, thirds),
            "temp_directory": str(self.scratch / f"spill-{name}"),
            **NO_EXTENSIONS,
        }
        duck = duckdb.connect(":memory:", config=config)
        connections = OPEN_CONNECTIONS.get()
        if connections is not None:
            connections.append(duck)
        self.connections.append(duck)
        try:
            duck.execute("SET TimeZone = 'UTC'")  # for times without a zone
            with suppress(duckdb.Error):  # in a notebook they need ipywidgets; without, progress is unknown
                duck.execute("SET enable_progress_bar_print = false; SET enable_progress_bar = true")
            if macros:
                define_macros(duck)
            yield duck
        finally:
            if connections is not None:
                connections.remove(duck)
            self.connections.remove(duck)
            with suppress(duckdb.Error):  # one that was interrupted may refuse
                duck.close()


@contextmanager
def open_session(memory: str = MEMORY, output: Path | None = None) -> Iterator[DuckDBSession]:
    """A session with a scratch folder beside the output, or in the system's folder for temporary files."""
    with temporary_folder("union") if output is None else scratch_folder(output) as scratch:
        yield DuckDBSession(scratch, memory)


def make_room(duck: duckdb.DuckDBPyConnection, columns: int, memory: str) -> list[str]:
    """Use fewer threads for wide tables, and more memory unless a limit is given; says so.

    Every thread holds some rows of all columns in memory.
    """
    duck.execute(f"SET threads = {max(1, min(_THREADS, os.cpu_count() or 1, _MOST_COLUMNS // columns))}")
    if columns <= _MOST_COLUMNS or memory != MEMORY:
        return []
    megabytes = 576 + columns // 2
    duck.execute(f"SET memory_limit = '{megabytes}MB'")
    return [f"{columns:,} columns: the limit of memory is {megabytes:,} MB; --memory sets another"]


@contextmanager
def all_threads(duck: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """As many threads as for narrow tables, for a relation of few columns; then as many as before."""
    ((before,),) = duck.execute("SELECT current_setting('threads')").fetchall()
    duck.execute(f"SET threads = {min(_THREADS, os.cpu_count() or 1)}")
    try:
        yield
    finally:
        with suppress(Exception):  # a connection that has failed, or was stopped, may refuse
            duck.execute(f"SET threads = {before}")


def check_memory(memory: str) -> None:
    """Raise `ValueError` unless this is an amount of memory."""
    if not _AMOUNT.fullmatch(memory):
        raise ValueError(f"memory is an amount such as 512MB or 2GB, not {memory!r}")


def _thirds_of(memory: str, thirds: int) -> str:
    check_memory(memory)
    number, unit = _AMOUNT.fullmatch(memory).groups()  # type: ignore[union-attr]
    return f"{float(number) * thirds / 3:g}{unit}"
