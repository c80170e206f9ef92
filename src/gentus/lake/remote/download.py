"""Objects at URLs as files on this disk, for what reads nothing else: databases."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gentus.lake.base import Unreadable
from gentus.lake.files import look_up, stream_raw
from gentus.lake.location import Location, Remote, State
from gentus.table import Limits

_LOCK = threading.Lock()


class _Copy:
    """A copy in a folder of its own, which is gone with the last one who has it."""

    def __init__(self, place: Remote, state: State) -> None:
        self.of = (place.url, state)
        self._folder = tempfile.TemporaryDirectory(prefix="gentus-")
        self.file = Path(self._folder.name) / "copy"
        with self.file.open("wb") as file:
            for piece in stream_raw(place):
                file.write(piece)


_last: _Copy | None = None  # the tables of one database follow one another


@contextmanager
def on_disk(place: Location, limits: Limits) -> Iterator[Path]:
    """A file to open by its name: the one there is, or a copy of an object, up to a limit."""
    global _last
    if not isinstance(place, Remote):
        yield place
        return
    found, state = look_up(place)
    if state.size > limits.typed_bytes:
        raise Unreadable(
            f"it is a database of {state.size / 1e6:,.0f} MB; at a URL they have to be copied whole, which "
            f"is done up to {limits.typed_bytes / 1e6:,.0f} MB. Download it, and index the copy"
        )
    with _LOCK:
        copy = _last
        if copy is None or copy.of != (place.url, state) or not state.telling:
            assert isinstance(found, Remote)
            _last = None  # the room is needed now
            copy = _last = _Copy(found, state)
    yield copy.file
