"""What every request passes first: is it meant for us, from our own page, and not too large.

A browser will send requests from any page to a server on this machine. A page that is not ours is known by
its Origin; one that has given our address another name (DNS rebinding) by the Host that it asks for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gentus.app.serve.errors import Refused, refusal_of

if TYPE_CHECKING:
    from gentus.app.serve.metrics import Metrics
    from gentus.app.serve.settings import Settings

log = logging.getLogger("gentus.app.serve")
SAFE = ("GET", "HEAD", "OPTIONS")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
_MANY = 1 << 20
_SPARE = 64 << 10  # bytes of a request with a file that are not of the file


class Guard:
    """Stands before the application."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        hosts: Hosts,
        metrics: Metrics,
        scrubbed: Callable[[str], str] = str,
    ) -> None:
        self.app, self.settings, self.hosts, self.metrics = app, settings, hosts, metrics
        self.scrubbed = scrubbed
        self.under_way = _UnderWay(settings.bodies_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        begun: list[int] = []

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message["status"])
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        client = who(scope)
        body = _Body(receive, self.settings)
        try:
            headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
            self.hosts.check(scope["method"], scope["path"], headers)
            self.under_way.enter(client, body.expect(headers))
            await self.app(scope, body.receive, sent)
        except Exception as error:
            refused = refusal_of(error)
            if refused is None:
                log.exception("%s %s failed", scope["method"], scope["path"])
                refused = Refused(500, "something went wrong here; the server's log says more")
            if begun:  # a file that cannot be sent to its end
                raise
            await _answer(sent, refused, self.scrubbed(refused.reason), close=not body.whole)
        finally:
            self.under_way.leave(client, body.expected)
            status = begun[0] if begun else 500
            self.metrics.request(scope, status, time.perf_counter() - started)


def who(scope: Scope) -> str:
    """Whom a request is from: an address, or of the sixth version the network, which one person has whole."""
    address = str(scope["client"][0]) if scope.get("client") else "?"
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


class _UnderWay:
    """Large bodies that are being received or worked on; no client has more than half of the room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: Counter[str] = Counter()

    def enter(self, client: str, size: int) -> None:
        """Note a body, or refuse it if there is no room for it now."""
        own = self._sizes[client] + size
        self._sizes[client] = own
        if size and (self._sizes.total() > self._most or own > max(size, self._most // 2)):
            raise Refused(503, "too much is being sent just now; try again in a moment", {"Retry-After": "5"})

    def leave(self, client: str, size: int) -> None:
        """Forget a body."""
        self._sizes[client] -= size
        if self._sizes[client] <= 0:
            del self._sizes[client]


class _Body:
    """The body of a request, of which no more is taken than is allowed, nor for longer."""

    def __init__(self, receive: Receive, settings: Settings) -> None:
        self._receive, self._settings = receive, settings
        self._most, self._taken = settings.json_bytes, 0
        self._until = time.monotonic() + settings.body_seconds
        self.whole = False
        self.expected = 0  # bytes, if they are many

    def expect(self, headers: dict[str, str]) -> int:
        """How many bytes may come, if they are many. One that says itself that it is too large is refused."""
        if headers.get("content-type", "").startswith("multipart/form-data"):
            self._most = self._settings.upload_bytes + _SPARE
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most:
            raise self._too_large()
        self.whole = not (length.strip("0") or "transfer-encoding" in headers)
        size = int(length) if length.isdecimal() else 0 if self.whole else self._most
        self.expected = size if size > _MANY else 0
        return self.expected

    async def receive(self) -> Message:
        """The next piece."""
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.01, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            raise Refused(408, f"it was not sent within {self._settings.body_seconds:g} s") from error
        if message["type"] == "http.request":
            self._taken += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if self._taken > self._most:
                self.whole = False
                raise self._too_large()
        return message

    def _too_large(self) -> Refused:
        file = self._most > self._settings.json_bytes
        most = self._settings.upload_bytes if file else self._settings.json_bytes
        hint = "" if file else "; send a large table as a file"
        return Refused(413, f"at most {_size(most)} are taken here{hint}")


class Hosts:
    """Names by which the server may be called."""

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        self.anywhere = bound in ("", "0.0.0.0", "::")
        self.names = {name.lower() for name in (*names, bound, "localhost", "127.0.0.1", "::1")}
        if self.anywhere:
            self.names.add(socket.gethostname().lower())

    def check(self, method: str, path: str, headers: dict[str, str]) -> None:
        """Refuse a request for another host, or from a page of another one."""
        host = headers.get("host", "")
        if not self.allows(host):
            raise Refused(
                421,
                f"this server is not called {host[:200]!r}; allow the name with --allow-host if it is yours",
            )
        if method in SAFE and not path.startswith("/api/"):
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refused(403, "requests from pages of other sites are refused")
        if site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            raise Refused(403, "requests from pages of other sites are refused")

    def allows(self, host: str) -> bool:
        """Whether a Host header names this server; an address in numbers cannot be rebound."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in self.names:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.anywhere


def _with_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    own = list(headers)
    given = {key.lower() for key, _ in own}
    return own + [(key, value) for key, value in _ENCODED if key not in given]


_ENCODED = [(key.encode(), value.encode()) for key, value in HEADERS.items()]


async def _answer(send: Send, refused: Refused, reason: str, close: bool) -> None:
    """Say no; what is still being sent is not waited for."""
    body = json.dumps({"error": reason}).encode()
    headers: list[tuple[Any, Any]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((key.lower().encode(), value.encode()) for key, value in refused.headers.items()),
    ]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _size(count: int) -> str:
    return f"{count >> 20:,} MB" if count >= 1 << 20 else f"{count:,} bytes"
