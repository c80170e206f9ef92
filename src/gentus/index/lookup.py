"""Tables of an index by name: where they are, what is in them, and how their columns align with a query's."""

from __future__ import annotations

import difflib
import heapq
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.align.alignment import Alignment
from gentus.identifiers.semantic_ids import format_sid
from gentus.index.catalogue import AlteredError, Catalogue, explain_errors
from gentus.index.folder import Layout
from gentus.index.hits import Hit, Hits
from gentus.index.ingest import name_at
from gentus.index.queries import NamedQuery, QueryInput, is_named, read_query
from gentus.index.second_look import AtLeast
from gentus.lake import (
    Frame,
    Limits,
    Location,
    Remote,
    Source,
    TableNotFoundError,
    Unreadable,
    as_location,
    file_at,
    is_outside_lake,
    name_in_errors,
    only_named,
)
from gentus.lake.formats.detect import folder_format
from gentus.lake.location import identity
from gentus.lake.rules import is_delimited, load_rules
from gentus.shell import command
from gentus.table import Table, TextOptions, tell_doubts, text_choices

if TYPE_CHECKING:
    from gentus.index.description import TableDescription

log = logging.getLogger("gentus.index")
_SURROGATES = re.compile("[\ud800-\udfff]")
_COMPARED = 200  # names that a wrong one is compared with closely: those that share most of its trigrams


