"""Routes of unions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gentus.app.serve import schema
from gentus.app.serve.client_union import (
    TYPES,
    ResultFile,
    parse_plan,
    plan_union,
    preview_union,
    write_union,
)
from gentus.app.serve.errors import ERROR_RESPONSES, ApiError
from gentus.app.serve.fair_queue import Cancellation
from gentus.app.serve.query_input import resolve_query
from gentus.app.serve.responses import json_response
from gentus.app.serve.server import CurrentServer, Server, client_of
from gentus.app.serve.union_schema import DownloadRequest, PlanRequest, PreviewRequest
from gentus.lake import Source

if TYPE_CHECKING:
    from gentus.index.union_plan import UnionOptions

T = TypeVar("T")
_PIECE = 256 << 10
_BINARY = {"type": "string", "format": "binary"}

router = APIRouter(tags=["unions"], responses=ERROR_RESPONSES, default_response_class=Response)


@router.post("/api/union/plan", responses={200: {"model": schema.PlanAnswer}})
async def union_plan(request: Request, server: CurrentServer, wanted: PlanRequest) -> Response:
    """Plan a union: which column of which table goes where. The plan can be edited and sent back."""
    options: UnionOptions = {
        "names": wanted.names,
        "keep_extra": wanted.keep_extra,
        "distinct": wanted.distinct,
        "provenance": wanted.provenance,
        **wanted.options(),
    }

    def work(query: Source, cancel: Cancellation) -> dict[str, Any]:
        return plan_union(server, query, wanted.tables, options, cancel)

    return json_response(await _with_query(request, server, wanted.query, work))


@router.post("/api/union/preview", responses={200: {"model": schema.PreviewAnswer}})
async def union_preview(request: Request, server: CurrentServer, wanted: PreviewRequest) -> Response:
    """Some rows of a union, some of every table."""

    def work(query: Source, cancel: Cancellation) -> dict[str, Any]:
        return preview_union(server, parse_plan(server, wanted.plan, query), wanted.rows, cancel)

    return json_response(await _with_query(request, server, wanted.query, work))


@router.post(
    "/api/union/download",
    responses={
        200: {
            "description": "The file",
            "content": {kind.partition(";")[0]: {"schema": _BINARY} for kind in TYPES.values()},
        },
    },
)
async def union_download(request: Request, server: CurrentServer, wanted: DownloadRequest) -> Response:
    """All rows of a union as a file. It is written completely before it is sent."""
    client, downloads, settings = client_of(request), server.downloads, server.settings
    if downloads.total() >= settings.downloads or downloads[client] >= settings.downloads_of_one:
        raise ApiError(
            503, "too many downloads are in progress; try again when some have ended", {"Retry-After": "10"}
        )
    if wanted.guard_formulas and wanted.format != "csv":
        raise ApiError(422, "formulas are guarded in CSV only; the other formats store text as text")

    def work(query: Source, cancel: Cancellation) -> tuple[ResultFile, str]:
        plan = parse_plan(server, wanted.plan, query)
        return write_union(server, plan, wanted.format, wanted.guard_formulas, cancel), query.name

    downloads[client] += 1
    try:
        result, name = await _with_query(request, server, wanted.query, work)
    except BaseException:
        _release(downloads, client)
        raise
    headers = {
        "content-disposition": disposition(f"{stem(name)}-union.{wanted.format}"),
        "content-length": str(result.size),
    }
    return ResultResponse(result, headers, TYPES[wanted.format], lambda: _release(downloads, client))


async def _with_query(
    request: Request, server: Server, query: schema.QueryRef, work: Callable[[Source, Cancellation], T]
) -> T:
    """Do work with the file of a query, in a thread of the slow queue."""

    def resolve_and_work(cancel: Cancellation) -> T:
        with resolve_query(server, client_of(request), query) as resolved:
            return work(resolved.source, cancel)

    return await server.slow(request, resolve_and_work)


class ResultResponse(StreamingResponse):
    """A file that is deleted when it was sent, or when the client disconnects."""

    def __init__(
        self, result: ResultFile, headers: dict[str, str], kind: str, ended: Callable[[], None]
    ) -> None:
        super().__init__(self._pieces(), headers=headers, media_type=kind)
        self.result, self.ended = result, ended

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(self.result.file.read, _PIECE):
            yield piece

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.result.close()
            self.ended()


def _release(downloads: Counter[str], client: str) -> None:
    downloads[client] -= 1
    if downloads[client] <= 0:
        del downloads[client]


def stem(name: str) -> str:
    """The name of a table without its folders and endings."""
    last = PurePath(name).name
    return last.split(".")[0] or "table"


def disposition(name: str) -> str:
    """A header that names a file, in ASCII and in UTF-8."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_. ") else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
