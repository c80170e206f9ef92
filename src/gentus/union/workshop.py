"""A DuckDB to work with: bounded memory, a folder for what goes beyond it, nothing loaded from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.union.macros import define_macros

if TYPE_CHECKING:
    import duckdb

_THREADS = 4  # more of them take more memory, and wait for the one that reads


@contextmanager
def workshop(memory: str, scratch: Path, reads: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own; one that reads tables knows what their cells may look like."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": min(_THREADS, os.cpu_count() or 1),
        "memory_limit": memory,
        "temp_directory": str(scratch),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
    }
    duck = duckdb.connect(":memory:", config=config)
    try:
        duck.execute("SET TimeZone = 'UTC'")  # where times have none
        if reads:
            define_macros(duck)
        yield duck
    finally:
        with suppress(duckdb.Error):  # one that was stopped may refuse
            duck.close()
