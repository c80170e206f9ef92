"""Uploads: tables from clients, kept in a private folder, limited in number and time.

They are not trusted. A file that needs a native parser is read in a sandbox first: if it crashes or blocks
the parser, that request fails and the server goes on.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from gentus.app.serve.errors import ApiError
from gentus.app.serve.settings import Settings
from gentus.lake import Limits, SeveralTables, Source, Unreadable, only_table, read
from gentus.lake.files import magic, stream
from gentus.lake.formats.detect import Format, detect_format, format_of, is_plain_file
from gentus.lake.sandbox.named import in_sandbox
from gentus.scratch_folder import temporary_folder
from gentus.table import Header, Table

_NAME_BYTES = 200
_PIECE = 1 << 20
# Names of devices on Windows, in any folder and with any ending.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(\.|$)", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Upload:
    """A table from a client."""

    id: str
    source: Source  # under the client's name for it
    client: str
    used: float
    pins: int = 0  # requests that are using it


class Uploads:
    """The uploads, least recently used first. A client evicts its own before those of others."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._cleanup = ExitStack()
        # Deleted at the end; that of a killed server is deleted when the next one starts.
        self.folder = self._cleanup.enter_context(temporary_folder("serve"))
        self._kept: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def close(self) -> None:
        """Delete all uploads."""
        self._cleanup.close()

    def put(
        self,
        name: str,
        client: str,
        limits: Limits,
        write: Callable[[BinaryIO], None],
        header: Header = "auto",
    ) -> tuple[Upload, Table]:
        """Store what `write` writes if it is a table within the limits; returns it with its sample."""
        name = clean_name(name)
        key = secrets.token_urlsafe(18)
        path = self.folder / f"{key}{ending(name)}"
        try:
            with path.open("xb") as file:
                write(file)
            source, table = self._read(path, name, limits, header)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, Unreadable):
                raise ApiError(422, f"{name}: {error.reason}") from error
            raise
        upload = Upload(key, source, client, time.monotonic())
        with self._lock:
            self._kept[key] = upload
            self._evict(upload)
        return upload, table

    def _read(self, path: Path, name: str, limits: Limits, header: Header) -> tuple[Source, Table]:
        if is_plain_file(path):
            return read_upload(path, name, limits, self.settings, header)
        return in_sandbox(path, limits, read_upload, path, name, limits, self.settings, header)

    @contextmanager
    def using(self, key: str) -> Iterator[Upload]:
        """An upload, which is not deleted inside the context."""
        with self._lock:
            upload = self._kept.pop(key, None)
            if upload is None:
                raise ApiError(404, "there is no such upload (any more); send the file again")
            self._kept[key] = upload  # now the most recently used
            upload.used = time.monotonic()
            upload.pins += 1
        try:
            yield upload
        finally:
            with self._lock:
                upload.pins -= 1
                if key not in self._kept and not upload.pins:
                    self._delete(upload)

    def _evict(self, newest: Upload) -> None:
        settings, now = self.settings, time.monotonic()
        for one in [one for one in self._kept.values() if now - one.used > settings.upload_seconds]:
            self._drop(one)
        own = [one for one in self._kept.values() if one.client == newest.client]
        for one in own[: max(0, len(own) - settings.uploads_of_one)]:
            self._drop(one)
        total = sum(one.source.size for one in self._kept.values())
        for one in list(self._kept.values()):
            if one is newest or (len(self._kept) <= settings.uploads and total <= settings.uploads_bytes):
                break
            total -= one.source.size
            self._drop(one)

    def _drop(self, upload: Upload) -> None:
        del self._kept[upload.id]
        if not upload.pins:  # else its last user deletes it
            self._delete(upload)

    def _delete(self, upload: Upload) -> None:
        with suppress(OSError):
            upload.source.file.unlink(missing_ok=True)


def clean_name(name: str, windows: bool = os.name == "nt") -> str:
    """A client's file name without folders, unprintable characters, and what this system does not allow."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(char for char in last if char.isprintable()).strip()
    clean = shown.encode("utf-8", "replace")[-_NAME_BYTES:].decode("utf-8", "ignore").lstrip(". ") or "table"
    if windows:
        clean = re.sub(r'[<>:"|?*]', "_", clean).rstrip(". ")
        clean = f"_{clean}" if _DEVICE.match(clean) else clean
    return clean


def ending(name: str) -> str:
    """The file ending of a table; raises for other files, and for databases."""
    kind = format_of(name)
    if kind in (None, Format.DATABASE, Format.ZIP):
        raise ApiError(
            422, f"{name}: send a CSV, TSV, JSON, Parquet, Arrow or Excel file, named with its ending"
        )
    pieces = name.lower().split(".")
    packed = format_of(".".join(pieces[:-1])) if len(pieces) > 2 else None
    return f".{'.'.join(pieces[-2:] if packed is kind and len(pieces[-1]) <= 4 else pieces[-1:])}"


def read_upload(
    path: Path, name: str, limits: Limits, settings: Settings, header: Header = "auto"
) -> tuple[Source, Table]:
    """The source and sample of a file, if it is a table within the limits."""
    check_size(path, settings)
    try:
        source = replace(only_table(path, limits), name=name, header=header)
    except SeveralTables as error:
        raise Unreadable(f"{error.found}; save the one you mean as its own file") from error
    table = read(source, limits)
    check_columns(table, settings)
    return source, table


def check_size(path: Path, settings: Settings) -> None:
    """Raise if a file has too many rows, or is too large when decompressed."""
    kind = detect_format(path, magic(path))
    if kind is Format.DATABASE:
        raise Unreadable("it is a database; send one table as a CSV or Parquet file")
    rows = 0
    if kind is Format.PARQUET:
        import pyarrow.parquet as pq

        try:
            rows = pq.read_metadata(path).num_rows
        except Exception as error:
            raise Unreadable("it begins like a Parquet file and cannot be read as one") from error
    elif kind in (Format.TEXT, Format.PROSE, Format.JSON):
        unpacked = 0
        for piece in stream(path):
            unpacked += len(piece)
            rows += piece.count(b"\n")
            if unpacked > settings.unpacked_bytes:
                raise ApiError(
                    413,
                    f"it decompresses to more than {settings.unpacked_bytes >> 20:,} MB, the limit here",
                )
            if rows > settings.rows:
                break
    if rows > settings.rows:
        raise ApiError(413, f"it has more than {settings.rows:,} rows, the limit here")


def check_columns(table: Table, settings: Settings) -> None:
    """Raise if a query has too many columns."""
    wide = len(table.columns)
    if wide > settings.columns:
        raise ApiError(422, f"{table.name} has {wide:,} columns; the limit here is {settings.columns:,}")


def copy_writer(source: BinaryIO) -> Callable[[BinaryIO], None]:
    """A function that writes a copy of an open file."""

    def write(file: BinaryIO) -> None:
        source.seek(0)
        shutil.copyfileobj(source, file, _PIECE)

    return write
