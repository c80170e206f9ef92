"""Tables of an index by name: where they are, what is in them, and how their columns align with a query's."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace

from gentus.align.alignment import Alignment
from gentus.index.catalogue import AlteredError, Catalogue, explain_errors
from gentus.index.folder import Layout
from gentus.index.hits import Hit
from gentus.index.ingest import name_at
from gentus.index.queries import QueryInput, read_query
from gentus.lake import Limits, Location, Source, Unreadable, as_location, exists, name_in_errors
from gentus.table import Table


@dataclass(frozen=True, slots=True)
class Lookup:
    """The tables that a catalogue names."""

    layout: Layout
    catalogue: Catalogue
    lake: Location
    limits: Limits

    def read(self, query: QueryInput) -> Table:
        """The sample of a query."""
        return read_query(query, self.limits)

    def source(self, name: str) -> Source | None:
        """Where a table is, by its name; None if there is none of that name."""
        with explain_errors(self.layout):
            source = self.catalogue.tables.source(name)
            if source is not None:
                self._verify_path(source)
            return source

    def _verify_path(self, source: Source) -> None:
        """The name of a table outside the lake is its path; a name that hides another path was forged."""
        expected = name_at(source.path, source.part, self.lake, self.layout)
        if source.name != expected or os.pardir in str(source.path).split(os.sep):
            raise AlteredError(
                f"the table {source.name} has the path {source.path}, which is that of {expected}"
            )

    def unknown(self, name: str) -> str:
        """The message that there is no such table, and which may have been meant."""
        with explain_errors(self.layout):
            names = [found for found, _, _ in self.catalogue.tables.names_and_shapes()]
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        return f"{name} is neither a table of the index nor a file.{hint}"

    def align(self, query: QueryInput, table: str | Hit | QueryInput, names: bool = True) -> Alignment:
        """Which columns of a query and of a table belong together, and why."""
        from gentus.align.matcher import align

        other = table.table if isinstance(table, Hit) else table
        source = self.source(other) if isinstance(other, str) else None
        if source is None and isinstance(other, str) and not exists(as_location(other)):
            raise ValueError(self.unknown(other))
        with name_in_errors(query):
            own = self.read(query)
        with name_in_errors(other):
            found = self.read(other if source is None else source)
        return align(own, found, names)

    def explain(self, query: Table, hits: list[Hit]) -> list[Hit]:
        """Hits with alignments; a table that cannot be read any more does not stop the answer."""
        from gentus.align.matcher import align_each

        def read(name: str) -> Table:
            source = self.source(name)
            if source is None:
                raise Unreadable("it was removed from the index just now")
            return self.read(source)

        alignments = align_each(query, [hit.table for hit in hits], read)
        return [replace(hit, alignment=one) for hit, one in zip(hits, alignments, strict=True)]
