"""A union plan as a table for a notebook: a row per column of the result, a column per table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gentus.display import Cell, dim, html_block, html_lines, html_table

_MOST = 8  # tables that are shown beside each other


def plan_html(
    title: str,
    columns: Iterable[tuple[str, str]],
    tables: Sequence[tuple[str, Mapping[str, str]]],
    remarks: Iterable[str],
) -> str:
    """Columns are names and types; tables are names, and their columns by the column that they go into."""
    shown = tables[:_MOST]
    rows: list[list[Cell]] = [
        [name, dim(kind), *(placed.get(name, dim("–")) for _, placed in shown)] for name, kind in columns
    ]
    more = [f"and {len(tables) - _MOST:,} more tables"] if len(tables) > _MOST else []
    table = html_table(("column", "type", *(name for name, _ in shown)), rows)
    return html_block(title, table, html_lines([*more, *remarks]))
