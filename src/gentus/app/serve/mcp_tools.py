"""Search, alignment and unions as tools of the Model Context Protocol (MCP), on stdio.

An agent may search with tables of the lake, with rows, and with files in folders that it was given. There it
may also write unions to new files. It cannot overwrite files, nor change the lake or the index.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field, ValidationError

from gentus import __version__
from gentus.app.serve import client_union, lake_schema, schema, table_preview
from gentus.app.serve.batch_search import OpenQuery, search
from gentus.app.serve.errors import ApiError, as_api_error
from gentus.app.serve.fair_queue import Cancellation, Cancelled
from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.query_input import ResolvedQuery, naming_the_table, resolve_query
from gentus.app.serve.responses import describe_errors
from gentus.app.serve.service import Service
from gentus.app.serve.settings import Settings
from gentus.app.serve.union_schema import UnionReading
from gentus.errors import system_reason
from gentus.lake import as_location, only_named
from gentus.union import Union
from gentus.union.output import Output

if TYPE_CHECKING:
    from gentus.index.union_plan import UnionOptions

_CLIENT = "agent"
_INSTRUCTIONS = """\
GenTUS finds, in a data lake of {tables:,} tables, those whose rows can be appended to a given table.
Begin with search_tables: it says which tables fit, and when none does. align_columns says which columns match
and why; describe_table shows a table.
plan_union plans a union, preview_union shows rows of it, run_union writes it to a file. A plan can be edited
in between: drop or change entries of a table's "columns".
The query is exactly one of: table (a name in the lake), path (a file in {folders}), rows (a list of objects).
"""

_NEW_FILES = (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx")
_Table = Annotated[str | None, Field(description="The query, as the name of a table of the lake.")]
_Path = Annotated[str | None, Field(description="The query, as the path of a file.")]
_Rows = Annotated[
    Annotated[list[dict[str, Any]], Field(min_length=1)] | None,
    Field(description="The query, as rows: one object per row."),
]
_Plan = Annotated[dict[str, Any], Field(description="The result of plan_union, edited or not.")]
_READING = (
    "How files are read. header: yes, no or auto, of the query if it is delimited text. Where cells can be "
    "read in two ways: decimal, the mark, as in [','], ['sales.csv=,'] or ['sales.csv:price=.'], and dates, "
    "as in ['day'] or ['sales.csv=month']. null_values: cells that are null. strict: fail where only a "
    "default decides, or values do not convert."
)
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


class Tools:
    """The tools around an index; they read and write files in some folders only."""

    def __init__(self, service: Service, folders: Sequence[Path]) -> None:
        self.service = service
        self.folders = [folder.resolve() for folder in folders]
        self.listed = " or ".join(map(str, self.folders))

    def search_tables(
        self,
        query: OpenQuery,
        k: schema.HowMany = 10,
        explain: schema.Explain = False,
        fit: schema.LeastFit = "any",
        min_score: schema.LeastScore = 0.0,
        order: schema.ResultOrder = None,
    ) -> schema.SearchAnswer:
        """Find the tables of the lake whose rows can be appended to the query's, best first.

        `verdict` says in words how many fit. The `fit` of a result is full if it fits and every column of the
        query has a match in it, partial if only some have, none if it does not fit: do not append that one.
        `score` is the probability that a person would append it. `why` says which columns match.
        """
        options = schema.SearchOptions(k=k, explain=explain, fit=fit, min_score=min_score, order=order)
        found = search(self.service, options, query)
        found["upload"] = None
        return schema.SearchAnswer.model_validate(found)

    def align_columns(
        self,
        query: OpenQuery,
        with_table: Annotated[str, Field(description="The name of a table of the lake.")],
        names: Annotated[bool, Field(description="Whether column names count, or cells alone.")] = True,
    ) -> schema.AlignAnswer:
        """Say which columns of the query and of a table of the lake match, and why."""
        with query() as resolved:
            aligned = table_preview.align_table(self.service, resolved, with_table, names)
        return schema.AlignAnswer.model_validate(aligned)

    def list_tables(
        self,
        words: Annotated[str, Field(max_length=200, description="Words that are all in the name.")] = "",
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> lake_schema.TablesAnswer:
        """List tables of the lake by name."""
        page = self.service.handle.overview().page(words, offset, limit)
        return lake_schema.TablesAnswer.model_validate(page)

    def describe_table(
        self,
        table: _Table = None,
        path: _Path = None,
        rows: Annotated[int, Field(ge=0, le=100, description="How many rows to show.")] = 10,
    ) -> lake_schema.TableAnswer:
        """Show a table: its columns, what they contain, and its first rows."""
        with self.open_query(table, path) as resolved:
            described = table_preview.describe_table(self.service, resolved, rows)
        return lake_schema.TableAnswer.model_validate(described)

    def find_duplicates(
        self,
        min_share: Annotated[float, Field(ge=0.5, le=1, description="The least share of common rows.")] = 0.8,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> lake_schema.DuplicatesAnswer:
        """Find tables of the lake with the same rows as another, or nearly."""
        page = table_preview.duplicates_page(self.service.handle.index, min_share, offset, limit)
        return lake_schema.DuplicatesAnswer.model_validate(page)

    def plan_union(
        self,
        query: OpenQuery,
        tables: Annotated[list[str], Field(min_length=1, description="Names of tables of the lake.")],
        keep_extra: Annotated[bool, Field(description="Keep columns that the query does not have.")] = False,
        distinct: Annotated[bool, Field(description="Only the first of equal rows.")] = False,
        provenance: Annotated[
            bool, Field(description="Add columns that name the source of each row.")
        ] = True,
        reading: Annotated[UnionReading | None, Field(description=_READING)] = None,
    ) -> dict[str, Any]:
        """Plan a union of the query and tables of the lake: which column goes where, and with which type."""
        options: UnionOptions = {"keep_extra": keep_extra, "distinct": distinct, "provenance": provenance}
        options |= (reading or UnionReading()).options()
        with query() as resolved:
            return client_union.plan_union(
                self.service, resolved.source, tables, options, self._cancellation()
            )

    def preview_union(
        self,
        query: OpenQuery,
        plan: _Plan,
        show: Annotated[int, Field(ge=1, le=200, description="How many rows.")] = 20,
    ) -> schema.PreviewAnswer:
        """Show some rows of a planned union, some of every table. Give the same query as for the plan."""
        with query() as resolved:
            parsed = client_union.parse_plan(self.service, plan, resolved.source)
            preview = client_union.preview_union(self.service, parsed, show, self._cancellation())
        return schema.PreviewAnswer.model_validate(preview)

    def run_union(
        self,
        query: OpenQuery,
        plan: _Plan,
        output: Annotated[
            str, Field(description="A new file to write: .csv, .tsv, .jsonl, .parquet or .xlsx.")
        ],
    ) -> dict[str, Any]:
        """Write a planned union to a new file, and report its rows and what was left out or changed."""
        file = self.allowed_path(output)
        index = self.service.handle.index
        for folder in (index.layout.root, as_location(index.config.lake)):
            if isinstance(folder, Path) and file.is_relative_to(folder.resolve()):
                raise ApiError(403, "lake and index are not written to; choose another folder")
        if file.suffix.lower() not in _NEW_FILES:
            raise ApiError(422, f"{output}: the name has to end in one of {', '.join(_NEW_FILES)}")
        progress = client_union.CancellableProgress(self._cancellation(), self.service.settings.union_rows)
        with query() as resolved:
            union = Union(client_union.parse_plan(self.service, plan, resolved.source), limits=index.limits)
            return union.write(Output.by_name(file), progress).to_dict()

    @contextmanager
    def open_query(
        self, table: _Table = None, path: _Path = None, rows: _Rows = None
    ) -> Iterator[ResolvedQuery]:
        """The query of a call: exactly one of the three."""
        if sum(one is not None for one in (table, path, rows)) != 1:
            raise ApiError(422, "a query is exactly one of table, path and rows")
        if path is not None:
            source = only_named(self.allowed_path(path), self.service.handle.index.limits)
            with naming_the_table(source):
                yield ResolvedQuery(source)
        else:
            given = schema.QueryRef.model_construct(table=table, rows=rows)
            with resolve_query(self.service, _CLIENT, given) as resolved:
                yield resolved

    def allowed_path(self, path: str) -> Path:
        """A path in one of the folders, with links followed."""
        try:
            real = Path(path).expanduser()
            real = (real if real.is_absolute() else self.folders[0] / real).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # such as NUL in it, or ~ of nobody
            raise ApiError(422, f"{path!r} cannot be the path of a file: {system_reason(error)}") from error
        if not any(real.is_relative_to(folder) for folder in self.folders):
            raise ApiError(
                403, f"{path} is not in {self.listed}; move it there, or start gentus mcp with --folder"
            )
        return real

    def _cancellation(self) -> Cancellation:
        return Cancellation(self.service.settings.slow_seconds)


class _Server(MCPServer[Any]):
    """An MCP server that says in our words what is wrong with an argument."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """The result of a tool."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            said = describe_errors(error.__cause__.errors(), "argument")
            raise ToolError(f"Error executing tool {name}: {said}") from error.__cause__


