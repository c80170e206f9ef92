"""Local copies of objects at URLs, for databases, which can only be opened as files."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gentus.lake.base import Unreadable
from gentus.lake.location import Location, Remote, State
from gentus.lake.remote.file import STREAMED, opened_remote
from gentus.lake.remote.storage import state_of
from gentus.scratch_folder import temporary_folder
from gentus.table import Limits

_LOCK = threading.Lock()


class _Copy:
    """A copy in a temporary folder, which is deleted with this object."""

    def __init__(self, location: Remote, state: State) -> None:
        self.of = (location.url, state)
        cleanup = ExitStack()
        self.file = cleanup.enter_context(temporary_folder("copy")) / "copy"
        weakref.finalize(self, cleanup.close)
        with self.file.open("wb") as file, opened_remote(location, full=True) as remote:
            while piece := remote.read(STREAMED):
                file.write(piece)


_last: _Copy | None = None  # the tables of one database follow one another


@contextmanager
def local_copy(location: Location, limits: Limits) -> Iterator[Path]:
    """The path of a local file: the location itself, or a copy of an object, up to a limit."""
    global _last
    if not isinstance(location, Remote):
        yield location
        return
    state = state_of(location)
    if state.size > limits.typed_bytes:
        raise Unreadable(
            f"it is a database of {state.size / 1e6:,.0f} MB; databases at URLs are copied whole, which "
            f"is done up to {limits.typed_bytes / 1e6:,.0f} MB. Download it, and index the copy"
        )
    with _LOCK:
        copy = _last
        if copy is None or copy.of != (location.url, state) or not state.detects_changes:
            _last = None  # frees the disk for the next copy
            copy = _last = _Copy(Remote(location.url, state), state)
    yield copy.file
