"""Folders that are one table: Delta (`_delta_log/`) and Iceberg (`metadata/*.metadata.json`).

What their logs name is only opened inside of their folder: a log from others must not make us read elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gentus.lake.base import Unreadable
from gentus.lake.kinds import Format, format_of
from gentus.lake.location import Location, Remote, State, is_url
from gentus.table import Limits, Table, evenly_spaced

if TYPE_CHECKING:
    import pyarrow as pa

DELTA_LOG = "_delta_log"
METADATA = "metadata"
_METADATA = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json|[^/]*\.metadata\.json")
_FILES = 8  # data files that rows of a sample are taken from


@dataclass(frozen=True, slots=True)
class Batches:
    """A table as Arrow gives it, file by file."""

    schema: pa.Schema
    files: int
    first: Callable[[int, int], pa.Table] = field(repr=False)  # of a file, so many first rows
    every: Callable[[Sequence[str]], Iterator[pa.RecordBatch]] = field(repr=False)  # of these columns


def may_be_folder(place: Location) -> bool:
    """Whether a place can only be a table if it is a folder."""
    return format_of(place.name) is None if isinstance(place, Remote) else place.is_dir()


def folder_format(folder: Location) -> Format | None:
    """Tell whether a folder is one table, and of which kind."""
    if isinstance(folder, Path):
        # Asked of every folder of a lake: two questions to the system for most.
        if os.path.isdir(folder / DELTA_LOG):
            return Format.DELTA
        return Format.ICEBERG if os.path.isdir(folder / METADATA) and _newest(folder) else None
    if _files_in(folder / DELTA_LOG):
        return Format.DELTA
    return Format.ICEBERG if _newest(folder) else None


def state_of_folder(folder: Location) -> State:
    """The same for a folder that may be a table."""
    kind = folder_format(folder)
    if kind is None:
        raise Unreadable("it is a folder, and neither a Delta nor an Iceberg table")
    return folder_state(folder, kind)


def folder_state(folder: Location, kind: Format) -> State:
    """What changes with a table: the last entry of its log."""
    if kind is Format.ICEBERG:
        name, state = metadata_file(folder)
        return State(state.size, state.mtime_ns, f"{name} {state.version}")
    log = _files_in(folder / DELTA_LOG)
    name = max((one for one in log if one[:1].isdigit()), default="")
    if not name:
        raise Unreadable("its _delta_log is empty")
    return State(sum(one.size for one in log.values()), log[name].mtime_ns, f"{name} {log[name].version}")


def metadata_file(folder: Location) -> tuple[str, State]:
    """The current metadata of an Iceberg table: that of the highest version, the youngest of equals."""
    found = _newest(folder)
    if found is None:
        raise Unreadable("there is no metadata file in its metadata folder any more")
    return found


def _newest(folder: Location) -> tuple[str, State] | None:
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
        from gentus.lake.remote.scan import files_in

        return files_in(folder)
    try:
        with os.scandir(folder) as entries:
            found = {one.name: one.stat() for one in entries if one.is_file()}
    except OSError:
        return {}
    return {name: State(one.st_size, one.st_mtime_ns) for name, one in found.items()}


def batches_of(folder: Location, kind: Format, limits: Limits) -> Batches:
    """Open a table that is a folder."""
    if kind is Format.DELTA:
        from gentus.lake.formats.delta import open_delta

        return open_delta(folder, limits)
    from gentus.lake.formats.iceberg import open_iceberg

    return open_iceberg(folder)


def read_folder(folder: Location, kind: Format, name: str, limits: Limits) -> Table:
    """Read the first rows of files spread over a table."""
    import pyarrow as pa

    from gentus.lake.formats.arrow import arrow_table

    table = batches_of(folder, kind, limits)
    chosen = evenly_spaced(table.files, _FILES)
    wanted = -(-limits.rows // max(1, len(chosen)))
    pieces = [table.first(number, wanted) for number in chosen]
    data = pa.concat_tables(pieces, promote_options="permissive") if pieces else table.schema.empty_table()
    return arrow_table(data, name, limits)


def inside(folder: Location, named: str, location: str | None = None) -> Location:
    """The file of a table that its log names; refused if it lies elsewhere.

    A table may have been copied: what lies below the `location` that it says it has, is looked for below the
    folder where it is.
    """
    relative = _below(named, location) or _below(named, str(folder))
    if relative is None and not is_url(named) and not named.startswith("/"):
        relative = named
    parts = [] if relative is None else relative.split("/")
    if not parts or {"", ".", ".."} & set(parts):
        raise Unreadable(f"its log names a file outside of its folder, which is not opened: {named[:200]}")
    assert relative is not None
    if isinstance(folder, Remote):
        return folder / relative
    path = (folder / relative).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Unreadable(f"its log leads out of its folder by a link: {named[:200]}")
    return path


def _below(named: str, folder: str | None) -> str | None:
    if folder is None:
        return None
    whole, top = _plain(named), _plain(folder).rstrip("/") + "/"
    return whole[len(top) :] if whole.startswith(top) else None


def _plain(place: str) -> str:
    """A place in one of the ways in which logs write it; file URLs as paths."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return unquote(parts.path) if "%" in parts.path else parts.path
    return re.sub(r"^s3[an]://", "s3://", place)


def open_inside(file: Location, whole: bool) -> Any:
    """A file of a table, to be closed by whoever reads it."""
    if isinstance(file, Remote):
        from gentus.lake.remote.file import RemoteFile, ranges_of

        return RemoteFile(ranges_of(file, whole))
    return file.open("rb")