def make_tools(service: Service, folders: Sequence[Path]) -> MCPServer[Any]:
    """An MCP server with the tools around an index."""
    tools = Tools(service, folders)
    server = _Server(
        "gentus",
        version=__version__,
        instructions=_INSTRUCTIONS.format(tables=len(service.handle.index), folders=tools.listed),
        log_level="WARNING",
    )
    reading = (tools.search_tables, tools.align_columns, tools.list_tables, tools.describe_table)
    for method in (*reading, tools.find_duplicates, tools.plan_union, tools.preview_union):
        server.tool(annotations=_READS)(_as_tool(tools, method))
    server.tool(annotations=_WRITES)(_as_tool(tools, tools.run_union))
    return server


def _as_tool(tools: Tools, method: Callable[..., Any]) -> Callable[..., Any]:
    """A function for MCP: a `query` becomes the arguments table, path and rows, failures become messages."""
    signature = inspect.signature(method, eval_str=True)
    parameters = dict(signature.parameters)
    query = inspect.signature(tools.open_query, eval_str=True).parameters if "query" in parameters else {}

    @functools.wraps(method)
    def call(**arguments: Any) -> Any:
        try:
            if query:
                given = {name: arguments.pop(name) for name in query}
                arguments["query"] = functools.partial(tools.open_query, **given)
            return method(**arguments)
        except Cancelled as cancelled:
            raise ToolError(cancelled.error.reason) from cancelled
        except Exception as failure:
            error = as_api_error(failure)
            if error is None:
                raise
            raise ToolError(error.reason) from failure

    parameters.pop("query", None)
    by_name = [one.replace(kind=one.KEYWORD_ONLY) for one in (*parameters.values(), *query.values())]
    call.__signature__ = signature.replace(parameters=by_name)  # type: ignore[attr-defined]
    return call


def serve_tools(index: Path, folders: Sequence[Path]) -> None:
    """Serve the tools on stdin and stdout until the agent disconnects."""
    settings = Settings(slow_seconds=600.0, union_rows=100_000_000, columns=4096)
    service = Service(IndexHandle(index), settings)
    try:
        make_tools(service, folders).run()
    finally:
        service.close()
