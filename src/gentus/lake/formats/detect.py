"""What lies at a location: which format it has, its size, time and version, and a hash of its content.

A folder is one table if it has a Delta log (`_delta_log/`) or Iceberg metadata (`metadata/*.metadata.json`).
The part `*.json` of a folder is the table of its JSON files that have one object each (`json_folder.py`).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from pathlib import Path

from gentus.lake.base import Source, Unreadable, failure_reason
from gentus.lake.files import OLE, SQLITE, ZSTD, magic, opened, sample_bytes, to_text
from gentus.lake.location import POSTGRES, Location, Remote, State


class Format(Enum):
    """The formats that hold tables."""

    TEXT = "delimited text"
    PROSE = "text that may be delimited"  # .txt and .dat hold tables or anything else
    JSON = "JSON"
    PARQUET = "Parquet"
    ARROW = "Arrow"
    EXCEL = "Excel"
    DATABASE = "a database"
    DELTA = "a Delta table"  # these two are folders
    ICEBERG = "an Iceberg table"
    ZIP = "a zip archive"
    JSON_FOLDER = "a folder of JSON objects"
    POSTGRES = "a table of a Postgres server"


_BY_SUFFIX = {
    **dict.fromkeys(("csv", "tsv", "tab", "psv"), Format.TEXT),
    **dict.fromkeys(("txt", "dat"), Format.PROSE),
    **dict.fromkeys(("json", "jsonl", "ndjson"), Format.JSON),
    **dict.fromkeys(("parquet", "pq", "parq"), Format.PARQUET),
    **dict.fromkeys(("arrow", "feather", "ipc"), Format.ARROW),
    **dict.fromkeys(("xlsx", "xlsm", "xlsb", "xls", "ods"), Format.EXCEL),
    "zip": Format.ZIP,
    **dict.fromkeys(("db", "duckdb", "ddb", "sqlite", "sqlite3", "db3"), Format.DATABASE),
}
_COMPRESSED = ("gz", "gzip", "zst", "zstd")
PLAIN = (Format.TEXT, Format.PROSE, Format.JSON)  # read by Python alone; only these may be compressed
SEVERAL_TABLES = (Format.DATABASE, Format.EXCEL, Format.ZIP)  # that one file may hold
_DUCKDB = b"DUCK"  # at byte 8; its version number follows
DELTA_LOG = "_delta_log"
METADATA = "metadata"
JSON_FILES = "*.json"  # the part of a folder whose JSON files are one table
_METADATA = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json|[^/]*\.metadata\.json")
_HASHED_WHOLE = 16 << 20  # bytes; of larger files, evenly spread blocks are hashed
_BLOCK = 256 << 10
_BLOCKS = 32
_ENDING = re.compile(r"\.\w{1,10}")
_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[\[\]{"])')  # how JSON tables begin, and delimited text hardly
_GUESSED = 64 << 10  # bytes that tell JSON from delimited text
_NO_TABLE_FOLDER = "it is a folder, and neither a Delta nor an Iceberg table"


def format_of(name: str) -> Format | None:
    """The format that a file name stands for; None if that is no table."""
    pieces = name.lower().split(".")
    suffix = pieces.pop()
    if suffix in _COMPRESSED and len(pieces) > 1:
        inner = _BY_SUFFIX.get(pieces[-1])
        return inner if inner in PLAIN else None
    return _BY_SUFFIX.get(suffix) if pieces else None


def ending_of(name: str) -> str:
    """What files of other kinds are counted by: the ending of the name."""
    ending = os.path.splitext(name)[1].lower()
    return ending if _ENDING.fullmatch(ending) else "no ending"


def is_database(start: bytes) -> bool:
    """Whether the first 16 bytes are those of an SQLite or a DuckDB database."""
    return start == SQLITE or (start[8:12] == _DUCKDB and start[14:16] == b"\0\0")


def detect_format(path: Location, start: bytes) -> Format:
    """The format of a file: by its first bytes and, where these do not decide, by its name."""
    if not start:
        raise Unreadable("it is empty")
    named = format_of(path.name)
    if start.startswith(b"PAR1") and (named is Format.PARQUET or min(start[4:], default=0) < 9):
        return Format.PARQUET  # and not a text whose first column has that name
    if start.startswith(b"ARROW1\0"):
        return Format.ARROW
    if is_database(start):
        return Format.DATABASE
    if start.startswith(b"PARE"):
        raise Unreadable("it is an encrypted Parquet file, and its key is not known; decrypt it")
    if start.startswith(b"FEA1"):
        raise Unreadable(
            "it is a Feather file of version 1, a format of the past; write it as .arrow or .parquet"
        )
    if named is Format.EXCEL and not start.startswith((b"PK", OLE)):
        raise Unreadable("it is named like an Excel workbook and is none; open it and save it as .xlsx")
    if named is Format.ZIP and not start.startswith(b"PK"):
        raise Unreadable("it is named like a zip archive and is none; copy it again")
    if named is Format.DATABASE:
        raise Unreadable("it is named like a database and is neither a DuckDB nor an SQLite file")
    if named is Format.PARQUET:
        raise Unreadable("it is named like a Parquet file and does not begin like one; write it again")
    if named is None:
        raise Unreadable("its name does not end like one of a table (.csv, .parquet, .json, .xlsx, .db, ...)")
    return named


def guess_ending(path: Path) -> str:
    """The ending that a file without a name should have: of a workbook, of JSON, or else of delimited text.

    All other formats are recognised under any name.
    """
    if (start := magic(path)).startswith((b"PK\x03\x04", OLE)):
        return ".xls" if start.startswith(OLE) else ".xlsx"
    try:
        text, _ = to_text(sample_bytes(path, _GUESSED).head)
    except Unreadable:  # it is no text; its reader says what it is
        return ".csv"
    return ".json" if _JSON.match(text) else ".csv"


def format_at(path: Location, part: str | None = None) -> Format:
    """The format of what lies at a location; raises `Unreadable` if that is no table."""
    if isinstance(path, Remote) and path.scheme in POSTGRES:
        return Format.POSTGRES
    if _is_json_folder(path, part):
        return Format.JSON_FOLDER
    # At a URL, only what has no name of a table can be a folder that is one.
    if format_of(path.name) is None if isinstance(path, Remote) else os.path.isdir(path):
        found = folder_format(path)
        if found is None:
            raise Unreadable(_NO_TABLE_FOLDER)
        return found
    return detect_format(path, magic(path))


def is_plain(source: Source) -> bool:
    """Whether Python alone reads it: no native parser, which a damaged file might crash or block."""
    if isinstance(source.path, Remote):  # objects of `memory://` exist in this process only
        return source.path.scheme == "memory" or format_of(source.path.name) in PLAIN
    if _is_json_folder(source.path, source.part):
        return True
    return source.part is None and is_plain_file(source.path)


def is_plain_file(path: Path) -> bool:
    """The same of a file on this machine that is one table."""
    try:
        if path.is_dir():
            return folder_format(path) is None
        start = magic(path)
        return detect_format(path, start) in PLAIN and not start.startswith(ZSTD)
    except (OSError, Unreadable):
        return True  # and refused as soon as it is read


# --- folders that are one table ------------------------------------------------------------------------


def folder_format(folder: Location) -> Format | None:
    """Whether a folder is one table, and in which format."""
    if isinstance(folder, Path):
        # Called for every folder of a lake: two system calls for most.
        if os.path.isdir(folder / DELTA_LOG):
            return Format.DELTA
        return Format.ICEBERG if os.path.isdir(folder / METADATA) and _newest_metadata(folder) else None
    if _files_in(folder / DELTA_LOG):
        return Format.DELTA
    return Format.ICEBERG if _newest_metadata(folder) else None


def _is_json_folder(path: Location, part: str | None) -> bool:
    return part == JSON_FILES and isinstance(path, Path) and path.is_dir()


def json_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The JSON files of a folder that may be rows of one table, in no order; raises `OSError`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if may_be_row(entry.name) and entry.is_file(follow_symlinks=False):
                yield entry


def may_be_row(name: str) -> bool:
    """Whether a file of this name may be a row of the table that its folder is."""
    return name.lower().endswith(".json") and not name.startswith(".")


def _state_of_json(folder: Path) -> State:
    """The state of the JSON files of a folder: any change of one, and any new or missing one, changes it."""
    size = latest = digest = count = 0
    for entry in json_files(folder):
        found = entry.stat(follow_symlinks=False)
        line = f"{entry.name} {found.st_size} {found.st_mtime_ns}".encode("utf-8", "surrogateescape")
        digest += int.from_bytes(hashlib.blake2b(line, digest_size=16).digest())  # a sum: they have no order
        size, latest, count = size + found.st_size, max(latest, found.st_mtime_ns), count + 1
    return State(size, latest, f"{count} files {digest % (1 << 128):032x}")


def state_of_folder(folder: Location) -> State:
    """The state of a folder that is one table: that of the last entry of its log."""
    match folder_format(folder):
        case None:
            raise Unreadable(_NO_TABLE_FOLDER)
        case Format.ICEBERG:
            name, state = metadata_file(folder)
            return State(state.size, state.mtime_ns, f"{name} {state.version}")
    log = _files_in(folder / DELTA_LOG)
    name = max((one for one in log if one[:1].isdigit()), default="")
    if not name:
        raise Unreadable("its _delta_log is empty")
    return State(sum(one.size for one in log.values()), log[name].mtime_ns, f"{name} {log[name].version}")


def metadata_file(folder: Location) -> tuple[str, State]:
    """The current metadata of an Iceberg table: the highest version, the newest file of equal ones."""
    found = _newest_metadata(folder)
    if found is None:
        raise Unreadable("there is no metadata file in its metadata folder any more")
    return found


def _newest_metadata(folder: Location) -> tuple[str, State] | None:
    known = {name: state for name, state in _files_in(folder / METADATA).items() if _METADATA.fullmatch(name)}
    if not known:
        return None

    def age(name: str) -> tuple[int, int, str]:
        match = _METADATA.fullmatch(name)
        number = match and match[1]
        return int(number) if number else -1, known[name].mtime_ns, name

    name = max(known, key=age)
    return name, known[name]


def _files_in(folder: Location) -> dict[str, State]:
    """The files of a folder, by name; none if there is no such folder."""
    if isinstance(folder, Remote):
        from gentus.lake.remote.storage import files_in

        return files_in(folder)
    try:
        with os.scandir(folder) as entries:
            found = {one.name: one.stat() for one in entries if one.is_file()}
    except OSError:
        return {}
    return {name: State(one.st_size, one.st_mtime_ns) for name, one in found.items()}


# --- size, time, version and content --------------------------------------------------------------------


def look_up(path: Location, part: str | None = None) -> tuple[Location, State]:
    """The state of a table; a URL is returned with its state, so that it is not asked for again."""
    if isinstance(path, Path) and _is_json_folder(path, part):
        return path, _state_of_json(path)
    if isinstance(path, Remote):
        from gentus.lake.remote.storage import state_of

        if path.state is None and path.scheme in POSTGRES:
            return path, State(0)  # a server does not say
        folder = path.state is None and format_of(path.name) is None
        state = state_of_folder(path) if folder else state_of(path)
        return Remote(path.url, state), state
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        return path, state_of_folder(path)
    return path, State(found.st_size, found.st_mtime_ns)


def fingerprint(source: Source) -> str:
    """Hash the content of a source at bounded cost: of large files, blocks spread over them and the time.

    Of an object at a URL nothing is read: its state changes with its content.
    """
    try:
        location, state = look_up(source.path, source.part)
        if isinstance(location, Path) and not state.version:
            digest = _digest(location, state.size, state.mtime_ns)
        elif state.detects_changes:
            digest = hashlib.blake2b(repr(state).encode(), digest_size=16).hexdigest()
        else:
            raise Unreadable("its server sends neither a time nor a version of it, so changes cannot be seen")
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
        if size <= _HASHED_WHOLE:
            while part := file.read(1 << 20):
                digest.update(part)
        else:
            digest.update(f"{size} {mtime_ns}".encode())
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()
