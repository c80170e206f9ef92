"""`gentus records`: the training records of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gentus.app.cli.common import AsJson, IndexPath, Quiet, emit, open_index, say
from gentus.terminal import write_line


def records(
    index: IndexPath,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Pairs query_table,candidate_table. Default: the labels of the build."
        ),
    ] = None,
    show: Annotated[int, typer.Option(min=0, metavar="N", help="How many records to show.")] = 5,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Show one kind only: positive, indexing or ranking. Default: all."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same records.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the training records of the paper's generator that an index and its labels give.

    Examples:
        gentus records my.index --show 5
        gentus records my.index --labels pairs.csv --kind ranking --json
    """
    from gentus.extras import require_training

    require_training()
    from gentus.index.inspect_records import inspect

    document = inspect(open_index(index), labels, show, kind, seed)
    outside = document["pairs_outside_the_lake"]
    if outside:
        say(f"{outside:,} labelled pairs name tables that are not in the index; they were left out.")
    if as_json:
        emit(document)
        return
    write_line(", ".join(f"{count:,} {name}" for name, count in document["records"].items()) + " records")
    for record in document["shown"]:
        _show_record(record)


def _show_record(record: dict[str, Any]) -> None:
    table, target, negative = record["input"], record["target"], record.get("negative")
    write_line()
    write_line(record["kind"])
    start = f"  input     {table['table']}"
    if "error" in table:
        write_line(f"{start}: {table['error']}")
    else:
        (rows, all_rows), (columns, all_columns) = table["rows"], table["columns"]
        write_line(f"{start}  ({rows} of {all_rows} rows, {columns} of {all_columns} columns)")
        for name, values in table["values"].items():
            write_line(f"            {name}: {' | '.join(values)}")
    write_line(f"  target    {target['table']}  {target['sid']}")
    if negative:
        write_line(f"  negative  {negative['table']}  {negative['sid']}  (Jaccard {negative['jaccard']:.2f})")
