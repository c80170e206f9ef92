"""Routes of the page, of its docs, and for machines that watch over the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from gentus.app.serve import schema
from gentus.app.serve.docs_page import docs_page
from gentus.app.serve.errors import Refused
from gentus.app.serve.metrics import CONTENT_TYPE
from gentus.app.serve.page_files import SHELL

if TYPE_CHECKING:
    from gentus.app.serve.app import Server


def add_page_routes(app: FastAPI, server: Server) -> None:
    """Let an application have them."""

    def file(name: str, request: Request) -> Response:
        found = server.files.get(name)
        if found is None:
            raise Refused(404, "there is no such file")
        headers = {"etag": found.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers=headers, media_type=found.type)

    for path in ("/", "/tables", "/table", "/map", "/tree"):

        @app.get(path, include_in_schema=False)
        async def shell(request: Request) -> Response:
            return file(SHELL, request)

    @app.get("/page/{name:path}", include_in_schema=False)
    async def page(name: str, request: Request) -> Response:
        return file(name, request)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return docs_page(app.openapi())

    @app.get("/healthz", response_class=PlainTextResponse, tags=["machines"])
    async def healthz() -> PlainTextResponse:
        """Whether the process answers at all."""
        return PlainTextResponse("ok\n")

    @app.get(
        "/readyz",
        response_class=PlainTextResponse,
        responses={503: {"model": schema.ErrorAnswer, "description": "Not now"}},
        tags=["machines"],
    )
    async def readyz(request: Request) -> Response:
        """Whether searches are answered: the index can be read, and a search has been tried."""
        await server.quick(request, server.holder.check)
        return PlainTextResponse("ready\n")

    @app.get("/metrics", response_class=PlainTextResponse, tags=["machines"])
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(server.metrics.text(), media_type=CONTENT_TYPE)
