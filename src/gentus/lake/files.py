"""Bytes of one file, in bounded amounts: regular files, and objects at URLs."""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from gentus.lake.base import Unreadable
from gentus.lake.kinds import format_of
from gentus.lake.location import POSTGRES, Location, Remote, State

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_WHOLE = 1 << 20  # files up to this are read whole
_HEAD = 256 << 10  # of larger ones, this much of the start ...
_BLOCK = 64 << 10  # ... and this much at each of these many places
_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of a file: its start, and blocks from further on that begin and end anywhere."""

    head: bytes
    blocks: list[bytes]
    whole: bool  # the head is all there is


@contextmanager
def opened(path: Location, whole: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file; pipes, devices and folders are refused without ever waiting on them.

    Of an object at a URL a bounded part can be read, unless the `whole` of it is wanted.
    """
    if isinstance(path, Remote):
        from gentus.lake.remote.file import opened_remote

        with opened_remote(path, whole) as remote:
            yield cast(BinaryIO, remote)
        return
    _regular(os.stat(path))
    # What the name stands for may have changed since: without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _regular(os.fstat(descriptor))
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _regular(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise Unreadable("it is a pipe, a device or a folder, not a file")


def size_of(file: BinaryIO) -> int:
    """How large an open file is."""
    known: int | None = getattr(file, "size", None)
    return os.fstat(file.fileno()).st_size if known is None else known


def look_up(path: Location) -> tuple[Location, State]:
    """How large a table is and when it was changed; with a URL goes what its store said just now."""
    if isinstance(path, Remote):
        from gentus.lake.remote.storage import state_of

        if path.state is None and path.scheme in POSTGRES:
            return path, State(0)  # a server does not say
        folder = path.state is None and format_of(path.name) is None
        state = _state_of_folder(path) if folder else state_of(path)
        return Remote(path.url, state), state
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        return path, _state_of_folder(path)
    return path, State(found.st_size, found.st_mtime_ns)


def _state_of_folder(path: Location) -> State:
    from gentus.lake.formats.lakehouse import state_of_folder

    return state_of_folder(path)


def magic(path: Location) -> bytes:
    """Return the first bytes of a file, enough to know what it is."""
    with opened(path) as file:
        return file.read(16)


def sample(path: Location, limit: int, least: int = 0) -> Sample:
    """Read at most `limit` bytes of a file, decompressed; a head of `least` if the usual one is too short."""
    with opened(path) as file:
        size = size_of(file)
        start = file.read(4)
        file.seek(0)
        if start.startswith(GZIP):
            return _compressed(_gunzip(file), min(limit, max(_WHOLE, least)))
        if start == ZSTD:
            return _compressed(_unzstd(file), min(limit, max(_WHOLE, least)))
        if size <= _WHOLE:
            return Sample(_exactly(file, min(size, limit)), [], size <= limit)
        head = _exactly(file, min(limit, max(_HEAD, least)))
        rest = size - len(head)
        room = min(_BLOCKS, max(0, limit - len(head)) // _BLOCK)
        if rest <= room * _BLOCK:
            return Sample(head + _exactly(file, rest), [], True)
        blocks: list[bytes] = []
        for number in range(room):
            offset = len(head) + (rest - _BLOCK) * (number + 1) // room  # the last one ends with the file
            file.seek(offset - offset % 2)  # even, so that UTF-16 units stay whole
            blocks.append(_exactly(file, _BLOCK))
        return Sample(head, blocks, False)


def stream(path: Location) -> Iterator[bytes]:
    """Yield all bytes of a file, decompressed, in pieces of bounded size."""
    with opened(path, whole=True) as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(GZIP):
            yield from _gunzip(file)
        elif start == ZSTD:
            yield from _unzstd(file)
        else:
            while piece := file.read(_HEAD):
                yield piece


def stream_raw(path: Location) -> Iterator[bytes]:
    """Yield all bytes of a file as they are."""
    with opened(path, whole=True) as file:
        while piece := file.read(_HEAD):
            yield piece


def _exactly(file: BinaryIO, count: int) -> bytes:
    """Read `count` bytes, or what there is: a raw read may return less than asked."""
    parts: list[bytes] = []
    while count > 0 and (part := file.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _compressed(stream: Iterator[bytes], limit: int) -> Sample:
    """Read the head of a compressed stream: nothing further on can be reached without reading it all."""
    head = io.BytesIO()
    for part in stream:
        head.write(part)
        if head.tell() >= limit:
            return Sample(head.getvalue()[:limit], [], False)
    return Sample(head.getvalue(), [], True)


def _gunzip(file: BinaryIO) -> Iterator[bytes]:
    """Decompress in small steps, so that a tiny file that unpacks to terabytes costs no more than others."""
    data = file.read(_BLOCK)
    while data:
        decoder = zlib.decompressobj(wbits=31)
        while not decoder.eof:
            data = data or file.read(_BLOCK)
            try:
                part = decoder.decompress(data, _BLOCK)
            except zlib.error as error:
                raise Unreadable(f"the gzip data is damaged ({error}); copy the file again") from error
            if not data and not part and not decoder.eof:
                raise Unreadable("the gzip data ends too early: the file is cut off; copy it again")
            yield part
            data = decoder.unconsumed_tail
        data = decoder.unused_data or file.read(_BLOCK)
        if not data.startswith(GZIP[:1]):  # another member may follow; padding and rubbish are left alone
            return


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as stream:
            # Not `read`: where that fails, pyarrow 26 never frees the memory that it was to fill.
            while part := stream.read_buffer(_BLOCK).to_pybytes():
                yield part
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(f"the zstd data is damaged or cut off ({error}); copy the file again") from error
