"""Cells of many columns as one column, their positions beside: DuckDB compiles one expression for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gentus.lake.formats.typed import text_of
from gentus.lake.full.rows import FullTable, Tally, first_rows, text_array, whole_numbers
from gentus.union.session import all_threads

if TYPE_CHECKING:
    import duckdb

_NAME = "gentus_stacked"
_PIECE = 1 << 16  # cells that a thread takes at once


def cell_text(full: FullTable, position: int) -> str:
    """SQL of the cells of a column as text."""
    kind = full.types[position]
    return f"c{position}" if kind == "VARCHAR" else text_of(f"c{position}", kind)


def _columns(
    duck: duckdb.DuckDBPyConnection, full: FullTable, positions: Sequence[int], limit: int | None
) -> pa.Table:
    """The cells of some columns as text, column by column."""
    held = full.held(duck)
    if held is not None:
        return held.select([f"c{at}" for at in positions]).slice(0, limit)
    with full.scan(duck, positions, Tally()) as relation:
        cells = ", ".join(cell_text(full, at) for at in positions)
        found: pa.Table = duck.sql(f"SELECT {cells} FROM {first_rows(relation, limit)}").to_arrow_table()
    return found


@contextmanager
def stacked_cells(
    duck: duckdb.DuckDBPyConnection, full: FullTable, positions: Sequence[int], limit: int | None
) -> Iterator[tuple[int, str]]:
    """The number of rows, and a relation of their cells in memory: `position`, `row`, `t`, column by column.

    DuckDB takes longer to stack thousands of columns than to look at their cells.
    """
    if limit is not None and limit <= len(full.first):
        by_column = list(zip_longest(full.names, *full.first[:limit], fillvalue=""))  # as many as names
        stacked = text_array(list(chain.from_iterable(by_column[at][1:] for at in positions)))
        count = limit
    else:
        found = _columns(duck, full, positions, limit)
        chunks = [chunk for column in found.columns for chunk in column.chunks]
        stacked = pa.concat_arrays(chunks) if chunks else text_array([])
        count = found.num_rows
    numbers = np.repeat(np.array(positions, np.int32), count)
    rows_of = np.tile(np.arange(1, count + 1, dtype=np.int64), len(positions))
    columns_of = {"position": whole_numbers(numbers), "row": whole_numbers(rows_of), "t": stacked}
    whole = pa.Table.from_arrays(list(columns_of.values()), list(columns_of))
    duck.register(_NAME, pa.Table.from_batches(whole.to_batches(_PIECE), whole.schema))
    try:
        with all_threads(duck):
            yield count, _NAME
    finally:
        duck.unregister(_NAME)
