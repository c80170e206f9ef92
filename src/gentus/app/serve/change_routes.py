"""Routes that add and remove tables. They require the token."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from gentus.app.serve import schema
from gentus.app.serve.errors import ERROR_RESPONSES, ApiError
from gentus.app.serve.fair_queue import Cancellation
from gentus.app.serve.multipart import form_schema, header_field, receive_form, require_type
from gentus.app.serve.query_input import store_query
from gentus.app.serve.responses import json_response
from gentus.app.serve.server import CurrentServer, Server, client_of
from gentus.app.serve.uploads import copy_writer
from gentus.files import replacing
from gentus.index.ingest import name_at
from gentus.lake import Source, as_location
from gentus.table import Header

if TYPE_CHECKING:
    from gentus.index.updater import Changes

_TOKEN: list[dict[str, list[str]]] = [{"token": []}]


async def check_token(server: CurrentServer, request: Request) -> None:
    """Raise if a client may not change the index; digests are compared, in constant time."""
    settings = server.settings
    if settings.read_only:
        raise ApiError(403, "this server was started with --read-only; its index cannot be changed")
    if settings.token is None:
        raise ApiError(403, "this server was started without a token; start it with --token to allow changes")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    sent = given.strip().encode("latin-1")  # headers are bytes
    same = hmac.compare_digest(_digest(sent), _digest(settings.token.encode()))
    if scheme.lower() != "bearer" or not same:
        raise ApiError(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


router = APIRouter(
    tags=["changes"],
    responses={
        **ERROR_RESPONSES,
        401: {"model": schema.ErrorAnswer, "description": "The token is missing or wrong"},
        409: {"model": schema.ErrorAnswer, "description": "A table of this name exists"},
    },
    default_response_class=Response,
    dependencies=[Depends(check_token)],
)


@router.post(
    "/api/tables",
    status_code=201,
    responses={201: {"model": schema.AddedAnswer}},
    openapi_extra={"requestBody": form_schema(), "security": _TOKEN},
)
async def add(request: Request, server: CurrentServer) -> Response:
    """Add a table. It is stored in the folder of the index, and can be found at once."""
    require_type(request, "multipart/form-data")

    def work(name: str, file: BinaryIO, header: Header, cancel: Cancellation) -> dict[str, Any]:
        with store_query(server, client_of(request), name, copy_writer(file), header) as stored:
            return _add(server, stored.source)

    async with receive_form(request) as (file, fields):
        work_on = partial(work, file.filename or "", file.file, header_field(fields))
        return json_response(await server.slow(request, work_on), 201)


@router.delete(
    "/api/tables", responses={200: {"model": schema.RemovedAnswer}}, openapi_extra={"security": _TOKEN}
)
async def remove(request: Request, server: CurrentServer, name: Annotated[schema.Name, Query()]) -> Response:
    """Remove a table from the index. Files of the lake stay; one that was added by this API is deleted."""

    def work(cancel: Cancellation) -> dict[str, Any]:
        with server.handle.changing:
            index = server.handle.index
            source = index.source(name)
            if source is None:
                raise ApiError(404, f"there is no table {name!r} in the index")
            _change(lambda: index.remove(name))
            if source.path.is_relative_to(index.layout.added.resolve()):
                source.file.unlink(missing_ok=True)
            return {"removed": name, "tables": len(index)}

    return json_response(await server.slow(request, work))


def _add(server: Server, source: Source) -> dict[str, Any]:
    """Copy an upload into the folder of the index, and add it to the index."""
    with server.handle.changing:
        index = server.handle.index
        layout = index.layout
        layout.added.mkdir(exist_ok=True)
        path = layout.added.resolve() / source.name
        name = name_at(path, source.part, as_location(index.config.lake), layout)
        # On file systems that ignore case, another file could be overwritten.
        differs_in_case = path.exists() and path.name not in os.listdir(path.parent)
        if differs_in_case or index.catalogue.tables.entries([name]):
            raise ApiError(409, f"there is a table {name} already; remove it first, or use another name")
        with replacing(path) as file, source.file.open("rb") as content:
            copy_writer(content)(file)
        try:
            state = path.stat()
            table = Source(name, path, source.part, state.st_size, state.st_mtime_ns)
            table = replace(table, header=source.header, pinned=True)
            changes = _change(lambda: index.add_tables([table]))
            if not changes.added:
                raise ApiError(422, f"{source.name}: {'; '.join(changes.unreadable.values()) or 'not added'}")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return {"name": name, "sid": index.sid(name), "tables": len(index)}


def _change(change: Callable[[], Changes]) -> Changes:
    """Change the index; an impossible change is an error of the request."""
    try:
        return change()
    except ValueError as error:
        raise ApiError(422, str(error)) from error