@dataclass(frozen=True, slots=True)
class Lookup:
    """The tables that a catalogue names."""

    layout: Layout
    catalogue: Catalogue
    lake: Location
    limits: Limits
    names: bool  # whether column names count in this index
    text: TextOptions  # how delimited text is read that no rule of the lake names

    def read(self, query: QueryInput) -> Table:
        """The sample of a query."""
        return read_query(self.resolve(query), self.limits)

    def resolve(self, query: QueryInput, text: Mapping[str, Any] | None = None) -> Source | Table | Frame:
        """A query with its file, if it is a name; data frames and sampled tables as they are."""
        return self.find(query, text=text) if is_named(query) else query

    def find(self, query: NamedQuery, suggest: bool = True, text: Mapping[str, Any] | None = None) -> Source:
        """The table that a query names: a file, or else a table of the index.

        Raises `Unreadable` if there is neither; with `suggest`, it says which name may have been meant.
        Where options do not say how delimited text is read, a file of the index or its lake is read as there.
        """
        chosen = text_choices(text or {})
        if isinstance(query, Source):
            self._refuse_links_out(query)
            return replace(query, **chosen)
        return replace(self._read_as_known(self._named(query, suggest)), **chosen)

    def _read_as_known(self, source: Source) -> Source:
        """A file as it is read in the index, or would be in its lake."""
        if not is_delimited(source):
            return source
        with explain_errors(self.layout):
            real_path = self.catalogue.tables.real_path(source.path, str(self.lake))
            known = self.catalogue.tables.source_at(real_path, None)
        if known is not None:
            return replace(source, header=known.header, encoding=known.encoding)
        name = name_at(source.path.resolve(), None, self.lake, self.layout)
        if is_outside_lake(name):
            return source
        return replace(source, **load_rules(self.lake, self.text).choices(name))

    def _named(self, query: str | os.PathLike[str] | Remote, suggest: bool) -> Source:
        location = as_location(query)
        if not isinstance(query, str) or isinstance(location, Remote):
            return only_named(location, self.limits)
        known = self.source(query)
        try:
            found = _table_file(location)
        except (OSError, ValueError):  # a file, perhaps; `only_named` says why it cannot be read
            return only_named(location, self.limits)
        if found is None and known is None and not location.exists():
            raise TableNotFoundError(f"{query}: {self.unknown(query, suggest)}", query)
        if known is None or (found is not None and identity(found) != identity(known.path)):
            if known is not None:
                log.warning(
                    "%s is a file here and another table in the index (%s); the file is used.",
                    query,
                    known.path,
                )
            return only_named(location, self.limits)
        self._verify_file(known)
        return known

    def _verify_file(self, source: Source) -> None:
        if isinstance(source.path, Path) and not source.path.exists():
            raise Unreadable(
                f"it is in the index, but its file {source.path} is no longer there; "
                f"bring it back, or run: {command('sync', self.layout.root)}"
            )
        self._refuse_links_out(source)

    def _refuse_links_out(self, source: Source) -> None:
        """Raise `Unreadable` if the file of a table is a link by now that leads out of the lake."""
        if isinstance(source.path, Remote):
            return  # URLs have no links
        real, roots = Path(os.path.realpath(source.path)), (self.lake, self.lake.resolve())
        if any(isinstance(root, Path) and source.path.is_relative_to(root) for root in roots):
            if not real.is_relative_to(str(roots[1])):
                raise Unreadable("its file is now a link that leads out of the lake; put a copy there")
        elif is_outside_lake(source.name):
            with explain_errors(self.layout):
                known = self.catalogue.tables
                if not known.ids_at(known.real_path(real)):
                    raise Unreadable("its file is now a link that leads elsewhere than when it was added")

    def source(self, name: str) -> Source | None:
        """Where a table is, by its name; None if there is none of that name."""
        if _SURROGATES.search(name):  # a path that is not Unicode; names are
            return None
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

    def unknown(self, name: str, suggest: bool = True) -> str:
        """The message that there is no such table, and which may have been meant."""
        return f"it is neither a table of the index nor a file.{self._suggestion(name) if suggest else ''}"

    def _suggestion(self, name: str) -> str:
        with explain_errors(self.layout):
            names = [found for found, _, _ in self.catalogue.tables.names_and_shapes()]
        own = _trigrams(name)
        if len(names) > _COMPARED:
            names = heapq.nlargest(_COMPARED, names, key=lambda other: len(own & _trigrams(other)))
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        return f" Did you mean {' or '.join(close)}?" if close else ""

    def sid(self, name: str) -> str | None:
        """The identifier of a table, by its name; None if there is none of that name."""
        with explain_errors(self.layout), self.catalogue.transaction(read=True):
            found = self.catalogue.identifiers.of_table(name, self.catalogue.levels())
        return None if found is None else format_sid(*found)

    def describe(self, name: str) -> TableDescription:
        """A table of the index, by its name; without its file, as far as the catalogue knows it."""
        from gentus.index.description import TableDescription, describe_columns

        with explain_errors(self.layout), self.catalogue.transaction(read=True):
            source, sid = self.source(name), self.sid(name)
            known = self.catalogue.tables.entries([name]).get(name)
        if source is None or known is None:
            raise TableNotFoundError(
                f"{name}: there is no table of this name in the index.{self._suggestion(name)}", name
            )
        table, missing = None, None
        try:
            self._verify_file(source)
            table = self.read(source)
        except Unreadable as error:
            missing = error.reason
        rows = table.rows if table else known.rows or 0
        return TableDescription(
            name,
            str(source.path),
            source.part,
            known.size,
            sid,
            rows,
            table.may_have_more(self.limits) if table else rows >= self.limits.rows,
            len(table.columns) if table else known.columns or 0,
            describe_columns(table) if table else [],
            missing,
            known.header,
            known.doubt,
            known.reading,
        )

    def align(
        self,
        query: QueryInput,
        table: Hit | QueryInput,
        names: bool = True,
        text: Mapping[str, Any] | None = None,
    ) -> Alignment:
        """Which columns of a query and of a table belong together, and why.

        Options of text are for the query, and for a table that is not in the index.
        """
        from gentus.index.explain import align_tables

        with name_in_errors(query.name if isinstance(query, Source) else query):
            own = self.read(self.resolve(query, text))
        other = table.table if isinstance(table, Hit) else table
        with name_in_errors(other):
            source = self.source(other) if isinstance(other, str) else None
            found = self.read(self.resolve(other, text) if source is None else source)
        tell_doubts((one.name, one.doubt) for one in (own, found) if one is not query and one is not table)
        return align_tables(own, found, names and self.names)

    def explain(self, query: Table, hits: Hits, least: AtLeast) -> Hits:
        """Hits with alignments; a table that cannot be read any more does not stop the answer."""
        from gentus.index.explain import explain_hits

        def read(name: str) -> Table:
            source = self.source(name)
            if source is None:
                raise Unreadable("it was removed from the index just now")
            return self.read(source)

        return Hits(explain_hits(query, hits, read, self.names, least), hits.doubt)


def _table_file(path: Path) -> Path | None:
    """The file that a path leads to, or into; a folder only if it is a table."""
    found = file_at(path)
    if found is None or (found[0].is_dir() and folder_format(found[0]) is None):
        return None
    return found[0]


def _trigrams(name: str) -> set[str]:
    folded = name.casefold()
    return {folded[at : at + 3] for at in range(len(folded) - 2)}
