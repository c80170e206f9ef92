"""What all readers share: sources, skipped and unreadable tables, and how rows of text become a `Table`."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from gentus.errors import GentusError
from gentus.lake.location import Location, Remote, State, as_location, is_url
from gentus.table import EMPTY, Column, Head, Header, Limits, Rows, Table

log = logging.getLogger("gentus.lake")

RULES = "gentus.toml"  # in the root folder of a lake: how its files are read
_LONGEST_EMPTY = max(map(len, EMPTY))
_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters: JSON can write them, nothing else can


@dataclass(frozen=True, slots=True)
class Source:
    """One table of a lake: a file, or one table or sheet inside a file."""

    name: str  # relative to the lake, with `/` on every system; unique in the lake
    path: Location
    part: str | None  # the table or sheet inside the file
    size: int
    mtime_ns: int
    version: str = ""  # the store's version of the content (an ETag or the like), as listed
    header: Header = "auto"  # of delimited text
    pinned: bool = False  # a person chose how this table alone is read, whatever the rules of the lake say
    encoding: str = ""  # of delimited text; empty: it is found out

    def __post_init__(self) -> None:
        """Keep the listed state with a URL, so that it is not asked for again."""
        if self.version and isinstance(self.path, Remote):
            state = State(self.size, self.mtime_ns, self.version)
            object.__setattr__(self, "path", Remote(self.path.url, state))

    @property
    def file(self) -> Path:
        """Its path, for callers that need a file on this machine."""
        if isinstance(self.path, Remote):
            raise Unreadable(f"{self.path} is not on this machine; download it first")
        return self.path


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in a lake that could not be read; everything else is unaffected."""

    name: str
    path: Location
    reason: str  # plain words: what happened, and what to do


@dataclass(frozen=True, slots=True)
class Unlisted(Skipped):
    """A file or folder whose tables cannot be listed, such as a locked database: they may still be there."""

    whole: bool = False  # it is the lake itself

    @property
    def beginning(self) -> str:
        """What the names of its tables begin with."""
        return "" if self.whole else f"{self.name}/"


@dataclass(frozen=True, slots=True)
class Excluded(Skipped):
    """A file or folder that is not read because a person excluded it."""


@dataclass(frozen=True, slots=True)
class OtherKinds(Skipped):
    """Files in a folder or an archive that are no tables by their names: counted, and otherwise left out."""

    endings: Mapping[str, int] = field(default_factory=dict, hash=False)


class Unreadable(GentusError, ValueError):  # noqa: N818 - the name says it of the table
    """A table that cannot be read; `reason` says why in plain words.

    Example:
        >>> try:
        ...     index.search("lake/empty.csv")
        ... except gentus.Unreadable as error:
        ...     print(error.reason)
        it is empty
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """The reason."""
        return self.reason


class TableNotFoundError(Unreadable, FileNotFoundError, KeyError):
    """A table that is neither a file nor in the index.

    People who think of files catch `FileNotFoundError`, those who think of names `KeyError`; it is both.

    Example:
        >>> try:
        ...     index.describe("film-1.csv")
        ... except KeyError as error:
        ...     print(error)
        film-1.csv: there is no table of this name in the index. Did you mean films-1.csv or ...?
    """

    def __init__(self, message: str, table: str) -> None:
        super().__init__(message.removeprefix(f"{table}: "))
        self.args = message, table  # what another process needs to unpickle it
        self.table = table

    def __str__(self) -> str:
        """The message, which names the table."""
        return str(self.args[0])


class LakeNotFoundError(GentusError, FileNotFoundError):
    """There is nothing where a lake should be.

    Example:
        >>> try:
        ...     gentus.build("nowhere/", "nowhere.index")
        ... except gentus.LakeNotFoundError as error:
        ...     print(error)
        There is no lake at nowhere. Give a folder of tables, or a database file.
    """


class SeveralTables(Unreadable):
    """A file that holds several tables, of which none was named."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__(f"{found}; {hint}")
        self.args = found, hint  # what another process needs to unpickle it
        self.found = found  # without the hint, which does not hold for every caller


@contextmanager
def name_in_errors(table: object) -> Iterator[None]:
    """Put the name of a table into the error if it cannot be read, where a person gave that name."""
    try:
        yield
    except Unreadable as error:
        if isinstance(error, TableNotFoundError) or not isinstance(table, str | os.PathLike | Remote):
            raise
        shown = as_location(table) if is_url(str(table)) else table  # without a password
        raise Unreadable(f"{shown}: {error.reason}") from error


