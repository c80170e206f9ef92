"""What a request means by its query: an upload, a table of the lake, or rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.app.serve.errors import Refused
from gentus.app.serve.uploads import check_columns
from gentus.lake import Source, Unreadable
from gentus.table import Table

if TYPE_CHECKING:
    from gentus.app.serve.core import Core
    from gentus.app.serve.schema import QueryRef

ROWS = "rows.jsonl"  # what rows sent as JSON are called


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that can be read."""

    source: Source
    upload: str | None = None  # its id, if it is one
    known: Table | None = None  # what was read of it, if it has just come
    of_lake: bool = False

    def read(self, core: Core) -> Table:
        """What is to be searched with."""
        if self.known is not None:
            return self.known
        with told(self.source):
            table = core.holder.index.read(self.source)
        check_columns(table, core.settings)
        return table


@contextmanager
def resolved(core: Core, client: str, query: QueryRef) -> Iterator[Asked]:
    """The query of a request; it stays where it is until the end."""
    if query.table is not None:
        yield Asked(core.holder.source(query.table), of_lake=True)
    elif query.upload is not None:
        with core.uploads.using(query.upload) as upload:
            yield Asked(upload.source, upload.id)
    else:
        with kept(core, client, ROWS, written(core, query.rows or [])) as asked:
            yield asked


@contextmanager
def kept(core: Core, client: str, name: str, write: Callable[[BinaryIO], None]) -> Iterator[Asked]:
    """A table that has just come."""
    upload, table = core.uploads.put(name, client, core.holder.index.limits, write)
    with core.uploads.using(upload.id):
        yield Asked(upload.source, upload.id, table)


def written(core: Core, rows: list[dict[str, Any]]) -> Callable[[BinaryIO], None]:
    """What writes rows into a file."""
    settings = core.settings
    if len(rows) > settings.json_rows:
        raise Refused(413, f"at most {settings.json_rows:,} rows are taken as JSON; send a file")

    def write(file: BinaryIO) -> None:
        for row in rows:
            file.write(json.dumps(row).encode() + b"\n")

    return write


@contextmanager
def told(source: Source) -> Iterator[None]:
    """Say of which table it is that something is wrong."""
    try:
        yield
    except Unreadable as error:
        raise Refused(422, f"{source.name}: {error.reason.replace(str(source.path), 'it')}") from error
