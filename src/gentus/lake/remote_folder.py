"""The tables of a lake at a URL, listed page by page in the order of names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

from gentus.lake.base import RULES, Skipped, Source, Unlisted, Unreadable
from gentus.lake.exclude import NOTHING, Exclude
from gentus.lake.files import magic
from gentus.lake.folder import NOT_A_TABLE, folder_table, other_kind, tables_in
from gentus.lake.formats.detect import (
    DELTA_LOG,
    METADATA,
    SEVERAL_TABLES,
    Format,
    detect_format,
    folder_format,
    format_of,
    is_database,
)
from gentus.lake.formats.postgres import scan_postgres
from gentus.lake.location import POSTGRES, Remote
from gentus.lake.remote.storage import (
    entries_of,
    info_of,
    is_directory,
    is_s3,
    s3_objects,
    state_from,
    state_in,
)

_DOTS = "its key has a part that is . or .., which some programs would follow out of the lake; rename it"
_TABLE = "gentus: a folder that is one table"  # a key of `info`
_EXCLUDED = "gentus: a folder that is excluded"  # the same


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    """An object, or a folder of them, in a listing."""

    key: str  # what it is sorted by: its name, with a slash where the names of its tables begin with it
    name: str  # relative to the lake
    info: Any = None  # what the store says of it; None for a folder

    @classmethod
    def of(cls, name: str, info: dict[str, Any] | None) -> _Entry:
        inner = info is None or format_of(name) in SEVERAL_TABLES
        return cls(name + "/" if inner else name, name, info)


def scan_remote(lake: Remote, exclude: Exclude = NOTHING) -> Iterator[Source | Skipped]:
    """Yield the tables below a URL sorted by name, or those of the one object there.

    A listing that breaks off is an error: tables that it did not reach must not be taken for deleted.
    """
    if lake.scheme in POSTGRES:
        yield from exclude.applied(scan_postgres(lake))
        return
    try:
        folder = _is_folder(lake)
        if folder and folder_format(lake) is not None:
            yield from folder_table(lake, lake.name)
            return
        if folder:
            for one in _in_order(_listing(lake, exclude)):
                left_out = one.info.get(_EXCLUDED) or exclude.excluded(one.name, lake / one.name)
                if left_out and not one.info.get(_EXCLUDED) and format_of(one.name) is None:
                    continue  # of the files that are left out, only tables are counted as excluded
                found_in = _object(lake / one.name, one.name, one.info)
                yield from [left_out] if left_out else exclude.applied(found_in)
            return
        state = state_in(info_of(lake))
        location = Remote(lake.url, state)
        start = magic(location)
        found = Format.DATABASE if is_database(start) else detect_format(location, start)
    except Unreadable as error:
        raise Unreadable(f"{lake}: {error.reason}") from error
    found_tables = tables_in(location, "" if found in SEVERAL_TABLES else lake.name, found, state)
    yield from exclude.applied(found_tables)


def locate_remote(location: Remote, name: str) -> Iterator[Source | Skipped]:
    """Yield the tables of an object or folder that a person names, under that name."""
    try:
        if location.scheme in POSTGRES:
            for item in scan_postgres(location):
                yield replace(item, name=item.path.url if isinstance(item.path, Remote) else item.name)
            return
        folder = _is_folder(location)
        if folder and folder_format(location) is not None:
            yield from folder_table(location, name)
        elif folder:
            for item in scan_remote(location):
                yield replace(item, name=f"{name}/{item.name}")
        elif format_of(location.name) is None:
            yield Skipped(name, location, NOT_A_TABLE)
        else:
            yield from _object(location, name, info_of(location))
    except Unreadable as error:
        yield Skipped(name, location, error.reason)


def _is_folder(location: Remote) -> bool:
    if location.scheme in ("http", "https"):  # which has no folders: a page with links may be one
        return format_of(location.name) is None
    return is_directory(location)


def _object(location: Remote, name: str, info: dict[str, Any]) -> Iterator[Source | Skipped]:
    if info.get(_TABLE):
        yield from folder_table(location, name)
        return
    found = format_of(location.name)
    if found is None:
        if name != RULES:
            yield other_kind(location, name)
        return
    if {".", ".."} & set(name.split("/")):
        yield Skipped(name, location, _DOTS)
        return
    try:
        state = state_from(location, info)
    except Unreadable as error:
        yield Unlisted(name, location, error.reason)
        return
    yield from tables_in(Remote(location.url, state), name, found, state)


def _in_order(entries: Iterator[_Entry]) -> Iterator[_Entry]:
    """Delay objects that hold several tables until the names of these are next in the order."""
    waiting: list[_Entry] = []
    for one in entries:
        while waiting and waiting[0].key < one.name:
            yield heappop(waiting)
        if one.key == one.name:
            yield one
        else:
            heappush(waiting, one)
    while waiting:
        yield heappop(waiting)


def _listing(lake: Remote, exclude: Exclude) -> Iterator[_Entry]:
    """All objects, and folders that are excluded, sorted by name; no hidden ones."""
    for one in _s3_entries(lake) if is_s3(lake) else _walk(lake, exclude):
        hidden = any(part.startswith(".") and part not in (".", "..") for part in one.name.split("/"))
        if one.info is not None and not hidden and not one.name.endswith("/"):
            yield one


def _s3_entries(lake: Remote) -> Iterator[_Entry]:
    """All objects, with one table in place of the objects below a folder that is one.

    Folders are checked only where they hold Parquet files, or what looks like a log.
    """
    known: dict[str, bool] = {}  # of the folders on the way to the last object
    for name, info in s3_objects(lake):
        above = [name[:at] for at, sign in enumerate(name) if sign == "/"]
        known = {folder: is_one for folder, is_one in known.items() if folder in above}
        suspect = format_of(name) is Format.PARQUET or {DELTA_LOG, METADATA} & set(name.split("/"))
        for folder in above if suspect else []:
            if folder not in known and folder and format_of(folder.rsplit("/", 1)[-1]) is None:
                known[folder] = folder_format(lake / folder) is not None
                if known[folder]:
                    yield _Entry(folder, folder, {_TABLE: True})
                    break
        if not any(known.values()):
            yield _Entry.of(name, info)


def _walk(lake: Remote, exclude: Exclude) -> Iterator[_Entry]:
    """Folder by folder, holding the listings of one branch only."""
    branch = [_sorted_entries(lake)]
    while branch:
        one = next(branch[-1], None)
        if one is None:
            branch.pop()
        elif one.info is None and (left_out := exclude.excluded(one.name, lake / one.name, folder=True)):
            yield _Entry(one.name, one.name, {_EXCLUDED: left_out})
        elif one.info is None and folder_format(lake / one.name) is not None:
            yield _Entry(one.name, one.name, {_TABLE: True})
        elif one.info is None:
            branch.append(_sorted_entries(lake, one.key))
        else:
            yield one


def _sorted_entries(lake: Remote, prefix: str = "") -> Iterator[_Entry]:
    entries = [_Entry.of(name, info) for name, info in entries_of(lake, prefix)]
    return iter(sorted(entries, key=lambda one: one.key))
