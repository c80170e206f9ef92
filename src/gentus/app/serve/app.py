"""The application: routes, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gentus import __version__
from gentus.app.serve.answers import answer, client_of, invalid_words
from gentus.app.serve.change_routes import add_change_routes
from gentus.app.serve.core import Core
from gentus.app.serve.errors import Refused
from gentus.app.serve.fair_queue import Lane, Shared, Stop
from gentus.app.serve.guard import Guard, Hosts
from gentus.app.serve.index_handle import Holder
from gentus.app.serve.lake_routes import add_lake_routes
from gentus.app.serve.metrics import Metrics
from gentus.app.serve.page_files import PageFiles
from gentus.app.serve.page_routes import add_page_routes
from gentus.app.serve.search_routes import add_search_routes
from gentus.app.serve.settings import Settings
from gentus.app.serve.union_routes import add_union_routes

T = TypeVar("T")


class Server(Core):
    """What all requests share."""

    def __init__(self, holder: Holder, settings: Settings) -> None:
        super().__init__(holder, settings)
        self.metrics = Metrics()
        self.files = PageFiles()
        waiting = settings.waiting, settings.waiting_of_one
        self.lanes = {
            "quick": Lane("quick", settings.quick_threads, *waiting, settings.together),
            "slow": Lane("slow", settings.slow_threads, *waiting),
        }
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "tables": ("Tables of the index.", lambda: len(self.holder.index.decoder.trie)),
            "uploads": ("Uploads that are kept.", lambda: len(self.uploads)),
        }
        for name, lane in self.lanes.items():
            gauges[f"{name}_waiting"] = f"Requests that wait in the {name} lane.", lane.depth
            gauges[f"{name}_busy"] = f"Threads at work in the {name} lane.", lane.busy
        self.metrics.gauges(gauges)

    async def quick(self, request: Request, work: Callable[[], T] | Shared) -> T:
        """Do what takes milliseconds in a thread."""
        seconds = self.settings.quick_seconds
        done = work if isinstance(work, Shared) else lambda stop: work()
        return await self.lanes["quick"].run(client_of(request), seconds, done)

    async def slow(self, request: Request, work: Callable[[Stop], T]) -> T:
        """Do what may take long in a thread, as long as somebody waits for it."""
        lane, seconds = self.lanes["slow"], self.settings.slow_seconds
        done = asyncio.ensure_future(lane.run(client_of(request), seconds, work))
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise Refused(499, "nobody waits for the answer any more")
            return done.result()
        finally:
            gone.cancel()
            done.cancel()

    def close(self) -> bool:
        """End all work; False if some goes on."""
        ended = [lane.close() for lane in self.lanes.values()]
        return super().close() and all(ended)


async def _gone(request: Request) -> None:
    """Wait until the client is gone; its request was read to the end before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def make_app(server: Server, host: str = "127.0.0.1") -> FastAPI:
    """The application around an index."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        server.close()

    app = FastAPI(
        title="GenTUS",
        version=__version__,
        summary="Find the tables of a data lake whose rows can be appended to yours.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    app.openapi_tags = [
        {"name": "lake", "description": "What is served: tables, their map and their tree."},
        {"name": "search", "description": "Find tables whose rows can be appended to yours."},
        {"name": "unions", "description": "Put the rows of tables under yours."},
        {"name": "changes", "description": "Add and remove tables, with the token."},
        {"name": "machines", "description": "Health and figures."},
    ]
    app.state.server = server
    app.add_middleware(
        Guard,
        settings=server.settings,
        hosts=Hosts(host, server.settings.hosts),
        metrics=server.metrics,
        scrubbed=server.scrubbed,
    )
    for add in (add_page_routes, add_lake_routes, add_search_routes, add_union_routes, add_change_routes):
        add(app, server)
    describe = app.openapi

    def described() -> dict[str, Any]:
        document = describe()
        token = {"type": "http", "scheme": "bearer", "description": "What gentus serve was started with."}
        document["components"].setdefault("securitySchemes", {"token": token})
        return document

    app.openapi = described  # type: ignore[method-assign]

    @app.exception_handler(HTTPException)
    async def wrong(request: Request, error: HTTPException) -> Response:
        return answer({"error": _words(error)}, error.status_code, dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer({"error": invalid_words(error.errors())}, 422)

    return app


def _words(error: HTTPException) -> str:
    known = {404: "there is nothing here; see /docs", 405: "this cannot be done with it; see /docs"}
    return known.get(error.status_code, str(error.detail))
