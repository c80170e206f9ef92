"""Unions for clients: plans without paths, a preview of the rows, and the rows as a file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.app.serve.errors import ApiError
from gentus.app.serve.fair_queue import Cancellation, Cancelled
from gentus.app.serve.service import Service
from gentus.lake.location import absolute
from gentus.progress import Progress, Step
from gentus.union import Union, UnionPlan
from gentus.union.output import Output

if TYPE_CHECKING:
    import pyarrow as pa

    from gentus.index.union_plan import UnionOptions
    from gentus.lake import Source

_LOCATION = ("path", "part")  # keys of a planned table that only the server knows
_MOST_COLUMNS = 5000
_MOST_CELLS = 100_000  # per response
_MEMORY = 288  # megabytes: several unions may run at once
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


class CancellableProgress(Progress):
    """Progress that is not shown: it cancels a union that takes too long or has too many rows."""

    def __init__(self, cancel: Cancellation, most_rows: int) -> None:
        self.cancel, self.most_rows = cancel, most_rows

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Check whether to begin, and at every step whether to go on."""
        if unit == "rows" and total is not None and total > self.most_rows:
            limit = f"this union has more than {self.most_rows:,} rows, the limit here"
            raise Cancelled(ApiError(413, f"{limit}; run it with gentus union"))

        def tick(done: int, effort: float | None = None, /) -> None:
            self.cancel.check()

        yield tick


def plan_union(
    service: Service, query: Source, tables: list[str], options: UnionOptions, cancel: Cancellation
) -> dict[str, Any]:
    """The plan of a union, as a client may see it."""
    settings = service.settings
    if len(tables) > settings.union_tables:
        raise ApiError(422, f"a union has at most {settings.union_tables} tables here")
    sources = [service.handle.source(name) for name in tables]
    options = {**options, "progress": CancellableProgress(cancel, settings.union_rows)}
    return strip_paths(service.handle.index.union_plan(query, sources, **options))


def strip_paths(plan: UnionPlan) -> dict[str, Any]:
    """A plan without the paths of its tables."""
    document = plan.to_dict()
    for table in (document["query"], *document["tables"]):
        for key in _LOCATION:
            table.pop(key, None)
    return document


def parse_plan(service: Service, document: dict[str, Any], query: Source) -> UnionPlan:
    """A plan from a client, with the paths of its tables from the catalogue."""
    settings = service.settings
    tables, columns = document.get("tables"), document.get("columns")
    if isinstance(tables, list) and len(tables) > settings.union_tables:
        raise ApiError(422, f"a union has at most {settings.union_tables} tables here")
    if isinstance(columns, list) and len(columns) > _MOST_COLUMNS:
        raise ApiError(422, f"a union has at most {_MOST_COLUMNS:,} columns here")
    own = document.get("query")
    document = {**document, "query": _with_path(own, query)}
    if isinstance(tables, list):
        document["tables"] = [_with_path(one, _source_of(service, one)) for one in tables]
    return UnionPlan.from_dict(document)


def _source_of(service: Service, table: Any) -> Source | None:
    name = table.get("name") if isinstance(table, dict) else None
    return service.handle.source(name) if isinstance(name, str) else None


def _with_path(table: Any, source: Source | None) -> Any:
    """A table of a plan with its path; what is not a table, `UnionPlan` reports."""
    if not isinstance(table, dict) or source is None:
        return table
    for key in _LOCATION:
        if table.get(key) is not None:
            raise ApiError(422, f"a plan from a client names its tables and has no {key!r}")
    return {
        "header": source.header,
        **table,
        "name": source.name,
        "path": absolute(source.path),
        "part": source.part,
    }


def preview_union(service: Service, plan: UnionPlan, rows: int, cancel: Cancellation) -> dict[str, Any]:
    """Some rows of every table, in the columns of the result: a `PreviewAnswer`."""
    union = Union(plan, limits=service.handle.index.limits, memory=_memory_for(plan))
    rows = max(len(plan.sources), min(rows, _MOST_CELLS // len(plan.columns)))
    taken = union.preview(rows, CancellableProgress(cancel, service.settings.union_rows))
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
        "notes": [f"{table.table}: {remark}" for table in tables for remark in table.remarks(complete=False)],
        "tables": [table.to_dict() for table in tables],
    }


def _memory_for(plan: UnionPlan) -> str:
    """The limit of a union's memory: half a megabyte more per column, as on the command line."""
    width = max(len(plan.columns), *(len(table.columns) for table in plan.sources))
    return f"{_MEMORY + width // 2}MB"


def _provenance_type(field: pa.Field) -> str:
    return "BIGINT" if str(field.type).startswith("int") else "VARCHAR"


def text_of(value: Any) -> str | None:
    """A value as in a CSV file."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
    return str(value)


@dataclass(slots=True)
class ResultFile:
    """A finished file. It is unlinked already where the system allows that, else when it is closed."""

    file: BinaryIO
    path: Path
    size: int

    def close(self) -> None:
        """Close and delete it."""
        self.file.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def write_union(
    service: Service, plan: UnionPlan, kind: str, guard: bool, cancel: Cancellation
) -> ResultFile:
    """Write all rows of a union to a temporary file."""
    path = service.uploads.folder / f"union-{secrets.token_hex(12)}.{kind}"
    union = Union(plan, limits=service.handle.index.limits, memory=_memory_for(plan))
    union.write(
        Output(path, kind, guard_formulas=guard), CancellableProgress(cancel, service.settings.union_rows)
    )
    file = path.open("rb")
    with suppress(OSError):  # Windows cannot delete an open file; `close` does
        path.unlink()
    return ResultFile(file, path, os.fstat(file.fileno()).st_size)
