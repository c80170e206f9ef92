"""Bytes and text of one file or object, in bounded amounts: opened, sampled, decompressed, decoded."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from gentus.lake.base import Unreadable
from gentus.lake.encoding import ONE_BYTE, WESTERN, guess_encoding
from gentus.lake.location import Location, Member, Remote

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
SQLITE = b"SQLite format 3\0"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # how .xls begins, and whatever Office encrypts
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MAGIC = 16
_WHOLE = 1 << 20  # files up to this are read whole
_HEAD = 256 << 10  # of larger ones, this much of the start ...
_BLOCK = 64 << 10  # ... and this much at each of so many offsets
_BLOCKS = 8
_BOMS = (  # UTF-32 before UTF-16: its little-endian mark begins with the other's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF89a", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (OLE, "an old Office document; if it is a workbook, name it .xls"),
    (b"\x7fELF", "a program"),
    (b"BZh91AY&SY", "bzip2 data; unpack it first"),
    (b"\xfd7zXZ", "xz data; unpack it first"),
    (SQLITE, "an SQLite database; name it .sqlite"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # not in text, but for a stray one
_CONTROL_BYTES = bytes(code for code in range(128) if _CONTROL.match(chr(code)))
_ESCAPED = re.compile("[\udc80-\udcff]")  # how `surrogateescape` writes invalid bytes
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_LOOK = 64 << 10  # bytes that tell the encoding
_CUT = re.compile(rb"^[\x80-\xbf]{1,3}")  # the rest of a sequence that was cut off where a block begins


@dataclass(frozen=True, slots=True)
class ByteSample:
    """What was read of a file: its start, and blocks from further on that begin and end anywhere."""

    head: bytes
    blocks: list[bytes]
    complete: bool  # the head is all there is


@contextmanager
def opened(path: Location, full: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file; pipes, devices and folders are refused without ever waiting on them.

    Of an object at a URL a bounded number of bytes can be read, unless `full` says that all will be.
    """
    if isinstance(path, Member):
        with _opened_member(path, full) as member:
            yield member
        return
    if isinstance(path, Remote):
        from gentus.lake.remote.file import opened_remote

        with opened_remote(path, full) as remote:
            yield cast(BinaryIO, remote)
        return
    descriptor = _descriptor(path)
    try:
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


@contextmanager
def _opened_member(path: Member, full: bool) -> Iterator[BinaryIO]:
    """Open a file in an archive; nothing is unpacked on the disk."""
    import zipfile

    if path.data is not None:
        yield io.BytesIO(path.data)
        return
    with (
        unpacking(),
        opened(path.archive, full) as file,
        zipfile.ZipFile(file) as archive,
        archive.open(path.inside) as member,
    ):
        yield cast(BinaryIO, member)


@contextmanager
def unpacking() -> Iterator[None]:
    """Make the errors of a damaged archive one that says so."""
    import zipfile

    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise Unreadable(f"the archive is damaged ({error}); copy it again") from error


