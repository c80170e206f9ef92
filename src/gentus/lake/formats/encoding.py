"""Bytes to text: which encoding a file is in, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

from gentus.lake.base import Unreadable

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
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document; save it as .xlsx or .csv"),
    (b"\x7fELF", "a program"),
    (b"BZh91AY&SY", "bzip2 data; unpack it first"),
    (b"\xfd7zXZ", "xz data; unpack it first"),
    (b"SQLite format 3\0", "an SQLite database; name it .sqlite"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # what text does not hold, but a stray one may
_CONTROL_BYTES = bytes(code for code in range(128) if _CONTROL.match(chr(code)))
_ESCAPED = re.compile("[\udc80-\udcff]")  # how `surrogateescape` writes bytes that mean nothing
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_LOOK = 64 << 10


def detect(head: bytes) -> tuple[str, int]:
    """Return the encoding of a file that starts with `head`, and how many bytes its mark takes."""
    for start, what in _BINARY:
        if head.startswith(start):
            raise Unreadable(f"it is not text: it looks like {what}")
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    look = head[:_LOOK]
    zeros = look.count(0)
    if zeros * 5 > len(look):  # a byte in five is zero: UTF-16 of mostly Latin text, or no text
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
            return "cp1252", 0
    return "utf-8", 0


def decode(data: bytes, encoding: str) -> str:
    """Decode what can be decoded; broken sequences become U+FFFD."""
    if encoding == "cp1252":
        try:
            return data.decode("cp1252")
        except UnicodeDecodeError:
            return data.decode("latin-1")  # five bytes mean nothing in cp1252
    return data.decode(encoding, "replace")


def to_text(head: bytes) -> tuple[str, str]:
    """Decode the start of a file; returns the text and the encoding."""
    encoding, mark = detect(head)
    text = decode(head[mark:], encoding)
    look = text[:_LOOK]
    odd = len(_CONTROL.findall(look))
    if encoding.startswith("utf-16"):
        odd += look.count("\ufffd")
    if odd * 100 > len(look):
        raise Unreadable("it is not text: it holds binary data under the name of a text file")
    return (_CONTROL.sub("", text) if odd or "\0" in text else text), encoding


def stream_text(
    pieces: Iterable[bytes], head: bytes, undecoded: Callable[[int], None] = lambda count: None
) -> Iterator[str]:
    """Decode a whole file that starts with `head`, piece by piece, and say how many bytes mean nothing.

    Where all of the head is ASCII it tells nothing, and a byte that is no UTF-8 further on is taken as
    Windows-1252; elsewhere it becomes U+FFFD.
    """
    encoding, mark = detect(head)
    wide = encoding.startswith(("utf-16", "utf-32"))
    guessed = encoding == "cp1252" or head.isascii()

    def mend(broken: re.Match[str]) -> str:
        undecoded(1)
        byte = bytes([ord(broken[0]) - 0xDC00])
        return decode(byte, "cp1252") if guessed else "\ufffd"

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
