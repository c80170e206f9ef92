"""All records of JSON, in one file or in the files of a folder, one by one, in bounded memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from gentus.lake.base import Unreadable
from gentus.lake.files import stream, stream_text
from gentus.lake.folder import sorted_entries
from gentus.lake.formats.json_folder import sample_records
from gentus.lake.formats.json_text import (
    DECODER,
    KEY,
    JsonSample,
    as_object,
    cell_text,
    records_of,
    sample_json,
    skip,
)
from gentus.lake.full.rows import AT_ONCE, FullTable, Piece, Tally, full_from_text, text_array
from gentus.lake.location import Location
from gentus.table import Limits

_BLANK = re.compile(r"\s*")
_LARGEST = 64 << 20  # characters of one record
_NEAR = 16  # characters: an error this close to the end of the text may vanish with more of it


def full_json(path: Location, limits: Limits) -> FullTable:
    """A JSON or JSON Lines file. Values under keys that no sampled record has are counted and left out."""
    sampled = sample_json(path, limits)
    known = set(sampled.header)

    def rows(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        found = _records(path, sampled, tally)
        if sampled.arrays:
            found = _lists(found, len(sampled.header), tally)
            next(found, None)  # the header
        while records := list(islice(found, AT_ONCE)):
            if sampled.arrays:
                cells = [[cell_text(record[at]) for record in records] for at in positions]
            else:
                objects = [as_object(record) for record in records]
                keys = [sampled.header[at] for at in positions]
                cells = [[cell_text(record.get(key)) for record in objects] for key in keys]
                tally.beyond += sum(_beyond(record, known) for record in objects)
            yield len(records), [text_array(column) for column in cells]

    return full_from_text(sampled.header, rows, limits)


def full_records(folder: Path, limits: Limits) -> FullTable:
    """The JSON files of a folder that are one table, in the order of their names."""
    sampled = sample_records(folder, limits)
    known = set(sampled.header)

    def rows(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        names = (entry.file for entry in sorted_entries(folder) if entry.may_be_row)
        found = filter(None, map(sampled.files.row, names))
        keys = [sampled.header[at] for at in positions]
        while records := list(islice(found, AT_ONCE)):
            tally.beyond += sum(_beyond(record, known) for record in records)
            yield len(records), [text_array([cell_text(one.get(key)) for one in records]) for key in keys]

    return replace(full_from_text(sampled.header, rows, limits), reading=sampled.reading)


def _beyond(record: dict[str, Any], known: set[str]) -> int:
    if record.keys() <= known:
        return 0
    return sum(value not in (None, "") for key, value in record.items() if key not in known)


def _lists(records: Iterator[Any], width: int, tally: Tally) -> Iterator[list[Any]]:
    for record in records:
        if not isinstance(record, list):
            tally.rejected += 1
            continue
        tally.beyond += sum(value not in (None, "") for value in record[width:])
        yield record[:width] + [None] * (width - len(record))


def _records(path: Location, sampled: JsonSample, tally: Tally) -> Iterator[Any]:
    """Yield all records, in the layout that the sample has."""
    if sampled.complete:
        yield from records_of(sampled.text, complete=True)[0]
        return
    text = _Text(stream_text(stream(path), sampled.head, sampled.encoding, tally.add_undecoded))
    if sampled.lines:
        yield from _values(text, tally)
    else:
        text.at = _first_array(sampled.text)
        yield from _items(text)


def _first_array(head: str) -> int:
    """Where the items begin: those of the array, or of the first array in the object."""
    at = skip(head, 0) + 1
    if head[at - 1] == "[":
        return at
    while key := KEY.match(head, at):
        if head.startswith("[", key.end()):
            return key.end() + 1
        _, at = DECODER.raw_decode(head, key.end())
    raise Unreadable("there are no records in it: a table is an array of objects or an object per line")


class _Text:
    """A long text of which only the part that is being read is held."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.pieces, self.held, self.at, self.ended = iter(pieces), "", 0, False

    def more(self) -> None:
        """Read on, by as much as is held, so that a long record is not tried again for every piece."""
        parts = [self.held[self.at :]]
        wanted = len(parts[0])
        self.at = max(0, self.at - len(self.held))
        while wanted >= 0:
            piece = next(self.pieces, None)
            if piece is None:
                self.ended = True
                break
            parts.append(piece)
            wanted -= len(piece)
        self.held = "".join(parts)

    def next_sign(self) -> str:
        """Step to the next character that is no blank and no comma; empty at the end."""
        while True:
            self.at = skip(self.held, self.at) if self.at < len(self.held) else self.at
            if self.at < len(self.held) or self.ended:
                return self.held[self.at : self.at + 1]
            self.more()

    def next_item(self) -> str:
        """The next character that is no blank, without a step; empty at the end."""
        while True:
            found = _BLANK.match(self.held, self.at)
            at = found.end() if found else self.at
            if at < len(self.held) or self.ended:
                return self.held[at : at + 1]
            self.more()

    def value(self) -> Any:
        """Decode the value that begins here; raises `json.JSONDecodeError`."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.held, self.at)
            except json.JSONDecodeError as error:
                left = len(self.held) - self.at
                near = error.pos > len(self.held) - _NEAR or error.msg.startswith("Unterminated string")
                if self.ended or not near or left > _LARGEST:
                    raise
            else:
                if end < len(self.held) or self.ended:  # else a number may go on
                    self.at = end
                    return value
            self.more()

    def skip_line(self) -> None:
        """Step over what is left of a line."""
        while (end := self.held.find("\n", self.at)) < 0 and not self.ended:
            self.at = len(self.held)
            self.more()
        self.at = len(self.held) if end < 0 else end + 1


def _items(text: _Text) -> Iterator[Any]:
    """Yield the items of an array to its end."""
    count = 0
    while (sign := text.next_sign()) != "]":
        try:
            if not sign:
                raise Unreadable(f"the JSON ends too early, after {count:,} records; copy the file again")
            value = text.value()
            if text.next_item() not in (",", "]", ""):
                raise Unreadable(f"it is not JSON after {count:,} records: a comma is missing")
            yield value
        except json.JSONDecodeError as error:
            raise Unreadable(f"it is not JSON after {count:,} records: {error.msg}") from error
        count += 1


def _values(text: _Text, tally: Tally) -> Iterator[Any]:
    """Yield values that follow one another; a line that is none is counted and left out."""
    while text.next_sign():
        try:
            value = text.value()
        except json.JSONDecodeError:
            tally.rejected += 1
            text.skip_line()
        else:
            yield value
