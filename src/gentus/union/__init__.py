"""Unions: the rows of a query and of the tables that belong under it, in one file.

In: a query, tables, and their alignments with it. Out: a file (CSV, TSV, JSON Lines, Parquet, Excel, SQLite
or DuckDB) and a report. The package may import `align`, `lake` and what is before them. `local` runs the
stages, in this order; `union` has it run in a process of its own (`worker`):

- plan: `draft` (from alignments), `plan` (the plan and its JSON), `resolve` (types that the plan leaves out,
  from the `shapes` of all cells, by the rules of `type_inference` and `notation`; a `decision` says how cells
  with two readings are read), `choices` (a person's decisions), `strict` (nothing by default, nothing lost);
- convert: `sources` (the tables, opened), `convert` (SQL from cells to values; `sql_macros`, `sql_types`);
- stream: `stream` (all rows in batches), `distinct` (the first of equal rows), `session` (bounded memory);
- write: `output` (complete or not at all), `excel`, `sqlite`, `report`, `lineage`; or
  the union as SQL: `sql_export`, over the `sql_relations` that DuckDB reads by itself, in a `sql_layout`.
"""

from gentus.union.errors import PlanError
from gentus.union.plan import OutputColumn, Placement, PlannedTable, Reading, UnionPlan
from gentus.union.union import Union

__all__ = ["OutputColumn", "Placement", "PlanError", "PlannedTable", "Reading", "Union", "UnionPlan"]
