"""Files that are replaced in one step: there whole, or as they were."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes its place in one step once its bytes are on the disk."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.unlink(missing_ok=True)  # never through a link that somebody put there
        with temporary.open("xb") as file:
            yield file
            file.flush()
            _to_disk(file.fileno())
        _put_in_place(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
    _settle(path.parent)


def _put_in_place(temporary: Path, path: Path) -> None:
    """Windows refuses while somebody has the old file open; whoever reads one of ours is soon done."""
    for wait in (0.01, 0.05, 0.25, 1.0) if os.name == "nt" else ():
        try:
            temporary.replace(path)
        except PermissionError:
            time.sleep(wait)
        else:
            return
    temporary.replace(path)


def _to_disk(descriptor: int) -> None:
    """Wait until a file is on the disk: on macOS, fsync alone leaves it in the memory of the drive."""
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):  # a file system that has no such thing
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _settle(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system has that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _to_disk(descriptor)
        finally:
            os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Replace a file in one step, once its bytes are on the disk."""
    with replacing(path) as file:
        file.write(data)
