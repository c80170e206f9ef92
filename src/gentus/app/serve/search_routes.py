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
from gentus.app.serve.multipart import form_schema, header_field, receive_form, require_type
from gentus.app.serve.query_input import resolve_query, store_query
from gentus.app.serve.responses import describe_errors, json_response
from gentus.app.serve.server import CurrentServer, Server, client_of
from gentus.app.serve.table_preview import align_table
from gentus.app.serve.uploads import copy_writer
from gentus.table import Header

_FIELDS = schema.SearchOptions.model_json_schema()["properties"]  # of a form, beside the file

router = APIRouter(tags=["search"], responses=ERROR_RESPONSES, default_response_class=Response)


@router.post(
    "/api/upload",
    responses={200: {"model": schema.UploadAnswer}},
    openapi_extra={"requestBody": form_schema()},
)
async def upload(request: Request, server: CurrentServer) -> Response:
    """Send a table, to search with it several times. It is kept for a while, for you alone."""
    require_type(request, "multipart/form-data")

    def work(name: str, file: BinaryIO, header: Header) -> dict[str, Any]:
        with store_query(server, client_of(request), name, copy_writer(file), header) as stored:
            table = stored.read(server)
            return {
                "upload": stored.upload,
                "name": stored.source.name,
                "rows": table.rows,
                "more_rows": table.may_have_more(server.handle.index.limits),
                "columns": [column.name for column in table.columns],
                "doubt": table.doubt,
            }

    async with receive_form(request) as (file, fields):
        work_on = partial(work, file.filename or "", file.file, header_field(fields))
        return json_response(await server.quick(request, work_on))


@router.post(
    "/api/search",
    responses={200: {"model": schema.SearchAnswer}},
    openapi_extra={"requestBody": form_schema(schema.SearchRequest, **_FIELDS)},
)
async def search(
    request: Request, server: CurrentServer, in_address: Annotated[schema.SearchOptions, Query()]
) -> Response:
    """Find tables whose rows can be appended to a query's: a file, an upload, a table, or rows.

    Options may stand in the body or in the query string. The score of a table is the probability that a
    person would append it. Its fit is full if it fits and every column of the query has a match in it,
    partial if only some have, and none if it does not fit; why says it in words, verdict of the whole answer.
    """
    client = client_of(request)
    if require_type(request, "multipart/form-data", "application/json") == "application/json":
        body = await request.body()
        wanted = _parse_search(body)
        options = _merged(in_address, wanted.model_dump(include=wanted.model_fields_set - {"query"}))
        opener = partial(resolve_query, server, client, wanted.query)
        return await _search(request, server, options, len(body), opener)
    async with receive_form(request, *_FIELDS) as (file, fields):
        header = header_field(fields)
        options = _merged(in_address, _parse_fields(fields))
        opener = partial(store_query, server, client, file.filename or "", copy_writer(file.file), header)
        return await _search(request, server, options, file.size or 0, opener)


@router.get("/api/search", responses={200: {"model": schema.SearchAnswer}})
async def search_by_name(
    request: Request, server: CurrentServer, wanted: Annotated[schema.NamedSearch, Query()]
) -> Response:
    """Find tables whose rows can be appended to a table of the lake."""
    opener = partial(resolve_query, server, client_of(request), schema.QueryRef(table=wanted.table))
    options = schema.SearchOptions.model_validate(wanted.model_dump(exclude={"table"}))
    return await _search(request, server, options, 0, opener)


@router.post("/api/align", responses={200: {"model": schema.AlignAnswer}})
async def align(request: Request, server: CurrentServer, wanted: schema.AlignRequest) -> Response:
    """Which columns of a query and of a table match, and why."""

    def work() -> dict[str, Any]:
        with resolve_query(server, client_of(request), wanted.query) as query:
            return align_table(server, query, wanted.table, wanted.names)

    return json_response(await server.quick(request, work))


def _merged(in_address: schema.SearchOptions, in_body: dict[str, Any]) -> schema.SearchOptions:
    """Options from the query string and from the body; an error if they contradict each other."""
    chosen = in_address.model_dump(exclude_unset=True)
    for name, value in in_body.items():
        if chosen.setdefault(name, value) != value:
            raise ApiError(
                422, f"{name} is {chosen[name]} in the query string and {value} in the body; give it once"
            )
    return schema.SearchOptions.model_validate(chosen)


async def _search(
    request: Request, server: Server, options: schema.SearchOptions, size: int, opener: OpenQuery
) -> Response:
    if options.explain:
        return json_response(await server.slow(request, lambda cancel: search_one(server, options, opener)))
    if size > server.settings.batch_bytes:  # it would make the others of its batch wait
        return json_response(await server.quick(request, lambda: search_one(server, options, opener)))
    batchable = Batchable(opener, ("search", options), partial(search_batch, server, options))
    return json_response(await server.quick(request, batchable))


def _parse_search(body: bytes) -> schema.SearchRequest:
    try:
        return schema.SearchRequest.model_validate_json(body)
    except ValidationError as error:
        raise _body_error(error) from error


def _parse_fields(fields: dict[str, str]) -> dict[str, Any]:
    """The fields of a form beside its file."""
    try:
        return schema.SearchOptions.model_validate(fields).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise _body_error(error) from error


def _body_error(error: ValidationError) -> ApiError:
    return ApiError(422, describe_errors(error.errors(), "body"))
