"""A folder of JSON files with one object each and mostly the same keys: one table, with a row per file.

The files that fit are its rows. All others of the folder, such as a configuration or an array, stay tables of
their own, or are refused as such.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import Any

from gentus.lake.base import Unreadable, table_from_rows
from gentus.lake.files import sample_bytes, to_text
from gentus.lake.formats.detect import folder_format, json_files
from gentus.lake.formats.json_text import DECODER, cell_text, header_of, skip
from gentus.table import Head, Limits, Table

FEWEST = 20  # files from which on a folder is a table
_LARGEST = 64 << 10  # bytes of a file
_LOOK = 64  # files that tell the keys
_MOST = 0.8  # of those, that must fit
_SHARED = 0.5  # of the keys of a file, and of the usual keys, that must be the same
_CHANGED = "its JSON files have no longer one object each with the same keys; index the lake again"


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """The files of a folder that are rows of one table, by the keys that most of them have."""

    folder: Path
    usual: frozenset[str]

    def row(self, file: str) -> dict[str, Any] | None:
        """The object in a file; None: it is no row of this table."""
        record = _one_object(self.folder / file)
        return record if record is not None and self._fits(record) else None

    def _fits(self, record: dict[str, Any]) -> bool:
        shared = len(self.usual & record.keys())
        return shared >= _SHARED * max(len(record), len(self.usual))


@dataclass(frozen=True, slots=True)
class RecordSample:
    """Some rows of such a folder, and what they tell about all of them."""

    files: RecordFiles
    header: list[str]  # keys in the order they are first seen
    records: list[dict[str, Any]]
    first: list[dict[str, Any]]  # by the names of files
    total: int  # JSON files in the folder

    @property
    def reading(self) -> str:
        """How it is read, in words."""
        return f"a row per JSON file of the folder that has the usual keys; there are {self.total:,} files"


def find_records(folder: Path, names: Iterable[str]) -> RecordFiles | None:
    """Whether some files of a folder are rows of one table; a bounded number of them is read to find out."""
    chosen = _some(names, _LOOK)
    if len(chosen) < FEWEST:
        return None
    found: list[dict[str, Any]] = []
    for at, name in enumerate(chosen):
        if (record := _one_object(folder / name)) is not None:
            found.append(record)
        if at + 1 - len(found) > (1 - _MOST) * len(chosen):
            return None
    counts = Counter(key for record in found for key in record)
    files = RecordFiles(folder, frozenset(key for key, count in counts.items() if 2 * count >= len(found)))
    return files if sum(map(files._fits, found)) >= _MOST * len(chosen) else None


def is_record_folder(folder: Path) -> bool:
    """Whether the JSON files of a folder are one table."""
    return folder_format(folder) is None and find_records(folder, _names(folder)) is not None


def sample_records(folder: Path, limits: Limits) -> RecordSample:
    """Sample the rows of a folder; raises `Unreadable` if it is no table any more."""
    files = find_records(folder, _names(folder))
    if files is None:
        raise Unreadable(_CHANGED)
    total = sum(1 for _ in _names(folder))
    records = _rows(files, sorted(_some(_names(folder), limits.rows)))
    first = records if total <= limits.rows else _rows(files, nsmallest(limits.head, _names(folder)))
    return RecordSample(files, header_of(records)[0], records, first, total)


def _names(folder: Path) -> Iterator[str]:
    """The names of files; they are listed again where they are needed again, as they may be millions."""
    return (entry.name for entry in json_files(folder))


def _rows(files: RecordFiles, names: Iterable[str]) -> list[dict[str, Any]]:
    return [row for name in names if (row := files.row(name)) is not None]


def read_records(folder: Path, name: str, limits: Limits) -> Table:
    """Read a bounded sample of the rows of a folder."""
    sampled = sample_records(folder, limits)
    header = sampled.header[: limits.columns]
    rows, first = (
        [[cell_text(record.get(key)) for key in header] for record in some]
        for some in (sampled.records, sampled.first)
    )
    head = Head(first, sampled.total <= limits.head)
    return replace(table_from_rows(name, header, rows, limits, head), reading=sampled.reading)


def _some(names: Iterable[str], wanted: int) -> list[str]:
    """At most so many names, chosen by their hashes: the same ones every time, in bounded memory."""
    return nsmallest(wanted, names, key=lambda name: (zlib.crc32(name.encode("utf-8", "replace")), name))


def _one_object(path: Path) -> dict[str, Any] | None:
    """The object in a file if it can be a row: mostly plain values, and no array of objects."""
    try:
        taken = sample_bytes(path, _LARGEST)
        if not taken.complete:
            return None
        text, _ = to_text(taken.head)
        begin = skip(text, 0)
        if not text.startswith("{", begin):
            return None
        value, end = DECODER.raw_decode(text, begin)
    except (OSError, Unreadable, json.JSONDecodeError, RecursionError):
        return None  # whoever reads the file by itself says what is wrong with it
    plain = sum(not isinstance(one, dict | list) for one in value.values())
    arrays = (one for one in value.values() if isinstance(one, list))
    inner = any(isinstance(item, dict | list) for array in arrays for item in array)
    return None if inner or 2 * plain < max(1, len(value)) or text[end:].strip() else value
