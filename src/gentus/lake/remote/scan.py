"""The tables of a lake at a URL, listed page by page in the order of names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

from gentus.lake.base import Skipped, Source, Unreadable
from gentus.lake.files import magic
from gentus.lake.folder import folder_table, tables_in
from gentus.lake.formats.lakehouse import DELTA_LOG, METADATA, folder_format
from gentus.lake.formats.postgres import scan_postgres
from gentus.lake.kinds import Format, detect_format, format_of, is_database
from gentus.lake.location import POSTGRES, Remote, State
from gentus.lake.remote.storage import asked, info_of, state_in

_ODD = "its key has a part that is . or .., which some programs would follow out of the lake; rename it"

_TABLE = "gentus: a folder that is one table"


@dataclass(frozen=True, slots=True, order=True)
class _Listed:
    """An object, or a folder of them, as a listing has it."""

    key: str  # what it is sorted by: its name, with a slash where the names of its tables begin with it
    name: str  # relative to the lake
    info: Any = None  # what the store says of it; None for a folder

    @classmethod
    def of(cls, name: str, info: dict[str, Any] | None) -> _Listed:
        inner = info is None or format_of(name) in (Format.DATABASE, Format.EXCEL)
        return cls(name + "/" if inner else name, name, info)


def scan_remote(lake: Remote) -> Iterator[Source | Skipped]:
    """Yield the tables below a URL sorted by name, or those of the one object there.

    A listing that breaks off is an error: what is behind it must not be taken for vanished.
    """
    if lake.scheme in POSTGRES:
        yield from scan_postgres(lake)
        return
    try:
        if _is_folder(lake) and folder_format(lake) is not None:
            yield from folder_table(lake, lake.name)
            return
        if _is_folder(lake):
            for one in _in_order(_listing(lake)):
                yield from _object(lake / one.name, one.name, one.info)
            return
        state = state_in(info_of(lake))
        place = Remote(lake.url, state)
        kind = Format.DATABASE if is_database(magic(place)) else detect_format(place, magic(place))
    except Unreadable as error:
        raise Unreadable(f"{lake}: {error.reason}") from error
    name = "" if kind in (Format.DATABASE, Format.EXCEL) else lake.name
    yield from tables_in(place, name, kind, state)


def locate_remote(place: Remote, name: str) -> Iterator[Source | Skipped]:
    """Yield the tables of an object or folder that a person names, under that name."""
    try:
        if place.scheme in POSTGRES:
            for item in scan_postgres(place):
                yield replace(item, name=item.path.url if isinstance(item.path, Remote) else item.name)
        elif _is_folder(place) and folder_format(place) is not None:
            yield from folder_table(place, name)
        elif _is_folder(place):
            for item in scan_remote(place):
                yield replace(item, name=f"{name}/{item.name}")
        elif format_of(place.name) is None:
            reason = "its name does not end like that of a table (.csv, .parquet, ..); rename it"
            yield Skipped(name, place, reason)
        else:
            yield from _object(place, name, info_of(place))
    except Unreadable as error:
        yield Skipped(name, place, error.reason)


def _is_folder(place: Remote) -> bool:
    if place.scheme in ("http", "https"):  # which knows no folders: a page with links may be one
        return format_of(place.name) is None
    return info_of(place).get("type") == "directory"


def _object(place: Remote, name: str, info: dict[str, Any]) -> Iterator[Source | Skipped]:
    if info.get(_TABLE):
        yield from folder_table(place, name)
        return
    kind = format_of(place.name)
    if kind is None:
        return
    if {".", ".."} & set(name.split("/")):
        yield Skipped(name, place, _ODD)
        return
    try:
        state = _state(place, info)
    except Unreadable as error:
        yield Skipped(name, place, error.reason)
        return
    yield from tables_in(Remote(place.url, state), name, kind, state)


def _in_order(listed: Iterator[_Listed]) -> Iterator[_Listed]:
    """Let objects that hold several tables wait until it is the turn of the names of these."""
    waiting: list[_Listed] = []
    for one in listed:
        while waiting and waiting[0].key < one.name:
            yield heappop(waiting)
        if one.key == one.name:
            yield one
        else:
            heappush(waiting, one)
    while waiting:
        yield heappop(waiting)


def _listing(lake: Remote) -> Iterator[_Listed]:
    """All objects that may be tables, sorted by name; hidden ones are left out."""
    s3 = lake.scheme in ("s3", "s3a")
    for one in _with_tables(lake, _s3_pages(lake)) if s3 else _folders(lake):
        hidden = any(part.startswith(".") and part not in (".", "..") for part in one.name.split("/"))
        table = one.info.get(_TABLE) or format_of(one.name.rsplit("/", 1)[-1])
        if table and not hidden and not one.name.endswith("/"):
            yield one


def _with_tables(lake: Remote, listed: Iterator[_Listed]) -> Iterator[_Listed]:
    """Put one table in the place of all objects below a folder that is one.

    Which folder is one is only asked where it has Parquet in it, or what looks like a log.
    """
    known: dict[str, bool] = {}  # of the folders on the way to the last object
    for one in listed:
        above = [one.name[:at] for at, sign in enumerate(one.name) if sign == "/"]
        known = {folder: is_one for folder, is_one in known.items() if folder in above}
        telling = format_of(one.name) is Format.PARQUET or {DELTA_LOG, METADATA} & set(one.name.split("/"))
        for folder in above if telling else []:
            if folder not in known and folder and format_of(folder.rsplit("/", 1)[-1]) is None:
                known[folder] = folder_format(lake / folder) is not None
                if known[folder]:
                    yield _Listed(folder, folder, {_TABLE: True})
                    break
        if not any(known.values()):
            yield one


def _s3_pages(lake: Remote) -> Iterator[_Listed]:
    """A thousand keys at a time; S3 has them in the order of their bytes, which is that of names."""
    bucket, _, prefix = lake.url.partition("://")[2].partition("/")
    prefix = f"{prefix}/" if prefix else ""
    more: dict[str, str] = {}
    while True:
        page = asked(
            lake,
            lambda store, _: store.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **more),  # noqa: B023
        )
        for found in page.get("Contents", []):
            info = {**found, "size": found["Size"]}
            yield _Listed.of(found["Key"][len(prefix) :], info)
        if not page.get("IsTruncated"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def _folders(lake: Remote) -> Iterator[_Listed]:
    """Folder by folder, holding the listings of one branch only."""
    branch = [_folder(lake, "")]
    while branch:
        one = next(branch[-1], None)
        if one is None:
            branch.pop()
        elif one.info is None and folder_format(lake / one.name) is not None:
            yield _Listed(one.name, one.name, {_TABLE: True})
        elif one.info is None:
            branch.append(_folder(lake, one.key))
        else:
            yield one


def files_in(folder: Remote) -> dict[str, State]:
    """The objects of a folder, by name; none if there is no such folder."""
    listed = _s3_pages(folder) if folder.scheme in ("s3", "s3a") else _folder(folder, "")
    inner = (one for one in listed if one.info is not None and one.name and "/" not in one.name)
    return {one.name: _state(folder / one.name, one.info) for one in inner}


def _state(place: Remote, info: dict[str, Any]) -> State:
    """What the store says of an object; pages with links do not say much."""
    return state_in(info if info.get("size") is not None else info_of(place))


def _folder(lake: Remote, prefix: str) -> Iterator[_Listed]:
    def look(store: Any, path: str) -> list[dict[str, Any]]:
        below = f"{path.rstrip('/')}/{prefix}"
        try:
            return list(store.ls(below if http else below.rstrip("/") or "/", detail=True))
        except FileNotFoundError:
            return []

    http = lake.scheme in ("http", "https")
    listed = []
    for info in asked(lake, look):
        # What a page links to elsewhere is not ours to open.
        name = str(info["name"]).rstrip("/").rsplit("/", 1)[-1]
        inside = not http or str(info["name"]).rstrip("/") == f"{lake.url}/{prefix}{name}"
        if name and inside and not (http and set("?#") & set(name)) and name not in (".", ".."):
            listed.append(_Listed.of(prefix + name, None if info.get("type") == "directory" else info))
    return iter(sorted(listed, key=lambda one: one.key))
