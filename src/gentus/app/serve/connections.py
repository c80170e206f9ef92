"""Bounded connections: how many there are, how long a client may keep one waiting, and what is logged of it.

uvicorn itself only closes a connection that is idle after a response.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from gentus.app.serve.settings import Settings

log = logging.getLogger("gentus.app.serve")
_LOOK = 1.0  # seconds between looks at a connection
_REPEATS = 10.0  # seconds in which a message is written once
_MOST_MESSAGES = 1000  # that are remembered


class BoundedConnection(H11Protocol):
    """A connection that is closed if its client keeps it waiting too long, or makes room for others."""

    def __init__(self, settings: Settings, most: int, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._settings, self._most = settings, most
        self._since, self._closed = self.loop.time(), False
        self._state: object = None  # as it has been since then

    @property
    def _active(self) -> bool:
        """Whether the head of a request has come, and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _waits(self) -> bool:
        """Whether the client has to send or to read something."""
        return not self._active or self.cycle.more_body or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: Any) -> None:
        """Open it; if there are too many, close the one that waits longest, first of all for a request."""
        super().connection_made(transport)
        others = [one for one in self.connections if isinstance(one, BoundedConnection) and not one._closed]
        if len(others) > self._most:
            log.warning("more than %d connections: those that wait longest are closed", self._most)
            waiting = [one for one in others if one is not self and one._waits]
            min(waiting, key=lambda one: (one._active, one._since), default=self)._close()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look at it no more."""
        self._closed = True
        super().connection_lost(exc)

    def _close(self) -> None:
        """Close it at once: what the client has not read is discarded."""
        self._closed = True
        self.transport.abort()

    def _look(self) -> None:
        """Close it if the client has neither sent a request nor read a response for too long."""
        if self._closed:
            return
        unread = self.transport.get_write_buffer_size()
        now, state = self.loop.time(), (self.cycle, self._active, unread)
        if state != self._state:
            self._since, self._state = now, state
        seconds = self._settings.body_seconds if unread else self._settings.idle_seconds
        if (unread or not self._active) and now - self._since > seconds:
            self._close()  # a body that is sent too slowly is refused by the middleware
        self.loop.call_later(min(_LOOK, seconds / 4), self._look)


def most_connections(wanted: int) -> int:
    """As many as wanted, if a third of the files that this process may open is sufficient for them."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files // 3))


class _Repeats(logging.Filter):
    """Passes a message once in some seconds, then says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[object, tuple[float, int]] = {}  # when it was written, how often left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it. Clients can cause a message as often as they like."""
        error = record.exc_info[0] if record.exc_info else None
        key = record.name, str(record.msg).partition("\n")[0], error
        now, (written, left_out) = time.monotonic(), self._known.get(key, (float("-inf"), 0))
        if now - written < _REPEATS:
            self._known[key] = written, left_out + 1
            return False
        if len(self._known) > _MOST_MESSAGES:
            self._known.clear()
        self._known[key] = now, 0
        if left_out:
            record.msg = f"{record.msg} ({left_out:,} more of these were not written)"
        return True


_repeats = _Repeats()


def limit_repeats() -> None:
    """Write no message in a loop, whatever clients do."""
    for name in ("asyncio", "uvicorn.error", log.name):
        logging.getLogger(name).addFilter(_repeats)
