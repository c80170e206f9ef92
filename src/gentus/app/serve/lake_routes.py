"""Routes of what there is: the index, its tables, their map and their tree. Each page has its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from gentus import __version__
from gentus.app.serve import schema
from gentus.app.serve.answers import answer, client_of
from gentus.app.serve.errors import WRONG, Refused
from gentus.app.serve.queries import resolved
from gentus.app.serve.tables import looked_at

if TYPE_CHECKING:
    from gentus.app.serve.app import Server


def add_lake_routes(app: FastAPI, server: Server) -> None:
    """Let an application have them."""
    settings = server.settings

    def get(path: str, twin: str, model: Any, work: Any) -> None:
        """A route for GET, and the twin of its page."""
        told = {**WRONG, 200: {"model": model}}
        app.get(path, responses=told, response_class=Response, tags=["lake"])(work)
        app.get(twin, include_in_schema=False)(work)

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
