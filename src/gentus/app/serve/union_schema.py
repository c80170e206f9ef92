"""Requests of unions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gentus.app.serve.schema import Name, QueryRef, Strict
from gentus.table import Header

if TYPE_CHECKING:
    from gentus.index.union_plan import UnionOptions


class UnionReading(Strict):
    """How files are read: options of `gentus union`; header is that of the query."""

    header: Header | None = None
    decimal: tuple[Name, ...] = ()
    dates: tuple[Name, ...] = ()
    null_values: tuple[Name, ...] = ()
    strict: bool = False

    def options(self) -> UnionOptions:
        """As options of a plan."""
        return {
            "header": self.header,
            "decimal": self.decimal,
            "dates": self.dates,
            "null_values": self.null_values,
            "strict": self.strict,
        }


class PlanRequest(UnionReading):
    """A union of a query and tables of the lake."""

    query: QueryRef
    tables: Annotated[list[Name], Field(min_length=1)]
    names: bool = True
    keep_extra: bool = False
    distinct: bool = False
    provenance: bool = True


class PreviewRequest(Strict):
    """A plan, edited or not, and how many rows to show."""

    plan: dict[str, Any]
    query: QueryRef
    rows: Annotated[int, Field(ge=1, le=1000)] = 50


class DownloadRequest(Strict):
    """A plan, edited or not, and the file format."""

    plan: dict[str, Any]
    query: QueryRef
    format: Literal["csv", "jsonl", "parquet", "xlsx"] = "csv"
    guard_formulas: bool = False
