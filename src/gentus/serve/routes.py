"""All routes but unions and changes: the page, the index, tables, searches, alignments, map and tree."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from fastapi import FastAPI, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import ValidationError

from gentus import __version__
from gentus.serve import schema
from gentus.serve.app import answer, client_of, invalid_words
from gentus.serve.docs_page import docs_page
from gentus.serve.errors import WRONG, Refused
from gentus.serve.forms import expect, form, received
from gentus.serve.lanes import Shared
from gentus.serve.metrics import CONTENT_TYPE
from gentus.serve.page_files import SHELL
from gentus.serve.queries import kept, resolved
from gentus.serve.searches import Opening, search_all
from gentus.serve.searches import search as search_one
from gentus.serve.tables import aligned, looked_at
from gentus.serve.uploads import copy

if TYPE_CHECKING:
    from gentus.serve.app import Server


_K = {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}


def add_routes(app: FastAPI, server: Server) -> None:
    """Let an application have them."""
    settings = server.settings

    def get(path: str, twin: str, model: Any, work: Any) -> None:
        """A route for GET, and the twin of its page."""
        told = {**WRONG, 200: {"model": model}}
        app.get(path, responses=told, response_class=Response, tags=["lake"])(work)
        app.get(twin, include_in_schema=False)(work)

    # --- the page ---------------------------------------------------------------------------------------

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

    # --- the index --------------------------------------------------------------------------------------

    async def index(request: Request) -> Response:
        """What is served."""

        def work() -> dict[str, Any]:
            opened = server.holder.index
            return {
                "name": opened.layout.root.name,
                "tables": len(opened),
                "read_only": settings.read_only or settings.token is None,
                "levels": opened.decoder.codebooks.levels,
                "limits": {
                    "upload_bytes": settings.upload_bytes,
                    "rows": settings.rows,
                    "columns": settings.columns,
                },
                "version": __version__,
            }

        return answer(await server.quick(request, work))

    get("/api/index", "/index.json", schema.IndexAnswer, index)

    async def tables(
        request: Request,
        filter: Annotated[str, Query(max_length=200, description="Words that are all in the name.")] = "",
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        """The tables of the lake, by name."""
        return answer(await server.quick(request, lambda: server.holder.view().page(filter, offset, limit)))

    get("/api/tables", "/tables.json", schema.TablesAnswer, tables)

    async def table(
        request: Request,
        name: Annotated[str | None, Query(max_length=4096)] = None,
        upload: Annotated[str | None, Query(max_length=100)] = None,
        rows: Annotated[int, Query(ge=0, le=1000)] = 20,
    ) -> Response:
        """A table of the lake by its name, or an upload: its columns, and its first rows."""
        if (name is None) == (upload is None):
            raise Refused(422, "give either the name of a table or an upload")
        query = schema.QueryRef.model_construct(table=name, upload=upload, rows=None)
        client = client_of(request)

        def work() -> dict[str, Any]:
            with resolved(server, client, query) as asked:
                return looked_at(server, asked, rows)

        return answer(await server.quick(request, work))

    get("/api/table", "/table.json", schema.TableAnswer, table)

    async def map(request: Request) -> Response:
        """Every table as a point of a plane."""
        plain, packed = await server.slow(request, lambda stop: server.holder.view().map(settings.map_points))
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
            return Response(packed, headers=headers, media_type="application/json")
        return Response(plain, media_type="application/json")

    get("/api/map", "/map.json", schema.MapAnswer, map)

    async def tree(
        request: Request,
        prefix: Annotated[
            str,
            Query(pattern=r"^(\d{1,10}(-\d{1,10})*)?$", max_length=600, description="Codes, such as 30-9."),
        ] = "",
    ) -> Response:
        """The codes that follow a prefix of identifiers, and the tables below."""
        codes = [int(code) for code in prefix.split("-") if code]

        def work() -> dict[str, Any]:
            view = server.holder.view()
            if len(codes) > view.codes.shape[1]:
                raise Refused(422, f"identifiers have {view.codes.shape[1]} codes, and not {len(codes)}")
            return view.tree(codes)

        return answer(await server.quick(request, work))

    get("/api/tree", "/tree.json", schema.TreeAnswer, tree)

    # --- searches ---------------------------------------------------------------------------------------

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

    # --- for machines -----------------------------------------------------------------------------------

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


def _parsed(model: Any, body: bytes) -> Any:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Refused(422, invalid_words(error.errors())) from error


def _parsed_value(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= most:
        raise Refused(422, f"k is a whole number from 1 to {most}")
    return int(text)
