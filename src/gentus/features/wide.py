"""Very wide tables: the columns by which a search knows them.

A table of thousands of columns is known by some of them as well as by all, in a fraction of the time. The
same ones are taken of a query and of a table of the lake, so that a table finds its copies.
"""

from __future__ import annotations

from dataclasses import replace

from gentus.table import Table, evenly_spaced

FIRST = 256  # columns with cells from the left, which are compared one by one ...
MORE = 256  # ... and of those beyond, spread evenly


def searched_columns(table: Table) -> Table:
    """The table with those columns by which a search knows it: all, unless it is very wide."""
    if len(table.columns) <= FIRST + MORE:
        return table
    filled = [column for column in table.columns if column.cells]
    beyond = filled[FIRST:]
    chosen = [*filled[:FIRST], *(beyond[at] for at in evenly_spaced(len(beyond), MORE))]
    return replace(table, columns=chosen)
