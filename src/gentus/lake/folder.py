"""The tables of a folder on this machine, in the order of names, in bounded memory however many there are."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from gentus.lake.base import RULES, OtherKinds, Skipped, Source, Unlisted, Unreadable, failure_reason
from gentus.lake.exclude import NOTHING, Exclude
from gentus.lake.files import magic
from gentus.lake.formats.detect import (
    JSON_FILES,
    SEVERAL_TABLES,
    Format,
    detect_format,
    ending_of,
    folder_format,
    format_of,
    is_database,
    look_up,
    may_be_row,
    state_of_folder,
)
from gentus.lake.formats.json_folder import FEWEST, find_records
from gentus.lake.location import Location, Remote, State
from gentus.lake.reader import parts_of
from gentus.lake.sandbox.process import sandbox_process
from gentus.table import Limits

R = TypeVar("R")
MANY = 20_000  # names up to this are sorted in memory, where they take 3 MB; more of them on the disk
NOT_A_TABLE = "its name does not end like that of a table (.csv, .parquet, ..); rename it"
_INSIDE = "to a folder of this lake, whose tables are read where they lie"
_OUTSIDE = "out of the lake, and those are not followed; put a copy into the lake"


class FolderEntry(NamedTuple):
    """An entry of a folder that may be a table, or hold some."""

    key: str  # what it is sorted by: its name, with a slash where the names of its tables begin with it
    file: str  # its name on the disk; empty: the JSON files of the folder
    folder: bool
    link: bool
    table: bool = False  # a folder, and one table
    others: Counter[str] | None = None  # files of other kinds in the folder, counted by their endings

    @property
    def name(self) -> str:
        """Its name as valid Unicode."""
        return self.key.rstrip("/")

    @property
    def may_be_row(self) -> bool:
        """Whether it may be a row of the table that the JSON files of its folder are."""
        return not (self.folder or self.link or self.table) and may_be_row(self.file)


def listing(folder: Path, prefix: str = "", exclude: Exclude = NOTHING) -> Iterator[FolderEntry]:
    """List a folder in the order that all names have when they are sorted; hidden files are left out.

    Its JSON files with one object each and the same keys are one entry, unless some of them are excluded.
    """
    left_out = Counter[str]()

    def count(name: str) -> None:
        name = unicode_name(name)
        if prefix + name != RULES and not exclude.by(prefix + name):
            left_out[ending_of(name)] += 1

    entries = sorted_entries(folder, count)
    beside = [FolderEntry("", "", False, False, others=left_out)] if left_out else []
    others = _no_rows(folder, prefix, exclude, entries)
    if others is None:
        return chain(beside, entries)
    kept = (one for one in entries if one.file in others or not one.may_be_row)
    return chain(beside, merge(kept, [FolderEntry(JSON_FILES, "", False, False, table=True)]))


def sorted_entries(
    folder: Path, count_other: Callable[[str], None] = lambda name: None
) -> Iterable[FolderEntry]:
    """The entries of a folder that may be tables, file by file; they can be gone through several times."""
    with os.scandir(folder) as entries:
        found = (one for entry in entries if (one := _entry(entry, count_other)) is not None)
        few = list(islice(found, MANY))
        if len(few) < MANY:
            few.sort()
            return few
        return _SortedOnDisk(chain(few, found))


def _no_rows(
    folder: Path, prefix: str, exclude: Exclude, entries: Iterable[FolderEntry]
) -> frozenset[str] | None:
    """The JSON files of a folder that are no rows of its table; None if it has none."""
    files = find_records(folder, (one.file for one in entries if one.may_be_row))
    if files is None:
        return None
    others, rows = set[str](), 0
    for one in entries:
        if not one.may_be_row:
            continue
        if files.row(one.file) is None:
            others.add(one.file)
        elif exclude.by(prefix + one.name):  # whoever reads the table later does not know the patterns
            return None
        else:
            rows += 1
    return frozenset(others) if rows >= FEWEST else None


def _entry(entry: os.DirEntry[str], count_other: Callable[[str], None]) -> FolderEntry | None:
    if entry.name.startswith("."):
        return None
    known, folder, link = format_of(entry.name), entry.is_dir(follow_symlinks=False), entry.is_symlink()
    if not (known or folder or link):
        count_other(entry.name)  # most files of some folders: they need not be sorted
        return None
    if folder and folder_format(Path(entry.path)):
        return FolderEntry(unicode_name(entry.name), entry.name, False, False, table=True)
    inner = folder or known in SEVERAL_TABLES
    return FolderEntry(unicode_name(entry.name) + ("/" if inner else ""), entry.name, folder, link)


class _SortedOnDisk:
    """Entries sorted with SQLite. All are read at once, so that errors of the folder are raised here."""

    def __init__(self, found: Iterable[FolderEntry]) -> None:
        from gentus.scratch import Scratch  # lazily: it imports SQLite, which few lakes need

        self._rows = Scratch("key", "file", "folder", "link", "table_")
        self._rows.extend((one.key, os.fsencode(one.file), *one[2:5]) for one in found)

    def __iter__(self) -> Iterator[FolderEntry]:
        """SQLite sorts text by its bytes in UTF-8, which is the order of code points, and so Python's."""
        return (
            FolderEntry(key, os.fsdecode(file), bool(folder), bool(link), bool(table))
            for key, file, folder, link, table in self._rows.run("SELECT * FROM rows ORDER BY key, file")
        )


