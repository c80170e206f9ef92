"""Zip archives as the tables in them, read in memory: nothing is ever unpacked on the disk.

What a file in an archive may cost is bounded as for others: text is decompressed in small steps, and what has
to be held as a whole is refused if it is large.
"""

from __future__ import annotations

import stat
import zipfile
from collections import Counter
from dataclasses import dataclass, field, replace

from gentus.lake.base import Source, Unreadable
from gentus.lake.files import opened, unpacking
from gentus.lake.formats.detect import PLAIN, Format, ending_of, format_of
from gentus.lake.location import Location, Member, State
from gentus.table import Limits

MOST = 5_000  # files in one archive: its list is read for each of them
_HELD = 1 << 20  # bytes; longer text is streamed
_COPY_AGAIN = "copy the archive again"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(slots=True)
class Members:
    """What is in an archive: the names of its tables, and what of it is not read."""

    tables: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # and why
    others: Counter[str] = field(default_factory=Counter)  # files of other kinds, by their endings


def members_of(path: Location, limits: Limits) -> Members:
    """List an archive; of a workbook in it, the sheets. Hidden files are left out."""
    found = Members()
    with unpacking(), opened(path) as file, zipfile.ZipFile(file) as archive:
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        if len(infos) > MOST:
            raise Unreadable(f"it holds {len(infos):,} files, and at most {MOST:,} are read; unpack it")
        for name, info in infos.items():
            parts, known = info.filename.replace("\\", "/").split("/"), format_of(name)
            if any(part.startswith(".") and part not in (".", "..") for part in parts) or "__MACOSX" in parts:
                continue
            if known is None:
                found.others[ending_of(name)] += 1
            elif reason := _refusal(info, parts, known, limits):
                found.refused[name] = reason
            elif known is Format.EXCEL:
                from gentus.lake.formats.excel import sheets_of

                try:
                    sheets = sheets_of(_member(path, archive, name), limits)
                except Unreadable as error:
                    found.refused[name] = error.reason
                else:
                    found.tables += [f"{name}/{sheet}" for sheet in sheets]
            else:
                found.tables.append(name)
    return found


def member_source(source: Source, part: str, limits: Limits) -> Source:
    """One file in an archive, or a sheet of a workbook in it, as a source of its own."""
    with unpacking(), opened(source.path) as file, zipfile.ZipFile(file) as archive:
        names, name, sheet = set(archive.namelist()), part, None
        while name not in names:
            name, _, last = name.rpartition("/")
            sheet = last if sheet is None else f"{last}/{sheet}"
            if not name:
                raise Unreadable(f"the archive has no table {part!r} any more")
        info, known = archive.getinfo(name), format_of(name)
        parts = name.replace("\\", "/").split("/")
        if known is None or (reason := _refusal(info, parts, known, limits)):
            raise Unreadable("it is no table" if known is None else reason)
        return replace(source, path=_member(source.path, archive, name), part=sheet, version="")


def _member(path: Location, archive: zipfile.ZipFile, name: str) -> Member:
    """A file in an archive: long text is streamed, other files are held."""
    size = archive.getinfo(name).file_size
    streamed = size > _HELD and format_of(name) in PLAIN
    with unpacking():
        data = None if streamed else archive.read(name)
    return Member(f"{path}/{name}", State(size), archive=path, inside=name, data=data)


def _refusal(info: zipfile.ZipInfo, parts: list[str], known: Format, limits: Limits) -> str:
    """Why a file in an archive is not read; empty: it is."""
    if "\0" in info.orig_filename or {"", ".", ".."} & set(parts) or parts[0][1:2] == ":":
        return f"its name would lead out of the archive; {_COPY_AGAIN} or rename it"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "it is a link, and those are not followed"
    if info.flag_bits & 1:
        return "it is encrypted with a password; pack it without one"
    if info.compress_type not in _METHODS:
        return "it is compressed in an unusual way; pack it again as a usual zip archive"
    if known in (Format.ZIP, Format.DATABASE):
        return f"it is {known.value} in an archive; unpack it"
    if known not in PLAIN and info.file_size > limits.typed_bytes:
        return f"it unpacks to more than {limits.typed_bytes >> 20} MB; unpack the archive"
    return ""
