"""The query of a request: an upload, a table of the lake, or rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from gentus.app.serve.errors import ApiError
from gentus.app.serve.schema import QueryRef
from gentus.app.serve.service import Service
from gentus.app.serve.uploads import check_columns
from gentus.lake import Source, Unreadable
from gentus.table import Header, Table

ROWS = "rows.jsonl"  # the name of a query that is sent as rows


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A query whose file is known."""

    source: Source
    upload: str | None = None  # its id, if it is an upload
    table: Table | None = None  # if it has been read already
    of_lake: bool = False

    def read(self, service: Service) -> Table:
        """The query as a table."""
        if self.table is not None:
            return self.table
        with naming_the_table(self.source):
            table = service.handle.index.read(self.source)
        check_columns(table, service.settings)
        return table


@contextmanager
def resolve_query(service: Service, client: str, query: QueryRef) -> Iterator[ResolvedQuery]:
    """The query of a request; its file stays until the context ends."""
    if query.table is not None:
        yield ResolvedQuery(service.handle.source(query.table), of_lake=True)
    elif query.upload is not None:
        with service.uploads.using(query.upload) as upload:
            yield ResolvedQuery(upload.source, upload.id)
    else:
        with store_query(service, client, ROWS, rows_writer(service, query.rows or [])) as stored:
            yield stored


@contextmanager
def store_query(
    service: Service,
    client: str,
    name: str,
    write: Callable[[BinaryIO], None],
    header: Header = "auto",
) -> Iterator[ResolvedQuery]:
    """Store a table of a client as an upload."""
    upload, table = service.uploads.put(name, client, service.handle.index.limits, write, header)
    with service.uploads.using(upload.id):
        yield ResolvedQuery(upload.source, upload.id, table)


def rows_writer(service: Service, rows: list[dict[str, Any]]) -> Callable[[BinaryIO], None]:
    """A function that writes rows into a file as JSON lines."""
    most = service.settings.json_rows
    if len(rows) > most:
        raise ApiError(413, f"at most {most:,} rows are accepted as JSON; send a file")

    def write(file: BinaryIO) -> None:
        for row in rows:
            file.write(json.dumps(row).encode() + b"\n")

    return write


@contextmanager
def naming_the_table(source: Source) -> Iterator[None]:
    """Errors inside begin with the name of the table, and do not contain its path."""
    try:
        yield
    except Unreadable as error:
        raise ApiError(422, f"{source.name}: {error.reason.replace(str(source.path), 'it')}") from error
