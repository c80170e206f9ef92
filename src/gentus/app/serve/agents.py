"""The same for agents: search, alignment and unions as tools of the Model Context Protocol, on stdio.

An agent may search with tables of the lake, with rows, and with files in folders that it was given; there it
may also write unions. It can overwrite nothing, and change neither lake nor index.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from gentus import __version__
from gentus.app.serve import schema
from gentus.app.serve.core import Core
from gentus.app.serve.errors import Refused, refusal_of
from gentus.app.serve.fair_queue import Halted, Stop
from gentus.app.serve.index_handle import Holder
from gentus.app.serve.queries import Asked, resolved, told
from gentus.app.serve.searches import search
from gentus.app.serve.settings import Settings
from gentus.app.serve.tables import aligned, looked_at
from gentus.app.serve.unions import Watched, plan_of, preview, with_paths
from gentus.lake import as_location, only_table
from gentus.union import Union
from gentus.union.outputs import Output

F = TypeVar("F", bound=Callable[..., Any])
_WHO = "agent"
_INSTRUCTIONS = """\
GenTUS finds, in a data lake of {tables:,} tables, those whose rows can be appended to a given table.
Begin with search_tables. align_columns says which columns belong together and why; describe_table shows a
table. plan_union plans a union, preview_union shows rows of it, run_union writes it to a file. A plan can be
edited in between: drop or change entries of a table's "columns".
The query is exactly one of: table (a name in the lake), path (a file in {folders}), rows (a list of objects).
"""

Table = Annotated[str | None, Field(description="The query, as the name of a table of the lake.")]
PathTo = Annotated[str | None, Field(description="The query, as the path of a file.")]
Rows = Annotated[
    Annotated[list[dict[str, Any]], Field(min_length=1)] | None,
    Field(description="The query, as rows: one object a row."),
]
Plan = Annotated[dict[str, Any], Field(description="What plan_union gave, as it is or edited.")]
_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def make_tools(core: Core, folders: Sequence[Path]) -> MCPServer[Any]:
    """A server of tools around an index, that knows files in some folders only."""
    allowed = [folder.resolve() for folder in folders]
    listed = " or ".join(map(str, allowed))
    told_of = _INSTRUCTIONS.format(tables=len(core.holder.index), folders=listed)
    tools: MCPServer[Any] = MCPServer(
        "gentus", version=__version__, instructions=told_of, log_level="WARNING"
    )

    def tool(annotations: ToolAnnotations) -> Callable[[F], F]:
        """Make a tool of a function; what is expected to go wrong is told to the agent in words."""

        def wrap(function: F) -> F:
            @functools.wraps(function)
            def told_plainly(*given: Any, **named: Any) -> Any:
                try:
                    return function(*given, **named)
                except Halted as halted:
                    raise ToolError(halted.refused.reason) from halted
                except Exception as error:
                    refused = refusal_of(error)
                    if refused is None:
                        raise
                    raise ToolError(refused.reason) from error

            tools.tool(annotations=annotations)(told_plainly)
            return function

        return wrap

    def inside(path: str) -> Path:
        """A path in one of the folders, links followed."""
        real = Path(path).expanduser()
        real = (real if real.is_absolute() else allowed[0] / real).resolve()
        if not any(real.is_relative_to(folder) for folder in allowed):
            raise Refused(403, f"{path} is not in {listed}; move it there, or start gentus mcp with --folder")
        return real

    @contextmanager
    def query(table: str | None, path: str | None, rows: list[dict[str, Any]] | None) -> Iterator[Asked]:
        if sum(one is not None for one in (table, path, rows)) != 1:
            raise Refused(422, "a query is exactly one of table, path and rows")
        if path is not None:
            source = only_table(inside(path), core.holder.index.limits)
            with told(source):
                yield Asked(source)
        else:
            given = schema.QueryRef.model_construct(table=table, rows=rows)
            with resolved(core, _WHO, given) as asked:
                yield asked

    def stop() -> Stop:
        return Stop(core.settings.slow_seconds)

    @tool(_LOOKS)
    def search_tables(
        table: Table = None,
        path: PathTo = None,
        rows: Rows = None,
        k: Annotated[int, Field(ge=1, le=100, description="How many tables.")] = 10,
        explain: Annotated[bool, Field(description="Also say which columns belong together.")] = False,
    ) -> schema.SearchAnswer:
        """Find the tables of the lake whose rows can be appended to the query's, best first."""
        found = search(core, k, lambda: query(table, path, rows), explain)
        found["query"]["upload"] = None
        return schema.SearchAnswer.model_validate(found)

    @tool(_LOOKS)
    def align_columns(
        with_table: Annotated[str, Field(description="The name of a table of the lake.")],
        table: Table = None,
        path: PathTo = None,
        rows: Rows = None,
        names: Annotated[bool, Field(description="Whether column names count, or cells alone.")] = True,
    ) -> schema.AlignAnswer:
        """Say which columns of the query and of a table of the lake belong together, and why."""
        with query(table, path, rows) as asked:
            return schema.AlignAnswer.model_validate(aligned(core, asked, with_table, names))

    @tool(_LOOKS)
    def list_tables(
        words: Annotated[str, Field(max_length=200, description="Words that are all in the name.")] = "",
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> schema.TablesAnswer:
        """List tables of the lake by name."""
        return schema.TablesAnswer.model_validate(core.holder.view().page(words, offset, limit))

    @tool(_LOOKS)
    def describe_table(
        table: Table = None,
        path: PathTo = None,
        rows: Annotated[int, Field(ge=0, le=100, description="How many rows to show.")] = 10,
    ) -> schema.TableAnswer:
        """Show a table: its columns, what they hold, and its first rows."""
        with query(table, path, None) as asked:
            return schema.TableAnswer.model_validate(looked_at(core, asked, rows))

    @tool(_LOOKS)
    def plan_union(
        tables: Annotated[list[str], Field(min_length=1, description="Names of tables of the lake.")],
        table: Table = None,
        path: PathTo = None,
        rows: Rows = None,
        keep_extra: Annotated[bool, Field(description="Keep columns that the query does not have.")] = False,
        distinct: Annotated[bool, Field(description="Only the first of equal rows.")] = False,
        provenance: Annotated[bool, Field(description="Say of each row where it is from.")] = True,
    ) -> dict[str, Any]:
        """Plan a union of the query and tables of the lake: which column goes where, and with which type."""
        options = {"keep_extra": keep_extra, "distinct": distinct, "provenance": provenance}
        with query(table, path, rows) as asked:
            return plan_of(core, asked.source, tables, options, stop())

    @tool(_LOOKS)
    def preview_union(
        plan: Plan,
        table: Table = None,
        path: PathTo = None,
        rows: Rows = None,
        show: Annotated[int, Field(ge=1, le=200, description="How many rows.")] = 20,
    ) -> schema.PreviewAnswer:
        """Show some rows of a planned union, some of every table. Give the same query as for the plan."""
        with query(table, path, rows) as asked:
            shown = preview(core, with_paths(core, plan, asked.source), show, stop())
            return schema.PreviewAnswer.model_validate(shown)

    @tool(_WRITES)
    def run_union(
        plan: Plan,
        output: Annotated[str, Field(description="A new file to write: .csv, .tsv or .parquet.")],
        table: Table = None,
        path: PathTo = None,
        rows: Rows = None,
    ) -> dict[str, Any]:
        """Write a planned union to a new file, and report what became of it."""
        file = inside(output)
        index = core.holder.index
        for folder in (index.layout.root, as_location(index.config.lake)):
            if isinstance(folder, Path) and file.is_relative_to(folder.resolve()):
                raise Refused(403, "lake and index are not written to; choose another folder")
        if file.suffix.lower() not in (".csv", ".tsv", ".parquet"):
            raise Refused(422, f"{output}: the name has to end in .csv, .tsv or .parquet")
        with query(table, path, rows) as asked:
            union = Union(with_paths(core, plan, asked.source), limits=index.limits)
            return union.write(Output.by_name(file), Watched(stop(), core.settings.union_rows)).to_dict()

    return tools


def serve_tools(index: Path, folders: Sequence[Path]) -> None:
    """Answer on stdin and stdout until the agent is gone."""
    settings = Settings(slow_seconds=600.0, union_rows=100_000_000, columns=2048)
    core = Core(Holder(index), settings)
    try:
        make_tools(core, folders).run()
    finally:
        core.close()
