"""Adding and removing tables: only for those who have the token."""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from gentus.app.serve import schema
from gentus.app.serve.answers import answer, client_of
from gentus.app.serve.errors import WRONG, Refused
from gentus.app.serve.fair_queue import Stop
from gentus.app.serve.forms import expect, form, received
from gentus.app.serve.queries import kept
from gentus.app.serve.uploads import copy
from gentus.files import replacing
from gentus.index.ingest import name_at
from gentus.lake import Source, as_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from gentus.app.serve.app import Server
    from gentus.index.updater import Changes

_CLOSED: dict[int | str, dict[str, Any]] = {
    401: {"model": schema.ErrorAnswer, "description": "The token is missing or wrong"},
    409: {"model": schema.ErrorAnswer, "description": "There is such a table already"},
}


def add_change_routes(app: FastAPI, server: Server) -> None:
    """Let an application have them."""

    @app.post(
        "/api/tables",
        status_code=201,
        responses={**WRONG, **_CLOSED, 201: {"model": schema.AddedAnswer}},
        response_class=Response,
        openapi_extra={"requestBody": form(), "security": [{"token": []}]},
        tags=["changes"],
    )
    async def add(request: Request) -> Response:
        """Add a table. It is kept in the index's own folder, and can be found at once."""
        check_token(server, request)
        expect(request, "multipart/form-data")
        client = client_of(request)

        def work(name: str, file: BinaryIO, stop: Stop) -> dict[str, Any]:
            with kept(server, client, name, copy(file)) as asked:
                return _added(server, asked.source)

        async with received(request) as (sent, _):
            return answer(await server.slow(request, partial(work, sent.filename or "", sent.file)), 201)

    @app.delete(
        "/api/tables",
        responses={**WRONG, **_CLOSED, 200: {"model": schema.RemovedAnswer}},
        response_class=Response,
        openapi_extra={"security": [{"token": []}]},
        tags=["changes"],
    )
    async def remove(request: Request, name: Annotated[schema.Name, Query()]) -> Response:
        """Remove a table from the index. Files of the lake stay; one that was sent to be added goes."""
        check_token(server, request)

        def work(stop: Stop) -> dict[str, Any]:
            with server.holder.changing:
                opened = server.holder.index
                source = opened.source(name)
                if source is None:
                    raise Refused(404, f"there is no table {name!r} in the index")
                _told(lambda: opened.remove(name))
                if source.path.is_relative_to(opened.layout.added.resolve()):
                    source.file.unlink(missing_ok=True)
                return {"removed": name, "tables": len(opened)}

        return answer(await server.slow(request, work))


def _added(server: Server, source: Source) -> dict[str, Any]:
    """Put a copy of an upload into the index's folder, and the table into the index."""
    with server.holder.changing:
        opened = server.holder.index
        layout = opened.layout
        layout.added.mkdir(exist_ok=True)
        kept = layout.added.resolve() / source.name
        name = name_at(kept, source.part, as_location(opened.config.lake), layout)
        # Where case does not tell files apart, another one would be written over.
        other = kept.exists() and kept.name not in os.listdir(kept.parent)
        if other or opened.catalogue.entries([name]):
            raise Refused(409, f"there is a table {name} already; remove it first, or use another name")
        with replacing(kept) as file, source.file.open("rb") as content:
            copy(content)(file)
        try:
            state = kept.stat()
            table = Source(name, kept, source.part, state.st_size, state.st_mtime_ns)
            changes = _told(lambda: opened.add_tables([table]))
            if not changes.added:
                raise Refused(422, f"{source.name}: {'; '.join(changes.unreadable.values()) or 'not added'}")
        except BaseException:
            kept.unlink(missing_ok=True)
            raise
        return {"name": name, "sid": opened.sid(name), "tables": len(opened)}


def _told(change: Callable[[], Changes]) -> Changes:
    """Change the index; what cannot be changed, it says itself."""
    try:
        return change()
    except ValueError as error:
        raise Refused(422, str(error)) from error


def check_token(server: Server, request: Request) -> None:
    """Refuse a change by somebody who may not make any; how long that takes tells nothing of the token."""
    settings = server.settings
    if settings.read_only:
        raise Refused(403, "this server was started with --read-only; nobody can change its index")
    if settings.token is None:
        raise Refused(403, "this server was started without a token; start it with --token to allow changes")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    sent = given.strip().encode("latin-1")  # headers are bytes
    same = hmac.compare_digest(_digest(sent), _digest(settings.token.encode()))
    if scheme.lower() != "bearer" or not same:
        raise Refused(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
