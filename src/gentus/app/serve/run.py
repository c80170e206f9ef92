"""Starting and stopping the server."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.app.serve.settings import Settings

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from gentus.app.serve.index_handle import Holder

log = logging.getLogger("gentus.app.serve")
_MOST_CONNECTIONS = 2000


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio only sends answers without delay (40 ms) over sockets that say that they are TCP.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows it would let two servers have one port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise OSError(
            f"{host}:{port} cannot be listened on: {error.strerror}; -p 0 picks a free port"
        ) from error
    return made


def configured(app: FastAPI, behind_proxy: bool = False) -> uvicorn.Config:
    """How uvicorn serves it."""
    import uvicorn

    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=behind_proxy,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )


def _warm(holder: Holder) -> None:
    """Load what first requests need, so that nobody waits for it."""
    try:
        holder.check()
        for module in ("gentus.align.aligner", "gentus.union.running"):
            import_module(module)
    except Exception as error:
        log.error("Searches will fail: %s", error)


def serve(
    path: Path, host: str, port: int, settings: Settings, ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve an index until Ctrl-C; `ready` is told the address."""
    import uvicorn

    from gentus.app.serve.app import Server, make_app
    from gentus.app.serve.index_handle import Holder

    listening = bound(host, port)
    shared = Server(Holder(path), settings)
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listening.getsockname()[1]}/"

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready(url)
                threading.Thread(target=_warm, args=(shared.holder,), daemon=True).start()

    try:
        Announced(configured(make_app(shared, host), settings.behind_proxy)).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        if not shared.close():  # work in a thread that does not end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
