"""The tables of a lake, wherever it lies: list them, find one that a person names, name them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gentus.lake.base import Skipped, Source, Unlisted, Unreadable, failure_reason
from gentus.lake.exclude import NOTHING, Exclude
from gentus.lake.folder import (
    NOT_A_TABLE,
    folder_table,
    tables_in,
    tables_of_file,
    tables_of_link,
    unicode_name,
    walk,
)
from gentus.lake.formats.detect import SEVERAL_TABLES, folder_format, format_at, format_of, look_up
from gentus.lake.location import POSTGRES, Location, Remote, as_location, is_url
from gentus.lake.sandbox.process import sandbox_process


def scan(lake: str | os.PathLike[str] | Remote, exclude: Exclude = NOTHING) -> Iterator[Source | Skipped]:
    """Yield the tables of a lake sorted by name, and what of it cannot be read or is excluded."""
    with sandbox_process():
        yield from _scan(as_location(lake), exclude)


def _scan(lake: Location, exclude: Exclude) -> Iterator[Source | Skipped]:
    if isinstance(lake, Remote):
        from gentus.lake.remote_folder import scan_remote

        yield from scan_remote(lake, exclude)
        return
    try:
        root = lake.resolve(strict=True)
        if root.is_dir() and folder_format(root) is None:
            yield from walk(root, exclude)
            return
        found = format_at(root)
        _, state = look_up(root)
    except (OSError, RuntimeError, Unreadable) as error:
        yield Unlisted(unicode_name(lake.name), lake, failure_reason(error), whole=True)
        return
    yield from exclude.applied(tables_in(root, "" if found in SEVERAL_TABLES else root.name, found, state))


def locate(
    path: str | os.PathLike[str] | Remote, lake: str | os.PathLike[str] | Remote
) -> Iterator[Source | Skipped]:
    """Yield the tables of a file or folder that a person names.

    Their names are those of a scan of the lake; outside of it, their full paths.
    """
    location, lake = as_location(path), as_location(lake).resolve()
    if isinstance(location, Remote):
        from gentus.lake.remote_folder import locate_remote

        name = table_name(location, None, lake)
        yield from scan(location) if location == lake else locate_remote(location, name)
        return
    full = Path(os.path.abspath(location))
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
        elif (found := format_of(full.name)) is None:
            full.stat()
            yield Skipped(name, full, NOT_A_TABLE)
        elif inside and full.is_symlink() and isinstance(lake, Path):
            yield from tables_of_link(full, lake, name)
        else:
            yield from tables_of_file(full, name, found)
    except FileNotFoundError:
        yield Skipped(name, full, "there is no such file")
    except OSError as error:
        yield Skipped(name, full, failure_reason(error))


def exists(location: Location) -> bool:
    """Whether there is anything at a location; raises `Unreadable` where that cannot be found out."""
    if isinstance(location, Path):
        return location.exists()
    if location.scheme in POSTGRES:
        from gentus.lake.formats.postgres import exists as has_table

        return has_table(location)
    from gentus.lake.remote.storage import exists as has_object

    return has_object(location)


def table_name(path: Location, part: str | None, lake: Location) -> str:
    """The name of a table: its path in the lake or, outside of it, its full path; then its part.

    A lake that was moved may be a link now, and paths in it begin in either way.
    """
    real = lake.resolve()
    if path in (lake, real):  # one file that is the lake
        return part or unicode_name(path.name)
    as_given = isinstance(path, Path) and isinstance(lake, Path) and path.is_relative_to(lake)
    name = _inside(path, lake if as_given else real)
    return name if part is None else f"{name}/{part}"


def _inside(path: Location, lake: Location) -> str:
    if isinstance(path, Remote):
        return path.relative_to(lake)
    inside = isinstance(lake, Path) and path.is_relative_to(lake)
    return unicode_name((path.relative_to(str(lake)) if inside else path).as_posix())


def is_outside_lake(name: str) -> bool:
    """Whether a table with this name lies outside of its lake."""
    return os.path.isabs(name) or is_url(name)