def _descriptor(path: Path) -> int:
    """Open a regular file; the caller closes it."""
    text = os.fspath(path)
    _regular(os.stat(text))
    # The file may have been replaced since: without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(text, _FLAGS)
    try:
        _regular(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _regular(state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise Unreadable("it is a pipe, a device or a folder, not a file")


def size_of(file: BinaryIO) -> int:
    """The size of an open file."""
    known: int | None = getattr(file, "size", None)
    return os.fstat(file.fileno()).st_size if known is None else known


def magic(path: Location) -> bytes:
    """The first bytes of a file, enough to tell its format."""
    if isinstance(path, Remote):
        with opened(path) as file:
            return file.read(_MAGIC)
    descriptor = _descriptor(path)  # every file of a lake is opened for these bytes
    try:
        return os.read(descriptor, _MAGIC)
    finally:
        os.close(descriptor)


def sample_bytes(path: Location, limit: int, least: int = 0) -> ByteSample:
    """Read at most `limit` bytes of a file, decompressed; a head of `least` if the usual one is too short."""
    with opened(path) as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(GZIP):
            return _compressed(_gunzip(file), min(limit, max(_WHOLE, least)))
        if start == ZSTD:
            return _compressed(_unzstd(file), min(limit, max(_WHOLE, least)))
        if isinstance(path, Member):
            return _compressed(iter(partial(file.read, _BLOCK), b""), min(limit, max(_WHOLE, least)))
        size = size_of(file)
        if size <= _WHOLE:
            return ByteSample(_exactly(file, min(size, limit)), [], size <= limit)
        head = _exactly(file, min(limit, max(_HEAD, least)))
        rest = size - len(head)
        room = min(_BLOCKS, max(0, limit - len(head)) // _BLOCK)
        if rest <= room * _BLOCK:
            return ByteSample(head + _exactly(file, rest), [], True)
        blocks: list[bytes] = []
        for number in range(room):
            offset = len(head) + (rest - _BLOCK) * (number + 1) // room  # the last one ends with the file
            file.seek(offset - offset % 2)  # even, so that UTF-16 units stay whole
            blocks.append(_exactly(file, _BLOCK))
        return ByteSample(head, blocks, False)


def stream(path: Location) -> Iterator[bytes]:
    """Yield all bytes of a file, decompressed, in pieces of bounded size."""
    with opened(path, full=True) as file:
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
    with opened(path, full=True) as file:
        while piece := file.read(_HEAD):
            yield piece


def _exactly(file: BinaryIO, count: int) -> bytes:
    """Read `count` bytes, or to the end of the file: a raw read may return fewer."""
    parts: list[bytes] = []
    while count > 0 and (part := file.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _compressed(stream: Iterator[bytes], limit: int) -> ByteSample:
    """Read the head of a compressed stream: nothing further on can be reached without reading it all."""
    head = io.BytesIO()
    for part in stream:
        head.write(part)
        if head.tell() >= limit:
            return ByteSample(head.getvalue()[:limit], [], False)
    return ByteSample(head.getvalue(), [], True)


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
        if not data.startswith(GZIP[:1]):  # another member may follow; padding is ignored
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


# --- bytes to text --------------------------------------------------------------------------------------


def _detect_encoding(head: bytes, given: str = "") -> tuple[str, int]:
    """The encoding of a file that starts with `head`, unless one is given, and the length of its mark.

    A byte order mark decides before all else: the files of a folder may differ.
    """
    for start, what in _BINARY:
        if head.startswith(start):
            raise Unreadable(f"it is not text: it looks like {what}")
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    if given:
        return given, 0
    look = head[:_LOOK]
    zeros = look.count(0)
    if zeros > min(len(look) // 5, 8 + len(look) // 40):  # UTF-16, of which some is ASCII, or no text
        odd = look[1::2].count(0)
        if odd * 10 >= zeros * 9:
            return "utf-16-le", 0
        if (zeros - odd) * 10 >= zeros * 9:
            return "utf-16-be", 0
    if head.isascii():
        return "utf-8", 0
    decoder = codecs.getincrementaldecoder("utf-8")  # a sequence may be cut off where the head ends
    try:
        decoder().decode(head)
    except UnicodeDecodeError:
        # A few broken sequences among good ones are damage; when most are broken it is an 8-bit encoding.
        text = decoder("replace").decode(head)
        if text.count("\ufffd") * 5 > len(_FOREIGN.findall(text)):
            return guess_encoding(head), 0
    return "utf-8", 0


def decode(data: bytes, encoding: str) -> str:
    """Decode what can be decoded; broken sequences become U+FFFD."""
    if encoding == WESTERN:
        try:
            return data.decode(WESTERN)
        except UnicodeDecodeError:
            return data.decode("latin-1")  # five bytes are invalid in cp1252
    return data.decode(encoding, "replace")


def to_text(head: bytes, blocks: Sequence[bytes] = (), given: str = "") -> tuple[str, str]:
    """Decode the start of a file; returns the text and the encoding, which blocks further on may tell."""
    encoding, mark = _detect_encoding(head, given)
    if blocks and not given and encoding == "utf-8" and head.isascii():
        telling = (block for block in blocks if not block.isascii())
        encoding = next((_detect_encoding(_CUT.sub(b"", block))[0] for block in telling), encoding)
    text = decode(head[mark:], encoding)
    look = text[:_LOOK]
    odd = len(_CONTROL.findall(look))
    if encoding.startswith("utf-16"):
        odd += look.count("\ufffd")
    if odd > 1 and odd * 100 > len(look):
        raise Unreadable("it is not text: it holds binary data under the name of a text file")
    return (_CONTROL.sub("", text) if odd or "\0" in text else text), encoding


def stream_text(
    pieces: Iterable[bytes], head: bytes, encoding: str, undecoded: Callable[[int], None] = lambda count: None
) -> Iterator[str]:
    """Decode a whole file that starts with `head`, piece by piece, and count invalid bytes.

    If all of the head is ASCII it does not tell the encoding: bytes further on that are no UTF-8 are taken as
    Windows-1252. Otherwise they become U+FFFD.
    """
    _, mark = _detect_encoding(head, encoding)
    wide = encoding != "utf-8" and encoding not in ONE_BYTE
    guessed = encoding != "utf-8" or head.isascii()

    def mend(broken: re.Match[str]) -> str:
        undecoded(1)
        byte = bytes([ord(broken[0]) - 0xDC00])
        return decode(byte, WESTERN) if guessed else "\ufffd"

    decoder = codecs.getincrementaldecoder(encoding)("replace" if wide else "surrogateescape")
    for piece in pieces:
        piece, mark = piece[mark:], max(0, mark - len(piece))
        text = decoder.decode(piece if wide else piece.translate(None, _CONTROL_BYTES))
        if wide:
            undecoded(text.count("\ufffd"))
            text = _CONTROL.sub("", text)
        elif not text.isascii():
            text = _ESCAPED.sub(mend, text)
        yield text
    yield _ESCAPED.sub(mend, decoder.decode(b"", final=True))
