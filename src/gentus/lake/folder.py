"""The tables of a lake: a folder of files, or one database file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gentus.lake.base import Skipped, Source, Unreadable, failure_reason
from gentus.lake.files import look_up, magic, opened
from gentus.lake.formats.lakehouse import folder_format, state_of_folder
from gentus.lake.kinds import SQLITE, Format, detect_format, format_of, is_database
from gentus.lake.listing import Listed, listing, readable
from gentus.lake.location import Location, Remote, State, as_location, is_url
from gentus.lake.reader import format_at, parts_of
from gentus.lake.sandbox.isolated import sandbox_process
from gentus.table import Limits

_WHOLE = 16 << 20  # files up to this are hashed whole
_BLOCK = 256 << 10
_BLOCKS = 32
_INSIDE = "to a folder of this lake, whose tables are read where they lie"
_OUTSIDE = "out of the lake, and those are not followed; put a copy into the lake"


def scan(lake: str | os.PathLike[str] | Remote) -> Iterator[Source | Skipped]:
    """Yield the tables of a lake sorted by name, and what of it cannot be read."""
    with sandbox_process():
        yield from _scan(as_location(lake))


def _scan(lake: Location) -> Iterator[Source | Skipped]:
    if isinstance(lake, Remote):
        from gentus.lake.remote.scan import scan_remote

        yield from scan_remote(lake)
        return
    try:
        root = lake.resolve(strict=True)
        if root.is_dir() and folder_format(root) is None:
            yield from _walk(root)
            return
        kind = format_at(root)
        _, state = look_up(root)
    except (OSError, RuntimeError, Unreadable) as error:
        yield Skipped(readable(lake.name), lake, failure_reason(error))
        return
    yield from tables_in(root, "" if kind in (Format.DATABASE, Format.EXCEL) else root.name, kind, state)


def locate(
    path: str | os.PathLike[str] | Remote, lake: str | os.PathLike[str] | Remote
) -> Iterator[Source | Skipped]:
    """Yield the tables of a file or folder that a person names.

    They are called what a scan of the lake calls them; outside of it, their full path.
    """
    place, lake = as_location(path), as_location(lake).resolve()
    if isinstance(place, Remote):
        from gentus.lake.remote.scan import locate_remote

        yield from scan(place) if place == lake else locate_remote(place, table_name(place, None, lake))
        return
    full = Path(os.path.abspath(place))
    if full.resolve() == lake:
        yield from scan(lake)
        return
    full = full.parent.resolve() / full.name
    inside = not isinstance(lake, Remote) and lake.is_dir() and full.is_relative_to(lake)
    name = table_name(full, None, lake)
    try:
        if full.is_dir() and folder_format(full) is not None:
            yield from folder_table(full, name)
        elif full.is_dir():
            for item in scan(full):
                yield replace(item, name=f"{name}/{item.name}")
        elif (kind := format_of(full.name)) is None:
            full.stat()
            yield Skipped(
                name, full, "its name does not end like that of a table (.csv, .parquet, ..); rename it"
            )
        elif inside and full.is_symlink() and isinstance(lake, Path):
            yield from _link(full, lake, name)
        else:
            yield from _file(full, name, kind)
    except FileNotFoundError:
        yield Skipped(name, full, "there is no such file")
    except OSError as error:
        yield Skipped(name, full, failure_reason(error))


def table_name(path: Location, part: str | None, lake: Location) -> str:
    """What a table is called: its path in the lake or, outside of it, its full path; and which part it is."""
    lake = lake.resolve()
    if path == lake:  # one file that is the lake
        return part or readable(path.name)
    name = _inside(path, lake)
    return name if part is None else f"{name}/{part}"


def _inside(path: Location, lake: Location) -> str:
    if isinstance(path, Remote):
        return path.relative_to(lake)
    inside = isinstance(lake, Path) and path.is_relative_to(lake)
    return readable((path.relative_to(str(lake)) if inside else path).as_posix())


def is_outside_lake(name: str) -> bool:
    """Whether a table that is called so lies outside of its lake."""
    return os.path.isabs(name) or is_url(name)


def fingerprint(source: Source) -> str:
    """Hash the content of a source at bounded cost: of large files, blocks spread over them and the date.

    Of an object at a URL nothing is read: what its store says of it changes with its content.
    """
    try:
        place, state = look_up(source.location)
        if isinstance(place, Path) and not state.version:
            digest = _digest(place, state.size, state.mtime_ns)
        elif state.telling:
            digest = hashlib.blake2b(repr(state).encode(), digest_size=16).hexdigest()
        else:
            raise Unreadable("its server says neither when it was changed nor which version it is")
    except (OSError, Unreadable) as error:
        raise Unreadable(failure_reason(error)) from error
    if source.part is None:
        return digest
    both = f"{digest}/{source.part}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(both, digest_size=16).hexdigest()


@lru_cache(maxsize=1)  # the tables of one database follow one another
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with opened(path) as file:
        if size <= _WHOLE:
            while part := file.read(1 << 20):
                digest.update(part)
        else:
            digest.update(f"{size} {mtime_ns}".encode())
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def _walk(root: Path) -> Iterator[Source | Skipped]:
    """Go through folders of any depth, holding the listings of one branch only."""
    branch = [(root, "", listing(root))]
    while branch:
        folder, prefix, entries = branch[-1]
        entry = next(entries, None)
        if entry is None:
            branch.pop()
            continue
        if entry.link or not entry.folder:
            yield from tables_at(entry, folder, prefix, root)
            continue
        path, name = folder / entry.file, prefix + entry.name
        try:
            branch.append((path, f"{name}/", listing(path)))
        except OSError as error:
            yield Skipped(name, path, failure_reason(error))


def tables_at(entry: Listed, folder: Path, prefix: str, root: Path) -> Iterator[Source | Skipped]:
    """Yield the tables of something in a folder that is a file, or a link."""
    path, name = folder / entry.file, prefix + entry.name
    try:
        if entry.link:
            yield from _link(path, root, name)
        elif entry.table:
            yield from folder_table(path, name)
        elif kind := format_of(entry.file):
            yield from _file(path, name, kind)
    except OSError as error:
        yield Skipped(name, path, failure_reason(error))


def folder_table(path: Location, name: str) -> Iterator[Source | Skipped]:
    """Yield a folder that is one table."""
    try:
        state = state_of_folder(path)
    except (OSError, Unreadable) as error:
        yield Skipped(name, path, failure_reason(error))
    else:
        yield Source(name, path, None, state.size, state.mtime_ns, state.version)


def _link(path: Path, root: Path, name: str) -> Iterator[Source | Skipped]:
    kind = format_of(path.name)
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop, before Python 3.13
        if kind or not path.suffix:
            yield Skipped(name, path, "it is a link that leads nowhere or to itself; mend or remove it")
        return
    if target.is_dir():
        yield Skipped(name, path, f"it is a link {_INSIDE if target.is_relative_to(root) else _OUTSIDE}")
    elif kind and not target.is_relative_to(root):
        yield Skipped(name, path, f"it is a link {_OUTSIDE}")
    elif kind:
        yield from _file(path, name, kind)


def _file(path: Path, name: str, kind: Format) -> Iterator[Source | Skipped]:
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        yield Skipped(name, path, "it is a pipe or a device, not a file")
    else:
        yield from tables_in(path, name, kind, State(state.st_size, state.st_mtime_ns))


def tables_in(path: Location, name: str, kind: Format, state: State) -> Iterator[Source | Skipped]:
    """Yield the tables of one file: itself, or those that a database or a workbook holds."""
    if kind not in (Format.DATABASE, Format.EXCEL):
        yield Source(name, path, None, state.size, state.mtime_ns, state.version)
        return
    try:
        start = magic(path)
        if kind is Format.DATABASE and path.suffix.lower() == ".db" and not is_database(start):
            return  # many programs name their own files so
        parts = [str(part) for part in _parts_of(path, detect_format(path, start), start)]
    except Exception as error:  # DuckDB, SQLite and zip files: what they raise is not to be foreseen
        yield Skipped(name or path.name, path, failure_reason(error))
        return
    for part in sorted(parts):
        full = f"{name}/{part}" if name else part
        yield Source(full, path, part, state.size, state.mtime_ns, state.version)
    if not parts:
        yield Skipped(name or path.name, path, "there are no tables in it")


def _parts_of(path: Location, kind: Format, start: bytes) -> Sequence[str | None]:
    """List the tables inside a file; DuckDB opens its own in another process, since damage may be its end."""
    only_here = isinstance(path, Remote) and path.scheme == "memory"
    if kind is not Format.DATABASE or start == SQLITE or only_here:
        return parts_of(path, kind, Limits())
    with sandbox_process() as apart:
        return apart(parts_of, path, kind, Limits())
