"""Errors of unions. Their messages say what is wrong, and where."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gentus.errors import NO_ROOM, GentusError, system_reason


class PlanError(GentusError, ValueError):
    """A union plan that cannot be made or run.

    Example:
        >>> try:
        ...     gentus.UnionPlan.from_dict({"gentus_union_plan": 1, "query": {}, "tables": [], "columns": []})
        ... except gentus.PlanError as error:
        ...     print(error)
        'query' of the plan lacks 'name'
    """

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = lines  # apart: a line end inside one is that of a name

    def __str__(self) -> str:
        """The whole message."""
        return "\n".join(self.lines)


class OutputError(GentusError, ValueError):
    """A union that cannot be written to this file; the message says what to do.

    Example:
        >>> union = index.union("orders.csv", "orders-2024-01.csv")
        >>> try:
        ...     union.write_parquet("nowhere/all.parquet")
        ... except gentus.OutputError as error:
        ...     print(error)
        there is no folder nowhere
    """


class OutputExistsError(OutputError, FileExistsError):
    """The file or the table of a database is there already; `force=True` replaces it.

    Example:
        >>> union = index.union("orders.csv", "orders-2024-01.csv")
        >>> try:
        ...     union.write_csv("orders.csv")
        ... except gentus.OutputError as error:
        ...     print(error)
        orders.csv is read by this union; write to another file
        >>> report = union.write_csv("all.csv")
        >>> try:
        ...     union.write_csv("all.csv")
        ... except FileExistsError as error:
        ...     print(error)
        all.csv already exists; --force replaces it
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that is most like it, if one is."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def memory_reason(error: Exception) -> str | None:
    """What to do if DuckDB has not enough memory, with its limit; None for another error."""
    import duckdb

    if not isinstance(error, duckdb.OutOfMemoryException):
        return None
    found = re.search(r"/([\d.]+ \w+) used", str(error))
    limit = f", {found[1]}" if found else ""
    return f"it needs more memory than the limit{limit}; allow more, such as --memory 2GB"


@contextmanager
def as_output_error(path: Path, failed: str = "was not written") -> Iterator[None]:
    """Turn errors of DuckDB and of the disk into messages about the output that say what to do.

    A reader of standard output that has closed it raises `BrokenPipeError`, as in Python.
    """
    import duckdb

    output = "standard output" if path == Path("-") else path
    try:
        yield
    except duckdb.Error as error:
        message = (str(error).strip().splitlines() or ["no further detail"])[0]
        if "Broken pipe" in str(error):
            raise BrokenPipeError from error
        if reason := memory_reason(error):
            message = reason
        elif any(words in str(error) for words in ("No space left", "File too large", "not enough space")):
            message = NO_ROOM
        raise OutputError(f"{output} {failed}: {message}") from error
    except OSError as error:
        if system_reason(error) != NO_ROOM:
            raise
        raise OutputError(f"{output} {failed}: {NO_ROOM}") from error
