"""Routes of uploads, searches and alignments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from gentus.app.serve import schema
from gentus.app.serve.answers import answer, client_of, invalid_words
from gentus.app.serve.errors import WRONG, Refused
from gentus.app.serve.fair_queue import Shared
from gentus.app.serve.forms import expect, form, received
from gentus.app.serve.queries import kept, resolved
from gentus.app.serve.searches import Opening, search_all
from gentus.app.serve.searches import search as search_one
from gentus.app.serve.tables import aligned
from gentus.app.serve.uploads import copy

if TYPE_CHECKING:
    from gentus.app.serve.app import Server

_K = {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}


def add_search_routes(app: FastAPI, server: Server) -> None:
    """Let an application have them."""
    settings = server.settings

    @app.post(
        "/api/upload",
        responses={**WRONG, 200: {"model": schema.UploadAnswer}},
        response_class=Response,
        openapi_extra={"requestBody": form()},
        tags=["search"],
    )
    async def upload(request: Request) -> Response:
        """Send a table, to search with it several times. It is kept for a while, for you alone."""
        expect(request, "multipart/form-data")
        client = client_of(request)

        def work(name: str, file: BinaryIO) -> dict[str, Any]:
            with kept(server, client, name, copy(file)) as asked:
                read = asked.read(server)
                return {
                    "upload": asked.upload,
                    "name": asked.source.name,
                    "rows": read.rows,
                    "more_rows": read.rows >= server.holder.index.limits.rows,
                    "columns": [column.name for column in read.columns],
                }

        async with received(request) as (sent, _):
            return answer(await server.quick(request, partial(work, sent.filename or "", sent.file)))

    async def run_search(request: Request, k: int, explain: bool, size: int, opening: Opening) -> Response:
        if explain:
            return answer(await server.slow(request, lambda stop: search_one(server, k, opening, True)))
        if size > settings.shared_bytes:  # others are not to wait for it
            return answer(await server.quick(request, lambda: search_one(server, k, opening)))
        shared = Shared(opening, ("search", k), partial(search_all, server, k))
        return answer(await server.quick(request, shared))

    found = {**WRONG, 200: {"model": schema.SearchAnswer}}

    @app.post(
        "/api/search",
        responses=found,
        response_class=Response,
        openapi_extra={"requestBody": form(schema.SearchRequest, k=_K)},
        tags=["search"],
    )
    async def search(request: Request) -> Response:
        """Find tables whose rows can be appended to a query's: a file, an upload, a table, or rows."""
        if expect(request, "multipart/form-data", "application/json") == "application/json":
            body = await request.body()
            asked = _parsed(schema.SearchRequest, body)
            opening = partial(resolved, server, client_of(request), asked.query)
            return await run_search(request, asked.k, asked.explain, len(body), opening)
        async with received(request) as (sent, fields):
            k = _parsed_value(fields.get("k", "10"), settings.hits)
            opening = partial(kept, server, client_of(request), sent.filename or "", copy(sent.file))
            return await run_search(request, k, False, sent.size or 0, opening)

    @app.get("/api/search", responses=found, response_class=Response, tags=["search"])
    async def search_by_name(
        request: Request,
        table: Annotated[str, Query(min_length=1, max_length=4096)],
        k: Annotated[int, Query(ge=1, le=100)] = 10,
        explain: bool = False,
    ) -> Response:
        """The same for a table of the lake."""
        opening = partial(resolved, server, client_of(request), schema.QueryRef(table=table))
        return await run_search(request, k, explain, 0, opening)

    @app.post(
        "/api/align",
        responses={**WRONG, 200: {"model": schema.AlignAnswer}},
        response_class=Response,
        tags=["search"],
    )
    async def align(request: Request, asked: schema.AlignRequest) -> Response:
        """Which columns of a query and of a table belong together, and why."""
        client = client_of(request)

        def work() -> dict[str, Any]:
            with resolved(server, client, asked.query) as query:
                return aligned(server, query, asked.table, asked.names)

        return answer(await server.quick(request, work))


def _parsed(model: Any, body: bytes) -> Any:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Refused(422, invalid_words(error.errors())) from error


def _parsed_value(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= most:
        raise Refused(422, f"k is a whole number from 1 to {most}")
    return int(text)
