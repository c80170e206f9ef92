"""Responses about the lake: its tables, families, duplicates, map and tree."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from gentus.app.serve.schema import Doubt


class IndexLimits(BaseModel):
    """The limits of an upload."""

    upload_bytes: int
    rows: int
    columns: int


class IndexAnswer(BaseModel):
    """The index that is served."""

    name: str
    tables: int
    read_only: bool
    levels: int
    limits: IndexLimits
    version: str


GroupState = Annotated[
    Literal["ready", "computing", "failed"],
    Field(description="computing: the families of an earlier state of the index, or none; try again soon."),
]


class GroupRef(BaseModel):
    """A family of tables. Its id is its place by size, from 1, and changes with the index.

    `example` is the table with the most links to the others.
    """

    id: int
    name: str
    size: int
    example: str


class TableEntry(BaseModel):
    """A table of the lake; `more_rows`: `rows` are those of the sample, and there may be more.

    `group` is null if the table is in no family, or the families are not made yet.
    """

    name: str
    rows: int
    more_rows: bool
    columns: int
    sid: str
    group: GroupRef | None = None


class TablesAnswer(BaseModel):
    """A page of the list of tables."""

    state: GroupState | None = None
    total: int
    offset: int
    tables: list[TableEntry]


class GroupEntry(GroupRef):
    """A family with its first tables."""

    tables: list[str]


class GroupsAnswer(BaseModel):
    """A page of the list of families, the largest first; `grouped` tables are in one, `single` in none."""

    state: GroupState
    total: int
    grouped: int
    single: int
    offset: int
    groups: list[GroupEntry]


class GroupAnswer(BaseModel):
    """The family of a table, null if it is in none, and a page of its tables."""

    state: GroupState
    group: GroupRef | None
    offset: int
    tables: list[TableEntry]


class ColumnProfile(BaseModel):
    """A column, described from a sample."""

    name: str
    type: Literal["number", "date", "text", "empty"]
    filled: float
    distinct: int
    examples: list[str]


class TableAnswer(BaseModel):
    """A table with its columns and first rows."""

    name: str
    sid: str | None
    group: GroupRef | None = None
    rows: int
    more_rows: bool
    doubt: Doubt
    columns: list[ColumnProfile]
    sample: list[list[str | None]]


class DuplicateAnswer(BaseModel):
    """A table whose rows are those of another; `complete`: all rows were compared, else the first ones."""

    table: str
    kind: Literal["exact", "near", "contained"]
    share: float
    of: str
    rows: int
    columns: int
    complete: bool


class DuplicateGroupAnswer(BaseModel):
    """A table, and those whose rows are in it or in each other."""

    table: str
    rows: int
    columns: int
    duplicates: list[DuplicateAnswer]


class DuplicatesAnswer(BaseModel):
    """A page of the groups of duplicates; `exact_bytes` is what the files of exact copies take."""

    tables: int
    total: int
    offset: int
    exact_bytes: int
    groups: list[DuplicateGroupAnswer]


class MapAnswer(BaseModel):
    """Every table as a point: x, y and the id of its family, 0 if it is in none or that is not made yet."""

    state: GroupState
    total: int
    points: list[list[float]]
    names: list[str]


class TreeChild(BaseModel):
    """A code that follows a prefix; `group` is the largest family below it, of the size there."""

    code: int
    tables: int
    group: GroupRef | None
    examples: list[str]


class TreeAnswer(BaseModel):
    """The codes that follow a prefix, and the tables below it."""

    state: GroupState
    prefix: list[int]
    tables: int
    children: list[TreeChild]
    below: list[str]
