"""Requests and responses of the API, as in its OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gentus.align.verdict import Fit
from gentus.index import second_look as index_options

Name = Annotated[str, Field(min_length=1, max_length=4096)]
HowMany = Annotated[int, Field(ge=1, le=100, description="How many tables.")]
Explain = Annotated[bool, Field(description="Open the files too: which columns match, and why.")]
LeastFit = Annotated[
    index_options.AtLeast,
    Field(description="Only tables that fit: full or partial. any: the nearest, whether they fit or not."),
]
LeastScore = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False, description="Only tables with at least this score."),
]
ResultOrder = Annotated[
    index_options.Order | None,
    Field(
        description="aligned: by generated score and matched columns; generated: by generated score alone. "
        "Default: aligned, or generated if the index has labels."
    ),
]
Doubt = Annotated[
    str, Field(description="Why the first row looks like data, and was read as a row; empty if it does not.")
]


class Strict(BaseModel):
    """A request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class QueryRef(Strict):
    """The query: an upload, a table of the lake, or rows. Exactly one of them."""

    upload: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    table: Name | None = None
    rows: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> QueryRef:
        if sum(one is not None for one in (self.upload, self.table, self.rows)) != 1:
            raise ValueError("a query is exactly one of upload, table and rows")
        return self


class SearchOptions(Strict):
    """How many tables are wanted, which, and in which order."""

    model_config = ConfigDict(frozen=True)

    k: HowMany = 10
    explain: Explain = False
    fit: LeastFit = "any"
    min_score: LeastScore = 0.0
    order: ResultOrder = None

    def of_index(self) -> index_options.SearchOptions:
        """As the index takes them."""
        return {"fit": self.fit, "min_score": self.min_score, "order": self.order}


class NamedSearch(SearchOptions):
    """A search with a table of the lake."""

    table: Name


class SearchRequest(SearchOptions):
    """A search."""

    query: QueryRef


class AlignRequest(Strict):
    """Match the columns of a query with those of a table."""

    query: QueryRef
    table: Name
    names: bool = True


class UploadAnswer(BaseModel):
    """An upload; later requests name it by its id."""

    upload: str
    name: str
    rows: int
    more_rows: bool
    columns: list[str]
    doubt: Doubt


class ColumnRefAnswer(BaseModel):
    """A column and its position."""

    at: int
    name: str


class PairAnswer(BaseModel):
    """Two columns that match."""

    query: ColumnRefAnswer
    table: ColumnRefAnswer
    score: float
    reason: str


class ColumnCounts(BaseModel):
    """How many columns with cells match, of how many of the query and of the table."""

    matched: int
    query: int
    table: int


class AlignmentAnswer(BaseModel):
    """Which columns match, and why; score and fit are those of a search."""

    query: str
    table: str
    score: float
    fit: Fit
    columns: ColumnCounts
    pairs: list[PairAnswer]
    query_only: list[ColumnRefAnswer]
    table_only: list[ColumnRefAnswer]
    missing: str | None = None


class AlignAnswer(AlignmentAnswer):
    """An alignment, with all columns of both tables."""

    query_columns: list[str]
    table_columns: list[str]


class MatchedColumnsAnswer(ColumnCounts):
    """The same with names: pairs, and columns of the query without a match."""

    pairs: list[tuple[str, str]]
    missing: list[str]


class SameRowsAnswer(BaseModel):
    """A table with the rows of a result before it, by its rank, or of the query (0)."""

    kind: Literal["exact", "near", "contained", "contains"]
    share: float
    rank: int
    words: str


class ResultAnswer(BaseModel):
    """A table that was found: how likely a person would append it (`score`), how far it fits, and why."""

    rank: int
    table: str
    score: float
    fit: Fit
    columns: MatchedColumnsAnswer
    why: str
    sid: str
    generated: float
    same_rows: SameRowsAnswer | None = None
    rows: int | None
    more_rows: bool
    alignment: AlignmentAnswer | None = None


class SearchAnswer(BaseModel):
    """The tables found, best first; `fit` is the best of theirs, none if no table fits; `verdict` says it.

    `upload` is the id of the query if it was sent as a file or as rows.
    """

    query: str
    query_columns: list[str]
    upload: str | None
    ms: float
    fit: Fit
    verdict: str
    doubt: Doubt
    results: list[ResultAnswer]


class PlanAnswer(BaseModel):
    """A plan as in docs/UNION.md, without paths."""

    model_config = ConfigDict(extra="allow")

    gentus_union_plan: int
    query: dict[str, Any]
    columns: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    provenance: bool
    distinct: bool
    left_out: list[dict[str, str]] = []
    notes: list[str] = []


class PreviewColumn(BaseModel):
    """A column of the result."""

    name: str
    type: str


class PreviewAnswer(BaseModel):
    """Rows of a union; `total` is null where only a full run could tell."""

    columns: list[PreviewColumn]
    rows: list[list[str | None]]
    total: int | None
    notes: list[str]
    tables: list[dict[str, Any]]


class AddedAnswer(BaseModel):
    """A table that was added, and its name in the index."""

    name: str
    sid: str | None
    tables: int


class RemovedAnswer(BaseModel):
    """A table that was removed."""

    removed: str
    tables: int


class ErrorAnswer(BaseModel):
    """What happened, and what to do."""

    error: str
