"""Routes of the page and of its API documentation, and of health checks and metrics."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import PlainTextResponse, Response

from gentus.app.serve import schema
from gentus.app.serve.docs_page import docs_page
from gentus.app.serve.metrics import CONTENT_TYPE
from gentus.app.serve.page_files import SHELL
from gentus.app.serve.server import CurrentServer, Server

router = APIRouter(default_response_class=PlainTextResponse)


@router.get("/", include_in_schema=False)
@router.get("/tables", include_in_schema=False)
@router.get("/table", include_in_schema=False)
@router.get("/groups", include_in_schema=False)
@router.get("/group", include_in_schema=False)
@router.get("/map", include_in_schema=False)
@router.get("/tree", include_in_schema=False)
async def shell(request: Request, server: CurrentServer) -> Response:
    """The page; its scripts show what the path asks for."""
    return _file(server, SHELL, request)


@router.get("/page/{name:path}", include_in_schema=False)
async def page(name: str, request: Request, server: CurrentServer) -> Response:
    """A file of the page."""
    return _file(server, name, request)


def _file(server: Server, name: str, request: Request) -> Response:
    found = server.files.get(name)
    if found is None:
        raise HTTPException(404)
    headers = {"etag": found.etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.type)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The documentation of the API."""
    return docs_page(request.app.openapi())


@router.get("/healthz", tags=["machines"])
async def healthz() -> PlainTextResponse:
    """Whether the process responds."""
    return PlainTextResponse("ok\n")


@router.get(
    "/readyz",
    responses={503: {"model": schema.ErrorAnswer, "description": "Not ready"}},
    tags=["machines"],
)
async def readyz(request: Request, server: CurrentServer) -> Response:
    """Whether searches work: the index can be read, and a search has succeeded."""
    await server.quick(request, server.handle.check)
    return PlainTextResponse("ready\n")


@router.get("/metrics", tags=["machines"])
async def metrics(server: CurrentServer) -> Response:
    """Metrics for Prometheus."""
    return Response(server.metrics.text(), media_type=CONTENT_TYPE)
