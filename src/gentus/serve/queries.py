"""What a request means by its query: an upload, a table of the lake, or rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.lake import Source, Unreadable
from gentus.serve.errors import Refused
from gentus.table import Table

if TYPE_CHECKING:
    from gentus.serve.app import Server
    from gentus.serve.schema import QueryRef
    from gentus.serve.uploads import Upload

ROWS = "rows.jsonl"  # what rows sent as JSON are called


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that can be read."""

    source: Source
    upload: str | None  # its id, if it is one


@contextmanager
def resolved(server: Server, client: str, query: QueryRef) -> Iterator[Asked]:
    """The query of a request; it stays where it is until the end."""
    if query.table is not None:
        yield Asked(server.holder.source(query.table), None)
        return
    key = query.upload or keep_rows(server, client, query.rows or []).id
    with server.uploads.using(key) as upload:
        yield Asked(upload.source, key)


def keep_rows(server: Server, client: str, rows: list[dict[str, Any]]) -> Upload:
    """Rows as an upload like others."""
    settings = server.settings
    if len(rows) > settings.json_rows:
        raise Refused(413, f"at most {settings.json_rows:,} rows are taken as JSON; send a file")

    def write(file: BinaryIO) -> None:
        for row in rows:
            file.write(json.dumps(row).encode() + b"\n")

    return server.uploads.put(ROWS, client, server.holder.index.limits, write)


def check_columns(server: Server, table: Table) -> None:
    """Refuse a query that is too wide."""
    most = server.settings.columns
    if len(table.columns) > most:
        raise Refused(
            422, f"{table.name} has {len(table.columns):,} columns; at most {most:,} are taken here"
        )


@contextmanager
def told(source: Source) -> Iterator[None]:
    """Say of which table it is that something is wrong."""
    try:
        yield
    except Unreadable as error:
        raise Refused(422, f"{source.name}: {error.reason.replace(str(source.path), 'it')}") from error
