"""Routes of unions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gentus.app.serve import schema
from gentus.app.serve.answers import answer, client_of
from gentus.app.serve.errors import WRONG, Refused
from gentus.app.serve.fair_queue import Stop
from gentus.app.serve.queries import resolved
from gentus.app.serve.unions import TYPES, Written, plan_of, preview, with_paths, write

if TYPE_CHECKING:
    from gentus.app.serve.app import Server

_PIECE = 256 << 10


def add_union_routes(app: FastAPI, server: Server) -> None:
    """Let an application have them."""
    open_files: Counter[str] = Counter()  # of clients that are still reading

    @app.post(
        "/api/union/plan",
        responses={**WRONG, 200: {"model": schema.PlanAnswer}},
        response_class=Response,
        tags=["unions"],
    )
    async def union_plan(request: Request, asked: schema.PlanRequest) -> Response:
        """Plan a union: which column of which table goes where. The plan can be edited and sent back."""
        client = client_of(request)
        options = {
            "names": asked.names,
            "keep_extra": asked.keep_extra,
            "distinct": asked.distinct,
            "provenance": asked.provenance,
        }

        def work(stop: Stop) -> dict[str, Any]:
            with resolved(server, client, asked.query) as query:
                return plan_of(server, query.source, asked.tables, options, stop)

        return answer(await server.slow(request, work))

    @app.post(
        "/api/union/preview",
        responses={**WRONG, 200: {"model": schema.PreviewAnswer}},
        response_class=Response,
        tags=["unions"],
    )
    async def union_preview(request: Request, asked: schema.PreviewRequest) -> Response:
        """Some rows of a union, some of every table."""
        client = client_of(request)

        def work(stop: Stop) -> dict[str, Any]:
            with resolved(server, client, asked.query) as query:
                return preview(server, with_paths(server, asked.plan, query.source), asked.rows, stop)

        return answer(await server.slow(request, work))

    @app.post(
        "/api/union/download",
        responses={
            **WRONG,
            200: {
                "description": "The file",
                "content": {kind.partition(";")[0]: {"schema": _BINARY} for kind in TYPES.values()},
            },
        },
        response_class=Response,
        tags=["unions"],
    )
    async def union_download(request: Request, asked: schema.DownloadRequest) -> Response:
        """All rows of a union as a file. It is written first, and sent when it is known to be right."""
        client = client_of(request)
        if (
            open_files.total() >= server.settings.downloads
            or open_files[client] >= server.settings.downloads_of_one
        ):
            raise Refused(
                503, "too many downloads are under way; try again when some are done", {"Retry-After": "10"}
            )
        if asked.guard_formulas and asked.format != "csv":
            raise Refused(422, "formulas are guarded in CSV only; Parquet knows text from formulas")

        def work(stop: Stop) -> tuple[Written, str]:
            with resolved(server, client, asked.query) as query:
                plan = with_paths(server, asked.plan, query.source)
                return write(server, plan, asked.format, asked.guard_formulas, stop), query.source.name

        open_files[client] += 1
        try:
            written, name = await server.slow(request, work)
        except BaseException:
            _less(open_files, client)
            raise

        headers = {
            "content-disposition": disposition(f"{stem(name)}-union.{asked.format}"),
            "content-length": str(written.size),
        }
        return Sent(written, headers, TYPES[asked.format], lambda: _less(open_files, client))


class Sent(StreamingResponse):
    """A file on its way, which is gone when it was sent, and when nobody takes it."""

    def __init__(
        self, written: Written, headers: dict[str, str], kind: str, ended: Callable[[], None]
    ) -> None:
        super().__init__(self._pieces(), headers=headers, media_type=kind)
        self.written, self.ended = written, ended

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(self.written.file.read, _PIECE):
            yield piece

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.written.close()
            self.ended()


_BINARY = {"type": "string", "format": "binary"}


def _less(counts: Counter[str], client: str) -> None:
    counts[client] -= 1
    if counts[client] <= 0:
        del counts[client]


def stem(name: str) -> str:
    """The name of a table without its folders and endings."""
    last = PurePath(name).name
    return last.split(".")[0] or "table"


def disposition(name: str) -> str:
    """A header that names a file, in plain letters and in all letters."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_. ") else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
