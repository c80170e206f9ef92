"""The FastAPI application: middleware, routes and error responses around a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gentus import __version__
from gentus.app.serve import change_routes, lake_routes, page_routes, search_routes, union_routes
from gentus.app.serve.middleware import AllowedHosts, RequestGuard
from gentus.app.serve.page_files import SHELL
from gentus.app.serve.responses import describe_errors, json_response
from gentus.app.serve.server import Server
from gentus.app.serve.wrong_address import wants_html, wrong_address

_TAGS = {
    "lake": "The index that is served: its tables, their families, map and tree.",
    "search": "Find tables whose rows can be appended to yours.",
    "unions": "Append the rows of other tables to yours.",
    "changes": "Add and remove tables, with the token.",
    "machines": "Health checks and metrics.",
}
_TOKEN = {"type": "http", "scheme": "bearer", "description": "The token that gentus serve was started with."}
_STATUS_WORDS = {
    404: "there is nothing at this address",
    405: "this address is not to be used in this way",
}


def make_app(server: Server, host: str = "127.0.0.1") -> FastAPI:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        server.close()

    app = FastAPI(
        title="GenTUS",
        version=__version__,
        summary="Find the tables of a data lake whose rows can be appended to yours.",
        openapi_tags=[{"name": name, "description": words} for name, words in _TAGS.items()],
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error, RequestValidationError: _validation_error},
    )
    app.state.server = server
    app.add_middleware(
        RequestGuard,
        settings=server.settings,
        hosts=AllowedHosts(host, server.settings.hosts),
        metrics=server.metrics,
        redact_paths=server.redact_paths,
    )
    for routes in (page_routes, lake_routes, search_routes, union_routes, change_routes):
        app.include_router(routes.router)
    describe = app.openapi

    def describe_with_token() -> dict[str, Any]:
        document = describe()
        document["components"].setdefault("securitySchemes", {"token": _TOKEN})
        return document

    app.openapi = describe_with_token  # type: ignore[method-assign]
    return app


async def _http_error(request: Request, error: HTTPException) -> Response:
    status, headers = error.status_code, dict(error.headers or {})
    words = _STATUS_WORDS.get(status)
    if words is None:
        return json_response({"error": str(error.detail)}, status, headers)
    shell = request.app.state.server.files.get(SHELL)
    if shell is not None and wants_html(request):
        return wrong_address(request, shell.content.decode(), words, status, headers)
    return json_response({"error": f"{words}; see /docs"}, status, headers)


async def _validation_error(request: Request, error: RequestValidationError) -> Response:
    return json_response({"error": describe_errors(error.errors())}, 422)
