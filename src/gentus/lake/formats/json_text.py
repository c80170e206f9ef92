"""JSON tables: an array of objects, one object per line, or such an array under a key of one object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gentus.lake.base import Unreadable, log, table_from_rows
from gentus.lake.files import decode, sample_bytes, to_text
from gentus.lake.location import Location
from gentus.table import Head, Limits, Table, evenly_spaced

ENDS = re.compile(r"\s*(?:[,\]]|$)")  # what follows an item of an array
_SPACE = re.compile(r"[ \t\r\n,]*")  # commas too: they may stand between items
KEY = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')
NO_TABLE = "it is one object with others inside, such as a configuration: a table is an array of objects"
DECODER = json.JSONDecoder(strict=False)  # real files have raw line ends and tabs inside strings


@dataclass(frozen=True, slots=True)
class JsonSample:
    """A sample of a JSON file, and what it tells about all of the file."""

    head: bytes
    encoding: str
    text: str  # the head
    complete: bool  # the head is all there is
    lines: bool  # values that follow one another, rather than items of an array
    records: list[Any]  # the sampled ones
    first: list[Any]  # those at the top of the file
    whole: bool  # there are no others
    header: list[str]  # keys in the order they are first seen, or the first record if all are arrays
    arrays: bool  # records are arrays, and the first one is the header


def read_json(path: Location, name: str, limits: Limits) -> Table:
    """Read a JSON or JSON Lines file."""
    sampled = sample_json(path, limits)
    if sampled.arrays:
        rows = [_cells(record) for record in sampled.records[1:]]
        return table_from_rows(name, sampled.header, rows, limits, _top(sampled, rows))
    if len(sampled.header) > limits.columns:
        log.info("%s: %d columns were left out", name, len(sampled.header) - limits.columns)
    header = sampled.header[: limits.columns]
    objects = map(as_object, sampled.records)
    rows = [[cell_text(record.get(key)) for key in header] for record in objects]
    return table_from_rows(name, header, rows, limits, _top(sampled, rows))


def _top(sampled: JsonSample, rows: list[list[str | None]]) -> Head:
    if len(sampled.first) > len(sampled.records):
        rows = [_cells(record) for record in sampled.first[sampled.arrays :]]
    return Head(rows, sampled.whole)


def _cells(record: Any) -> list[str | None]:
    values = record if isinstance(record, list) else as_object(record).values()
    return [cell_text(value) for value in values]


def sample_json(path: Location, limits: Limits) -> JsonSample:
    """Sample a file, and find out how its records follow each other and which columns they have."""
    taken = sample_bytes(path, limits.text_bytes)
    text, encoding = to_text(taken.head, taken.blocks)
    if not text.strip():
        raise Unreadable("it is empty")
    records, open_array = records_of(text, taken.complete)
    if len(records) < 2 and not taken.complete:  # a value larger than the usual head
        taken = sample_bytes(path, limits.text_bytes, limits.text_bytes)
        text, encoding = to_text(taken.head, taken.blocks)
        records, open_array = records_of(text, taken.complete)
    if not open_array:
        for block in taken.blocks:  # the lines of JSON Lines can be read from anywhere
            records += _lines(decode(block, encoding))
    if not records:
        raise Unreadable("there are no records in it: a table is an array of objects or an object per line")
    first, whole = records[: limits.head], taken.complete and len(records) <= limits.head
    records = [records[i] for i in evenly_spaced(len(records), limits.rows)]
    columns = header_of(records)
    return JsonSample(
        taken.head, encoding, text, taken.complete, not open_array, records, first, whole, *columns
    )


def header_of(records: Sequence[Any]) -> tuple[list[str], bool]:
    """The columns of some records, and whether these are arrays, of which the first one has the names."""
    if all(isinstance(record, list) for record in records):  # rows without names: the first has them
        width = max(map(len, records))
        return [cell_text(value) or "" for value in records[0]] + [""] * (width - len(records[0])), True
    keys: dict[str, None] = {}
    for record in records:
        keys.update(dict.fromkeys(as_object(record)))
    return list(keys), False


def as_object(record: Any) -> dict[str, Any]:
    """A record as an object; other values become the one column `value`."""
    return record if isinstance(record, dict) else {"value": record}


def cell_text(value: Any) -> str | None:
    """Write a JSON value as a cell."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case int() | float():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


def records_of(text: str, complete: bool) -> tuple[list[Any], bool]:
    """The records of a text, and whether they are items of an array rather than lines."""
    start = skip(text, 0)
    if text.startswith("[", start):
        return list(_items(text, start + 1, complete)), True
    try:
        value, end = DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if complete or not text.startswith("{", start):
            raise Unreadable(f"it is not JSON: {error.msg} in line {error.lineno}") from error
        return list(_first_array(text, start + 1)), True
    if skip(text, end) < len(text):
        return [value, *_values(text, end, complete)], False
    return _inside(value), True


def _inside(value: Any) -> list[Any]:
    """Find the records in one object: its longest array of objects, or its equally long columns."""
    if not isinstance(value, dict):
        raise Unreadable("it holds one value: a table is an array of objects or an object per line")
    arrays = [item for item in value.values() if isinstance(item, list)]
    tables = [array for array in arrays if array and all(isinstance(item, dict | list) for item in array)]
    if tables:
        return max(tables, key=len)
    if arrays and len(arrays) == len(value) and len({len(array) for array in arrays}) == 1:
        return [dict(zip(value, row, strict=True)) for row in zip(*arrays, strict=True)]
    if len(value) == 1 and isinstance(inner := next(iter(value.values())), dict):
        return _inside(inner)
    if len(value) > 1 and all(isinstance(item, dict) for item in value.values()):
        return list(value.values())  # records by their keys
    if any(isinstance(item, dict) for item in value.values()):
        raise Unreadable(NO_TABLE)
    return [value]


def _items(text: str, position: int, complete: bool) -> Iterator[Any]:
    """Yield the items of an array one by one, so that an array that is cut off still gives its first ones."""
    while (position := skip(text, position)) < len(text):
        if text[position] == "]":
            return
        try:
            value, position = DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if complete:
                raise Unreadable(f"it is not JSON: {error.msg} in line {error.lineno}") from error
            return
        if position < len(text) and not ENDS.match(text, position):  # as in [012] and [1 000]
            raise Unreadable(f"it is not JSON: a comma is missing in line {line_of(text, position)}")
        yield value
    if complete:
        raise Unreadable("the JSON ends too early: the file is cut off; copy it again")


def _values(text: str, position: int, complete: bool) -> Iterator[Any]:
    """Yield values that follow one another."""
    while (position := skip(text, position)) < len(text):
        try:
            value, position = DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            if complete:
                raise Unreadable(f"it is not JSON Lines: {error.msg} in line {error.lineno}") from error
            return
        yield value


def _lines(block: str) -> Iterator[Any]:
    """Yield the objects on the complete lines of a block from the middle of a file."""
    for line in block.split("\n")[1:-1]:
        try:
            value = json.loads(line, strict=False)
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            yield value


def _first_array(text: str, position: int) -> Iterator[Any]:
    """Yield the items of the first array in an object that is larger than what was read of it."""
    while key := KEY.match(text, position):
        position = key.end()
        if text.startswith("[", position):
            yield from _items(text, position + 1, complete=False)
            return
        try:
            _, position = DECODER.raw_decode(text, position)
        except json.JSONDecodeError:
            return


def line_of(text: str, position: int) -> int:
    """The line of a position, from 1."""
    return text.count("\n", 0, position) + 1


def skip(text: str, position: int) -> int:
    """Step over white space and commas."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
