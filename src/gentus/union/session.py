"""DuckDBs to work with: bounded memory, a folder for what goes beyond it, nothing loaded from anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.union.macros import define_macros

if TYPE_CHECKING:
    import duckdb

MEMORY = "576MB"
WATCHED: ContextVar[list[Any] | None] = ContextVar("WATCHED", default=None)  # connections to be interrupted
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)")
_THREADS = 4  # more of them take more memory, and wait for the one that reads


@dataclass(frozen=True, slots=True)
class Desk:
    """Memory for several DuckDBs that work at the same time, and a folder for what does not fit."""

    scratch: Path
    memory: str = MEMORY

    @contextmanager
    def workshop(self, name: str, share: int = 1, reads: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own with so many thirds of the memory; one that reads knows all notations."""
        import duckdb

        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": min(_THREADS, os.cpu_count() or 1),
            "memory_limit": _thirds(self.memory, share),
            "temp_directory": str(self.scratch / f"spill-{name}"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        }
        duck = duckdb.connect(":memory:", config=config)
        watched = WATCHED.get()
        if watched is not None:
            watched.append(duck)
        try:
            duck.execute("SET TimeZone = 'UTC'")  # where times have none
            if reads:
                define_macros(duck)
            yield duck
        finally:
            if watched is not None:
                watched.remove(duck)
            with suppress(duckdb.Error):  # one that was stopped may refuse
                duck.close()


def check_memory(memory: str) -> None:
    """Refuse what is no amount of memory."""
    if not _AMOUNT.fullmatch(memory):
        raise ValueError(f"memory is an amount such as 512MB or 2GB, not {memory!r}")


def _thirds(memory: str, share: int) -> str:
    check_memory(memory)
    number, unit = _AMOUNT.fullmatch(memory).groups()  # type: ignore[union-attr]
    return f"{float(number) * share / 3:g}{unit}"
