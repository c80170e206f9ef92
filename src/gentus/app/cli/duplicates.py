"""`gentus duplicates`: tables of a lake with the same rows, or nearly."""

from __future__ import annotations

from typing import Annotated

import typer

from gentus.app.cli.common import AsJson, IndexPath, emit, open_index, say


def duplicates(
    index: IndexPath,
    min_share: Annotated[
        float,
        typer.Option(min=0.5, max=1, help="The least share of a table's rows that another has."),
    ] = 0.8,
    as_json: AsJson = False,
) -> None:
    """List tables with the same rows as another, or nearly. No file of the lake is opened."""
    found = open_index(index).duplicates(min_share)
    if as_json:
        emit(found.to_dict())
        return
    for number, group in enumerate(found.groups):
        if number:
            print()
        print(f"{group.table} ({group.rows:,} rows read, {group.columns:,} columns)")
        for one in group.duplicates:
            print(f"  {one}")
    exact, near, contained = (found.count(kind) for kind in ("exact", "near", "contained"))
    say(
        f"{exact:,} exact copies ({found.exact_bytes:,} bytes), {near:,} near duplicates and {contained:,} "
        f"tables inside another, among {found.tables:,} tables with enough rows to compare"
    )
