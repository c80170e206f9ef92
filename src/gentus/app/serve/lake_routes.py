"""Routes of the lake: the index, its tables, their families, map and tree. Each page has a JSON twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gentus import __version__
from gentus.app.serve import lake_schema, schema
from gentus.app.serve.errors import ERROR_RESPONSES, ApiError
from gentus.app.serve.fair_queue import Cancellation
from gentus.app.serve.families import reference
from gentus.app.serve.query_input import resolve_query
from gentus.app.serve.responses import json_response
from gentus.app.serve.server import CurrentServer, client_of
from gentus.app.serve.table_preview import describe_table, duplicates_page

F = TypeVar("F", bound=Callable[..., Any])
Filter = Annotated[str, Query(max_length=200, description="Words that are all in the name.")]
Offset = Annotated[int, Query(ge=0, le=2**53)]
Limit = Annotated[int, Query(ge=1, le=1000)]

router = APIRouter(tags=["lake"], responses=ERROR_RESPONSES, default_response_class=Response)


def _get(path: str, twin: str, model: Any) -> Callable[[F], F]:
    """A route for GET, and the JSON twin of its page."""

    def add(work: F) -> F:
        router.get(path, responses={200: {"model": model}})(work)
        router.get(twin, include_in_schema=False)(work)
        return work

    return add


@_get("/api/index", "/index.json", lake_schema.IndexAnswer)
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


@_get("/api/tables", "/tables.json", lake_schema.TablesAnswer)
async def tables(
    request: Request,
    server: CurrentServer,
    filter: Filter = "",
    offset: Offset = 0,
    limit: Limit = 50,
) -> Response:
    """The tables of the lake, by name."""

    def work() -> dict[str, Any]:
        overview = server.handle.overview()
        families, state = server.handle.families(overview)
        return {"state": state, **overview.page(filter, offset, limit, families)}

    return json_response(await server.quick(request, work))


@_get("/api/groups", "/groups.json", lake_schema.GroupsAnswer)
async def groups(
    request: Request,
    server: CurrentServer,
    filter: Filter = "",
    offset: Offset = 0,
    limit: Limit = 50,
) -> Response:
    """Families of tables that belong together, made in the background when they are first wanted."""

    def work() -> dict[str, Any]:
        overview = server.handle.overview()
        families, state = server.handle.families(overview)
        single = len(overview) - int((overview.family_ids(families) > 0).sum())
        return {"state": state, "single": single, **families.page(filter, offset, limit)}

    return json_response(await server.quick(request, work))


@_get("/api/group", "/group.json", lake_schema.GroupAnswer)
async def group(
    request: Request,
    server: CurrentServer,
    table: Annotated[str, Query(max_length=4096, description="A table of the family.")],
    offset: Offset = 0,
    limit: Limit = 50,
) -> Response:
    """The family of a table: all tables that belong to it."""

    def work() -> dict[str, Any]:
        overview = server.handle.overview()
        if overview.tables.position(table) is None:
            raise ApiError(404, f"there is no table {table!r} in the index")
        families, state = server.handle.families(overview)
        return {"state": state, **overview.family(families.of(table), offset, limit, families)}

    return json_response(await server.quick(request, work))


@_get("/api/table", "/table.json", lake_schema.TableAnswer)
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
            families, _ = server.handle.families(server.handle.overview())
            group = families.of(found.source.name) if found.of_lake else None
            return {**describe_table(server, found, rows), "group": reference(group)}

    return json_response(await server.quick(request, work))


@_get("/api/duplicates", "/duplicates.json", lake_schema.DuplicatesAnswer)
async def duplicates(
    request: Request,
    server: CurrentServer,
    min_share: Annotated[float, Query(ge=0.5, le=1, description="The least share of common rows.")] = 0.8,
    offset: Offset = 0,
    limit: Limit = 100,
) -> Response:
    """Tables with the same rows as another, or nearly, in groups."""

    def work(cancel: Cancellation) -> dict[str, Any]:
        return duplicates_page(server.handle.index, min_share, offset, limit)

    return json_response(await server.slow(request, work))


@_get("/api/map", "/map.json", lake_schema.MapAnswer)
async def map(request: Request, server: CurrentServer) -> Response:
    """Every table as a point of a plane."""

    def work(cancel: Cancellation) -> tuple[bytes, bytes]:
        overview = server.handle.overview()
        families, state = server.handle.families(overview)
        return overview.map(server.settings.map_points, families, state)

    plain, packed = await server.slow(request, work)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
        return Response(packed, headers=headers, media_type="application/json")
    return Response(plain, media_type="application/json")


@_get("/api/tree", "/tree.json", lake_schema.TreeAnswer)
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
        families, state = server.handle.families(overview)
        return {"state": state, **overview.tree(codes, families)}

    return json_response(await server.quick(request, work))
