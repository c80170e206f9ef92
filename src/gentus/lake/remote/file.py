"""An object at a URL as a file: only ranges of bytes that are asked for are fetched, few and large ones."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from gentus.lake.base import Source, Unreadable
from gentus.lake.kinds import Format, format_of
from gentus.lake.location import Remote, State
from gentus.lake.remote.retry import patiently
from gentus.lake.remote.storage import asked, filesystem, plainly, state_of

AHEAD = 128 << 10  # what one request fetches at least: most tables are no larger
_LARGE = 32 << 10  # who asks for as much gets just that
STREAMED = 4 << 20  # the same where all of an object is read from its beginning to its end
_HELD = 24 << 20  # bytes that are held of an object, those last asked for
_MOST = 96 << 20  # what a sample of an object may cost
_TOGETHER = 8  # objects whose beginnings are fetched at once
_recent = threading.local()  # the object last opened in this thread: it is looked at first, and then read
_Known: TypeAlias = dict[tuple[str, State], "Ranges"]


class Ranges:
    """Bytes of one object, fetched once while they are held; shared by all who have it open."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, most: int | None, ahead: int) -> None:
        self.size, self.ahead = size, ahead
        self._fetch, self._most, self.fetched = fetch, most, 0
        self._held: list[tuple[int, bytes]] = []  # (where it begins, bytes), the one last used at the end
        self._lock = threading.RLock()
        self.failure: Unreadable | None = None  # what a library that reads from here may have swallowed

    def read(self, start: int, count: int) -> bytes:
        """So many bytes from a place, or what there is of them."""
        end = min(self.size, start + count)
        parts = []
        with self._lock:
            while start < end:
                part = self._at(start)[: end - start] or self._fetched(start, end)[: end - start]
                parts.append(part)
                start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def hold(self, start: int, end: int) -> None:
        """Fetch a range in one go: others will read it in many small pieces."""
        with self._lock:
            if len(self._at(start)) < end - start:
                self._take(start, end)

    def _at(self, start: int) -> bytes:
        """What is held from a place on."""
        for place, (begin, data) in enumerate(self._held):
            if begin <= start < begin + len(data):
                self._held.append(self._held.pop(place))
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
            raise self.failure  # it was waited for long enough
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
    """A place in an object, to read from."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self.ranges, self.size, self._place = ranges, ranges.size, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere; that costs nothing."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """Where we are."""
        return self._place

    def read(self, count: int | None = -1) -> bytes:
        """As many bytes as asked for, unless the object ends."""
        if count is None or count < 0:
            count = max(0, self.size - self._place)
        data = self.ranges.read(self._place, count)
        self._place += len(data)
        return data

    def readall(self) -> bytes:
        """All that follows."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """The same, where the caller has the room for it."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def opened_remote(place: Remote, whole: bool = False) -> Iterator[RemoteFile]:
    """Open an object. To read it `whole` may cost what it costs; a sample may not."""
    if whole:
        with whole_of(place, STREAMED) as ranges:
            yield RemoteFile(ranges)
    else:
        yield RemoteFile(ranges_of(place))


@contextmanager
def whole_of(place: Remote, ahead: int = AHEAD) -> Iterator[Ranges]:
    """The bytes of an object that is read from end to end; it must be the same one in the end."""
    state = state_of(place)
    yield ranges_of(Remote(place.url, state), True, ahead)
    if state.telling and state_of(Remote(place.url)) != state:
        raise Unreadable("it was changed while it was read; run the same command again")


def ranges_of(place: Remote, whole: bool = False, ahead: int = AHEAD) -> Ranges:
    """The bytes of an object; of one that was opened just before, what is held is not fetched again."""
    state = state_of(place)
    known: _Known = getattr(_recent, "ahead", {})
    ranges = None if whole else known.pop((place.url, state), None)
    last: _Known = getattr(_recent, "object", {})
    if ranges is None and not whole and state.telling:
        ranges = last.get((place.url, state))
        ranges = None if ranges and ranges.failure else ranges
    if ranges is None:
        ranges = Ranges(_fetcher(place, state), state.size, None if whole else _MOST, ahead)
    _recent.object = {} if whole else {(place.url, state): ranges}
    return ranges


def look_ahead(sources: Sequence[Source]) -> None:
    """Fetch what will be read first of some objects, several at once: most of the time is spent waiting."""

    def fetch(place: Remote, state: State) -> Ranges:
        ranges = Ranges(_fetcher(place, state), state.size, _MOST, AHEAD)
        with suppress(Unreadable):  # whoever reads it will be told
            ranges.read(0, 1)
            if format_of(place.name) is Format.PARQUET:
                ranges.read(state.size - 1, 1)
        return ranges

    places = [source.location for source in sources]
    listed = [
        (one, one.state) for one in places if isinstance(one, Remote) and one.state and format_of(one.name)
    ]
    if len(listed) > 1:
        with ThreadPoolExecutor(_TOGETHER) as pool:
            fetched = pool.map(lambda one: fetch(*one), listed)
            _recent.ahead = {(place.url, state): r for (place, state), r in zip(listed, fetched, strict=True)}


def _fetcher(place: Remote, state: State) -> Callable[[int, int], bytes]:
    if place.scheme not in ("http", "https"):
        return lambda start, end: asked(place, lambda store, path: store.cat_file(path, start=start, end=end))
    # A server that does not know ranges sends everything, and only an open file of fsspec's stops it.
    with plainly():
        store, path = filesystem(place)
        file = store.open(path, block_size=AHEAD, cache_type="none", size=state.size or 1)

    everything: list[bytes] = []  # where there is no other way

    def fetch(start: int, end: int) -> bytes:
        with plainly():
            try:
                if not everything:
                    data: bytes = patiently(lambda: file._fetch_range(start, end))
                    return data
            except ValueError:
                if state.size > _HELD:
                    raise Unreadable(
                        "its server only sends files whole, and this one is too large for that; download it"
                    ) from None
                everything.append(patiently(lambda: file._fetch_range(0, state.size)))
            return everything[0][start:end]

    return fetch
