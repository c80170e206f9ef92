"""Connections of the server: those whose clients send or read nothing are closed, and the log stays small."""

from __future__ import annotations

import logging
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import served

from gentus.app.serve.connections import _Repeats

FLOOD = 260
FILES = 256  # that the flooded server may open
IDLE = 2.0  # seconds
PART_OF_A_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"
REQUEST = PART_OF_A_HEAD + b"\r\n"
SERVER = """
import resource, sys
from pathlib import Path
from gentus.app.serve.run import serve
from gentus.app.serve.settings import Settings
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
settings = Settings(idle_seconds=float(sys.argv[3]))
serve(Path(sys.argv[1]), "127.0.0.1", 0, settings, lambda url: print(url, flush=True))
"""


@contextmanager
def with_few_files(index: Path, log: Path) -> Iterator[httpx.Client]:
    """A server of its own process, which may open few files."""
    command = [sys.executable, "-c", SERVER, str(index), str(FILES), str(IDLE)]
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as server:
        assert server.stdout is not None
        try:
            with httpx.Client(base_url=server.stdout.readline().decode().strip(), timeout=5) as client:
                yield client
        finally:
            server.terminate()


def connected(api: httpx.Client, stack: ExitStack, sent: bytes = PART_OF_A_HEAD) -> socket.socket:
    address = api.base_url.host, api.base_url.port or 80
    connection = stack.enter_context(socket.create_connection(address, timeout=10))
    connection.sendall(sent)
    return connection


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it; nothing is sent on it."""
    try:
        return not select.select([connection], [], [], 0)[0] or connection.recv(1 << 16) != b""
    except OSError:
        return False


def seconds_until_closed(connection: socket.socket, trickle: bytes = b"") -> float:
    begun = time.monotonic()
    while is_open(connection) and time.monotonic() - begun < 8:
        time.sleep(0.05)
        try:
            connection.sendall(trickle)
        except OSError:
            break
    return time.monotonic() - begun


def test_heads_that_do_not_end(index_path: Path, tmp_path: Path) -> None:
    """More of them than the server may open files, and it responds all the time."""
    log = tmp_path / "log"
    with with_few_files(index_path, log) as api, ExitStack() as stack:
        assert api.get("/readyz").status_code == 200
        begun = time.monotonic()
        flood = [connected(api, stack) for _ in range(FLOOD)]
        while time.monotonic() - begun < IDLE + 2:
            with httpx.Client(base_url=api.base_url, timeout=5) as other:
                assert other.get("/readyz").status_code == 200
            for connection in filter(is_open, flood):
                try:
                    connection.sendall(b"X-A: b\r\n")
                except OSError:
                    connection.close()
                    flood.remove(connection)
            time.sleep(0.2)
        assert not list(filter(is_open, flood))
    written = log.read_text()
    assert len(written) < 1000, written[:1000]
    assert "connections: those that wait longest" in written
    assert "out of system resource" not in written


def test_who_sends_no_request_is_disconnected(index_path: Path) -> None:
    with served(index_path, idle_seconds=0.8) as api, ExitStack() as stack:
        silent, slow = connected(api, stack, b""), connected(api, stack)
        again = connected(api, stack, REQUEST)
        assert again.recv(1 << 16).startswith(b"HTTP/1.1 200")
        again.sendall(PART_OF_A_HEAD)  # the timeout of uvicorn ends with the first byte of the next request
        assert seconds_until_closed(slow, b"X-A: b\r\n") < 3
        assert seconds_until_closed(again, b"X-A: b\r\n") < 3
        assert seconds_until_closed(silent) < 3
        usual = connected(api, stack, REQUEST)
        for _ in range(6):  # for longer than a connection may be idle
            answer = b""
            while not answer.endswith(b"ok\n"):
                answer += usual.recv(1 << 16) or b"closed, not ok\n"
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.3)
            usual.sendall(REQUEST)


def test_who_reads_nothing_is_disconnected(index_path: Path) -> None:
    """Else its responses would be kept for it for ever."""
    with served(index_path, body_seconds=0.8) as api, ExitStack() as stack:
        lazy = connected(api, stack, b"")
        lazy.settimeout(20)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):  # not that it timed out
            _send_for_ever(lazy)


def _send_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(REQUEST.replace(b"/healthz", b"/") * 100)


def test_a_new_connection_takes_the_place_of_one_that_waits(index_path: Path) -> None:
    """A request that is being worked on stays."""
    gate, begun = threading.Event(), threading.Event()
    with served(index_path, connections=4) as api, ExitStack() as stack:
        find = api.server.handle.source

        def slow(name: str) -> Any:
            begun.set()
            assert gate.wait(20)
            return find(name)

        api.server.handle.source = slow  # type: ignore[method-assign]
        asking = connected(api, stack, REQUEST.replace(b"/healthz", b"/api/search?table=fish_0.csv"))
        assert begun.wait(5)
        waiting = [connected(api, stack) for _ in range(9)]
        assert connected(api, stack, REQUEST).recv(1 << 16).startswith(b"HTTP/1.1 200")
        time.sleep(0.2)
        assert 2 <= len(list(filter(is_open, waiting))) <= 3
        gate.set()
        assert asking.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_message_is_not_written_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    repeats = _Repeats()

    def written(message: str, *values: object) -> str | None:
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, message, values, None)
        return record.getMessage() if repeats.filter(record) else None

    assert written("%d failed", 1) == "1 failed"
    assert [written("%d failed", 2) for _ in range(1000)] == [None] * 1000
    assert written("something else") == "something else"
    now[0] = 11.0
    assert written("%d failed", 3) == "3 failed (1,000 more of these were not written)"
    assert written("%d failed", 3) is None


def test_head_is_get_without_a_body(index_path: Path) -> None:
    with served(index_path) as api:
        for path in ("/", "/healthz", "/api/tables", "/page/main.js", "/nowhere"):
            full, head = api.get(path), api.head(path)
            assert (head.status_code, head.content) == (full.status_code, b""), path
            assert head.headers["content-length"] == full.headers["content-length"]
            assert head.headers["content-security-policy"]
        assert api.head("/api/search").status_code == api.get("/api/search").status_code


def test_requests_that_are_none_are_not_logged_in_a_loop(
    index_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gentus.app.serve.connections._repeats._known", {})
    with served(index_path) as api, ExitStack() as stack:
        monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
        for _ in range(30):
            assert connected(api, stack, b"nonsense\r\n\r\n").recv(1 << 16).startswith(b"HTTP/1.1 400")
    assert [one.message for one in caplog.records] == ["Invalid HTTP request received."]
