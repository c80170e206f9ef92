"""`gentus duplicates`: tables of a lake with the same rows, or nearly."""

from __future__ import annotations

from typing import Annotated

import typer

from gentus.app.cli.common import TABLES, AsJson, IndexPath, Quiet, emit, open_index, say, size_words
from gentus.terminal import write_line


def duplicates(
    index: IndexPath,
    min_share: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=1,
            metavar="SHARE",
            rich_help_panel=TABLES,
            help="The least share of a table's rows that another has, 0.5 to 1.",
        ),
    ] = 0.8,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List tables with the same rows as another, or nearly. No file of the lake is opened.

    Examples:
        gentus duplicates my.index
        gentus duplicates my.index --min-share 1   # exact copies and contained tables only
    """
    found = open_index(index).duplicates(min_share)
    if as_json:
        emit(found.to_dict())
        return
    for number, group in enumerate(found.groups):
        if number:
            write_line()
        write_line(f"{group.table} ({group.rows:,} rows read, {group.columns:,} columns)")
        for one in group.duplicates:
            write_line(f"  {one}")
    exact, near, contained = (found.count(kind) for kind in ("exact", "near", "contained"))
    say(
        f"{exact:,} exact copies ({size_words(found.exact_bytes)}), {near:,} near duplicates and "
        f"{contained:,} tables inside another, among {found.tables:,} tables with enough rows to compare"
    )
