"""Routes of uploads, searches and alignments."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from gentus.app.serve import schema
from gentus.app.serve.batch_search import OpenQuery, search_batch
from gentus.app.serve.batch_search import search as search_one
from gentus.app.serve.errors import ERROR_RESPONSES, ApiError
from gentus.app.serve.fair_queue import Batchable
from gentus.app.serve.multipart import form_schema, receive_form, require_type
from gentus.app.serve.query_input import resolve_query, store_query
from gentus.app.serve.responses import describe_errors, json_response
from gentus.app.serve.server import CurrentServer, Server, client_of
from gentus.app.serve.table_preview import align_table
from gentus.app.serve.uploads import copy_writer

_K = {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}

router = APIRouter(tags=["search"], responses=ERROR_RESPONSES, default_response_class=Response)


@router.post(
    "/api/upload",
    responses={200: {"model": schema.UploadAnswer}},
    openapi_extra={"requestBody": form_schema()},
)
async def upload(request: Request, server: CurrentServer) -> Response:
    """Send a table, to search with it several times. It is kept for a while, for you alone."""
    require_type(request, "multipart/form-data")

    def work(name: str, file: BinaryIO) -> dict[str, Any]:
        with store_query(server, client_of(request), name, copy_writer(file)) as stored:
            table = stored.read(server)
            return {
                "upload": stored.upload,
                "name": stored.source.name,
                "rows": table.rows,
                "more_rows": table.rows >= server.handle.index.limits.rows,
                "columns": [column.name for column in table.columns],
            }

    async with receive_form(request) as (file, _):
        return json_response(await server.quick(request, partial(work, file.filename or "", file.file)))


@router.post(
    "/api/search",
    responses={200: {"model": schema.SearchAnswer}},
    openapi_extra={"requestBody": form_schema(schema.SearchRequest, k=_K)},
)
async def search(request: Request, server: CurrentServer) -> Response:
    """Find tables whose rows can be appended to a query's: a file, an upload, a table, or rows."""
    client = client_of(request)
    if require_type(request, "multipart/form-data", "application/json") == "application/json":
        body = await request.body()
        wanted = _parse_search(body)
        opener = partial(resolve_query, server, client, wanted.query)
        if wanted.explain:
            return await _search_explained(request, server, wanted.k, opener)
        return await _search(request, server, wanted.k, len(body), opener)
    async with receive_form(request) as (file, fields):
        k = _parse_k(fields.get("k", "10"), server.settings.hits)
        opener = partial(store_query, server, client, file.filename or "", copy_writer(file.file))
        return await _search(request, server, k, file.size or 0, opener)


@router.get("/api/search", responses={200: {"model": schema.SearchAnswer}})
async def search_by_name(
    request: Request,
    server: CurrentServer,
    table: Annotated[str, Query(min_length=1, max_length=4096)],
    k: Annotated[int, Query(ge=1, le=100)] = 10,
    explain: bool = False,
) -> Response:
    """Find tables whose rows can be appended to a table of the lake."""
    opener = partial(resolve_query, server, client_of(request), schema.QueryRef(table=table))
    if explain:
        return await _search_explained(request, server, k, opener)
    return await _search(request, server, k, 0, opener)


@router.post("/api/align", responses={200: {"model": schema.AlignAnswer}})
async def align(request: Request, server: CurrentServer, wanted: schema.AlignRequest) -> Response:
    """Which columns of a query and of a table match, and why."""

    def work() -> dict[str, Any]:
        with resolve_query(server, client_of(request), wanted.query) as query:
            return align_table(server, query, wanted.table, wanted.names)

    return json_response(await server.quick(request, work))


async def _search(request: Request, server: Server, k: int, size: int, opener: OpenQuery) -> Response:
    if size > server.settings.batch_bytes:  # it would make the others of its batch wait
        return json_response(await server.quick(request, lambda: search_one(server, k, opener)))
    batchable = Batchable(opener, ("search", k), partial(search_batch, server, k))
    return json_response(await server.quick(request, batchable))


async def _search_explained(request: Request, server: Server, k: int, opener: OpenQuery) -> Response:
    return json_response(await server.slow(request, lambda cancel: search_one(server, k, opener, True)))


def _parse_search(body: bytes) -> schema.SearchRequest:
    try:
        return schema.SearchRequest.model_validate_json(body)
    except ValidationError as error:
        raise ApiError(422, describe_errors(error.errors())) from error


def _parse_k(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= most:
        raise ApiError(422, f"k is a whole number from 1 to {most}")
    return int(text)
