"""A server for tests: real HTTP on a free port, in this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from gentus.app.serve.app import make_app
from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.run import listen, uvicorn_config
from gentus.app.serve.server import Server
from gentus.app.serve.settings import Settings

TOKEN = "an öpen secret"


class Served(httpx.Client):
    """A client of the server, which can look behind it."""

    server: Server

    def table(self, name: str, **parameters: Any) -> Any:
        """A table, looked at closely."""
        return self.get("/api/table", params={"name": name, **parameters}).json()

    def post_json(self, path: str, document: Any) -> httpx.Response:
        """Send a document."""
        return self.post(path, json=document)

    def send_file(self, path: str, name: str, content: bytes, **fields: str) -> httpx.Response:
        """Send a file."""
        return self.post(path, files={"file": (name, content)}, data=fields)

    def send_raw(self, path: str, head: str = "", method: str = "GET", host: str | None = None) -> bytes:
        """Send a request as it is written, and return the answer as it came."""
        address = self.base_url.host, self.base_url.port or 80
        named = f"{address[0]}:{address[1]}" if host is None else host
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: {named}\r\nConnection: close\r\n{head}\r\n".encode(
                    "latin-1"
                )
            )
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        return answer


@contextmanager
def served(index: Path, **settings: Any) -> Iterator[Served]:
    """Serve an index."""
    listening = listen("127.0.0.1", 0)
    server = Server(IndexHandle(index), Settings(**settings))
    running = uvicorn.Server(uvicorn_config(make_app(server), server.settings))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.005)
        with Served(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=30) as client:
            client.server = server
            yield client
    finally:
        running.should_exit = True
        thread.join()
        listening.close()
        server.handle.index.close()
