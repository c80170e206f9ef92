"""Routes of the lake: the index, its tables, their map and their tree. Each page has a JSON twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gentus import __version__
from gentus.app.serve import schema
from gentus.app.serve.errors import ERROR_RESPONSES, ApiError
from gentus.app.serve.fair_queue import Cancellation
from gentus.app.serve.query_input import resolve_query
from gentus.app.serve.responses import json_response
from gentus.app.serve.server import CurrentServer, client_of
from gentus.app.serve.table_preview import describe_table, duplicates_page

F = TypeVar("F", bound=Callable[..., Any])

router = APIRouter(tags=["lake"], responses=ERROR_RESPONSES, default_response_class=Response)


def _get(path: str, twin: str, model: Any) -> Callable[[F], F]:
    """A route for GET, and the JSON twin of its page."""

    def add(work: F) -> F:
        router.get(path, responses={200: {"model": model}})(work)
        router.get(twin, include_in_schema=False)(work)
        return work

    return add


@_get("/api/index", "/index.json", schema.IndexAnswer)
async def index(request: Request, server: CurrentServer) -> Response:
    """The index that is served."""
    settings = server.settings

    def work() -> dict[str, Any]:
        opened = server.handle.index
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

    return json_response(await server.quick(request, work))


@_get("/api/tables", "/tables.json", schema.TablesAnswer)
async def tables(
    request: Request,
    server: CurrentServer,
    filter: Annotated[str, Query(max_length=200, description="Words that are all in the name.")] = "",
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """The tables of the lake, by name."""
    page = await server.quick(request, lambda: server.handle.overview().page(filter, offset, limit))
    return json_response(page)


@_get("/api/table", "/table.json", schema.TableAnswer)
async def table(
    request: Request,
    server: CurrentServer,
    name: Annotated[str | None, Query(max_length=4096)] = None,
    upload: Annotated[str | None, Query(max_length=100)] = None,
    rows: Annotated[int, Query(ge=0, le=1000)] = 20,
) -> Response:
    """A table of the lake by its name, or an upload: its columns and its first rows."""
    if (name is None) == (upload is None):
        raise ApiError(422, "give either the name of a table or an upload")
    wanted = schema.QueryRef.model_construct(table=name, upload=upload, rows=None)

    def work() -> dict[str, Any]:
        with resolve_query(server, client_of(request), wanted) as found:
            return describe_table(server, found, rows)

    return json_response(await server.quick(request, work))


@_get("/api/duplicates", "/duplicates.json", schema.DuplicatesAnswer)
async def duplicates(
    request: Request,
    server: CurrentServer,
    min_share: Annotated[float, Query(ge=0.5, le=1, description="The least share of common rows.")] = 0.8,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Tables with the same rows as another, or nearly, in groups."""

    def work(cancel: Cancellation) -> dict[str, Any]:
        return duplicates_page(server.handle.index, min_share, offset, limit)

    return json_response(await server.slow(request, work))


@_get("/api/map", "/map.json", schema.MapAnswer)
async def map(request: Request, server: CurrentServer) -> Response:
    """Every table as a point of a plane."""
    most = server.settings.map_points
    plain, packed = await server.slow(request, lambda cancel: server.handle.overview().map(most))
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
        return Response(packed, headers=headers, media_type="application/json")
    return Response(plain, media_type="application/json")


@_get("/api/tree", "/tree.json", schema.TreeAnswer)
async def tree(
    request: Request,
    server: CurrentServer,
    prefix: Annotated[
        str,
        Query(pattern=r"^(\d{1,10}(-\d{1,10})*)?$", max_length=600, description="Codes, such as 30-9."),
    ] = "",
) -> Response:
    """The codes that follow a prefix of identifiers, and the tables below it."""
    codes = [int(code) for code in prefix.split("-") if code]

    def work() -> dict[str, Any]:
        overview = server.handle.overview()
        levels = overview.tables.codes.shape[1]
        if len(codes) > levels:
            raise ApiError(422, f"identifiers have {levels} codes, not {len(codes)}")
        return overview.tree(codes)

    return json_response(await server.quick(request, work))
