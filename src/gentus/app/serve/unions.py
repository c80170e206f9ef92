"""Unions over HTTP: plans without paths, a look at the rows, and the rows as a file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.app.serve.errors import Refused
from gentus.app.serve.fair_queue import Halted, Stop
from gentus.lake.location import absolute
from gentus.progress import Progress, Step
from gentus.union import Union, UnionPlan
from gentus.union.outputs import Output

if TYPE_CHECKING:
    import pyarrow as pa

    from gentus.app.serve.core import Core
    from gentus.lake import Source

_OURS = ("path", "part")  # what only the server says of a table: where it lies
_MOST_COLUMNS = 5000
_MOST_CELLS = 100_000  # that are shown at once
MEMORY = "288MB"  # several unions may run at once
TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class Watched(Progress):
    """Progress that nobody sees: it stops what takes too long or grows too large."""

    def __init__(self, stop: Stop, most_rows: int) -> None:
        self.stop, self.most_rows, self.rows = stop, most_rows, 0

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Look at every step whether there is to be another one."""

        def tick(done: int, effort: float | None = None, /) -> None:
            self.stop.check()
            if unit == "rows":
                self.rows += done
                if self.rows > self.most_rows:
                    many = f"this union has more than the {self.most_rows:,} rows that are written here"
                    raise Halted(Refused(413, f"{many}; run it with gentus union"))

        yield tick


def plan_of(
    core: Core, query: Source, tables: list[str], options: dict[str, bool], stop: Stop
) -> dict[str, Any]:
    """The plan for some tables, as a client may see it."""
    settings = core.settings
    if len(tables) > settings.union_tables:
        raise Refused(422, f"at most {settings.union_tables} tables can be unioned here")
    sources = [core.holder.source(name) for name in tables]
    progress = Watched(stop, settings.union_rows)
    plan: UnionPlan = core.holder.index.union_plan(query, sources, progress=progress, **options)
    return without_paths(plan)


def without_paths(plan: UnionPlan) -> dict[str, Any]:
    """A plan that does not say where tables lie."""
    told = plan.to_dict()
    for table in (told["query"], *told["tables"]):
        for key in _OURS:
            table.pop(key, None)
    return told


def with_paths(core: Core, document: dict[str, Any], query: Source) -> UnionPlan:
    """A plan that came from a client; where its tables lie, the catalogue says."""
    settings = core.settings
    tables, columns = document.get("tables"), document.get("columns")
    if isinstance(tables, list) and len(tables) > settings.union_tables:
        raise Refused(422, f"at most {settings.union_tables} tables can be unioned here")
    if isinstance(columns, list) and len(columns) > _MOST_COLUMNS:
        raise Refused(422, f"at most {_MOST_COLUMNS:,} columns can be written here")
    own = document.get("query")
    document = {**document, "query": _placed(own, query)}
    if isinstance(tables, list):
        document["tables"] = [_placed(one, _source_of(core, one)) for one in tables]
    return UnionPlan.from_dict(document)


def _source_of(core: Core, table: Any) -> Source | None:
    name = table.get("name") if isinstance(table, dict) else None
    return core.holder.source(name) if isinstance(name, str) else None


def _placed(table: Any, source: Source | None) -> Any:
    """A table of a plan, with the place where it lies; what is no table the plan itself will say."""
    if not isinstance(table, dict) or source is None:
        return table
    for key in _OURS:
        if table.get(key) is not None:
            raise Refused(422, f"a plan names tables, and has no {key!r}: where they lie the server knows")
    return {**table, "name": source.name, "path": absolute(source.path), "part": source.part}


def preview(core: Core, plan: UnionPlan, rows: int, stop: Stop) -> dict[str, Any]:
    """Some rows of every table, under the columns of the result."""
    union = Union(plan, limits=core.holder.index.limits, memory=MEMORY)
    rows = max(len(plan.sources), min(rows, _MOST_CELLS // len(plan.columns)))
    taken = union.preview(rows, Watched(stop, core.settings.union_rows))
    ran, report = union.ran or plan, union.report
    types = {column.name: column.type or "VARCHAR" for column in ran.columns}
    counts = [table.rows for table in ran.sources]
    total = None if ran.distinct or None in counts else sum(count or 0 for count in counts)
    tables = [] if report is None else report.tables
    return {
        "columns": [
            {"name": field.name, "type": types.get(field.name, _provenance_type(field))}
            for field in taken.schema
        ],
        "rows": [
            [text_of(cell) for cell in row] for row in zip(*(c.to_pylist() for c in taken), strict=True)
        ],
        "total": total,
        "notes": [f"{table.table}: {remark}" for table in tables for remark in table.remarks()],
        "tables": [table.to_dict() for table in tables],
    }


def _provenance_type(field: pa.Field) -> str:
    return "BIGINT" if str(field.type).startswith("int") else "VARCHAR"


def text_of(value: Any) -> str | None:
    """A value as a CSV file has it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
    return str(value)


@dataclass(slots=True)
class Written:
    """A finished file that has no name any more where the system allows that; closed, it is gone."""

    file: BinaryIO
    path: Path
    size: int

    def close(self) -> None:
        """Let go of it."""
        self.file.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def write(core: Core, plan: UnionPlan, kind: str, guard: bool, stop: Stop) -> Written:
    """All rows in a file of ours."""
    path = core.uploads.folder / f"union-{secrets.token_hex(12)}.{kind}"
    union = Union(plan, limits=core.holder.index.limits, memory=MEMORY)
    union.write(Output(path, kind, guard_formulas=guard), Watched(stop, core.settings.union_rows))
    file = path.open("rb")
    with suppress(OSError):  # where an open file cannot be deleted, it is when it is closed
        path.unlink()
    return Written(file, path, os.fstat(file.fileno()).st_size)
