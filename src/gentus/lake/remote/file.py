"""Objects at URLs as files: ranges of bytes are fetched on demand, few and large ones."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

from gentus.lake.base import Unreadable
from gentus.lake.location import Member, Remote, State
from gentus.lake.remote.retry import with_retries
from gentus.lake.remote.storage import call_store, filesystem, plain_errors, state_of

AHEAD = 128 << 10  # bytes that one request fetches at least: most tables are no larger
_LARGE = 32 << 10  # a read of this size or more fetches just that
STREAMED = 4 << 20  # AHEAD where an object is read from beginning to end
_HELD = 24 << 20  # bytes that are held of an object, the last used ones
_MOST = 96 << 20  # bytes that a sample of an object may fetch
_TOGETHER = 8  # objects whose beginnings are fetched at once
_recent = threading.local()  # the object last opened here: its format is detected first, then it is read
_Known: TypeAlias = dict[tuple[str, State], "ByteRanges"]


class ByteRanges:
    """Bytes of one object, fetched once while they are held; shared by all files open on it."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, most: int | None, ahead: int) -> None:
        self.size, self.ahead = size, ahead
        self._fetch, self._most, self.fetched = fetch, most, 0
        self._held: list[tuple[int, bytes]] = []  # (offset, bytes), the last used at the end
        self._lock = threading.RLock()
        self.failure: Unreadable | None = None  # a library that reads from here may have swallowed it

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from an offset, or fewer at the end of the object."""
        end = min(self.size, start + count)
        parts = []
        with self._lock:
            while start < end:
                part = self._at(start)[: end - start] or self._fetched(start, end)[: end - start]
                parts.append(part)
                start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def hold(self, start: int, end: int) -> None:
        """Fetch a range in one request, before it is read in many small pieces."""
        with self._lock:
            if len(self._at(start)) < end - start:
                self._take(start, end)

    def _at(self, start: int) -> bytes:
        """The bytes that are held from an offset on."""
        for at, (begin, data) in enumerate(self._held):
            if begin <= start < begin + len(data):
                self._held.append(self._held.pop(at))
                return data[start - begin :]
        return b""

    def _fetched(self, start: int, end: int) -> bytes:
        if end - start >= _LARGE:
            self._take(start, end)
        else:  # others will follow; footers and directories of archives are read from the end backwards
            begin = max(0, min(start, self.size - self.ahead))
            self._take(begin, min(self.size, begin + self.ahead))
        return self._at(start)

    def _take(self, start: int, end: int) -> None:
        if self.failure is not None:
            raise self.failure  # do not retry again
        self.fetched += end - start
        if self._most is not None and self.fetched > self._most:
            self._fail(f"a sample of it takes more than {_MOST >> 20} MB; split it into smaller pieces")
        try:
            data = self._fetch(start, end)
        except Unreadable as error:
            self.failure = error
            raise
        if len(data) != end - start:
            self._fail("it has changed since it was listed; run the same command again")
        self._held.append((start, data))
        while len(self._held) > 1 and sum(len(part) for _, part in self._held) > _HELD:
            del self._held[0]

    def _fail(self, reason: str) -> None:
        self.failure = Unreadable(reason)
        raise self.failure


class RemoteFile(io.RawIOBase):
    """A read-only file over the bytes of an object."""

    def __init__(self, ranges: ByteRanges) -> None:
        super().__init__()
        self.ranges, self.size, self._position = ranges, ranges.size, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position; nothing is fetched."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read(self, count: int | None = -1) -> bytes:
        """`count` bytes, unless the object ends."""
        if count is None or count < 0:
            count = max(0, self.size - self._position)
        data = self.ranges.read(self._position, count)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All bytes that follow."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer of the caller."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def opened_remote(location: Remote, full: bool = False) -> Iterator[RemoteFile]:
    """Open an object to read it in `full`, or a sample of it, for which there is a limit of bytes."""
    if full:
        with full_ranges(location, STREAMED) as ranges:
            yield RemoteFile(ranges)
    else:
        yield RemoteFile(ranges_of(location))


@contextmanager
def full_ranges(location: Remote, ahead: int = AHEAD) -> Iterator[ByteRanges]:
    """The bytes of an object that is read in full; an error if it has changed meanwhile."""
    state = state_of(location)
    yield ranges_of(replace(location, state=state), True, ahead)
    if state.detects_changes and state_of(Remote(location.url)) != state:
        raise Unreadable("it was changed while it was read; run the same command again")


def ranges_of(location: Remote, full: bool = False, ahead: int = AHEAD) -> ByteRanges:
    """The bytes of an object; those of the one opened just before are not fetched again."""
    state = state_of(location)
    known: _Known = getattr(_recent, "ahead", {})
    ranges = None if full else known.pop((location.url, state), None)
    last: _Known = getattr(_recent, "object", {})
    if ranges is None and not full and state.detects_changes:
        ranges = last.get((location.url, state))
        ranges = None if ranges and ranges.failure else ranges
    if ranges is None:
        ranges = ByteRanges(_fetcher(location, state), state.size, None if full else _MOST, ahead)
    _recent.object = {} if full else {(location.url, state): ranges}
    return ranges


def prefetch(wanted: Sequence[tuple[Remote, State, bool]]) -> None:
    """Fetch the beginnings of objects, and the ends where a flag says so, several at once to wait less."""

    def fetch(location: Remote, state: State, end: bool) -> ByteRanges:
        ranges = ByteRanges(_fetcher(location, state), state.size, _MOST, AHEAD)
        with suppress(Unreadable):  # raised again when it is read
            ranges.read(0, 1)
            if end:
                ranges.read(state.size - 1, 1)
        return ranges

    if len(wanted) > 1:
        with ThreadPoolExecutor(_TOGETHER) as pool:
            fetched = list(pool.map(lambda one: fetch(*one), wanted))
        _recent.ahead = {(one.url, state): r for (one, state, _), r in zip(wanted, fetched, strict=True)}


def _fetcher(location: Remote, state: State) -> Callable[[int, int], bytes]:
    if isinstance(location, Member):
        data = location.data or b""
        return lambda start, end: data[start:end]
    if location.scheme not in ("http", "https"):
        return lambda start, end: call_store(
            location, lambda store, path: store.cat_file(path, start=start, end=end)
        )
    # A server without range requests sends everything, and only an open file of fsspec stops it.
    with plain_errors():
        store, path = filesystem(location)
        file = store.open(path, block_size=AHEAD, cache_type="none", size=state.size or 1)

    everything: list[bytes] = []  # the whole object, from a server without ranges

    def fetch(start: int, end: int) -> bytes:
        with plain_errors():
            try:
                if not everything:
                    data: bytes = with_retries(lambda: file._fetch_range(start, end))
                    return data
            except ValueError:
                if state.size > _HELD:
                    raise Unreadable(
                        "its server only sends whole files, and this one is too large for that; download it"
                    ) from None
                everything.append(with_retries(lambda: file._fetch_range(0, state.size)))
            return everything[0][start:end]

    return fetch
