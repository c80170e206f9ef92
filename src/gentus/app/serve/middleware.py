"""Checks before every request: Host, Origin, and the size and speed of its body.

A browser sends requests from any page to a server on this machine. Pages of other sites are recognised by
their Origin; a site whose name resolves to this machine (DNS rebinding) is recognised by its Host.
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

from gentus.app.serve.errors import ApiError, as_api_error

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
_SPARE = 64 << 10  # bytes of a multipart request beside its file


class RequestGuard:
    """ASGI middleware: checks requests, adds security headers, turns failures into JSON, counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        hosts: AllowedHosts,
        metrics: Metrics,
        redact_paths: Callable[[str], str] = str,
    ) -> None:
        self.app, self.settings, self.hosts, self.metrics = app, settings, hosts, metrics
        self.redact_paths = redact_paths
        self.bodies = _BodyBudget(settings.bodies_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        statuses: list[int] = []  # of the response, once it has begun

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        client = client_address(scope)
        body = _Body(receive, self.settings)
        try:
            headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
            self.hosts.check(scope["method"], scope["path"], headers)
            self.bodies.enter(client, body.expect(headers))
            # uvicorn sends no body in answer to HEAD; beside that, it is GET.
            inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self.app(inner, body.receive, sent)
        except Exception as failure:
            error = as_api_error(failure)
            if error is None:
                log.exception("%s %s failed", scope["method"], scope["path"])
                error = ApiError(500, "internal error; see the log of the server")
            if statuses:  # the response is already being sent
                raise
            await _send_error(sent, error, self.redact_paths(error.reason), close=not body.whole)
        finally:
            self.bodies.leave(client, body.expected)
            status = statuses[0] if statuses else 500
            self.metrics.request(scope, status, time.perf_counter() - started)


def client_address(scope: Scope) -> str:
    """The client of a request: its IPv4 address, or its IPv6 /64 network, which one person may own whole."""
    address = str(scope["client"][0]) if scope.get("client") else "?"
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


class _BodyBudget:
    """The bytes of large bodies in progress; no client has more than half of what is allowed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: Counter[str] = Counter()

    def enter(self, client: str, size: int) -> None:
        """Count a body, or raise if there is no room for it now."""
        own = self._sizes[client] + size
        self._sizes[client] = own
        if size and (self._sizes.total() > self._most or own > max(size, self._most // 2)):
            raise ApiError(503, "too much data is being sent; try again in a moment", {"Retry-After": "5"})

    def leave(self, client: str, size: int) -> None:
        """Stop counting a body."""
        self._sizes[client] -= size
        if self._sizes[client] <= 0:
            del self._sizes[client]


class _Body:
    """The body of a request, received within limits of size and time."""

    def __init__(self, receive: Receive, settings: Settings) -> None:
        self._receive, self._settings = receive, settings
        self._most, self._taken = settings.json_bytes, 0
        self._until = time.monotonic() + settings.body_seconds
        self.whole = False
        self.expected = 0  # bytes, if they are many

    def expect(self, headers: dict[str, str]) -> int:
        """The announced bytes if they are many, else 0; raises if they are too many."""
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
        """The next message."""
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.01, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            raise ApiError(
                408, f"the request was not sent within {self._settings.body_seconds:g} s"
            ) from error
        if message["type"] == "http.request":
            self._taken += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if self._taken > self._most:
                self.whole = False
                raise self._too_large()
        return message

    def _too_large(self) -> ApiError:
        file = self._most > self._settings.json_bytes
        most = self._settings.upload_bytes if file else self._settings.json_bytes
        hint = "" if file else "; send a large table as a file"
        return ApiError(413, f"at most {_size(most)} are accepted{hint}")


class AllowedHosts:
    """The Host names that are accepted."""

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        self.anywhere = bound in ("", "0.0.0.0", "::")
        self.names = {name.lower() for name in (*names, bound, "localhost", "127.0.0.1", "::1")}
        if self.anywhere:
            self.names.add(socket.gethostname().lower())

    def check(self, method: str, path: str, headers: dict[str, str]) -> None:
        """Raise if a request is for another host, or from a page of another site."""
        host = headers.get("host", "")
        if not self.allows(host):
            raise ApiError(
                421,
                f"{host[:200]!r} is not a name of this server; if it should be, start it with --allow-host",
            )
        if method in SAFE and not path.startswith("/api/"):
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise ApiError(403, "requests from pages of other sites are not allowed")
        if site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            raise ApiError(403, "requests from pages of other sites are not allowed")

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


async def _send_error(send: Send, error: ApiError, reason: str, close: bool) -> None:
    """Send an error; `close` the connection if the request was not read to its end."""
    body = json.dumps({"error": reason}).encode()
    headers: list[tuple[Any, Any]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((key.lower().encode(), value.encode()) for key, value in error.headers.items()),
    ]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _size(count: int) -> str:
    return f"{count >> 20:,} MB" if count >= 1 << 20 else f"{count:,} bytes"