def failure_reason(error: BaseException) -> str:
    """The reason of any failure of a reader, in plain words."""
    match error:
        case Unreadable():
            return error.reason
        case FileNotFoundError():
            return "it is no longer there: it was moved or deleted meanwhile; index the lake again"
        case PermissionError():
            return "no permission to read it; change its permissions or leave it out"
        case OSError() if error.strerror:
            return f"the system could not read it: {error.strerror}"
        case MemoryError():
            return "it needs more memory than there is; split it into smaller files"
        case RecursionError():
            return "its values are nested too deeply"
    if str(error) == "database is locked":  # SQLite does not say by which
        return "another process holds it locked; wait until that has closed it, or stop it"
    lines = str(error).strip().splitlines() or ["no further detail"]
    return f"it could not be read ({type(error).__name__}: {lines[0][:300]})"


def without_surrogates(text: str) -> str:
    """Text without lone surrogates, which cannot be stored, shown or cut into words."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _all_without_surrogates(cells: list[str]) -> list[str]:
    joined = "".join(cells)
    if joined.isascii():
        return cells
    try:
        joined.encode()
    except UnicodeEncodeError:
        return [without_surrogates(cell) for cell in cells]
    return cells


def clean_names(names: Iterable[str], limits: Limits) -> list[str]:
    """Make column names trimmed, non-empty and unique."""
    taken: set[str] = set()
    copies: dict[str, int] = {}  # of each name, so that many equal ones take no longer than others
    clean: list[str] = []
    for number, name in enumerate(names, 1):
        base = without_surrogates(" ".join(name.split())[: limits.cell_chars]) or f"column_{number}"
        unique = base
        while unique in taken:
            copies[base] = copies.get(base, 1) + 1
            unique = f"{base}_{copies[base]}"
        taken.add(unique)
        clean.append(unique)
    return clean


def table_from_rows(
    name: str,
    header: Sequence[str],
    rows: Rows,
    limits: Limits,
    head: Head | None = None,
    typed: Collection[int] = (),
) -> Table:
    """Turn sampled rows of text into a table; refuses rows without a single cell.

    The head is for the row sketch; without one, the sampled rows are all there are. The columns at the
    positions in `typed` are no text in their file.
    """
    from gentus.lake.row_sketch import sketch_rows  # NumPy is not needed to list a lake

    if not rows:
        raise Unreadable("it has a header row and no rows under it")
    sketch = sketch_rows(rows, head or Head(rows, complete=True), limits)
    dropped = len(header) - limits.columns
    if dropped > 0:
        log.info("%s: %d columns beyond the first %d were left out", name, dropped, limits.columns)
        header = header[: limits.columns]
        rows = [row[: limits.columns] for row in rows]
    columns: list[Column] = []
    filled = False
    names = clean_names(header, limits)
    # zip_longest pads ragged rows; the cells of rows longer than the header fall off its end.
    by_column = zip_longest(*rows, fillvalue="") if rows else iter(())
    for at, (raw, column, values) in enumerate(zip(header, names, by_column, strict=False)):
        cells = _filled_cells(values, limits.cell_chars)
        filled = filled or bool(cells)
        if cells or raw.strip():  # a trailing delimiter makes a column with neither name nor cells
            columns.append(Column(column, cells, at in typed))
    columns += [Column(column, []) for raw, column in _beyond(header, names, rows) if raw.strip()]
    if not filled:
        raise Unreadable("all of its cells are empty")
    complete = head is None or (head.complete and len(head.rows) <= len(rows))
    return Table(name, columns, len(rows), sketch, complete=complete)


def _filled_cells(values: Iterable[str | None], clip: int) -> list[str]:
    """The cells of a column that have a value, trimmed and clipped."""
    trimmed = [value.strip() for value in values if value]
    cells = [cell for cell in trimmed if len(cell) > _LONGEST_EMPTY or cell.lower() not in EMPTY]
    if max(map(len, cells), default=0) > clip:
        cells = [cell[:clip].rstrip() for cell in cells]
    return _all_without_surrogates(cells)


def _beyond(
    header: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str | None]]
) -> Iterable[tuple[str, str]]:
    """The columns that the header names and no row reaches."""
    reached = max(map(len, rows))
    return zip(header[reached:], names[reached:], strict=True)
