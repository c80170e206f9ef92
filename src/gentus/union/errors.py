"""Errors of unions. Their messages say what is wrong, and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class PlanError(ValueError):
    """A plan that cannot be run."""


class OutputError(ValueError):
    """A union that cannot be written to this file; the message says what to do."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that is most like it, if one is."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


@contextmanager
def as_output_error(path: Path, failed: str = "was not written") -> Iterator[None]:
    """Turn errors of DuckDB into messages about the output that say what to do."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        message = (str(error).strip().splitlines() or ["no further detail"])[0]
        if isinstance(error, duckdb.OutOfMemoryException):
            message += "; give it more memory"
        elif any(words in str(error) for words in ("No space left", "File too large", "not enough space")):
            message = "there is no room on the disk"
        raise OutputError(f"{path} {failed}: {message}") from error
