"""Tables that clients have sent: in a private folder, few of them, and for a limited time.

Nobody knows what they hold. What a native parser reads is looked at in another process first, so that a file
that brings it down, or holds it, costs that request and not the server.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from gentus.app.serve.errors import Refused
from gentus.app.serve.settings import Settings
from gentus.lake import Limits, Source, Unreadable, only_table, read
from gentus.lake.files import magic, stream
from gentus.lake.kinds import Format, detect_format, format_of
from gentus.lake.reader import is_plain_file
from gentus.lake.sandbox.isolated import SandboxProcess
from gentus.table import Table
from gentus.union.outputs import scratch_folder

_NAME_BYTES = 200
_PIECE = 1 << 20
# What Windows takes for a device, in any folder and with any ending.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(\.|$)", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Upload:
    """A table that a client has sent."""

    id: str
    source: Source  # under the name that the client has given it
    client: str
    used: float
    pins: int = 0  # how much work is being done with it


class Uploads:
    """What is kept, oldest first. A client can push out its own uploads only, until all room is taken."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._held = ExitStack()
        # It goes in the end; that of a server that was killed goes when the next one starts.
        self.folder = self._held.enter_context(scratch_folder(Path(tempfile.gettempdir()) / "gentus-serve"))
        self._kept: dict[str, Upload] = {}
        self._lock = threading.Lock()
        self._apart: SandboxProcess | None = None
        self._one_at_a_time = threading.Lock()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def close(self) -> None:
        """Forget all of them."""
        self._held.close()
        if self._apart is not None:
            self._apart.close()

    def put(
        self, name: str, client: str, limits: Limits, write: Callable[[BinaryIO], None]
    ) -> tuple[Upload, Table]:
        """Keep what `write` writes, if it is a table that is not too large; and give what was read of it."""
        name = clean_name(name)
        key = secrets.token_urlsafe(18)
        path = self.folder / f"{key}{ending(name)}"
        try:
            with path.open("xb") as file:
                write(file)
            source, table = self._look(path, name, limits)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, Unreadable):
                raise Refused(422, f"{name}: {error.reason}") from error
            raise
        upload = Upload(key, source, client, time.monotonic())
        with self._lock:
            self._kept[key] = upload
            self._make_room(upload)
        return upload, table

    def _look(self, path: Path, name: str, limits: Limits) -> tuple[Source, Table]:
        if is_plain_file(path):
            return look(path, name, limits, self.settings)
        with self._one_at_a_time:
            self._apart = self._apart or SandboxProcess(limits)
            return self._apart(look, path, name, limits, self.settings)

    @contextmanager
    def using(self, key: str) -> Iterator[Upload]:
        """An upload that stays as long as it is used."""
        with self._lock:
            upload = self._kept.pop(key, None)
            if upload is None:
                raise Refused(404, "this upload is not there (any more); send the file again")
            self._kept[key] = upload  # now the last one to go
            upload.used = time.monotonic()
            upload.pins += 1
        try:
            yield upload
        finally:
            with self._lock:
                upload.pins -= 1
                if key not in self._kept and not upload.pins:
                    self._delete(upload)

    def _make_room(self, newest: Upload) -> None:
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
        if not upload.pins:  # else whoever uses it deletes it
            self._delete(upload)

    def _delete(self, upload: Upload) -> None:
        with suppress(OSError):
            upload.source.file.unlink(missing_ok=True)


def clean_name(name: str, windows: bool = os.name == "nt") -> str:
    """A file name as a client gives it, without folders and without what cannot be shown, or kept here."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(char for char in last if char.isprintable()).strip()
    clean = shown.encode("utf-8", "replace")[-_NAME_BYTES:].decode("utf-8", "ignore").lstrip(". ") or "table"
    if windows:
        clean = re.sub(r'[<>:"|?*]', "_", clean).rstrip(". ")
        clean = f"_{clean}" if _DEVICE.match(clean) else clean
    return clean


def ending(name: str) -> str:
    """How the name of a file ends if it is one of a table; others, and databases, are refused."""
    kind = format_of(name)
    if kind is None or kind is Format.DATABASE:
        raise Refused(422, f"{name}: send a CSV, TSV, JSON, Parquet, Arrow or Excel file, and call it so")
    pieces = name.lower().split(".")
    packed = format_of(".".join(pieces[:-1])) if len(pieces) > 2 else None
    return f".{'.'.join(pieces[-2:] if packed is kind and len(pieces[-1]) <= 4 else pieces[-1:])}"


def look(path: Path, name: str, limits: Limits, settings: Settings) -> tuple[Source, Table]:
    """What a file holds, if it is a table that is not too large."""
    check_size(path, settings)
    source = replace(only_table(path, limits), name=name)
    table = read(source, limits)
    check_columns(table, settings)
    return source, table


def check_size(path: Path, settings: Settings) -> None:
    """Refuse a file with too many rows, or one that unpacks to too much."""
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
                raise Refused(
                    413,
                    f"it unpacks to more than the {settings.unpacked_bytes >> 20:,} MB that are taken here",
                )
            if rows > settings.rows:
                break
    if rows > settings.rows:
        raise Refused(413, f"it has more than the {settings.rows:,} rows that are taken here")


def check_columns(table: Table, settings: Settings) -> None:
    """Refuse a query that is too wide."""
    wide = len(table.columns)
    if wide > settings.columns:
        raise Refused(422, f"{table.name} has {wide:,} columns; at most {settings.columns:,} are taken here")


def copy(source: BinaryIO) -> Callable[[BinaryIO], None]:
    """What writes a copy of an open file."""

    def write(file: BinaryIO) -> None:
        source.seek(0)
        shutil.copyfileobj(source, file, _PIECE)

    return write
