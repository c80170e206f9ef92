"""The state of the HTTP server: the service with its queues of threads and its metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from gentus.app.serve.errors import ApiError
from gentus.app.serve.fair_queue import Batchable, Cancellation, FairQueue
from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.metrics import Metrics
from gentus.app.serve.middleware import client_address
from gentus.app.serve.page_files import PageFiles
from gentus.app.serve.service import Service
from gentus.app.serve.settings import Settings

T = TypeVar("T")


class Server(Service):
    """What all HTTP requests share."""

    def __init__(self, handle: IndexHandle, settings: Settings) -> None:
        super().__init__(handle, settings)
        self.metrics = Metrics()
        self.files = PageFiles()
        self.downloads: Counter[str] = Counter()  # files that each client is still reading
        waiting = settings.waiting, settings.waiting_of_one
        self.queues = {
            "quick": FairQueue("quick", settings.quick_threads, *waiting, settings.batch_size),
            "slow": FairQueue("slow", settings.slow_threads, *waiting),
        }
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "tables": ("Tables of the index.", lambda: len(self.handle.index.decoder.trie)),
            "uploads": ("Uploads that are kept.", lambda: len(self.uploads)),
        }
        for name, queue in self.queues.items():
            gauges[f"{name}_waiting"] = f"Requests that wait in the {name} queue.", queue.depth
            gauges[f"{name}_busy"] = f"Threads of the {name} queue that are busy.", queue.busy
        self.metrics.gauges(gauges)

    async def quick(self, request: Request, work: Callable[[], T] | Batchable) -> T:
        """Do work of milliseconds in a thread."""
        seconds = self.settings.quick_seconds
        job = work if isinstance(work, Batchable) else lambda cancel: work()
        return await self.queues["quick"].run(client_of(request), seconds, job)

    async def slow(self, request: Request, work: Callable[[Cancellation], T]) -> T:
        """Do work that may take long in a thread; cancel it when the client disconnects."""
        queue, seconds = self.queues["slow"], self.settings.slow_seconds
        result = asyncio.ensure_future(queue.run(client_of(request), seconds, work))
        disconnected = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({result, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise ApiError(499, "the client has disconnected")
            return result.result()
        finally:
            disconnected.cancel()
            result.cancel()

    def close(self) -> bool:
        """End all work; False if some goes on."""
        ended = [queue.close() for queue in self.queues.values()]
        return super().close() and all(ended)


async def _current_server(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


CurrentServer = Annotated[Server, Depends(_current_server)]  # the parameter of a route


def client_of(request: Request) -> str:
    """The client that sent a request."""
    return client_address(request.scope)


async def _disconnected(request: Request) -> None:
    """Wait until the client disconnects; its request was read to the end before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