def unicode_name(name: str) -> str:
    """A file name as valid Unicode: bytes that are not are written out."""
    if name.isascii():
        return name
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # halves of characters, which Windows allows in names
        return name.encode("utf-8", "backslashreplace").decode("utf-8")


def walk(root: Path, exclude: Exclude = NOTHING) -> Iterator[Source | Skipped]:
    """Yield the tables of folders of any depth, holding the listings of one branch only."""
    branch = [(root, "", listing(root, "", exclude))]
    while branch:
        folder, prefix, entries = branch[-1]
        entry = next(entries, None)
        if entry is None:
            branch.pop()
            continue
        if entry.link or not entry.folder:
            yield from tables_at(entry, folder, prefix, root, exclude)
            continue
        path, name = folder / entry.file, prefix + entry.name
        if left_out := exclude.excluded(name, path, folder=True):
            yield left_out
            continue
        try:
            branch.append((path, f"{name}/", listing(path, f"{name}/", exclude)))
        except OSError as error:
            yield Unlisted(name, path, failure_reason(error))


def tables_at(
    entry: FolderEntry, folder: Path, prefix: str, root: Path, exclude: Exclude
) -> Iterator[Source | Skipped]:
    """Yield the tables of an entry that is a file, a link or one table."""
    if entry.others:
        yield OtherKinds(prefix, folder / "*", "", entry.others)
        return
    path, name = folder / entry.file, prefix + entry.name
    if left_out := exclude.excluded(name, path):
        yield left_out
        return
    try:
        if entry.link:
            yield from tables_of_link(path, root, name)
        elif entry.table:
            yield from folder_table(path, name, None if entry.file else JSON_FILES)
        elif known := format_of(entry.file):
            found = tables_of_file(path, name, known)
            yield from exclude.applied(found) if known in SEVERAL_TABLES else found
    except OSError as error:
        yield Unlisted(name, path, failure_reason(error))


def folder_table(path: Location, name: str, part: str | None = None) -> Iterator[Source | Skipped]:
    """Yield a folder that is one table, or whose JSON files are."""
    try:
        state = state_of_folder(path) if part is None else look_up(path, part)[1]
    except (OSError, Unreadable) as error:
        yield Skipped(name, path, failure_reason(error))
    else:
        yield Source(name, path, part, state.size, state.mtime_ns, state.version)


def tables_of_link(path: Path, root: Path, name: str) -> Iterator[Source | Skipped]:
    """Yield the tables of a link, which must not lead out of the lake."""
    known = format_of(path.name)
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop, before Python 3.13
        if known or not path.suffix:
            yield Unlisted(name, path, "it is a link that leads nowhere or to itself; mend or remove it")
        return
    if target.is_dir():
        yield Skipped(name, path, f"it is a link {_INSIDE if target.is_relative_to(root) else _OUTSIDE}")
    elif known and not target.is_relative_to(root):
        yield Skipped(name, path, f"it is a link {_OUTSIDE}")
    elif known:
        yield from tables_of_file(path, name, known)
    else:
        yield other_kind(path, name)


def other_kind(path: Location, name: str) -> OtherKinds:
    """A file of another kind."""
    return OtherKinds(name, path, "", {ending_of(path.name): 1})


def tables_of_file(path: Path, name: str, known: Format) -> Iterator[Source | Skipped]:
    """Yield the tables of a regular file."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        yield Skipped(name, path, "it is a pipe or a device, not a file")
    else:
        yield from tables_in(path, name, known, State(state.st_size, state.st_mtime_ns))


def tables_in(path: Location, name: str, known: Format, state: State) -> Iterator[Source | Skipped]:
    """Yield the tables of one file: itself, or those that a database or a workbook holds."""
    if known not in SEVERAL_TABLES:
        yield Source(name, path, None, state.size, state.mtime_ns, state.version)
        return
    from gentus.lake.formats.archive import Members, members_of  # few lakes have archives

    try:
        start = magic(path)
        if known is Format.DATABASE and path.suffix.lower() == ".db" and not is_database(start):
            yield other_kind(path, name)  # many programs use this name for other files
            return
        if (found := detect_format(path, start)) is Format.ZIP:
            members = _in_sandbox(path, members_of, path, Limits())
        else:
            members = Members([str(part) for part in _in_sandbox(path, parts_of, path, found, Limits())])
    except Exception as error:  # DuckDB, SQLite and zip files may raise anything
        yield Unlisted(name or path.name, path, failure_reason(error), whole=not name)
        return
    beginning = f"{name}/" if name else ""
    listed: list[Source | Skipped] = [
        Source(beginning + part, path, part, state.size, state.mtime_ns, state.version)
        for part in members.tables
    ]
    listed += [Skipped(beginning + part, path, reason) for part, reason in members.refused.items()]
    if members.others:
        yield OtherKinds(beginning, path, "", members.others)
    yield from sorted(listed, key=lambda one: one.name)
    if not listed:
        yield Skipped(name or path.name, path, "there are no tables in it")


def _in_sandbox(path: Location, function: Callable[..., R], *arguments: object) -> R:
    """List the tables inside a file in a sandbox: a damaged one may crash its parser."""
    if isinstance(path, Remote) and path.scheme == "memory":  # its objects exist in this process only
        return function(*arguments)
    with sandbox_process() as sandbox:
        return sandbox(function, *arguments)
