"""Start and stop the HTTP server."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.app.serve.settings import Settings

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from gentus.app.serve.index_handle import IndexHandle

log = logging.getLogger("gentus.app.serve")
_QUEUE = 2048  # connections that the system keeps until they are accepted


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY, which saves 40 ms per response, only on sockets whose protocol is TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows it would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, TypeError) as error:  # the latter for a name that no host can have
        bound.close()
        why = error.strerror if isinstance(error, OSError) else error
        raise OSError(f"cannot listen on {host}:{port}: {why}; -p 0 picks a free port") from error
    return bound


def uvicorn_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """The settings of uvicorn."""
    import uvicorn

    from gentus.app.serve.connections import BoundedConnection, limit_repeats, most_connections

    most = most_connections(settings.connections)
    config = uvicorn.Config(
        app,
        http=partial(BoundedConnection, settings, most),  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        use_colors=False,  # on a terminal, sequences of others are shown
        server_header=False,
        ws="none",
        proxy_headers=settings.behind_proxy,
        backlog=max(8, most // 8),  # so many are accepted at once, before one of them can be closed
        timeout_keep_alive=max(1, round(settings.idle_seconds)),
        timeout_graceful_shutdown=5,
    )
    limit_repeats()
    return config


def _warm_up(handle: IndexHandle, settings: Settings) -> None:
    """Load what the first requests need; families of very many tables are made when somebody wants them."""
    try:
        handle.check()
        for module in ("gentus.align.matcher", "gentus.union.stream"):
            import_module(module)
        overview = handle.overview()
        if len(overview) <= settings.map_points:
            handle.families(overview)
    except Exception as error:
        log.error("Searches will fail: %s", error)


def serve(
    path: Path, host: str, port: int, settings: Settings, ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve an index until Ctrl-C; calls `ready` with the URL."""
    import uvicorn

    from gentus.app.serve.app import make_app
    from gentus.app.serve.index_handle import IndexHandle
    from gentus.app.serve.server import Server

    listening = listen(host, port)
    server = Server(IndexHandle(path), settings)
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listening.getsockname()[1]}/"

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                listening.listen(_QUEUE)
                ready(url)
                threading.Thread(target=_warm_up, args=(server.handle, settings), daemon=True).start()

    code = 0
    try:
        Announced(uvicorn_config(make_app(server, host), settings)).run(sockets=[listening])
    except KeyboardInterrupt:
        code = 130
        raise
    finally:
        if not server.close():  # a thread does not end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
