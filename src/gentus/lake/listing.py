"""The entries of one folder in the order of names, in bounded memory however many there are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from gentus.lake.formats.lakehouse import folder_format
from gentus.lake.kinds import Format, format_of

MANY = 20_000  # names up to this are sorted in memory, where they take 3 MB; more of them on the disk


class Listed(NamedTuple):
    """Something in a folder that may be a table, or hold some."""

    key: str  # what it is sorted by: its name, with a slash where the names of its tables begin with it
    file: str  # what it is called on the disk
    folder: bool
    link: bool
    table: bool = False  # a folder, and one table

    @property
    def name(self) -> str:
        """What it is called among people."""
        return self.key.rstrip("/")


def listing(folder: Path) -> Iterator[Listed]:
    """List a folder in the order that all names have when they are sorted; hidden files are left out."""
    with os.scandir(folder) as entries:
        found = (one for one in map(_listed, entries) if one is not None)
        few = list(islice(found, MANY))
        if len(few) < MANY:
            few.sort()
            return iter(few)
        return _sorted_on_disk(chain(few, found))


def _listed(entry: os.DirEntry[str]) -> Listed | None:
    if entry.name.startswith("."):
        return None
    kind, folder, link = format_of(entry.name), entry.is_dir(follow_symlinks=False), entry.is_symlink()
    if not (kind or folder or link):
        return None  # most files of some folders: they need not be sorted
    if folder and folder_format(Path(entry.path)):
        return Listed(readable(entry.name), entry.name, False, False, table=True)
    inner = folder or kind in (Format.DATABASE, Format.EXCEL)
    return Listed(readable(entry.name) + ("/" if inner else ""), entry.name, folder, link)


def _sorted_on_disk(found: Iterable[Listed]) -> Iterator[Listed]:
    """All of them are taken now, so that an error of the folder is one of its listing."""
    from gentus.scratch import Scratch  # and SQLite with it, which few lakes need

    rows = Scratch("key", "file", "folder", "link", "table_")
    rows.extend((one.key, os.fsencode(one.file), *one[2:]) for one in found)
    # SQLite sorts text by its bytes in UTF-8, which is the order of code points, and so Python's.
    return (
        Listed(key, os.fsdecode(file), *map(bool, rest))
        for key, file, *rest in rows.run("SELECT * FROM rows ORDER BY key, file")
    )


def readable(name: str) -> str:
    """Return a file name as valid Unicode: bytes of it that are none are written out."""
    if name.isascii():
        return name
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # halves of characters, which Windows allows in names
        return name.encode("utf-8", "backslashreplace").decode("utf-8")
